"""Fairness while training beside DecLearn's, and the choice of FairGrad's parameters on `wagepan`.

benchmarks/results/reproduce-training/README.md has the environments. In order:

    .venv/bin/python -m benchmarks.studies.training.fairness splits DIR ml-100k
    declearn/bin/python benchmarks/studies/training/declearn_models.py DIR
    .venv/bin/python -m benchmarks.studies.training.fairness judge DIR ml-100k RESULTS
"""

import json
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np

from benchmarks.measure.samples import SAMPLES
from benchmarks.studies.outcome import SUMMARY, StudyResult
from benchmarks.studies.training.models import Scheme, Trained, judged, train
from benchmarks.studies.training.people import People, movielens, randhie, wagepan
from benchmarks.studies.training.study import (
    ALONE,
    JOINT,
    NONE,
    ONE,
    RIGHTED,
    Draw,
    Key,
    drawn_and_split,
    rows_of,
    runs_of,
)
from fairshares.harness.postprocessing.thresholds.search import EQUALIZED_ODDS

SEEDS = range(10)
FAIR = Scheme("FairGrad", largest_weight=1.25, fairness=EQUALIZED_ODDS)
MORE = 4.0  # the epsilon at which FairGrad's parameters were chosen
CHOICE, SPLITS = "choice", range(1000, 1006)
TRIED = (
    ALONE,
    *(replace(FAIR, name=f"share {share:g}", share=share) for share in (0.02, 0.05, 0.1, 0.2, 0.4)),
    *(replace(FAIR, name=f"step {step:g}", step=step) for step in (0.003, 0.03)),
    replace(FAIR, name="cap 2", largest_weight=2.0),
)


def main(step: str, directory: Path, films: Path, results: Path) -> None:
    """Write DecLearn's training data, or judge its models and ours."""
    started, sets = time.monotonic(), (wagepan(), movielens(films), randhie())
    splits = {f"{people.name}-{seed}": (people, seed) for people in sets for seed in SEEDS}
    if step == "splits":
        for name, (people, seed) in splits.items():
            training, _ = drawn_and_split(people, np.random.default_rng(seed))
            np.savez(
                directory / f"{name}.npz",
                **{part: getattr(training, part) for part in ("features", "label", "group", "client")},
            )
        return
    wanted: dict[Key, Callable[[], Draw]] = {
        (people.name, JOINT, ONE, seed): partial(beside, people, directory / f"{name}.json", seed)
        for name, (people, seed) in splits.items()
    }
    for epsilon, seed in product((MORE, ONE), SPLITS):
        wanted[sets[0].name, CHOICE, epsilon, seed] = partial(tried, sets[0], epsilon, seed)
    rows = rows_of(runs_of(wanted, results / SAMPLES))
    command = "; ".join(line.strip() for line in (__doc__ or "").splitlines() if line.startswith(" " * 4))
    StudyResult(
        {"seeds": len(SEEDS), "declearn": json.loads((directory / "declearn.json").read_text())},
        rows,
        (),
        tables={SUMMARY: rows},
    ).write(results, command, time.monotonic() - started)


def tried(people: People, epsilon: float, seed: int) -> Draw:
    """Train with each candidate for FairGrad's parameters."""
    models = {}
    for scheme in TRIED:
        rng = np.random.default_rng(seed)
        training, tests = drawn_and_split(people, rng)
        models[scheme.name] = judged(tests, train(training, scheme, epsilon, rng), rng)
    return Draw(people.name, CHOICE, epsilon, seed, models)


def beside(people: People, theirs: Path, seed: int) -> Draw:
    """Train our models, and judge these and a file's."""
    rng = np.random.default_rng(seed)
    training, tests = drawn_and_split(people, rng)
    models = {scheme.name: train(training, scheme, ONE, rng) for scheme in (NONE, ALONE, RIGHTED, FAIR)}
    models[f"{FAIR.name}, ε = {MORE:g}"] = train(training, FAIR, MORE, rng)
    models |= {name: Trained(np.array(of)) for name, of in json.loads(theirs.read_text()).items()}
    return Draw(
        people.name, JOINT, ONE, seed, {name: judged(tests, model, rng) for name, model in models.items()}
    )


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), Path(sys.argv[-1]))
