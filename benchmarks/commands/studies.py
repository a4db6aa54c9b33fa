"""What the commands of studies do: options in, one study carried out; no parties are started."""

from __future__ import annotations

from pathlib import Path

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
from harness.cli.options import parse_epsilon, parse_error_target, parse_relation, parse_whole
from harness.cli.terminal import Steps, command
from harness.errors import OptionError
from protocols.accounting.calibration import NeighboringRelation

MOST_REPETITIONS = 1000
LEAST_RUNS, MOST_RUNS = 100, 100_000
_MOST_CLIENTS = 1_000_000
_OTHER_SIZES, _OTHER_EXPONENTS, _SPREADS = (3_000, 30_000), (1.25, 2.5), (1.0, 2.0)
_DRAW = {"draw": "write and draw"}


@command
def utility(quick: bool, repetitions: str, relation: str, out: str, as_json: bool) -> None:
    """Measure what released score curves are worth, by every method."""
    times = parse_whole("--repetitions", repetitions, 2, MOST_REPETITIONS)
    chosen = parse_relation(relation) or NeighboringRelation.REPLACE_ONE

    def study(begin: Steps) -> Outcome:
        begin("measure")
        settings = utility_suite.settings(quick)
        outcomes = utility_suite.run(settings, times, chosen, show_time_left(begin))
        return of_utility.outcome(outcomes, chosen)

    options = f"{' --quick' * quick} --repetitions {times} --neighboring-relation {chosen}"
    steps = {"measure": "release curves and choose thresholds, in the clear", **_DRAW}
    carry_out("bench.utility", options, steps, study, out, as_json)


@command
def trust(quick: bool, runs: str, out: str, as_json: bool) -> None:
    """Compare trust models by error and clients needed."""
    times = parse_whole("--runs", runs, LEAST_RUNS, MOST_RUNS)

    def study(begin: Steps) -> Outcome:
        begin("measure")
        setting = trust_suite.QUICK if quick else trust_suite.Setting()
        return of_trust.outcome(*trust_suite.run(setting, times, show_time_left(begin)))

    steps = {"measure": "compute and simulate errors, in the clear", **_DRAW}
    carry_out("bench.trust", f"{' --quick' * quick} --runs {times}", steps, study, out, as_json)


@command
def groupwise(epsilon: str, target: tuple[str, str, str], out: str, as_json: bool) -> None:
    """Draw privacy and error by the size of the group."""
    most, wanted = parse_epsilon(epsilon), parse_error_target(*target)

    def study(begin: Steps) -> Outcome:
        begin("compute")
        try:
            return of_logarithms.outcome(of_logarithms.study(wanted, most))
        except ValueError as error:
            raise OptionError(f"--epsilon {most} does not do: {error}.") from None

    options = (
        f" --epsilon {most} --relative-error {wanted.relative:g} --error-from {wanted.least} "
        f"--error-to {wanted.most}"
    )
    steps = {"compute": "laws of the noise, by the size of the group", **_DRAW}
    carry_out("reproduce.groupwise", options, steps, study, out, as_json)


@command
def capping(
    data: str, other_data: str, clients: str, exponents: str, held_out: bool, out: str, as_json: bool
) -> None:
    """Compute what caps on clients' records cost and save."""
    sizes = [parse_whole("--clients", each, 100, _MOST_CLIENTS) for each in clients.split(",")]
    laws = [_parse_exponent(each) for each in exponents.split(",")]

    def study(begin: Steps) -> Outcome:
        begin("data")
        populations = [zipf(size, law, SEED) for law in laws for size in sizes]
        others = _other_populations() if held_out else []
        for path, among in ((data, populations), (other_data, others)):
            if path:
                among.append(movielens(Path(path)))
        begin("compute")
        return of_caps.outcome(study_caps(populations, others, begin.detail))

    options = f" --clients {clients} --exponents {exponents}"
    for option, path in (("movielens", data), ("held-out-movielens", other_data)):
        options += f" --{option} {Path(path).name}" if path else ""
    options += " --held-out" * held_out
    steps = {"data": "populations", "compute": "expected errors", **_DRAW}
    carry_out("reproduce.capping", options, steps, study, out, as_json)


def _other_populations() -> list[Population]:
    """Return clients that no target was chosen by."""
    drawn = ((zipf, _OTHER_EXPONENTS), (lognormal, _SPREADS))
    return [draw(size, law, SEED) for draw, laws in drawn for law in laws for size in _OTHER_SIZES]


def _parse_exponent(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.5 <= value <= 4:
        raise OptionError(f"--exponents must be numbers from 0.5 to 4, separated by commas; got {text!r}.")
    return value


@command
def gaps(data: str, quick: bool, out: str, as_json: bool) -> None:
    """Reproduce the tables and figures on gaps under local privacy."""
    source, extent = Path(data) if data else None, QUICK if quick else WHOLE

    def study(begin: Steps) -> Outcome:
        return of_gaps.outcome(reproduce(source, extent, begin, begin.detail), extent)

    options = f"{f' --data {source.name}' if source else ''}{' --quick' * quick}"
    steps = {
        "data": "rates of the recordings, or of the synthetic population",
        "table1": "Table 1",
        "table2": "Table 2, simulated clients",
        "figures": "figures",
        **_DRAW,
    }
    carry_out("reproduce.gaps", options, steps, study, out, as_json)
