"""What hosts agree on before a run: each runs what all others signed, once."""

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.engines.parties.certificates import make_key
from harness.errors import (
    CertificateError,
    HostUnfitError,
    PolicyError,
)
from harness.hosts import party_run
from harness.hosts.signed_results import AGGREGATE, Signed, sign
from harness.privacy.ledger.populations import Status
from harness.system.files import PREFIX
from tests.support.coordinators import (
    ANY_PORT,
    MODEL,
    RULE,
    Coordinator,
    asked,
    now,
    ran,
    spent,
    write_rules,
)
from tests.support.running import until


def test_a_host_is_not_set_among_a_starters_own(hosts: list[Path], stack: ExitStack, tmp_path: Path) -> None:
    """It runs with the parties whose certificates its owner accepted, and charges nothing for others."""
    coordinator = Coordinator(hosts[0], stack)
    coordinator.prepared(asked())
    own = make_key(tmp_path, "P1", "MPyC party 1")
    work = coordinator.work
    nonces = [work.run.nonce, "1", "2"]
    signed = {"0": work.release.agree(nonces, now())}
    assert work.release.intent is not None
    signed |= {str(i): sign(replace(work.release.intent, party=i), own) for i in (1, 2)}
    work.run._is_ready = True
    with pytest.raises(CertificateError, match="Party 1 has another certificate than this host holds"):
        work.run.go({name: Signed(**one) for name, one in signed.items()})
    with pytest.raises(HostUnfitError, match="whoever starts this run did not pass it on"):
        work.run.go({"0": Signed(**signed["0"])})
    assert spent(hosts[0]) == []


@pytest.mark.parametrize(
    "others",
    [
        {"asked": asked(epsilon="2")},
        {"asked": asked(population="others")},
        {"program_hash": "other"},
        {"uploads": "other"},
        {"inputs": {"clients": 2}},
        {"source": AGGREGATE},
        {"run": "1" * 32},
        {"started": "2027-01-01"},
        {"nonces": ["0", "1", "2"]},
    ],
)
def test_hosts_do_not_run_different_things(
    others: dict[str, Any], hosts: list[Path], stack: ExitStack
) -> None:
    """As a coordinator could ask each for something else, to open what one alone adds no noise to."""
    coordinator = Coordinator(hosts[0], stack)
    coordinator.prepared(asked())
    with pytest.raises(HostUnfitError, match=r"What party 1 signed is not this run: .* something else"):
        coordinator.go(hosts, **others)
    assert spent(hosts[0]) == []


def test_a_host_signs_for_one_run_at_a_time(hosts: list[Path], stack: ExitStack) -> None:
    """Else what it signed for one could let others begin another one."""
    work = Coordinator(hosts[0], stack).prepared(asked())
    with pytest.raises(HostUnfitError, match="not the one that it prepared"):
        work.release.agree(["0", "1", "2"], now())
    with (
        ExitStack() as other,
        pytest.raises(HostUnfitError, match=r"Another run is under way on it \(process"),
    ):
        Coordinator(hosts[0], other).prepared(asked(epsilon="2"))
    with ExitStack() as other:
        seen = Coordinator(hosts[0], other).work.host.check(0, MODEL.name, 0, [])
        assert seen["port"].startswith("Another run is under way on it (process")
        with pytest.raises(HostUnfitError, match="Another run is under way"):
            Coordinator(hosts[0], other).work.host.listen(0)
    with pytest.raises(HostUnfitError, match="agreed to no run"):
        work.run.go({})
    stack.close()
    with ExitStack() as other:
        Coordinator(hosts[0], other).prepared(asked(epsilon="2"))


def test_a_connection_is_for_one_run(hosts: list[Path], stack: ExitStack) -> None:
    """What was checked stays what runs: no other release, no other inputs under the same charge."""
    work = Coordinator(hosts[0], stack).prepared(asked())
    for again in (
        lambda: work.propose(asked(epsilon="1/1000")),
        lambda: work.release.uploads.aggregate(0),
        lambda: work.run.prepare("0" * 32, 0, [("127.0.0.1", 0)] * 3),
    ):
        with pytest.raises(HostUnfitError, match="already; a connection is for one run"):
            again()


def test_one_honest_host_is_enough_to_refuse(hosts: list[Path], stack: ExitStack) -> None:
    """The others, and the coordinator, do as they like: without its share nothing is opened."""
    write_rules(hosts[0], RULE.replace("loans", "others"))
    for i in (1, 2):
        write_rules(hosts[i], ANY_PORT + '[[population]]\nname = "*"\nepsilon = 1000000\ndelta = 0.5\n')
    with pytest.raises(PolicyError, match="names no population 'loans'"):
        Coordinator(hosts[0], stack).prepared(asked())
    for i in (1, 2):
        assert ran(hosts, i, epsilon="20").gone
    assert spent(hosts[0]) == [] and not list(hosts[0].glob(f"{PREFIX}*/party"))


def test_a_party_that_meets_nobody_is_given_up(
    hosts: list[Path], stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its charge stays, as whoever holds it up may have heard from it; the coordinator is told why."""
    monkeypatch.setattr(party_run, "_MEET_S", -1.0)
    coordinator = Coordinator(hosts[0], stack)
    work = coordinator.prepared(asked())
    coordinator.work.run.start()
    assert coordinator.work.run.certificate(600)
    coordinator.go(hosts)
    said: dict[str, Any] = {}

    def ended() -> bool:
        said.update(work.ended() or {})
        return bool(said)

    until(ended)
    assert said["code"] < 0 and "had not met all other parties" in said["lines"][-1]
    assert "signed" not in said and [status for *_, status in spent(hosts[0])] == [Status.ABORTED]
