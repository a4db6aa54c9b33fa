"""Fairness while training beside its strongest rival, DecLearn: the same data, splits and figures.

DecLearn has an environment of its own, and reads and writes files in DIR; `ml-100k` has MovieLens. In order:

    .venv/bin/python -m benchmarks.studies.training.fairness splits DIR ml-100k
    declearn/bin/python benchmarks/studies/training/declearn_models.py DIR
    .venv/bin/python -m benchmarks.studies.training.fairness judge DIR ml-100k RESULTS
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np

from benchmarks.measure.samples import SAMPLES, append
from benchmarks.studies.outcome import SUMMARY, Outcome
from benchmarks.studies.training.joint import Scheme, scores, train
from benchmarks.studies.training.people import People, movielens, wagepan
from benchmarks.studies.training.scores import figures, predictions
from benchmarks.studies.training.study import (
    ALONE,
    JOINT,
    NONE,
    ONE,
    RIGHTED,
    Run,
    drawn_and_split,
    load,
    rows_of,
    summary,
)
from harness.postprocessing.thresholds.search import EQUALIZED_ODDS

SEEDS = 5
FAIR = Scheme("FairGrad", largest_weight=1.25, fairness=EQUALIZED_ODDS)
MORE = 4.0  # the epsilon that FairGrad's own choices were made at
SETTINGS = "declearn.json"


def main(step: str, directory: Path, films: Path, results: Path) -> None:
    """Write what DecLearn trains on, or judge its models and ours; goes on where that ended."""
    started = time.monotonic()
    done = {(run.data, run.seed) for run in load(results / SAMPLES)}
    for people in (wagepan(), movielens(films)):
        for seed in range(SEEDS):
            rng = np.random.default_rng(seed)
            training, tests = drawn_and_split(people, rng)
            file = directory / f"{people.name}-{seed}.npz"
            if step == "splits":
                names = ("features", "label", "group", "client")
                np.savez(file, **{name: getattr(training, name) for name in names})
            elif (people.name, seed) not in done:
                append(results / SAMPLES, judged(training, tests, file.with_suffix(".json"), seed, rng))
    if step == "judge":
        found = summary(rows_of(load(results / SAMPLES)))
        about = {"seeds": SEEDS, "declearn": json.loads((directory / SETTINGS).read_text())}
        command = "; ".join(line.strip() for line in (__doc__ or "").splitlines() if line.startswith(" " * 4))
        Outcome(about, found, (), tables={SUMMARY: found}).write(results, command, time.monotonic() - started)


def judged(training: People, tests: People, theirs: Path, seed: int, rng: np.random.Generator) -> Run:
    """Train ours, and return what these and theirs do to test records."""
    models = {each.name: train(training, each, ONE, rng).parameters for each in (NONE, ALONE, RIGHTED, FAIR)}
    models[f"{FAIR.name}, ε = {MORE:g}"] = train(training, FAIR, MORE, rng).parameters
    models |= {name: np.array(found) for name, found in json.loads(theirs.read_text()).items()}
    told = {name: scores(tests, parameters) for name, parameters in models.items()}
    found = {name: figures(tests, of, predictions(of, tests, {}, rng)) for name, of in told.items()}
    return Run(training.name, JOINT, ONE, seed, found)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), Path(sys.argv[-1]))
