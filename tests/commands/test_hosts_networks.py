"""Hosts with a network each, of which the documented ports alone are open, and what befalls hosts."""

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairshares.harness.engines.registry import choose_model
from fairshares.harness.hosts.host_log import LOG_FILE
from fairshares.harness.hosts.local_host import TURN
from fairshares.harness.hosts.policy import LEDGER, POLICY_FILE
from fairshares.harness.security_models import MODELS, SecurityModel, get_model
from tests.support.command import CODES, call, files_below, finish, flat, processes_below, start, succeed
from tests.support.midway import charges, ended, have_party_0_stop, party_on, wait_until_midway
from tests.support.namespaces import (
    CLIENT,
    CLIENT_PORT,
    COORDINATOR,
    PORT,
    SSH_PORT,
    NetworkedSite,
    Rule,
    networked_site,
)
from tests.support.running import model_parameters, until
from tests.support.ssh import answers, set_up
from tests.support.surroundings import small_disk

MODEL = choose_model(None)  # ring, or mpyc where there is no MP-SPDZ
POLICY = '[[population]]\nname = "*"\nepsilon = 1000\ndelta = "2^-20"\n'
NOISE = 40  # beyond it with probability below 1e-13, as the noise's atoms end there


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NetworkedSite]:
    """Yield three hosts that are set up."""
    with networked_site(tmp_path_factory.mktemp("site"), MODEL) as made:
        prepare(made, MODEL)
        yield made


@pytest.fixture
def hosts(three: NetworkedSite) -> Iterator[NetworkedSite]:
    """Yield the hosts as they were set up; nothing runs there, and no ledger has a charge."""
    for i in range(MODEL.parties):
        (three.directory(i) / LEDGER).unlink(missing_ok=True)
    shutil.rmtree(three.home / "results", ignore_errors=True)
    before = below(three)
    yield three
    three.write()
    assert below(three) == before
    until(lambda: not any(processes_below(three.directory(i)) for i in range(MODEL.parties)))


def below(site: NetworkedSite) -> list[set[str]]:
    """Return what is on each host, but for its ledger, log and results, and the file of turns."""
    stay = {LEDGER, "results", TURN, LOG_FILE}
    return [files_below(site.directory(host.party)) - stay for host in site.hosts]


def prepare(site: NetworkedSite, model: SecurityModel) -> None:
    with site.inside(COORDINATOR):
        set_up(site, model, f'{POLICY}security = ["{model.title}"]\n')


