"""Hostile coordinators, who speak to hosts' real agents themselves: what no host does for them."""

import contextlib
import getpass
import json
import re
import socket
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import paramiko
import pytest

from fairshares.harness.engines.parties.certificates import make_key
from fairshares.harness.engines.parties.supervisor import free_ports
from fairshares.harness.engines.parties.working_directory import DATA
from fairshares.harness.hosts.agent import Work
from fairshares.harness.hosts.host_log import LOG_FILE
from fairshares.harness.hosts.local_host import TURN
from fairshares.harness.inputs.federation_size import FederationSize
from fairshares.harness.pipeline.sources import request_of_run, terms_of
from fairshares.harness.security_models import SecurityModel, get_model
from fairshares.harness.system.files import PREFIX
from fairshares.protocols.spec import CLIENTS, REPLICATED, SHARES
from tests.conftest import PROJECT
from tests.support.command import files_below
from tests.support.coordinators import (
    DOMAIN,
    LOOPBACK,
    MODEL,
    RULE,
    Agent,
    Refused,
    agents,
    agreed,
    asked,
    begun,
    fed,
    have_port,
    make_hosts,
    now,
    opened,
    ready,
)
from tests.support.midway import charges
from tests.support.running import QUICKEST, model_parameters, until
from tests.support.ssh import answers, copy_of_project, make_ssh_files, start_sshd
from tests.support.stand_in import context, told

QUICK = get_model(QUICKEST)
SHARED_OUT = [get_model(name) for name in ("ring", "ps-rep-ring", "rep4-ring")]


def test_hosts_run_what_all_agreed_on_once_and_charge_it_once(tmp_path: Path) -> None:
    """So what is refused elsewhere is refused for what is wrong with it. No host keeps a word of secrets."""
    hosts = make_hosts(tmp_path, model=QUICK)
    before = [files_below(host) for host in hosts]
    with agents(hosts) as made, free_ports(QUICK.parties) as ports:
        fed(made, asked(security=QUICK.name))
        signed = agreed(made, ports)
        made[0].ask("stop_listening")  # which frees no port between agreement and start
        with pytest.raises(OSError, match="in use"):
            socket.create_server(("", ports[0])).close()
        assert charges(hosts[0], "loans") == []
        begun(made, signed)
        first, *others = opened(made)
        with pytest.raises(Refused):
            made[0].ask("go", agreed=signed)
    assert first and others == [first] * len(others) and len(charges(hosts[0], "loans")) == 1
    kept = {
        re.sub("[0-9a-f]{32}", "RUN", name)
        for host, held in zip(hosts, before, strict=True)
        for name in files_below(host) - held
    }
    assert kept == {"results", "results/RUN.json", "ledger.sqlite", TURN, LOG_FILE}


@pytest.mark.parametrize("corrupt", [False, True], ids=["of the coordinator's", "and a corrupt host"])
@pytest.mark.parametrize("model", model_parameters(models=SHARED_OUT))
def test_a_host_among_stand_ins_tells_them_nothing(
    model: SecurityModel, corrupt: bool, tmp_path: Path
) -> None:
    """All hosts agreed, then the coordinator lets party 0 alone begin; the last host's owner may help it."""
    path = REPLICATED if model.replicated else SHARES
    hosts = make_hosts(tmp_path, model=model, path=path)
    parties = {i: context(None) for i in range(1, model.parties)}
    last = model.parties - 1
    with agents(hosts) as made, free_ports(model.parties) as ports:
        fed(made, asked(security=model.name, input_path=path.name))
        signed = agreed(made, ports)
        if corrupt:  # its owner reads the key of the run
            (certificate,) = hosts[last].glob(f"{PREFIX}*/party/{DATA}/P{last}.pem")
            parties[last] = context(certificate)
        heard = b""
        with contextlib.suppress(Refused):
            begun(made[:1], signed)
            until(lambda: answers(LOOPBACK, ports[0]) or not made[0].ended.empty())
            heard = told(ports[0], parties)
    assert heard == b""


