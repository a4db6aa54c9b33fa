"""Cells over hosts: each party on a host with a network of its own; what befalls hosts meanwhile."""

import json
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchmarks.measure.cell import HERE, over_hosts
from benchmarks.measure.samples import FAILED, OK, SKIPPED, Level, Sample
from benchmarks.suites import Planned
from harness.engines.emulated_network import links
from harness.engines.emulated_network.profiles import Network
from harness.hosts import wire
from harness.hosts.fleet import set_up
from harness.security_models import MODELS, SecurityModel
from tests.support.command import call, files_below, finish, processes_below, start
from tests.support.midway import ended
from tests.support.namespaces import CLIENT_PORT, COORDINATOR, PORT, NetworkedSite, networked_site
from tests.support.parties_on_hosts import have_party_0_stop, party_on, wait_until_midway
from tests.support.running import model_parameters, until
from tests.support.ssh import Site, copy_of_project, site
from tests.support.surroundings import small_disk

REFUSING = f"client_port = {CLIENT_PORT}\npopulation = []\n"
POLICY = f"benchmark = true\n{REFUSING}"
MPYC, MOST = MODELS["mpyc"], MODELS["rep4-ring"]  # of all models the one with most parties
CELL: dict[str, Level] = {
    "protocol": "pi_rw",
    "variant": "default",
    "input_path": "shares",
    "security": "mpyc",
    "shape": "",
    "clients": 40,
    "records": 90,
    "groups": 2,
    "labels": 2,
    "epsilon": "1",
    "network": "none",
}
NOISE: dict[str, Level] = {
    "protocol": "pi_lap",
    "variant": "default",
    "samples": 4,
    "security": "mpyc",
    "epsilon": "1",
    "network": "none",
}
Measure = Callable[..., Sample]
needs_proc = pytest.mark.skipif(not Path("/proc/self/cwd").exists(), reason="finds parties in /proc")


@contextmanager
def measuring(made: Site) -> Iterator[Measure]:
    """Yield what measures a cell over hosts, to which connections stay open meanwhile."""
    with over_hosts(made.home / "hosts.toml") as place:

        def measure(cell: dict[str, Level] = CELL, timeout_s: float = 60.0, **changes: Level) -> Sample:
            planned = Planned({**cell, **changes}, 1, timeout_s)
            return place.measure("some", planned, 0, made.home)

        yield measure


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NetworkedSite]:
    """Yield four hosts that are set up."""
    with networked_site(tmp_path_factory.mktemp("site"), MOST) as made:
        with made.inside(COORDINATOR):
            set_up(made.hosts, False, POLICY, lambda _: None)
        yield made


@pytest.fixture
def hosts(four: NetworkedSite) -> Iterator[NetworkedSite]:
    """Yield the hosts, on the coordinator's network; afterwards nothing runs, and nothing was charged."""
    open_all(four)
    with four.inside(COORDINATOR):
        yield four
    four.write()
    shutil.rmtree(four.home / "results", ignore_errors=True)
    for host in four.hosts:
        until(lambda: not processes_below(Path(host.directory)))  # noqa: B023
        assert files_below(Path(host.directory) / "results") == set()
        left = {path.name for path in Path(host.directory).iterdir()} - {"results"}
        assert left == {"keys", "policy.toml"}  # no run's files, and no ledger


def open_all(made: NetworkedSite, but: frozenset[int] = frozenset()) -> None:
    """Let each host reach each other, whatever the model. Args: but: two that do not."""
    for i in range(len(made.hosts)):
        shut = {(made.hosts[j].address, PORT) for j in but if i in but}
        made.open_only(i, ({*made.documented(i)} | {(host.address, PORT) for host in made.hosts}) - shut)


def named(made: Site, i: int) -> str:
    return f"Host {made.hosts[i].address} (party {i})"


@contextmanager
def midway(made: Site, measure: Measure) -> Iterator[list[Sample]]:
    """Yield while all parties of a run wait for party 0; then the list has what came of the run."""
    found = list[Sample]()
    thread = threading.Thread(target=lambda: found.append(measure(timeout_s=600.0)))
    thread.start()
    wait_until_midway(made, MPYC, lambda: not thread.is_alive())
    yield found
    thread.join()