def ask(site: NetworkedSite, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command on the coordinator."""
    with site.inside(COORDINATOR):
        return call(*arguments, cwd=site.home)


def run_of(model: SecurityModel) -> list[str]:
    run = ["weights", "--hosts", "hosts.toml", "--security", model.name, "--parties", str(model.parties)]
    return [*run, "--epsilon", "1", "--population", "people", "--out", "results"]


def begin(site: NetworkedSite, *arguments: str) -> subprocess.Popen[str]:
    """Start a command on the coordinator."""
    with site.inside(COORDINATOR):
        return start(*arguments, cwd=site.home)


def succeeds(site: NetworkedSite, model: SecurityModel) -> None:
    """Check that a run ends well, near the true counts, and that all hosts sign it."""
    shutil.rmtree(site.home / "results", ignore_errors=True)
    done = ask(site, *run_of(model))
    assert done.returncode == 0, done.stderr
    holds(site)


def holds(site: NetworkedSite) -> None:
    counts = flat(site.home / "results")
    assert all(abs(count - one) < NOISE for count, one in zip(counts, (30, 0, 0, 20), strict=True))
    succeed("verify", "results", cwd=site.home)


def refused(done: subprocess.CompletedProcess[str]) -> str:
    """Check that a command ended with one error; return it, on one line."""
    assert done.returncode in CODES and done.stderr.count("Error: ") == 1, done.stderr
    assert "Traceback" not in done.stderr
    return " ".join(done.stderr[done.stderr.index("Error: ") :].split())


def faults(site: NetworkedSite, model: SecurityModel = MODEL) -> dict[tuple[int, str], str]:
    """Return what `hosts.check` says is wrong, by party and what it looked at."""
    hosts = json.loads(ask(site, "hosts.check", "--security", model.name, "--json").stdout)
    return {(host["party"], name): said for host in hosts for name, said in host["faults"].items()}


def spent(site: NetworkedSite) -> list[list[str]]:
    """Return what became of the runs that each host has charged."""
    return [[status for _, status in charges(site.directory(host.party))] for host in site.hosts]


needs_proc = pytest.mark.skipif(not Path("/proc/self/cwd").exists(), reason="finds parties in /proc")


# Two, three, four and five parties, and each engine: the machines of MP-SPDZ have the same ports.
WITH_PORTS = [MODELS[name] for name in ("semi2k", "ring", "rep4-ring", "mpyc")]
WITH_PORTS += [get_model("malicious-shamir", 5), get_model("mpyc", 5)]


@pytest.mark.parametrize("model", model_parameters(models=WITH_PORTS))
def test_documented_ports_are_enough(model: SecurityModel, tmp_path: Path) -> None:
    with networked_site(tmp_path, model) as site:
        prepare(site, model)
        succeeds(site, model)
        assert spent(site) == [["done"]] * model.parties


def test_a_closed_port_is_named(hosts: NetworkedSite) -> None:
    """Each that is documented, one at a time or two that do not hide each other."""

    def closed(at: int, *rules: Rule) -> None:
        """Leave all documented ports of a host open but for these."""
        hosts.open_only(at, hosts.documented(at) - set(rules))

    def unreached(by: int, at: int) -> str:
        there, here = hosts.hosts[at].address, hosts.hosts[by].address
        way = f"host {here} (party {by}) cannot reach it at {there}:{PORT}: timed out; open the port to it"
        return f"Host {there} (party {at}): {way}"

    first, last = (2, 0) if MODEL.virtual_machine else (0, 2)  # the first connects to both others
    party = {i: (hosts.hosts[i].address, PORT) for i in range(3)}
    assert faults(hosts) == {}
    closed(1, party[first])
    closed(last, party[1], (None, CLIENT_PORT))
    named_faults = faults(hosts)
    assert named_faults.keys() == {(1, "port"), (last, "port"), (last, "clients")}
    assert named_faults[1, "port"].startswith(unreached(first, 1))
    assert named_faults[last, "port"].startswith(unreached(1, last))
    assert f":{CLIENT_PORT}: timed out; open the port to clients" in named_faults[last, "clients"]
    said = refused(ask(hosts, *run_of(MODEL)))
    assert unreached(first, 1) in said and said.endswith("No party was started.")
    assert spent(hosts) == [[], [], []]
    for party_number in (1, last):
        closed(party_number)
    closed(first, *(rule for rule in hosts.documented(first) if rule[1] == SSH_PORT))
    named_faults = faults(hosts)
    assert (
        named_faults.keys() == {(first, "ssh")}
        and "ssh cannot reach it: timed out" in named_faults[first, "ssh"]
    )
    closed(first)
    assert faults(hosts) == {}


@needs_proc
@pytest.mark.mpspdz("ring")
def test_a_client_on_another_network_reaches_the_gateways_only(hosts: NetworkedSite) -> None:
    rows = "me,a,0\n" * 30 + "me,b,1\n" * 20
    (hosts.home / "records.csv").write_text("client_id,group,label\n" + rows)
    options = ["--invite", "invited", "--clients", "1", "--groups", "a,b", "--labels", "0,1"]
    run = begin(hosts, *run_of(MODEL), *options, "--input-form", "product")
    invitation = hosts.home / "invited" / "client-0.json"
    until(lambda: invitation.exists() or run.poll() is not None)
    assert run.poll() is None, run.communicate()
    addresses = [host.address for host in hosts.hosts]
    with hosts.inside(CLIENT):
        until(lambda: answers(addresses[1], CLIENT_PORT))
        open_ports = [p for p in (CLIENT_PORT, CLIENT_PORT + 1, PORT, SSH_PORT) if answers(addresses[1], p)]
        sent = call("send", "--records", "records.csv", "--invitation", str(invitation), cwd=hosts.home)
    done = finish(run)
    assert sent.returncode == 0 and done.returncode == 0, (sent.stderr, done.stderr)
    assert open_ports == [CLIENT_PORT]
    holds(hosts)


@needs_proc
def test_a_host_that_reboots_in_a_run_is_named_and_its_charge_stays(hosts: NetworkedSite) -> None:
    have_party_0_stop(hosts)
    run = begin(hosts, *run_of(MODEL))
    wait_until_midway(hosts, MODEL, ended(run))
    os.kill(party_on(hosts.directory(2)), signal.SIGSTOP)  # so that it cannot lose its peer and end first
    hosts.cut_power(1)
    hosts.boot(1)
    said = refused(finish(run))
    assert said.startswith(f"Error: Party 1 (on {hosts.hosts[1].address}) went away: the connection"), said
    assert not (hosts.home / "results").exists()
    until(lambda: not any(processes_below(hosts.directory(i)) for i in range(3)))
    assert spent(hosts) == [["aborted"]] * 3
    cleaned = ask(hosts, "hosts.clean").stdout
    assert cleaned.count("0 processes ended, 1 directory removed, 0 records removed") == 1
    succeeds(hosts, MODEL)
    assert spent(hosts) == [["aborted", "done"]] * 3


@needs_proc
def test_a_disk_that_is_full_or_fills_up(tmp_path: Path) -> None:
    """One sentence names the host; nothing is half-written; policy and ledger stay whole."""
    model, place = MODELS["mpyc"], tmp_path / "host-2"

    def resize(size: str) -> None:
        subprocess.run(["mount", "-o", f"remount,size={size}", place], check=True)

    with networked_site(tmp_path, model) as site, small_disk(place, 1 << 20):
        prepare(site, model)
        before, named = below(site), f"{site.hosts[2].address} (party 2)"
        policy = (place / POLICY_FILE).read_text()
        resize("100m")
        named_faults = faults(site, model)
        assert (
            named_faults.keys() == {(2, "directory")} and " MB are free for " in named_faults[2, "directory"]
        )
        said = refused(ask(site, *run_of(model)))
        assert named in said and "No party was started." in said and spent(site) == [[], [], []]
        resize("1g")
        have_party_0_stop(site)
        run = begin(site, *run_of(model))
        wait_until_midway(site, model, ended(run))
        resize(str(shutil.disk_usage(place).used))
        os.kill(party_on(site.directory(0)), signal.SIGCONT)
        said = refused(finish(run))
        assert said.startswith(f"Error: Party 2 (on {site.hosts[2].address}) ended with exit code"), said
        assert "There is no room left on the disk." in said
        resize("1g")
        assert below(site) == before and spent(site)[2] == ["aborted"]
        assert (place / POLICY_FILE).read_text() == policy
