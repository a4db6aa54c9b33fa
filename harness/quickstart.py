"""The main job on real data: DP weights from secret shares, and what they do to a model."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from data.loanapp import FIXED_SPLIT, SPLITS, LoanApplications, load_loanapp
from harness.cli import Steps
from harness.errors import WriteError
from harness.evaluation import Evaluation, evaluate
from harness.outputs import DEBIAS, NoisyCounts
from harness.pipeline import Run, Settings, run_on_records
from harness.postprocess import REWEIGHINGS
from harness.records import ClientRecords, RecordDomain, records_from_frame
from harness.sample_weight import WeightsTable
from harness.scratch import write_whole
from harness.weights import Weights, WeightsStatistic
from protocols import reference
from protocols.circuits.coins import Coin
from protocols.circuits.noise import fair_bits_per_sample

SCHEMES = ("balanced", "kamiran-calders")


@dataclass(frozen=True)
class Quickstart:
    """What the quickstart shows: the private run, and the evaluation in the clear beside it."""

    run: Run[Weights]
    evaluation: Evaluation
    clients: int
    test_rows: int
    splits: int


def quickstart(settings: Settings, out: Path, progress: Steps) -> Quickstart:
    """Run π_RW over the training applicants' shares, refit with the weights, assess on the others.

    The fixed split's weights are those that the computation opened. For the other splits the same
    release is simulated in the clear (same counts, same noise distribution), because what is asked
    there is how much the figures vary, and the data are public.
    """
    progress("records")
    data = load_loanapp()
    train, test = data.split(FIXED_SPLIT)
    run = run_on_records(WeightsStatistic(), applicants(data, train), settings, out, progress, "quickstart")
    progress("evaluate")
    opened = {FIXED_SPLIT: run.found.counts}

    def weights(scheme: str, seed: int) -> WeightsTable:
        if seed not in opened:
            opened[seed] = simulated_release(data, seed, run.found.counts.coins)
        return REWEIGHINGS[scheme](opened[seed]).weights

    evaluation = evaluate(
        data,
        {scheme: partial(weights, scheme) for scheme in SCHEMES},
        SPLITS,
        lambda done, of: progress.detail(f"{done} of {of}"),
    )
    _write(out / "evaluation.csv", evaluation.runs.to_csv(index=False))
    return Quickstart(run, evaluation, len(train), len(test), len(SPLITS))


def _write(path: Path, text: str) -> None:
    try:
        write_whole(path, text.encode())
    except OSError as error:
        raise WriteError(
            f"Cannot write {path}: {error.strerror}; the weights beside it are complete."
        ) from None


def applicants(data: LoanApplications, rows: np.ndarray[tuple[int], np.dtype[np.int64]]) -> ClientRecords:
    """Return these applicants' records; each is a client with one record."""
    return records_from_frame(data.clients(rows), RecordDomain(data.groups, data.labels, max_count=1))


def simulated_release(data: LoanApplications, seed: int, coins: tuple[Coin, ...]) -> NoisyCounts:
    """Return what π_RW would open for a split's training applicants, computed in the clear."""
    records = applicants(data, data.split(seed)[0])
    counts = reference.counts(records.group, records.label, len(data.groups), len(data.labels))
    noise = np.array([simulated_noise(coins) for _ in range(counts.size)]).reshape(counts.shape)
    return NoisyCounts(records.domain, counts + noise + DEBIAS, coins)


def simulated_noise(coins: tuple[Coin, ...]) -> int:
    """Draw one noise value in the clear, from the operating system's bits."""
    bits = [secrets.randbits(1) for _ in range(fair_bits_per_sample(coins))]
    return reference.noise_of_bits([(coin.numerator, coin.bits) for coin in coins], bits)