@pytest.mark.parametrize("model", model_parameters())
def test_a_cell_over_hosts_is_the_cell_that_it_is_here(hosts: NetworkedSite, model: SecurityModel) -> None:
    with measuring(hosts) as measure:
        found = [measure(cell, security=model.name) for cell in (CELL, NOISE, CELL)]
    assert [each.status for each in found] == [OK] * 3, [each.reason for each in found]
    for sample in found:
        assert HERE.identity(sample.cell) == (sample.program_hash, sample.engine_version)
        assert len(sample.hosts) == len(sample.sent_bytes) == model.parties
        assert sample.network is not None
        pairs = {tuple(sorted(link["parties"])) for link in sample.network["links"]}
        assert pairs == {(a, b) for b in range(model.parties) for a in range(b)}
        assert sample.network["measured_rtt_s"] > 0
        assert all(host["memory_bytes"] > 0 and host["environment"]["cores"] for host in sample.hosts)


@pytest.mark.mpspdz("ring")
def test_this_machine_plays_clients_that_send(hosts: NetworkedSite) -> None:
    with measuring(hosts) as measure:
        sample = measure(security="ring", variant="product", input_path="clients")
    assert (sample.status, sample.reason) == (OK, None)
    assert sample.client_sent_bytes is not None and min(sample.client_sent_bytes) > 0


@pytest.mark.parametrize("model", model_parameters(models=[one for one in MODELS.values() if one.replicated]))
def test_replicated_shares_over_hosts_are_what_they_are_here(
    hosts: NetworkedSite, model: SecurityModel
) -> None:
    """Of sums and of products: each host makes the shares itself that its party holds."""
    with measuring(hosts) as measure:
        found = [
            measure(security=model.name, variant=variant, input_path="replicated")
            for variant in ("default", "product")
        ]
        refused = measure(input_path="replicated")
    assert [(each.status, each.reason) for each in found] == [(OK, None)] * 2
    for sample in found:
        here = HERE.identity(sample.cell)
        assert here is not None and here[0] == sample.program_hash
    assert refused.status == SKIPPED and "needs MP-SPDZ" in str(refused.reason)


def test_what_hosts_do_not_run_is_skipped(tmp_path: Path) -> None:
    described = 'address = "x"\ndirectory = "/x"\nproject = "/x"\nport = 1\n'
    (tmp_path / "hosts.toml").write_text("".join(f"[[host]]\nparty = {i}\n{described}" for i in range(2)))
    with over_hosts(tmp_path / "hosts.toml") as place:
        assert place.why_not(Planned(CELL, 1, 1.0)) == "mpyc takes 3 hosts; there are 2."
        delayed = Planned({**CELL, "security": "semi2k", "network": "lan"}, 1, 1.0)
        assert str(place.why_not(delayed)).startswith("No network is emulated between hosts")
        assert place.why_not(Planned({**CELL, "security": "semi2k"}, 1, 1.0, "It is long.")) == "It is long."
        own = Planned({"program": "mine.mpc", "security": "semi2k"}, 1, 1.0)
        assert str(place.why_not(own)).startswith("A program of your own runs on this machine only")


def test_a_host_without_the_word_refuses(hosts: NetworkedSite) -> None:
    policy = hosts.directory(1) / "policy.toml"
    policy.write_text(REFUSING)
    with measuring(hosts) as measure:
        refused = measure()
        assert refused.status == FAILED
        assert str(refused.reason).startswith(f"{named(hosts, 1)}: Its policy allows no benchmark runs")
        policy.write_text(POLICY)
        assert measure().status == OK


