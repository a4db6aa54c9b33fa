"""Hosts whose processes are killed anywhere in a run: each upload that all accept counts once, or none does.

Measurements are unique: upload i counts 2^i, so that a sum tells which uploads are in it.
"""

import random
import sqlite3
from collections import Counter
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path

import pytest

from fairshares.harness.hosts.messages import Aggregate, CheckUploads, Propose
from fairshares.harness.hosts.policy import LEDGER
from fairshares.harness.hosts.runs import UploadedInputs
from fairshares.harness.uploads import counting
from fairshares.protocols.spec import SPLIT
from tests.support.coordinators import (
    ANY_PORT,
    DOMAIN,
    MODEL,
    Coordinator,
    Party,
    answered,
    asked,
    let_go,
    make_hosts,
    run_of,
    to_prepare,
)
from tests.support.envelopes import counts, revealed, upload
from tests.support.marked import STEPS, steps_until_killed
from tests.support.sharing import to_hosts, trial

RULES = f'{ANY_PORT}[[population]]\nname = "loans"\nepsilon = 1000\ndelta = "2^-20"\nepsilon_per_run = 2\n'
PHASES = ("list", "agree", "count", "charge")
PARTIES = range(MODEL.parties)


class Begins(Party):
    """Writes down what its host has added up, once it may begin."""

    def __init__(self, uploads: UploadedInputs, counted: Path) -> None:
        self._counted, names = counted, " ".join(uploads.inputs.batches).encode()
        self._added_up = names + b"\n" + uploads.values.read_bytes()

    def go(self, certificates: object) -> None:
        super().go(certificates)
        self._counted.write_bytes(self._added_up)


def run(hosts: list[Path], party: int, phases: Path, counted: Path) -> None:
    """Take a host through a run up to its party's beginning. Args: phases: told how far it is."""
    with ExitStack() as stack:
        coordinator = Coordinator(hosts[party], stack)
        work = coordinator.work
        work.propose(Propose(asked=asked()))
        phases.write_text("list")
        answered(work, CheckUploads(party=party))
        phases.write_text("agree")
        coordinator.hear(hosts, asked(), party)
        phases.write_text("count")
        answered(work, Aggregate(party=party))
        begins = Begins(run_of(work).inputs, counted)
        phases.write_text("charge")
        answered(work, to_prepare(party))
        let_go(coordinator, work, hosts, begins)


def uses(host: Path) -> set[frozenset[str]]:
    """Return which uploads each charge of a host's ledger has."""
    if not (host / LEDGER).exists():
        return set()
    with closing(sqlite3.connect(host / LEDGER)) as connection:
        rows = connection.execute(
            "WITH RECURSIVE line (upload, charge, before) AS ("
            "SELECT upload, charge, before FROM uploads JOIN histories ON id = history UNION ALL "
            "SELECT upload, histories.charge, histories.before FROM line "
            "JOIN histories ON histories.id = line.before) SELECT charge, upload FROM line"
        ).fetchall()
    of_charges: dict[int, set[str]] = {}
    for charge, name in rows:
        of_charges.setdefault(charge, set()).add(name.hex())
    return {frozenset(names) for names in of_charges.values()}


@pytest.mark.parametrize(("kills", "everywhere"), [(1, False), (50, True)])
def test_wherever_hosts_are_killed_every_accepted_upload_counts_once(
    kills: int, everywhere: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each party is killed so many times while uploads arrive; `everywhere`: each in each phase."""
    monkeypatch.setattr(counting, "_AT_ONCE", 2)
    monkeypatch.setattr(counting, "_CHECKPOINT_S", 0)
    hosts, shares, draw = make_hosts(tmp_path, RULES, clients=0), tmp_path / "shares", random.Random(3)
    task, names, accepted = trial(DOMAIN, SPLIT, MODEL, shares), list[str](), set[frozenset[str]]()
    phases, counted = tmp_path / "phase", tmp_path / "counted"
    phases.write_text("list")

    def arrive() -> None:
        """One more upload comes to all hosts; or first to all but one, where it comes with the next."""
        names.append(upload(task, [1 << len(names), 0, 0, 0], shares))
        to_hosts(shares, hosts)
        if len(names) % 3 == 0:
            (draw.choice(hosts) / "shares" / f"{names[-1]}.share").unlink()

    def at_all() -> frozenset[str]:
        there = [{path.stem for path in (host / "shares").iterdir()} for host in hosts]
        return frozenset(set.intersection(*there))

    for _ in range(7):
        arrive()
    killed: Counter[tuple[int, str]] = Counter()
    steps, number, each = [0 for _ in PARTIES], 0, MODEL.parties * len(PHASES) if everywhere else 1
    while killed.total() < kills * MODEL.parties or len(killed) < each:
        party, number = number % MODEL.parties, number + 1
        if number % 10 == 9 and len(names) < 40:
            arrive()
        accepted.add(at_all())
        work = partial(run, hosts, party, phases, counted)
        at = draw.randint(1, steps[party] * 9 // 8) if steps[party] else 0  # the first one counts them
        ended = steps_until_killed(work, at, (*STEPS, counting.__file__))
        steps[party] = ended or steps[party]
        if not ended:
            killed[party, phases.read_text()] += 1
        if counted.exists():
            head, _, raw = counted.read_bytes().partition(b"\n")
            assert frozenset(head.decode().split()) == at_all()
            values = counts(task, shares, at_all(), shares)[party].values
            assert task.ring.to_bytes(values) == raw
            counted.unlink()
    assert all(uses(host) <= accepted for host in hosts)
    parts = []
    for party in PARTIES:
        with ExitStack() as stack:
            uploads = Coordinator(hosts[party], stack)
            uploads.aggregated(asked(), party)
            file = run_of(uploads.work).inputs.values
            parts.append(task.ring.from_bytes(file.read_bytes()).reshape(task.columns, 1, -1))
    assert revealed(task, parts) == [sum(1 << names.index(name) for name in at_all()), 0, 0, 0]