def test_no_host_begins_by_an_agreement_to_another_run(tmp_path: Path) -> None:
    hosts = make_hosts(tmp_path)
    with free_ports(MODEL.parties) as ports:
        with agents(hosts) as made:
            fed(made, asked())
            old = agreed(made, ports)
        with agents(hosts) as made:
            fed(made, asked())
            signed = agreed(made, ports)
            for mixed in (old, {**old, 0: signed[0]}, {**signed, 1: old[1]}, {**signed, 1: signed[2]}):
                with pytest.raises(Refused):
                    made[0].ask("go", agreed=mixed)


def test_no_host_begins_before_all_others_listen(tmp_path: Path) -> None:
    """Each holds its port when it signs: else the run is charged, and who stands in for others waited for."""
    hosts = make_hosts(tmp_path)
    with agents(hosts) as made, free_ports(MODEL.parties) as ports, socket.create_server(("", ports[1])):
        fed(made, asked())
        with pytest.raises(Refused, match="cannot listen on port"):
            agreed(made, ports)
        assert charges(hosts[0], "loans") == []


@pytest.mark.mpspdz("ring")
@pytest.mark.parametrize("others", [(0, 2), (1, 0)])
def test_all_hosts_take_the_same_clients(others: tuple[int, ...], tmp_path: Path) -> None:
    model = get_model("ring")
    hosts = make_hosts(tmp_path, clients=0, model=model)
    run = asked(security=model.name, input_path=CLIENTS.name)
    terms = terms_of(request_of_run(run), DOMAIN)
    (tmp_path / "clients").mkdir()
    known = [make_key(tmp_path / "clients", f"{i}", f"client-{i}").read_text() for i in range(3)]
    with agents(hosts) as made, free_ports(3 * model.parties) as ports:
        told_of = {
            i: {"terms": terms, "certificates": [known[k] for k in chosen], "ports": pair, "seconds": 600}
            for i, chosen in enumerate([(0, 1), others, others])
            for pair in [ports[3 + 2 * i : 5 + 2 * i]]
        }
        for one in made:
            one.ask("propose", asked=run)
        signed = agreed(made, ports[:3], told_of)
        with pytest.raises(Refused, match="about to run something else"):
            made[0].ask("go", agreed=signed)


def test_no_release_meets_a_benchmark_run(tmp_path: Path) -> None:
    """Hosts agree to a release; then the coordinator has all but one go to a benchmark run of its program."""
    hosts = make_hosts(tmp_path, "benchmark = true\n" + RULE, model=QUICK)
    run = asked(security=QUICK.name)
    trial = {
        "kind": "release",
        "security": QUICK.name,
        "asked": run,
        "federation": asdict(FederationSize(1, DOMAIN.max_count, 2, 2)),
    }
    patience = (  # of agents alone: a party's process imports nothing that starts threads
        "import sys\n"
        "if 'fairshares.harness.hosts.agent' in sys.orig_argv:\n"
        "    import fairshares.harness.hosts.party_run as party_run\n"
        "    party_run._MEET_S = 5.0\n"
    )
    project = copy_of_project(tmp_path / "project", patience)
    with free_ports(QUICK.parties) as ports, agents(hosts[:1], project=project) as (host,):
        with agents(hosts[1:]) as others:
            fed([host, *others], run)
            signed = agreed([host, *others], ports)
        with agents(hosts[1:]) as others:
            own_nonce = json.loads(signed[0]["said"])["nonces"][0]
            nonces = [own_nonce]
            for i, one in enumerate(others, 1):
                one.ask("benchmark", party=i, trial=trial)
                have_port(hosts[i], ports[i])
                addresses = [(LOOPBACK, port) for port in ports]
                nonces.append(one.ask("prepare", run="0" * 32, party=i, addresses=addresses)["nonce"])
                ready(one)
            started = now().isoformat()
            mixed = {0: signed[0]}
            for i, one in enumerate(others, 1):
                mixed[i] = one.ask("agree", nonces=nonces, started=started)
            with pytest.raises(Refused, match="a signature is not its certificate's"):
                host.ask("go", agreed=mixed)
            begun([host], signed)
            for one in others:
                with pytest.raises(Refused, match="What party 0 signed is not this run: a signature is not"):
                    one.ask("go", agreed=mixed)
            (outputs,) = opened([host])
    assert outputs == {}


