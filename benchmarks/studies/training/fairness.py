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
    RIGHTED,
    TARGET_EPSILON,
    Draw,
    Key,
    drawn_and_split,
    rows_of,
    runs_of,
)
from fairshares.harness.postprocessing.thresholds.constraints import EQUALIZED_ODDS

SEEDS = range(10)
FAIR = Scheme("FairGrad", largest_weight=1.25, fairness=EQUALIZED_ODDS)
CHOICE_EPSILON = 4.0  # the epsilon at which FairGrad's parameters were chosen
CHOICE = "choice"  # the way of a draw that compares candidates
SPLITS = range(1000, 1006)  # seeds of these draws
TRIED = (
    ALONE,
    replace(FAIR, name="share 0.02", share=0.02),
    replace(FAIR, name="share 0.05", share=0.05),
    replace(FAIR, name="share 0.1", share=0.1),
    replace(FAIR, name="share 0.2", share=0.2),
    replace(FAIR, name="share 0.4", share=0.4),
    replace(FAIR, name="step 0.003", step=0.003),
    replace(FAIR, name="step 0.03", step=0.03),
    replace(FAIR, name="cap 2", largest_weight=2.0),
)


def main(step: str, directory: Path, films: Path, results: Path) -> None:
    """Write DecLearn's training data, or judge its models and this project's models.

    Args:
        step: "splits", which writes training data, or "judge".
        directory: The directory of the training data and of DecLearn's models.
        films: The directory of MovieLens.
        results: The directory of the results.
    """
    started = time.monotonic()
    choice_people = wagepan()
    sets = (choice_people, movielens(films), randhie())
    splits = {f"{people.name}-{seed}": (people, seed) for people, seed in product(sets, SEEDS)}
    if step == "splits":
        for name, (people, seed) in splits.items():
            training, _ = drawn_and_split(people, np.random.default_rng(seed))
            np.savez(
                directory / f"{name}.npz",
                features=training.features,
                label=training.label,
                group=training.group,
                client=training.client,
            )
        return
    wanted: dict[Key, Callable[[], Draw]] = {}
    for name, (people, seed) in splits.items():
        key = (people.name, JOINT, TARGET_EPSILON, seed)
        wanted[key] = partial(beside, people, directory / f"{name}.json", seed)
    for epsilon, seed in product((CHOICE_EPSILON, TARGET_EPSILON), SPLITS):
        key = (choice_people.name, CHOICE, epsilon, seed)
        wanted[key] = partial(tried, choice_people, epsilon, seed)
    rows = rows_of(runs_of(wanted, results / SAMPLES))
    commands = [line.strip() for line in (__doc__ or "").splitlines() if line.startswith(" " * 4)]
    declearn = json.loads((directory / "declearn.json").read_text())
    result = StudyResult({"seeds": len(SEEDS), "declearn": declearn}, rows, (), tables={SUMMARY: rows})
    result.write(results, "; ".join(commands), time.monotonic() - started)


def tried(people: People, epsilon: float, seed: int) -> Draw:
    """Train with each candidate for FairGrad's parameters."""
    models = {}
    for scheme in TRIED:
        rng = np.random.default_rng(seed)
        training, tests = drawn_and_split(people, rng)
        models[scheme.name] = judged(tests, train(training, scheme, epsilon, rng), rng)
    return Draw(people.name, CHOICE, epsilon, seed, models)


def beside(people: People, theirs: Path, seed: int) -> Draw:
    """Train this project's models, and judge these and DecLearn's, which are in the file `theirs`."""
    rng = np.random.default_rng(seed)
    training, tests = drawn_and_split(people, rng)
    models = {}
    for scheme in (NONE, ALONE, RIGHTED, FAIR):
        models[scheme.name] = train(training, scheme, TARGET_EPSILON, rng)
    models[f"{FAIR.name}, ε = {CHOICE_EPSILON:g}"] = train(training, FAIR, CHOICE_EPSILON, rng)
    for name, parameters in json.loads(theirs.read_text()).items():
        models[name] = Trained(np.array(parameters))
    figures = {name: judged(tests, model, rng) for name, model in models.items()}
    return Draw(people.name, JOINT, TARGET_EPSILON, seed, figures)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), Path(sys.argv[-1]))
