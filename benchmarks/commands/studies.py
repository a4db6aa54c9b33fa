"""What the commands of studies do: options in, one study carried out; no parties are started."""

from __future__ import annotations

from benchmarks.commands.options import (
    CappingOptions,
    GapsOptions,
    GroupwiseOptions,
    TrustOptions,
    UtilityOptions,
)
from benchmarks.studies import groupwise as of_logarithms
from benchmarks.studies.capping import report as of_caps
from benchmarks.studies.capping.population import Population, lognormal, movielens, zipf
from benchmarks.studies.capping.study import SEED
from benchmarks.studies.capping.study import study as study_caps
from benchmarks.studies.gaps import report as of_gaps
from benchmarks.studies.gaps.study import QUICK, WHOLE, reproduce
from benchmarks.studies.outcome import Outcome, carry_out, show_time_left
from benchmarks.studies.trust import report as of_trust
from benchmarks.studies.trust import study as trust_suite
from benchmarks.studies.utility import report as of_utility
from benchmarks.studies.utility import study as utility_suite
from harness.cli.terminal import Steps
from harness.errors import OptionError
from protocols.accounting.calibration import NeighboringRelation

_OTHER_SIZES, _OTHER_EXPONENTS, _SPREADS = (3_000, 30_000), (1.25, 2.5), (1.0, 2.0)
_DRAW = {"draw": "write and draw"}


def utility(options: UtilityOptions) -> None:
    """Measure what released score curves are worth, by every method."""
    chosen = options.neighboring_relation or NeighboringRelation.REPLACE_ONE

    def study(begin: Steps) -> Outcome:
        begin("measure")
        settings = utility_suite.settings(options.quick)
        outcomes = utility_suite.run(settings, options.repetitions, chosen, show_time_left(begin))
        return of_utility.outcome(outcomes, chosen)

    given = (
        f"{' --quick' * options.quick} --repetitions {options.repetitions} --neighboring-relation {chosen}"
    )
    steps = {"measure": "release curves and choose thresholds, in the clear", **_DRAW}
    carry_out("bench.utility", given, steps, study, options.out, options.json)


def trust(options: TrustOptions) -> None:
    """Compare trust models by error and clients needed."""

    def study(begin: Steps) -> Outcome:
        begin("measure")
        setting = trust_suite.QUICK if options.quick else trust_suite.Setting()
        return of_trust.outcome(*trust_suite.run(setting, options.runs, show_time_left(begin)))

    steps = {"measure": "compute and simulate errors, in the clear", **_DRAW}
    given = f"{' --quick' * options.quick} --runs {options.runs}"
    carry_out("bench.trust", given, steps, study, options.out, options.json)


def groupwise(options: GroupwiseOptions) -> None:
    """Draw privacy and error by the size of the group."""
    most, wanted = options.epsilon, options.target()

    def study(begin: Steps) -> Outcome:
        begin("compute")
        try:
            return of_logarithms.outcome(of_logarithms.study(wanted, most))
        except ValueError as error:
            raise OptionError(f"--epsilon {most} does not do: {error}.") from None

    given = (
        f" --epsilon {most} --relative-error {wanted.relative:g} --error-from {wanted.least} "
        f"--error-to {wanted.most}"
    )
    steps = {"compute": "laws of the noise, by the size of the group", **_DRAW}
    carry_out("reproduce.groupwise", given, steps, study, options.out, options.json)


def capping(options: CappingOptions) -> None:
    """Compute what caps on clients' records cost and save."""
    data, other_data = options.movielens, options.held_out_movielens

    def study(begin: Steps) -> Outcome:
        begin("data")
        populations = [zipf(size, law, SEED) for law in options.exponents for size in options.clients]
        others = _other_populations() if options.held_out else []
        for path, among in ((data, populations), (other_data, others)):
            if path:
                among.append(movielens(path))
        begin("compute")
        return of_caps.outcome(study_caps(populations, others, begin.detail))

    given = " --clients {clients} --exponents {exponents}".format(**options.given("clients", "exponents"))
    for option, path in (("movielens", data), ("held-out-movielens", other_data)):
        given += f" --{option} {path.name}" if path else ""
    given += " --held-out" * options.held_out
    steps = {"data": "populations", "compute": "expected errors", **_DRAW}
    carry_out("reproduce.capping", given, steps, study, options.out, options.json)


def _other_populations() -> list[Population]:
    """Return clients that no target was chosen by."""
    drawn = ((zipf, _OTHER_EXPONENTS), (lognormal, _SPREADS))
    return [draw(size, law, SEED) for draw, laws in drawn for law in laws for size in _OTHER_SIZES]


def gaps(options: GapsOptions) -> None:
    """Reproduce the tables and figures on gaps under local privacy."""
    source, extent = options.data, QUICK if options.quick else WHOLE

    def study(begin: Steps) -> Outcome:
        return of_gaps.outcome(reproduce(source, extent, begin, begin.detail), extent)

    given = f"{f' --data {source.name}' if source else ''}{' --quick' * options.quick}"
    steps = {
        "data": "rates of the recordings, or of the synthetic population",
        "table1": "Table 1",
        "table2": "Table 2, simulated clients",
        "figures": "figures",
        **_DRAW,
    }
    carry_out("reproduce.gaps", given, steps, study, options.out, options.json)
