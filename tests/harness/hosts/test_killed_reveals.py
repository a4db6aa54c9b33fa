"""Reveals whose host, or whose coordinator, is killed anywhere: each is begun once at most, on one charge."""

import os
import random
import signal
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairshares.harness.errors import UsedRevealError
from fairshares.harness.hosts.agent import Work
from fairshares.harness.hosts.messages import Aggregate, CheckUploads, Propose
from fairshares.harness.hosts.policy import LEDGER
from fairshares.harness.privacy.ledger.entries import Ledger
from tests.support.coordinators import Coordinator, Party, answered, let_go, to_prepare
from tests.support.marked import steps_until_killed
from tests.support.vectors import GRID, POPULATION, Reveals

KILLS = 4
FAR = 14  # beyond noise of a standard deviation of 1.7 with a probability below 1e-12
VECTOR = (0.6, -0.8, 0.0)


class Begins(Party):
    """Writes down that a reveal has begun, once it may."""

    def __init__(self, number: int, begun: Path) -> None:
        self.reveal, self._begun = number, begun

    def go(self, certificates: object) -> None:
        super().go(certificates)
        with self._begun.open("a") as file:
            file.write(f"{self.reveal}\n")


def begin(made: Reveals, party: int, number: int, begun: Path) -> None:
    """Take a host through a reveal up to its party's beginning."""
    asked = made.request(number).to_json()
    with ExitStack() as stack:
        coordinator = Coordinator(made.hosts[party], stack)
        coordinator.work.propose(Propose(asked=asked))
        answered(coordinator.work, CheckUploads(party=party))
        coordinator.hear(made.hosts, asked, party)
        answered(coordinator.work, Aggregate(party=party))
        answered(coordinator.work, to_prepare(party))
        let_go(coordinator, coordinator.work, made.hosts, Begins(number, begun))


def numbers_in(begun: Path) -> list[int]:
    """Return the reveals that have begun, in order."""
    return [int(line) for line in begun.read_text().split()] if begun.exists() else []


def test_a_killed_host_begins_no_reveal_twice(tmp_path: Path) -> None:
    """It is asked for a reveal until that is used, once more after that, and then for the next one."""
    made, begun, draw = Reveals(tmp_path), tmp_path / "begun", random.Random(7)
    for number in range(1, GRID.reveals + 1):
        made.send(number, [VECTOR])
    ledger = Ledger(made.hosts[0] / LEDGER)
    steps = steps_until_killed(partial(begin, made, 0, 1, begun))
    assert numbers_in(begun) == [1] and steps
    last = 1
    for _ in range(KILLS):
        number = min(last + 1, GRID.reveals)
        steps_until_killed(partial(begin, made, 0, number, begun), draw.randint(steps // 2, steps))
        last = ledger.last_reveal(POPULATION, made.task.name)
        numbers = numbers_in(begun)
        assert numbers == sorted(set(numbers)) and numbers[-1] <= last
        with pytest.raises(UsedRevealError, match=f"seal for reveal {last + 1}, which"):
            begin(made, 0, last, begun)
        assert numbers_in(begun) == numbers
        (population,) = ledger.populations()
        assert len(population.charges) == 1  # for all reveals, by the first


class Dies:
    """Kills the coordinator, and these hosts with it, once a host has answered. Args: message: to which."""

    def __init__(self, message: str) -> None:
        self.message = message

    def __call__(self, request: str, _work: Work, answer: Any) -> Any:
        if request == self.message:
            os.kill(os.getpid(), signal.SIGKILL)
        return answer


@pytest.mark.parametrize(
    ("message", "party", "used"), [("agree", 2, False), ("go", 0, True), ("forget", 0, True)]
)
def test_a_reveal_whose_coordinator_is_killed_is_used_once_a_host_may_have_begun(
    message: str, party: int, used: bool, tmp_path: Path
) -> None:
    """The next one has each client's vector once, on the same charge."""
    made = Reveals(tmp_path)
    made.send(1, [VECTOR])
    assert not steps_until_killed(partial(made.reveal, 1, {party: Dies(message)}), within=())
    before = made.charges()
    assert [len(charges) for charges in before[-1:]] == [used]
    number = 1
    if used:
        with pytest.raises(UsedRevealError, match="Have clients seal for reveal 2, which adds noise"):
            made.reveal(1)
        number = 2
        made.send(2, [VECTOR])
    run = made.reveal(number)
    assert run.found.vectors == 1
    assert np.abs(run.found.noisy_sum - VECTOR).max() < FAR
    assert [[charge.exact for charge in charges] for charges in made.charges()] == [
        [run.manifest.privacy.exact]
    ] * 4