@pytest.mark.mpspdz("semi2k")
def test_a_host_that_is_gone_fails_only_what_needs_it(hosts: NetworkedSite) -> None:
    with measuring(hosts) as measure:
        assert measure().status == OK
        hosts.cut_power(2)
        hosts.boot(2)
        gone = measure()
        assert gone.status == FAILED and named(hosts, 2) in str(gone.reason), gone.reason
        hosts.cut_power(2)
        assert measure(security="semi2k").status == OK
        again = measure()
        assert again.status == FAILED
        assert str(again.reason).startswith(named(hosts, 2)), again.reason  # away, or not reached any more
        hosts.boot(2)
        open_all(hosts)
        assert measure().status == OK
    remove_leftovers(hosts, 2)


def remove_leftovers(made: NetworkedSite, i: int) -> None:
    """Remove what a host kept that lost its power, as `hosts.clean` does."""
    for path in made.directory(i).glob(".*"):
        shutil.rmtree(path)


@needs_proc
def test_a_party_that_is_killed_is_named_and_the_next_run_goes_well(hosts: NetworkedSite) -> None:
    have_party_0_stop(hosts)
    with measuring(hosts) as measure:
        with midway(hosts, measure) as found:
            os.kill(party_on(hosts.directory(1)), signal.SIGKILL)
            os.kill(party_on(hosts.directory(0)), signal.SIGCONT)
        said = str(found[0].reason)
        assert found[0].status == FAILED
        assert said.startswith(f"Party 1 (on {hosts.hosts[1].address}) was killed by SIGKILL"), said
        assert not any(parties_of(hosts))
        assert measure().status == OK


def parties_of(made: Site) -> list[set[int]]:
    """Return the parties' processes that there are at each host."""
    below = [processes_below(Path(host.directory)) for host in made.hosts]
    return [{pid for pid, cwd in each.items() if cwd.name == "party"} for each in below]


