"""What the embedded engine says about itself, and how it sets MPyC up."""

import asyncio
import json
import os
import ssl
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fairshares.harness.engines.engine import PartyCosts
from fairshares.harness.engines.execution import (
    PROGRAMS,
    PROJECT,
    VALUES_ELSEWHERE,
    Conditions,
    MadeUpJob,
    PrivateJob,
)
from fairshares.harness.engines.mpyc import party as mpyc_party
from fairshares.harness.engines.mpyc.engine import EmbeddedEngine
from fairshares.harness.engines.mpyc.party import listen_on_loopback
from fairshares.harness.engines.parties.certificates import make_key
from fairshares.harness.engines.parties.config import Embedded, PartyConfig, write_config
from fairshares.harness.engines.parties.handle import PartyState
from fairshares.harness.engines.parties.supervisor import WaitingParties
from fairshares.harness.engines.parties.working_directory import DATA, PEERS
from fairshares.harness.engines.program_hash import program_hash
from fairshares.harness.errors import LedgerError, OutputError, PartyFailedError
from fairshares.harness.party_reports import Costs, ReadyReport, line_of
from fairshares.harness.privacy.ledger.charge import Account, Entry
from fairshares.harness.privacy.ledger.entries import Ledger
from fairshares.harness.security_models import get_model
from fairshares.protocols.spec import NO_INPUT, PI_LAP
from tests.support.events import a_run
from tests.support.running import program_spec

MPYC = get_model("mpyc")


def told(party: int, addresses: Sequence[tuple[str, int]]) -> tuple[PartyConfig, Embedded]:
    """Return what a party of the embedded engine is told of its peers."""
    bits = MPYC.statistical_security_bits
    assert bits is not None
    engine = Embedded(program="none.mpc", arguments=(), threshold=1, security_bits=bits)
    names = tuple(f"P{i}" for i in range(len(addresses)))
    return PartyConfig(party=party, common_names=names, engine=engine, addresses=tuple(addresses)), engine


def test_a_program_that_is_not_portable_is_refused() -> None:
    reason = EmbeddedEngine().supports(replace(PI_LAP, portable=False), MPYC, NO_INPUT)
    assert "only MP-SPDZ has" in str(reason)


COSTS = line_of(Costs(seconds=0.5, sent_bytes=5))


@pytest.mark.parametrize(
    "lines",
    [
        (),
        ("Time = 0.5 seconds", "Data sent = 5 bytes"),
        (line_of(ReadyReport()),),
        (COSTS.replace("0.5", '"fast"'),),
        (COSTS.replace("0.5", "-1"),),
        (COSTS.replace("0.5", "1e9"),),
        (COSTS.replace(":5", ":5.5"),),
        (COSTS.replace('"sent_bytes"', '"bytes"'),),
        (COSTS.replace("}", ',"more":1}'),),
        (COSTS, COSTS[:-1]),  # cut off, by a full disk perhaps
    ],
)
def test_a_party_that_does_not_report_its_costs_has_not_ended_well(lines: tuple[str, ...]) -> None:
    engine = EmbeddedEngine()
    whole = PartyState((COSTS,))
    assert engine.costs([whole]) == [PartyCosts(0.5, 5)]
    with pytest.raises(OutputError, match="Party 2 "):
        engine.costs([whole, whole, PartyState(lines)])


def test_the_slowest_party_counts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ended = [
        PartyState(("OUT noise [4, -4]", line_of(Costs(seconds=seconds, sent_bytes=sent))))
        for seconds, sent in ((0.5, 7), (0.75, 8), (0.25, 9))
    ]
    monkeypatch.setattr(WaitingParties, "finish", lambda _waiting, _permission: ended)
    job = MadeUpJob(PI_LAP, PROGRAMS / "pi_lap.mpc", ("3", "2", "1", "40"), fair_bits=((59, 2),))
    result = EmbeddedEngine().run(job, MPYC, Conditions(tmp_path / "run", 9.0, lambda step: None))
    assert (result.outputs, result.times["mpc_s"], result.sent_bytes) == ({"noise": (4, -4)}, 0.75, (7, 8, 9))
    assert result.program_hash == program_hash(job, ("MPyC 0.11",))


