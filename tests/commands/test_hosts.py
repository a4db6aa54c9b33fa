"""Hosts over ssh, on this machine: what is looked at, what is set up, and what each fault is called."""

import json
import re
import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from fairshares.harness.engines.parties.certificates import make_key
from fairshares.harness.engines.registry import choose_model
from fairshares.harness.errors import HostUnfitError, HostUnreachableError
from fairshares.harness.hosts.connection import HostConnection
from fairshares.harness.hosts.host_log import LOG_FILE
from fairshares.harness.hosts.local_host import TURN
from fairshares.harness.security_models import MODELS
from tests.conftest import PROJECT
from tests.support.command import call, files_below, refused, succeed
from tests.support.coordinators import RULE, have_port, write_rules
from tests.support.sharing import to_hosts, trial_by_command
from tests.support.ssh import Site, copy_of_project, site, write_key

ENGINES = ("embedded", "mp-spdz")


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Yield three hosts that are set up."""
    with site(tmp_path_factory.mktemp("site"), 3) as made:
        succeed("hosts.setup", "--security", "ring,mpyc", cwd=made.home)
        yield made


@pytest.fixture
def hosts(three: Site) -> Iterator[Site]:
    """Yield the hosts, and leave them as they were."""
    kept = three.ssh_directory.parent / "kept"
    for i in range(3):
        shutil.copytree(three.directory(i) / "keys", kept / str(i))
    yield three
    three.write()
    for i in range(3):
        shutil.rmtree(three.directory(i) / "keys")
        (kept / str(i)).rename(three.directory(i) / "keys")


def faults(hosts: Site, model: str = "mpyc") -> dict[tuple[int, str], str]:
    """Return what `hosts.check` says is wrong, by party and what it looked at."""
    done = call("hosts.check", "--security", model, "--json", cwd=hosts.home)
    by_party = {
        (one["party"], name): said for one in json.loads(done.stdout) for name, said in one["faults"].items()
    }
    assert done.returncode == (4 if by_party else 0)
    assert all(said.startswith(f"Host 127.0.0.1 (party {party})") for (party, _), said in by_party.items())
    return by_party


def test_a_check_says_which_policy_refuses_the_model_or_bounds_runs_loosely(hosts: Site) -> None:
    place = hosts.directory(1) / "policy.toml"
    before = place.read_text()
    assert 'security = ["ring", "mpyc"]' in before
    place.write_text(before.replace('["ring", "mpyc"]', '["ring"]').replace("epsilon = 10", "epsilon = 1"))
    try:
        assert faults(hosts) == {
            (1, "policy"): "Host 127.0.0.1 (party 1): Its policy accepts runs of 'ring' only, not of 'mpyc' "
            "(security); choose another model, or ask its owner to add this one."
        }
        said = " ".join(call("hosts.check", "--security", "mpyc", cwd=hosts.home).stdout.split())
        assert "(party 1): Population '*' has epsilon_per_run = 4 but epsilon = 1 in total" in said
    finally:
        place.write_text(before)


def test_hosts_that_are_set_up_are_fit(hosts: Site) -> None:
    done = call("hosts.check", "--security", "mpyc", cwd=hosts.home)
    assert (done.returncode, "✗" in done.stdout) == (0, False), done.stdout
    assert "All 3 hosts can take their part in runs of model mpyc (MPyC 0.11)." in done.stdout
    for i in range(3):
        own = {f"keys/{engine}/P{i}.{suffix}" for engine in ENGINES for suffix in ("key", "pem")}
        peers = {f"keys/{engine}/peers/P{j}.pem" for engine in ENGINES for j in range(3) if j != i}
        places = {f"keys/{engine}{below}" for engine in ENGINES for below in ("", "/peers")}
        assert (
            files_below(hosts.directory(i))
            == {"keys", "keys/party", "policy.toml", LOG_FILE, TURN} | own | peers | places
        )
    assert files_below(hosts.home) == {"hosts.toml"}


def test_a_clock_that_is_off_a_port_that_is_taken_a_stale_program(hosts: Site, tmp_path: Path) -> None:
    late = "import time\nreal = time.time\ntime.time = lambda: real() - 3600\n"
    slow, stale = copy_of_project(tmp_path / "slow", late), copy_of_project(tmp_path / "stale")
    program = stale / "Programs" / "Source" / "pi_rw.mpc"
    program.write_text(program.read_text() + "\n")
    changed = hosts.with_host(0, project=str(slow)).with_host(2, project=str(stale))
    taken = hosts.hosts[0].ssh_port  # where the sshd listens
    assert taken is not None
    changed = changed.with_host(1, port=taken).with_host(2, client_port=taken - 1)
    named = faults(changed)
    assert {(1, "port"), (2, "clients")} <= named.keys()
    assert f"Its policy has port = {hosts.hosts[1].port}, and it was asked to listen on" in named[1, "port"]
    assert f"Its policy has client_port = {hosts.hosts[2].client_port}, and it" in named[2, "clients"]
    for i in (1, 2):
        have_port(hosts.directory(i), changed.hosts[i].port, changed.hosts[i].client_port)
    named = faults(changed)
    for i in (1, 2):
        have_port(hosts.directory(i), hosts.hosts[i].port, hosts.hosts[i].client_port)
    assert named.keys() == {(0, "clock"), (1, "port"), (2, "project"), (2, "clients")}
    said = re.search(r"its clock is (\d+) s behind this machine's", named[0, "clock"])
    assert said is not None and 3500 < int(said[1]) <= 3600  # less by what it took to answer
    assert "Its party cannot listen on port" in named[1, "port"]
    assert f"For clients it cannot listen on port {taken}: " in named[2, "clients"]
    assert f"the programs and circuits in {stale} (commit unknown) are not those here" in named[2, "project"]


def test_no_virtual_machine_no_directory_a_port_that_is_not_reached(hosts: Site, tmp_path: Path) -> None:
    """At the last, as behind a firewall or by a wrong address, something else may even answer."""
    port = hosts.hosts[0].ssh_port
    elsewhere = dict.fromkeys(("reached_at", "client_reached_at"), f"127.0.0.1:{port}")
    changed = hosts.with_host(0, mp_spdz_home=str(tmp_path), directory=str(tmp_path / "none"))
    named = faults(changed.with_host(1, **elsewhere), "ring")
    assert named.keys() >= {(0, "engine"), (0, "directory"), (1, "port"), (1, "clients")}
    assert f"MP_SPDZ_HOME is {tmp_path}, but there is no compile.py in it" in named[0, "engine"]
    assert f"There is no directory {tmp_path / 'none'}" in named[0, "directory"]
    assert f"cannot reach it at 127.0.0.1:{port}: something else answers there" in named[1, "port"]
    assert f"it for clients at 127.0.0.1:{port}: something else answers there" in named[1, "clients"]


@contextmanager
def accepting_early(port: int) -> Iterator[int]:
    """Pass connections on to a port, as a proxy does that accepts first; yield where it listens."""
    with socket.create_server(("127.0.0.1", 0)) as listening, ExitStack() as passed:

        def copy(source: socket.socket, target: socket.socket) -> None:
            with suppress(OSError):
                while content := source.recv(1 << 16):
                    target.sendall(content)
                target.shutdown(socket.SHUT_WR)

        def serve() -> None:
            with suppress(OSError):
                while True:
                    near, _ = listening.accept()
                    passed.enter_context(near)
                    try:
                        far = passed.enter_context(socket.create_connection(("127.0.0.1", port)))
                    except OSError:
                        near.close()
                        continue
                    for pair in ((near, far), (far, near)):
                        threading.Thread(target=copy, args=pair, daemon=True).start()

        serving = threading.Thread(target=serve, daemon=True)
        serving.start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)
        serving.join()


def test_a_proxy_that_accepts_for_nobody_is_a_fault(hosts: Site) -> None:
    """It passes all on while an agent listens, and would end a party that calls before its peer listens."""
    last = hosts.hosts[2]
    with accepting_early(last.port) as of_parties, accepting_early(last.client_ports[0]) as of_clients:
        behind = {
            "reached_at": f"127.0.0.1:{of_parties}",
            "client_reached_at": f"127.0.0.1:{of_clients}",
        }
        named = faults(hosts.with_host(2, **behind))
    assert named.keys() == {(2, "port"), (2, "clients")}
    assert f"at 127.0.0.1:{of_parties} something in front of it accepts" in named[2, "port"]
    assert f"at 127.0.0.1:{of_clients} something in front of it accepts" in named[2, "clients"]


def test_certificates_that_are_expired_or_not_the_held_ones(hosts: Site) -> None:
    """As if party 1 had not renewed its key, and somebody were in party 2's place, which no renewal hides."""
    expired = make_key(hosts.directory(1) / "keys" / "embedded", "P1", "MPyC party 1", timedelta(minutes=-5))
    for i in (0, 2):
        shutil.copyfile(expired, hosts.directory(i) / "keys" / "embedded" / "peers" / "P1.pem")
    make_key(hosts.directory(2) / "keys" / "mp-spdz", "P2", "P2")
    named = faults(hosts)
    assert named.keys() == {(i, "certificates") for i in range(3)}
    assert "Its own certificate expired on" in named[1, "certificates"]
    assert "hosts.setup --renew" in named[1, "certificates"]
    said = refused("hosts.setup", "--renew", cwd=hosts.home)
    assert "Party 2 has another certificate now than this host holds" in said and "--lost 2" in said
    assert "holds another certificate of party" in faults(hosts, "ring")[0, "certificates"]
    own = [("--party", str(i), "--directory", str(hosts.directory(i))) for i in range(3)]
    for options in own:
        succeed("hosts.setup", *options, cwd=hosts.home)
    files = [str(hosts.directory(i) / f"party-{i}.certificates") for i in range(3)]
    for i, options in enumerate(own):
        pins = ("--pin", ",".join(path for path in files if path != files[i]))
        succeed("hosts.setup", *options, *pins, *(("--lost", "2") if i != 2 else ()), cwd=hosts.home)
    assert faults(hosts) == faults(hosts, "ring") == {}


