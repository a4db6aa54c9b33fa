"""A walk changes every message once before any twice; a leak of time or of size would be found."""

import shutil
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.commands.tampering import summary
from benchmarks.tampering import walk
from benchmarks.tampering.attack import Attack, Change, Kind, Message, Reaction, build_interposer
from benchmarks.tampering.operations import NOISE, SIGNED_PROGRAMS
from benchmarks.tampering.timing import Pair, summary as summary_of_times, watch
from benchmarks.tampering.walk import Attempt, most_wrong
from fairshares.harness.security_models import MODELS
from fairshares.protocols.circuits.coins import NoiseFamily, design_noise
from fairshares.protocols.noise.truncated import probability_mass

CHANGE = Change(Message(1, 7, 16), Kind.SHIFT_ALL, 8, 1 << 30)


def attempt(outcome: Reaction = Reaction.ABORTED, operation: str = "and", turn: int = 0) -> Attempt:
    return Attempt("rep4-ring", operation, 2, turn, CHANGE, outcome)


class Sending:
    """Stands for parties, of which each sends as many messages."""

    many = 5

    def messages(self) -> list[Message]:
        return [Message(0, number, 8) for number in range(self.many)]


PARTIES: Any = {("rep4-ring", operation, 0): Sending() for operation in ("input", "and")}


def test_every_message_once_before_any_twice() -> None:
    sites = walk.sites(PARTIES, 2)
    assert len(set(sites)) == len(sites) == 20
    assert [turn for *_, turn in sites] == [0] * 10 + [1] * 10
    assert sites == walk.sites(PARTIES, 2)
    assert [message.number for _, message, _ in sites[:10]] != sorted(m.number for _, m, _ in sites[:10])


@pytest.mark.parametrize("tried", [1, 20, 2000])
def test_none_in_n_bounds_the_rate_by_the_rule_of_three(tried: int) -> None:
    """P(none is wrong) = (1 - rate)^n, which is 5 % at the bound."""
    assert (1 - most_wrong(tried, 0)) ** tried == pytest.approx(0.05)
    assert most_wrong(tried, tried) == 1.0


@pytest.mark.parametrize("family", NoiseFamily)
def test_opened_noise_is_compared_with_its_distribution_over_all_changes(family: NoiseFamily) -> None:
    """10,000 samples: each opens 200, of which the wrong ones are fives, a tenth of all."""
    (operation,) = NOISE[family]
    exact = probability_mass(design_noise(Fraction(2), 20, family))
    mass = {value: float(p) for value, p in exact.items()}
    rng = np.random.default_rng(2)
    drawn = rng.choice(list(mass), (50, 200), p=list(mass.values()))
    rigged = np.where(rng.random(drawn.shape) < 0.1, 5, drawn)

    def row(opened: np.ndarray) -> dict[str, Any]:
        noise = [dict(Counter(map(str, sample))) for sample in opened.tolist()]
        of_family = attempt(Reaction.OPENED, operation=operation.name)
        return summary([replace(of_family, noise=counts) for counts in noise])[0]

    assert row(drawn)["noise"] == 10_000 and row(drawn)["distance"] < row(drawn)["by_chance"] < 0.033
    assert row(rigged)["distance"] > row(rigged)["by_chance"]
    assert all(operation.is_right(tuple(sample)) for sample in drawn.tolist())
    impossible = (*drawn[0].tolist()[1:], max(mass) + 1)
    assert not any(map(operation.is_right, [(), tuple(drawn[0].tolist()[1:]), impossible]))
    (other,) = {*NoiseFamily} - {family}
    assert not any(NOISE[other][0].is_right(tuple(sample)) for sample in drawn.tolist())


PI_CAP = next(operation for operation in SIGNED_PROGRAMS if operation.name == "pi_cap")


@pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler cc is there")
@pytest.mark.parametrize("model", [pytest.param("ring", marks=pytest.mark.mpspdz("ring"))])
def test_messages_are_as_many_and_as_long_whatever_the_inputs(model: str, tmp_path: Path) -> None:
    attack = Attack(MODELS[model], PI_CAP, 0, build_interposer(tmp_path), tmp_path / "parties")
    attack.lay_out()
    (zeros, seconds), (ones, _) = watch(attack, ones=False), watch(attack, ones=True)
    assert zeros == ones and len(zeros) == MODELS[model].parties
    assert min(sent.total() for sent in zeros) > 10 and 0 < seconds < 60


def pairs(operation: str, later: float, n: int = 200) -> list[Pair]:
    """Runs of 10 ms that spread by 1 ms, those on ones later by so many seconds."""
    drawn = np.random.default_rng(4).normal(0.01, 0.001, (n, 2)) + np.array([0.0, later])
    return [Pair("ring", operation, True, tuple(seconds)) for seconds in drawn.tolist()]


def test_a_difference_of_times_is_found_and_none_is_not() -> None:
    """By 0.5 ms, half of the spread of one run; and the interval says so."""
    of_other_sizes = Pair("ring", "pi_rw", False, (0.01, 0.01))
    same, other = summary_of_times([*pairs("pi_cap", 0.0), *pairs("pi_rw", 0.0005), of_other_sizes])
    assert (same["sizes_differ"], other["sizes_differ"]) == (0, 1)
    assert not same["found"] and other["found"] and same["pairs"] == 200
    low, high = other["difference_s"]
    assert low < 0.0005 < high and high - low < 0.0008
    assert summary_of_times(pairs("pi_cap", 1.0, n=4))[0]["difference_s"] is None  # too few to say