def test_one_charge_lets_one_run_go(tmp_path: Path) -> None:
    """The second's parties have started by then, and end without having computed anything."""
    source = tmp_path / "opens.mpc"
    source.write_text("print_ln('OUT x %s', sint([4, -4]).reveal())")
    job = PrivateJob(program_spec("opens", "x"), source, (), VALUES_ELSEWHERE)
    event = a_run(model="mpyc", out=tmp_path)
    account = Account(Ledger(tmp_path / "ledger.sqlite"), "people")
    engine, work = EmbeddedEngine(), tmp_path / "parties"
    with engine.prepare(job, MPYC, Conditions(work, 600.0, print)) as ready:
        charged = Entry(account).charge(event, ready)
        assert ready.go(charged).outputs == {"x": (4, -4)}
        with pytest.raises(LedgerError, match="the run of this one has begun"):
            ready.go(charged)
    with engine.prepare(job, MPYC, Conditions(work, 600.0, print)) as ready:
        with pytest.raises(LedgerError, match="this one was made for another run"):
            ready.go(charged)
        with pytest.raises(LedgerError, match="permits itself alone, and that of opens is another"):
            ready._finish(MadeUpJob(job.spec, source, ()))
        assert all(not [*(work / f"party-{party}" / PEERS).iterdir()] for party in range(3))
    assert not work.exists()


def test_servers_are_bound_to_loopback_only() -> None:
    async def addresses() -> list[str]:
        loop = asyncio.get_running_loop()
        listen_on_loopback(loop)
        # As MPyC calls it: a port, no host.
        server = await loop.create_server(asyncio.Protocol, port=0, ssl=None)
        async with server:
            return [listener.getsockname()[0] for listener in server.sockets]

    assert asyncio.run(addresses()) == ["127.0.0.1"]


def peer(pid: int, certificate: Path) -> Any:
    """Return what MPyC knows of a connected peer."""
    shown = ssl.PEM_cert_to_DER_cert(certificate.read_text())
    known = {"ssl_object": SimpleNamespace(getpeercert=lambda binary_form: shown)}
    return SimpleNamespace(
        pid=pid, protocol=SimpleNamespace(transport=SimpleNamespace(get_extra_info=known.get))
    )


@pytest.fixture
def certificates(in_tmp: Path) -> list[Path]:
    """Return the certificates that party 0 holds, in its directory."""
    (in_tmp / DATA).mkdir()
    return [make_key(in_tmp / DATA, f"P{i}", EmbeddedEngine().common_name(i)) for i in range(3)]


def test_no_program_runs_among_peers_who_are_not_who_they_say(
    monkeypatch: pytest.MonkeyPatch, certificates: list[Path]
) -> None:
    """Neither with another party's certificate, nor with another one in the same name."""
    (Path("other")).mkdir()
    for shown in (certificates[1], make_key(Path("other"), "P2", EmbeddedEngine().common_name(2))):
        peers = [SimpleNamespace(pid=0), peer(1, certificates[1]), peer(2, shown)]
        mpc = SimpleNamespace(pid=0, parties=peers, start=lambda: None, _loop=None)
        exchange = SimpleNamespace(run=lambda started: None)
        monkeypatch.setattr(mpyc_party, "Exchange", lambda mpc, peers, exchange=exchange: exchange)
        monkeypatch.setattr(mpyc_party, "_lay_out_certificates", lambda party, parties: None)
        monkeypatch.setattr(mpyc_party, "_load_mpyc", lambda config, engine, mpc=mpc: mpc)
        with pytest.raises(PartyFailedError, match="Who connected as party 2 has another party's"):
            mpyc_party.run_party(*told(0, [("a", 1)] * 3))


SHOW_OPTIONS = """
import json, sys
from fairshares.harness.engines.mpyc.party import _load_mpyc
from fairshares.harness.engines.parties.config import read_config
config = read_config()
mpc = _load_mpyc(config, config.engine)
print(json.dumps([mpc.version, mpc.pid, mpc.threshold, mpc.options.sec_param, mpc.options.ssl,
                  mpc.options.no_prss, mpc.SecInt(64).array.__name__,
                  [[peer.host, peer.port] for peer in mpc.parties]]))
"""


def test_mpyc_gets_its_options_from_the_model_and_none_from_the_environment(tmp_path: Path) -> None:
    addresses = [("127.0.0.1", port) for port in (1111, 2222, 3333)]
    config, _ = told(2, addresses)
    write_config(config, tmp_path)
    shown = subprocess.run(
        [sys.executable, "-c", SHOW_OPTIONS],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(PROJECT), "MPYC_NOPRSS": "1", "MPYC_NONUMPY": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert json.loads(shown.stdout) == [
        "0.11",
        2,
        1,
        61,
        True,
        False,
        "ArraySecInt64",
        [*map(list, addresses)],
    ]
