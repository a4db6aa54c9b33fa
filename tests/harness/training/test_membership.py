"""Who was in training, guessed by an attacker who knows everybody else and all that is opened."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.papers.empirical import Tally, estimate_delta
from fairshares.harness.engines.execution import PROGRAMS
from fairshares.harness.training import session_plan
from fairshares.harness.training.logistic import Descent, Examples, SumOf, fit
from fairshares.harness.training.session import SumSession
from fairshares.protocols.accounting.calibration import PrivacyUnit
from fairshares.protocols.arrays import Floats
from fairshares.protocols.circuits.gaussian import JointGaussian

ROUNDS, RECORD = 3, PrivacyUnit.RECORD
EPSILON, DELTA, FALSE_ALARM = 1, "1e-5", 1e-9
TARGET = np.array([100.0, -100.0])  # so long that its gradient is clipped
DIRECTION = -TARGET / np.linalg.norm(TARGET)  # of that gradient, whose intercept is a hundredth
OTHERS = 2  # who have the features of a target, beside it


def session_for(targets: int, model: str = "mpyc", noise: str = "joint") -> SumSession:
    rows, coordinates = targets * (1 + OTHERS), 2 * targets + 1
    declared: dict[str, Any] = {
        "clients": rows,
        "coordinates": coordinates,
        "rounds": ROUNDS,
        "clip": 1.0,
        "epsilon": EPSILON,
    }
    return SumSession(model, **declared, delta=DELTA, unit="record", noise=noise)


def attack(targets: int, sum_of: SumOf) -> Tally:
    """Train once, and guess of each target whether it was there, as the first half of them was.

    Each has two features of its own, so that all are apart, as if there were a training for each.
    """
    rng = np.random.default_rng(7)
    records = np.concatenate(
        [np.tile(TARGET, (targets, 1, 1)), rng.uniform(-1, 1, (targets, OTHERS, 2))], axis=1
    )
    features = (np.eye(targets)[:, np.newaxis, :, np.newaxis] * records[:, :, np.newaxis]).reshape(
        targets * (1 + OTHERS), 2 * targets
    )
    label, there = rng.integers(0, 2, (targets, 1 + OTHERS)), np.ones((targets, 1 + OTHERS))
    label[:, 0], there[targets // 2 :, 0] = 1, 0
    others, seen = np.tile([False, *[True] * OTHERS], targets), np.zeros(2 * targets)

    def told(rows: Floats) -> Floats:
        opened = sum_of(rows)
        seen[:] += (opened - rows[others].sum(axis=0))[:-1]
        return opened

    number = np.arange(len(features))
    of = Examples(features, label.ravel(), number, len(number), 2, there.ravel())
    fit(of, told, Descent(ROUNDS, learning_rate=1e-6), RECORD)  # so that nothing is learned by heart
    guessed = seen.reshape(targets, 2) @ DIRECTION >= 0.9 * ROUNDS
    return Tally(targets // 2, guessed[: targets // 2].sum(), guessed[targets // 2 :].sum())


def lost(tally: Tally) -> float:
    """Return what delta is at least, at `EPSILON`, but for a probability of 10^-9."""
    return estimate_delta(tally, EPSILON, 1 - FALSE_ALARM).low


@pytest.mark.parametrize("scale", [1.0, 0.1, 0.0])
def test_an_attack_stays_below_what_is_guaranteed_and_too_little_noise_is_noticed(scale: float) -> None:
    """It finds nothing beyond (epsilon, delta), but for a probability of 10^-9."""
    session, rng = session_for(1000), np.random.default_rng(7)
    assert isinstance(session.plan.noise, JointGaussian)
    masses = np.array([mass / (1 << session.plan.noise.bits) for mass in session.plan.noise.weights])

    def sum_of(rows: Floats) -> Floats:
        made = scale * rng.choice(masses.size, rows.shape[1:], p=masses) - scale * session.plan.noise.largest
        return session.rule.decode(session.rule.encode(rows).sum(axis=0) + made)

    assert (lost(attack(1000, sum_of)) > float(DELTA)) == (scale < 1)


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize(
    ("model", "noise"),
    [
        ("mpyc", "distributed"),
        *(pytest.param("ring", kind, marks=pytest.mark.mpspdz("ring")) for kind in ("joint", "distributed")),
    ],
)
def test_an_attack_on_a_program_without_noise_succeeds_and_on_the_real_one_does_not(
    model: str, noise: str, missing: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both run on the model's engine; the first is the second's text, but that it reveals bare sums."""
    if missing:
        text = (PROGRAMS / "pi_rounds.mpc").read_text()
        assert text.count("(sums + noise).reveal()") == 1
        (tmp_path / "pi_rounds.mpc").write_text(text.replace("(sums + noise).reveal()", "sums.reveal()"))
        monkeypatch.setattr(session_plan, "PROGRAMS", tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with session_for(200, model, noise) as session:
        delta = lost(attack(200, session.add))
    assert (delta > float(DELTA)) == missing
