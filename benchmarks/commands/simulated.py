"""What the tasks `bench.*` do."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np
from rich.table import Table

from benchmarks.studies.utility import study as suite
from benchmarks.studies.utility.plot import FIGURES, NAMES, by_setting, plot, title_of
from benchmarks.studies.utility.releases import METHODS, NOISE_FREE
from harness.cli import terminal as cli
from harness.cli.options import parse_relation, parse_whole
from harness.cli.terminal import command, say
from harness.system.result_files import default_out, new_directory
from harness.views import weights as show
from protocols.accounting.calibration import NeighboringRelation

MOST_REPETITIONS = 1000
_STEPS = {"measure": "release curves and choose thresholds, in the clear", "draw": "write and draw"}
_SHOWN = Fraction(1)  # the epsilon of the table


@command
def utility(quick: bool, repetitions: str, relation: str, target: str, as_json: bool) -> None:
    """Measure what released score curves are worth, by every method; no parties are started."""
    if as_json:
        cli.out.stderr = True  # nothing but JSON on stdout
    times = parse_whole("--repetitions", repetitions, 2, MOST_REPETITIONS)
    chosen = parse_relation(relation) or NeighboringRelation.REPLACE_ONE
    directory, started = Path(target) if target else default_out("bench.utility"), time.monotonic()
    with new_directory(directory) as partial, cli.steps(_STEPS) as begin:
        begin("measure")

        def progress(done: int, total: int) -> None:
            left = (time.monotonic() - started) / done * (total - done)
            begin.detail(f"{done} of {total}, about {left:.0f} s left")

        outcomes = suite.run(suite.settings(quick), times, chosen, progress)
        begin("draw")
        options = f"{' --quick' * quick} --repetitions {times} --neighboring-relation {chosen}"
        seconds = time.monotonic() - started
        suite.write(outcomes, chosen, f"./inv bench.utility{options}", seconds, partial)
        _plot(by_setting(outcomes), partial)
    _show(by_setting(outcomes))
    show.results(directory)
    if as_json:
        print(json.dumps([suite.summary_of(outcome) for outcome in outcomes], indent=2))


def _plot(columns: Sequence[Sequence[suite.Outcome]], directory: Path) -> None:
    """Draw epsilon by records for two groups, then more groups and real data."""
    two = [column for column in columns if column[0].population == "synthetic" and column[0].groups == 2]
    most = max((column[0].records for column in columns if column not in two), default=0)
    rest = [column for column in two if column[0].records == most]
    rest += [column for column in columns if column not in two]
    plot(two, "Released score curves and thresholds from them, by ε and records", directory / "utility.png")
    title = "Released score curves and thresholds from them, by ε and groups"
    plot(rest, title, directory / "utility-groups.png")


def _show(columns: Sequence[Sequence[suite.Outcome]]) -> None:
    table = Table(f"ε = {_SHOWN}", "")
    for name in (*METHODS, NOISE_FREE):
        table.add_column(name, justify="right")
    for outcomes in columns:
        at = {o.method: o for o in outcomes if o.epsilon in (_SHOWN, None)}
        table.add_section()
        for row, (name, values) in enumerate(FIGURES.items()):
            setting = "" if row else title_of(outcomes[0])
            table.add_row(
                setting, _one_line(name), *(_spread(values(at[method])) for method in (*METHODS, NOISE_FREE))
            )
        accuracies = [_spread(np.array(at[m].samples["balanced_accuracy"])) for m in (*METHODS, NOISE_FREE)]
        table.add_row("", "Balanced accuracy, population", *accuracies)
        table.add_row("", "Gap before", f"{outcomes[0].unmitigated_gap:.3g}")
    cli.out.print(table)
    say(
        "Medians and quartiles. Errors: RMS over groups and thresholds, against the exact curves of the "
        "records that were counted. Gap: the equalized odds difference under thresholds chosen on the "
        "released curves, among the records that were counted and in the population (real data: among "
        "people who were not counted). Before: under 0.5 for all groups, which stays where a rate is 0/0. "
        "Decisions by lot have a small gap and a balanced accuracy of 0.5."
    )
    for name, values in FIGURES.items():
        say(f"Best by the median, {_one_line(name)}: {_winners(columns, values)}.")
    say("Computed in the clear, on synthetic and public data: nothing here needs or has a guarantee.")


def _one_line(name: str) -> str:
    return name.replace("\n", " ")


def _spread(values: suite.Floats) -> str:
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
    return f"{middle:.2g}\n[dim]{low:.2g} – {high:.2g}[/]" if high else "0"


def _winners(columns: Sequence[Sequence[suite.Outcome]], values: suite.Values) -> str:
    """Say in how many of the settings and epsilons each method is best."""
    best: Counter[str] = Counter()
    for outcomes in columns:
        for epsilon in dict.fromkeys(o.epsilon for o in outcomes if o.epsilon):
            rivals = [o for o in outcomes if o.epsilon == epsilon]
            best[min(rivals, key=lambda o: float(np.median(values(o)))).method] += 1
    counted = [f"{NAMES[method]} {best[method]}" for method in METHODS]
    return f"{', '.join(counted)} (of {best.total()})"