def test_an_address_is_one_host(tmp_path: Path) -> None:
    """Else it moves the lines that MP-SPDZ reads, and with them the port that the party listens on."""
    hosts = make_hosts(tmp_path, model=QUICK)
    with agents(hosts) as made, free_ports(QUICK.parties) as ports:
        fed(made, asked(security=QUICK.name))
        have_port(hosts[1], ports[1])
        for address in ("127.0.0.1:1\n127.0.0.1", "#", "", "127.0.0.1:1", "a b"):
            addresses = [(address, ports[0]), *((LOOPBACK, port) for port in ports[1:])]
            with pytest.raises(Refused, match="matching regex"):
                made[1].ask("prepare", run="0" * 32, party=1, addresses=addresses)


def test_no_host_begins_with_one_of_another_program(tmp_path: Path) -> None:
    hosts = make_hosts(tmp_path, model=QUICK)
    project = copy_of_project(tmp_path / "project")
    with (project / "protocols" / "circuits" / "noise.py").open("a") as text:
        text.write("\nanother = 1\n")
    with agents(hosts[:1]) as first, agents(hosts[1:], project=project) as others:
        made = [*first, *others]
        fed(made, asked(security=QUICK.name))
        with free_ports(QUICK.parties) as ports:
            signed = agreed(made, ports)
            with pytest.raises(Refused, match="about to run something else"):
                made[0].ask("go", agreed=signed)


def test_no_request_puts_on_a_host_what_it_computes_on(tmp_path: Path) -> None:
    (host, *_) = make_hosts(tmp_path)
    (upload,) = (host / "shares").iterdir()
    with agents([host]) as (agent,):
        agent.ask("propose", asked=asked())
        body = upload.read_bytes()
        with pytest.raises((Refused, EOFError)):  # the latter as what follows is no request
            agent.ask("put_file", body, name=f"{upload.stem}.aggregate", bytes=len(body))
    assert not [*host.rglob("*.aggregate")] and [*(host / "shares").iterdir()] == [upload]


def test_a_key_that_may_start_nothing_is_told_so_whatever_it_asks(tmp_path: Path) -> None:
    (host, *_) = make_hosts(tmp_path, 'coordinators = ["alice"]\n' + RULE)
    port = {"party": 0, "security": MODEL.name, "port": 0, "client_ports": []}
    details: dict[str, dict[str, Any]] = {"check": port, "listen": {"port": 0}, "reach": {"others": []}}
    with contextlib.ExitStack() as stack:
        requests = list(Work(host, stack).handlers)
    answered = []
    with agents([host], coordinator="mallory") as (agent,):
        for request in requests:
            try:
                agent.ask(request, **details.get(request, {}))
            except Refused as refused:
                if refused.kind == "PolicyError":
                    continue
            answered.append(request)
    assert answered == []


def test_a_directory_takes_the_place_of_no_upload(tmp_path: Path) -> None:
    """Whoever may bring a file may make a directory, and no name of one has what is in it counted."""
    (host, *_) = make_hosts(tmp_path, clients=2)
    first, second = sorted((host / "shares").iterdir())
    (host / "shares" / "party-0").mkdir()
    first.rename(host / "shares" / "party-0" / first.name)
    with agents([host]) as (agent,):
        head, sound = list_of(agent, 0, asked())["piece"].splitlines()
        assert (sound, json.loads(head)["unsound"]) == (second.stem, {})


# What a coordinator may try to have the agent's process, and all that it starts, run with.
VARIABLES = {
    **dict.fromkeys(("LD_LIBRARY_PATH", "MP_SPDZ_HOME", "OPENSSL_CONF", "SSLKEYLOGFILE"), "/nowhere"),
    **dict.fromkeys(("TMPDIR", "XDG_CACHE_HOME", "XDG_DATA_HOME", "PYTHONPATH"), "/nowhere"),
    **dict.fromkeys(("PYTHONINSPECT", "PYTHONHASHSEED", "FAIRSHARES_LEDGER"), "1"),
}


def command_of_the_docs(host: Path) -> str:
    """Return the forced command that owners are told to give a coordinator's key, for a host of the tests."""
    text = (PROJECT / "docs" / "how-to" / "own-a-host.md").read_text()
    (command,) = re.findall(r'^restrict,command="(.*)" ssh-ed25519', text, re.MULTILINE)
    return command.replace("/srv/FairShares", str(PROJECT)).replace("/srv/fairshares", str(host))


