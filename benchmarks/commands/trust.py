"""What the task `bench.trust` does."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path

from rich.table import Table

from benchmarks.studies.trust import study as suite
from benchmarks.studies.trust.models import IN_COMPUTATION, MODELS, PER_AGGREGATOR, REPAIRED
from benchmarks.studies.trust.plot import plot
from harness.cli import terminal as cli
from harness.cli.options import parse_whole
from harness.cli.terminal import command, say
from harness.system.result_files import default_out, new_directory
from harness.views import weights as show
from protocols.accounting.rounding import digits_up

LEAST_RUNS, MOST_RUNS = 100, 100_000
PLOT = "trust.png"
_SHOWN = (10**4, 10**6)  # clients of the table
_STEPS = {"measure": "compute and simulate errors, in the clear", "draw": "write and draw"}


@command
def trust(quick: bool, runs: str, target: str, as_json: bool) -> None:
    """Compare trust models by error and clients needed; no parties are started."""
    if as_json:
        cli.out.stderr = True  # nothing but JSON on stdout
    times = parse_whole("--runs", runs, LEAST_RUNS, MOST_RUNS)
    directory, started = Path(target) if target else default_out("bench.trust"), time.monotonic()
    with new_directory(directory) as partial, cli.steps(_STEPS) as begin:
        begin("measure")

        def progress(done: int, total: int) -> None:
            left = (time.monotonic() - started) / done * (total - done)
            begin.detail(f"{done} of {total}, about {left:.0f} s left")

        cells, needs = suite.run(suite.QUICK if quick else suite.Setting(), times, progress)
        begin("draw")
        seconds = time.monotonic() - started
        suite.write(cells, needs, f"./inv bench.trust{' --quick' * quick} --runs {times}", seconds, partial)
        plot(cells, partial / PLOT)
    _show(cells, needs)
    show.results(directory)
    if as_json:
        summary = {"errors": [c.summary() for c in cells], "clients": [n.summary() for n in needs]}
        print(json.dumps(summary, indent=2))


def _show(cells: Sequence[suite.Cell], needs: Sequence[suite.Need]) -> None:
    errors = list(dict.fromkeys(need.error for need in needs))
    table = Table("", "", "its ε")
    for error in errors:
        table.add_column(f"clients for an\nerror of {error:g}", justify="right")
    shown = [number for number in dict.fromkeys(cell.clients for cell in cells) if number in _SHOWN]
    for clients in shown:
        table.add_column(f"error with\n{powers(clients)} clients", justify="right")
    for epsilon in dict.fromkeys(need.epsilon for need in needs):
        table.add_section()
        for row, name in enumerate(MODELS):
            own = [need for need in needs if (need.epsilon, need.name) == (epsilon, name)]
            of_cells = [c for c in cells if (c.epsilon, c.name) == (epsilon, name) and c.clients in shown]
            table.add_row(
                "" if row else f"ε = {float(epsilon):g}",
                name,
                digits_up(own[0].epsilon_exact, 4),
                *(f"{powers(need.proven)}\n[dim]{powers(need.simulated)}[/]" for need in own),
                *(f"{_bound(cell.bound)}\n[dim]{cell.exceeded():.2g}[/]" for cell in of_cells),
            )
    cli.out.print(table)
    say(
        "Errors of the gap between two groups' means, values from -1 to 1, that are not exceeded in 99 % of "
        "runs: above, proven whatever the values; below, simulated for one population. All protect a "
        "client's group and value, replaced by any other, at the ε shown; δ is 0, of noise in the "
        "computation below 2^-40."
    )
    wanted = errors[len(errors) // 2]
    for epsilon in dict.fromkeys(need.epsilon for need in needs):
        at = [need for need in needs if (need.epsilon, need.error) == (epsilon, wanted)]
        proven = {need.name: need.proven for need in at}
        say(
            f"At ε = {float(epsilon):g}, an error of {wanted:g}: {powers(proven[IN_COMPUTATION])} clients "
            f"with noise in the computation, {powers(proven[PER_AGGREGATOR])} with noise per aggregator, "
            f"{powers(proven[REPAIRED])} under local DP (M_R, repaired), "
            f"{powers(float(f'{proven[REPAIRED] / proven[IN_COMPUTATION]:.2g}'))} times as many."
        )


def powers(number: float) -> str:
    """Return a number to three digits, as 4.7·10^6 from a million on."""
    if number < 10**6:
        return f"{float(f'{number:.3g}'):,.0f}"
    mantissa, exponent = f"{number:.2e}".split("e")
    power = f"10^{int(exponent)}"
    return power if float(mantissa) == 1 else f"{float(mantissa):g}·{power}"


def _bound(bound: float | None) -> str:
    return "none" if bound is None else f"{bound:.2g}"