def test_a_project_without_an_environment_is_given_one(hosts: Site, tmp_path: Path) -> None:
    project = copy_of_project(tmp_path / "project")
    (project / ".venv").rename(project / "made")
    (project / "inv").write_text("#!/bin/sh\nmv made .venv\n")
    (project / "inv").chmod(0o700)
    changed = hosts.with_host(0, project=str(project))
    with pytest.raises(HostUnfitError, match=r"/project has no \.venv yet; .* hosts\.setup makes it"):
        HostConnection(changed.hosts[0])
    succeed("hosts.setup", cwd=hosts.home)
    assert (project / ".venv").is_dir()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"ssh_port": 1}, "ssh cannot reach it: "),
        ({"ssh_user": "nobody-of-that-name"}, "ssh let nobody in as nobody-of-that-name"),
        ({"known_hosts": "/dev/null"}, "its ssh host key is not in /dev/null; connect once by ssh"),
        ({"project": "/nowhere"}, "FairShares is not in /nowhere"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_host_that_ssh_does_not_get_into(three: Site, change: dict[str, Any], said: str) -> None:
    with pytest.raises((HostUnreachableError, HostUnfitError)) as error:
        HostConnection(replace(three.hosts[2], **change))
    assert str(error.value).startswith(f"Host 127.0.0.1 (party 2): {said}")


def test_another_ssh_host_key_than_the_known_one(three: Site, tmp_path: Path) -> None:
    known = tmp_path / "known"
    known.write_text(f"[127.0.0.1]:{three.hosts[0].ssh_port} {write_key(tmp_path / 'other')}\n")
    before = known.read_text()
    with pytest.raises(HostUnreachableError, match="its ssh host key is not the one in"):
        HostConnection(replace(three.hosts[1], known_hosts=str(known)))
    assert known.read_text() == before  # nothing is taken on trust


def test_a_policy_is_written_once_then_checked_and_shown(tmp_path: Path) -> None:
    (tmp_path / "host").mkdir(mode=0o700)
    policy = ["hosts.policy", "--directory", "host"]
    first = call(*policy, cwd=tmp_path)
    assert first.returncode == 0 and "policy.toml is new; edit it" in first.stderr, first.stderr
    assert "Nothing has been spent yet." in first.stdout and "benchmark" not in first.stdout
    write_rules(tmp_path / "host", 'coordinators = ["alice"]\nbenchmark = true\n' + RULE)
    shown = json.loads(succeed(*policy, "--json", cwd=tmp_path))
    assert shown["coordinators"] == ["alice"] and shown["benchmark"] is True and shown["spent"] == {}
    (rule,) = shown["population"]
    assert (rule["epsilon"], rule["epsilon_per_run"], rule["delta_per_run"]) == ("4", "2", "1/1048576")
    assert shown["notices"] == [] and set(shown["benchmark_security"]) == {*MODELS}
    write_rules(tmp_path / "host", RULE.replace("epsilon = 4", "epsilon = 1"))
    both = "epsilon_per_run = 2 but epsilon = 1 in total: a run may spend the smaller number at most."
    assert both in " ".join(succeed(*policy, cwd=tmp_path).split())
    (rule,) = json.loads(succeed(*policy, "--json", cwd=tmp_path))["population"]
    assert rule["epsilon_per_run"] == "1"
    write_rules(tmp_path / "host", RULE + "espilon = 1\n")
    assert "unknown key 'espilon' (did you mean epsilon?)" in refused(*policy, cwd=tmp_path)


def test_first_policies_name_models(tmp_path: Path) -> None:
    """The default one, or those that the owner chooses; never all."""
    default = choose_model(None).name
    chosen: list[tuple[list[str], list[str]]] = [
        ([], [default]),
        (["--security", "semi2k,mpyc"], ["semi2k", "mpyc"]),
    ]
    for number, (given, models) in enumerate(chosen):
        host = tmp_path / f"host-{number}"
        host.mkdir(mode=0o700)
        policy = ["hosts.policy", "--directory", str(host)]
        said = call(*policy, *given, cwd=tmp_path)
        assert f"It accepts runs of {', '.join(models)} and of no other model" in " ".join(
            said.stderr.split()
        )
        (rule,) = json.loads(succeed(*policy, "--json", cwd=tmp_path))["population"]
        assert rule["security"] == models
        assert "is there already, and --security is for a new one" in refused(
            *policy, "--security", "ring", cwd=tmp_path
        )
    own = ["hosts.setup", "--party", "0", "--directory", str(tmp_path / "own")]
    succeed(*own, "--security", "spdz2k", cwd=tmp_path)
    assert 'security = ["spdz2k"]\n' in (tmp_path / "own" / "policy.toml").read_text()


def test_owners_set_hosts_up_and_a_starter_may_start_their_agents_only(tmp_path: Path) -> None:
    """Its key sets nothing up, and runs what each host's owner allows; all hosts sign that."""
    with site(tmp_path, 3) as hosts:
        for i in range(3):
            restrict_to_agent(hosts, i)
            hosts = hosts.with_host(i, key_file=str(hosts.ssh_directory / f"key-{i}"))
        assert "this ssh key may start the agent only" in refused("hosts.setup", cwd=hosts.home)
        assert not any(hosts.directory(i).exists() for i in range(3))

        own = [["--party", str(i), "--directory", str(hosts.directory(i))] for i in range(3)]
        for options in own:
            succeed("hosts.setup", *options, cwd=tmp_path)
        files = [str(hosts.directory(i) / f"party-{i}.certificates") for i in range(3)]
        for i, options in enumerate(own):
            pins = ",".join(path for path in files if path != files[i])
            assert succeed("hosts.setup", *options, "--pin", pins, cwd=tmp_path).count("embedded") == 3
            write_rules(hosts.directory(i), f'coordinators = ["{"alice" if i else "bob"}"]\n{RULE}')
            have_port(hosts.directory(i), hosts.hosts[i].port, hosts.hosts[i].client_port)

        (hosts.home / "records.csv").write_text("client_id,group,label\nme,a,0\nyou,b,1\n")
        declared = ["--groups", "a,b", "--labels", "0,1", "--max-count", "5"]
        trial_by_command("shares", MODELS["mpyc"], *declared, cwd=hosts.home)
        of_task = ("--task", "shares/task.json", "--records", "records.csv", "--out", "shares")
        succeed("share", *of_task, cwd=hosts.home)
        to_hosts(hosts.home / "shares", [hosts.directory(i) for i in range(3)])
        run = ["weights", "--hosts", "hosts.toml", "--security", "mpyc", "--epsilon", "1"]
        run += ["--population", "loans", "--out", "results"]
        assert "(party 0): Its policy lets 'alice' start nothing" in refused(*run, cwd=hosts.home)
        assert not any((hosts.directory(i) / "ledger.sqlite").exists() for i in range(3))

        write_rules(hosts.directory(0), RULE)
        have_port(hosts.directory(0), hosts.hosts[0].port, hosts.hosts[0].client_port)
        succeed(*run, cwd=hosts.home)
        succeed("verify", "results", cwd=hosts.home)
        for i in range(3):
            shown = succeed("hosts.policy", "--directory", str(hosts.directory(i)), cwd=tmp_path)
            assert "Population 'loans' has spent ε = 0.9971" in shown and "in 1 run." in shown


def restrict_to_agent(hosts: Site, i: int) -> None:
    """Add a key that may start one host's agent, as the how-to page has it, and nothing else."""
    public = write_key(hosts.ssh_directory / f"key-{i}")
    python = PROJECT / ".venv" / "bin" / "python"
    agent = f"{python} -P -m fairshares.harness.hosts.agent {hosts.directory(i)} '' alice"
    line = f'restrict,command="cd {PROJECT} && PYTHONPATH=$PWD exec {agent}" {public}\n'
    with (hosts.ssh_directory / "authorized_keys").open("a") as file:
        file.write(line)