@needs_proc
def test_a_host_that_is_cut_off_in_a_run_is_named(
    hosts: NetworkedSite, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its agent hears nothing, and ends by itself, with its party."""
    monkeypatch.setattr(wire, "SILENT_BEATS", 2)
    short = f"import harness.hosts.wire as wire\nwire.SILENT_BEATS = {wire.SILENT_BEATS}\n"
    have_party_0_stop(hosts.with_host(1, project=str(copy_of_project(tmp_path / "project", short))))
    card = ("ip", "-n", hosts.namespace(COORDINATOR), "link", "set", "to-1")
    with measuring(hosts) as measure:
        with midway(hosts, measure) as found:
            subprocess.run([*card, "down"], check=True)
        assert found[0].status == FAILED
        said = str(found[0].reason)
        assert said.startswith(f"Party 1 (on {hosts.hosts[1].address}) went away"), said
        until(lambda: not any(parties_of(hosts)))
        subprocess.run([*card, "up"], check=True)
        until(lambda: measure().status == OK)


def test_a_link_that_is_cut_between_runs_is_named(hosts: NetworkedSite) -> None:
    with measuring(hosts) as measure:
        assert measure().status == OK
        open_all(hosts, but=frozenset({0, 2}))
        assert measure(timeout_s=4.0).status == FAILED  # it waits for peers in vain
        cut = measure()
        assert cut.status == FAILED and "cannot reach it at" in str(cut.reason), cut.reason
        open_all(hosts)
        assert measure().status == OK


EXPERIMENT = """
name = "mine"
title = "Two models"
repetitions = 1
warm_up = false
[factors]
protocol = "pi_lap"
variant = "default"
network = "none"
samples = 4
epsilon = "1"
security = ["ring", "semi2k"]
[[grid]]
"""


@pytest.mark.mpspdz("ring", "semi2k")
def test_an_experiment_over_hosts_goes_on_where_one_refuses_and_is_resumed(hosts: NetworkedSite) -> None:
    (hosts.home / "mine.toml").write_text(EXPERIMENT)
    over = ("bench.run", "mine.toml", "--hosts", "hosts.toml", "--out", "results", "--json")
    (hosts.directory(2) / "policy.toml").write_text(REFUSING)
    done = call(*over, cwd=hosts.home)
    found = {one["cell"]["security"]: one for one in json.loads(done.stdout)}
    assert done.returncode == 1 and "1 failed" in done.stderr, done.stderr
    assert found["semi2k"]["ok"] == found["ring"]["failed"] == 1
    assert found["ring"]["reason"].startswith(f"{named(hosts, 2)}: Its policy allows no benchmark runs")
    (hosts.directory(2) / "policy.toml").write_text(POLICY)
    again = call("bench.run", "--resume", "results", cwd=hosts.home)
    assert again.returncode == 0, again.stderr
    samples = [
        json.loads(line) for line in (hosts.home / "results" / "samples.jsonl").read_text().splitlines()
    ]
    assert [(one["cell"]["security"], one["status"]) for one in samples].count(("semi2k", "ok")) == 1
    assert [len(one["hosts"]) for one in samples if one["cell"]["security"] == "ring"] == [0, 3]


@needs_proc
def test_an_interrupt_leaves_nothing_running_anywhere(hosts: NetworkedSite) -> None:
    (hosts.home / "mine.toml").write_text(EXPERIMENT.replace('["ring", "semi2k"]', '"mpyc"'))
    have_party_0_stop(hosts)
    run = start("bench.run", "mine.toml", "--hosts", "hosts.toml", "--out", "results", cwd=hosts.home)
    wait_until_midway(hosts, MPYC, ended(run))
    run.send_signal(signal.SIGINT)
    done = finish(run)
    assert done.returncode == 130 and "no run is left half-done" in done.stderr, done.stderr
    assert not any(parties_of(hosts))
    assert (hosts.home / "results" / "samples.jsonl").read_text() == ""


@pytest.mark.parametrize("what", ["clock", "program"])
def test_a_host_that_differs_is_named(what: str, hosts: NetworkedSite, tmp_path: Path) -> None:
    late = "import time\nreal = time.time\ntime.time = lambda: real() - 99\n" if what == "clock" else ""
    project = copy_of_project(tmp_path / "project", late)
    said = " s behind this machine's"
    if what == "program":
        said = "are not those here"
        with (project / "Programs" / "Source" / "pi_rw.mpc").open("a") as program:
            program.write("# of yesterday\n")
    with measuring(hosts.with_host(2, project=str(project))) as measure:
        sample = measure()
    assert sample.status == FAILED
    assert str(sample.reason).startswith(named(hosts, 2)) and said in str(sample.reason), sample.reason


def test_a_full_disk_is_named(tmp_path: Path) -> None:
    place = tmp_path / "host-2"
    with networked_site(tmp_path, MPYC) as made, small_disk(place, 1 << 20), made.inside(COORDINATOR):
        set_up(made.hosts, False, POLICY, lambda _: None)
        with measuring(made) as measure:
            assert measure().status == OK
            used = shutil.disk_usage(place).used
            subprocess.run(["mount", "-o", f"remount,size={used}", place], check=True)
            full = measure(variant="product", clients=200_000, records=200_000)
            assert full.status == FAILED and "No space left on device" in str(full.reason), full.reason
            assert made.hosts[2].address in str(full.reason)
            subprocess.run(["mount", "-o", "remount,size=1g", place], check=True)
            assert measure().status == OK


def test_a_delay_between_hosts_is_measured(tmp_path: Path) -> None:
    """By a relay to each host's port, through which the others reach it."""
    network = Network("slow", 0.01, 1e9)
    with site(tmp_path, 3) as made:
        set_up(made.hosts, False, "benchmark = true\npopulation = []\n", lambda _: None)
        process = links._start(network, [(8 - host.party, host.party, host.port) for host in made.hosts])
        try:
            ports = links._shown_ports(process, network, 3)
            for host, port in zip(made.hosts, ports, strict=True):
                made = made.with_host(host.party, reached_at=f"{port}")
            with measuring(made) as measure:
                sample = measure()
        finally:
            process.kill()
            process.communicate()
    assert (sample.status, sample.reason) == (OK, None)
    assert sample.network is not None and min(link["rtt_s"] for link in sample.network["links"]) >= 0.01
    assert sample.times["mpc_s"] >= 0.01