def test_a_starter_sets_no_variable_of_the_agents(tmp_path: Path) -> None:
    """Whatever variables the host's sshd lets in, by the line for authorized_keys that the docs have."""
    ssh, host = tmp_path / "ssh", tmp_path / "host"
    with free_ports(1) as (port,), paramiko.SSHClient() as client:
        make_ssh_files(ssh, [f"[{LOOPBACK}]:{port}"])
        key = (ssh / "authorized_keys").read_text()
        (ssh / "authorized_keys").write_text(f'restrict,command="{command_of_the_docs(host)}" {key}')
        sshd = start_sshd(ssh, LOOPBACK, port, "AcceptEnv *")
        try:
            until(lambda: answers(LOOPBACK, port) or sshd.poll() is not None)
            client.load_host_keys(str(ssh / "known_hosts"))
            client.connect(LOOPBACK, port, getpass.getuser(), key_filename=str(ssh / "key"))
            asked, said, _ = client.exec_command("a shell, please", environment=VARIABLES)
            assert "agent" in json.loads(next(filter(str.strip, said)))
            variables = variables_of(host)
            asked.channel.shutdown_write()
            said.read()
        finally:
            sshd.terminate()
            sshd.wait()
    assert {name for name, value in VARIABLES.items() if variables.get(name) == value} == set()


def variables_of(host: Path) -> dict[str, str]:
    """Return what the agent that serves a host was started with."""
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (process / "cmdline").read_text().split("\0")
            if "fairshares.harness.hosts.agent" in words and str(host) in words:
                pairs = (process / "environ").read_text().split("\0")
                return dict(pair.split("=", 1) for pair in pairs if pair)
    raise AssertionError("no agent runs")


def list_of(one: Agent, party: int, run: dict[str, str]) -> dict[str, str]:
    one.ask("propose", asked=run)
    signed: dict[str, str] = one.ask("check_uploads", party=party)
    return {**signed, "piece": one.ask("read_list", at=0)}


def agreement(
    one: Agent, party: int, lists: dict[int, dict[str, str]], ports: Sequence[int], started: str
) -> dict[str, str]:
    for of, signed in lists.items():
        if of != party:
            listed = dict(signed)
            one.ask("take_list", lister=of, at=0, piece=listed.pop("piece"), signed=listed)
    one.ask("aggregate", party=party)
    one.ask("prepare", run="0" * 32, party=party, addresses=[(LOOPBACK, port) for port in ports])
    ready(one)
    nonces = [json.loads(lists[i]["said"])["nonce"] for i in range(len(ports))]
    signed_run: dict[str, str] = one.ask("agree", nonces=nonces, started=started)
    return signed_run


def test_no_two_hosts_begin_different_runs(tmp_path: Path) -> None:
    """Connections list uploads, and so give nonces away, before any has the turn."""
    hosts = make_hosts(tmp_path)
    one_run, other_run, started = asked(), asked(epsilon="2"), now().isoformat()
    began = []
    with free_ports(len(hosts)) as ports, agents(hosts) as (first, *rest), suppress(Refused):
        for host, port in zip(hosts, ports, strict=True):
            have_port(host, port)
        lists = {0: list_of(first, 0, one_run)}
        other_lists = {i: list_of(one, i, other_run) for i, one in enumerate(rest, 1)}
        with agents(hosts[1:]) as passing:
            lists |= {i: list_of(one, i, one_run) for i, one in enumerate(passing, 1)}
            signed = {i: agreement(one, i, lists, ports, started) for i, one in enumerate(passing, 1)}
        with agents(hosts[:1]) as (passing_first,):
            other_lists[0] = list_of(passing_first, 0, other_run)
            other_signed = {0: agreement(passing_first, 0, other_lists, ports, started)}
        signed[0] = agreement(first, 0, lists, ports, started)
        other_signed |= {i: agreement(one, i, other_lists, ports, started) for i, one in enumerate(rest, 1)}
        for one, agreed_to in zip((first, *rest), (signed, other_signed, other_signed), strict=True):
            one.ask("go", agreed=agreed_to)
            began.append(one)
    assert not began
