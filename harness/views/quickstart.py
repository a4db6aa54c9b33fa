"""Shows people what the quickstart did: the private runs, then, apart from them, the evaluation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table

from harness.cli.terminal import out, say
from harness.evaluation import before_after
from harness.pipeline import manifest as report
from harness.views import thresholds as show_thresholds
from harness.views import weights as show

if TYPE_CHECKING:
    from harness.views.quickstart_report import Quickstart

STEPS = {
    **show.WEIGHT_STEPS,
    "records": "read the mortgage applications",
    "score": "clients: score themselves with models fitted without them",
    **{f"second {step}": name for step, name in show_thresholds.STEPS.items()},
    "evaluate": "fit and assess models on 20 splits",
    "report": "write the report",
}


def quickstart(shown: Quickstart) -> None:
    """Print the private results, then, apart from them, the evaluation in the clear."""
    say(
        f"\n[bold]DP weights for {shown.clients:,} mortgage applicants[/] "
        "(each a client with one record: group, and whether the loan was approved)"
    )
    show.weights(shown.weights)
    say("\n[bold]DP score curves and thresholds for the same applicants[/] (their record also has a score)")
    show_thresholds.thresholds(shown.thresholds)
    if shown.thresholds.found.problem is not None:
        say(f"No thresholds follow from these curves: {shown.thresholds.found.problem}")
    say(before_after.GIVEN_SCORES)
    total = shown.manifest["privacy"]
    epsilon, delta = report.bounds_shown(total)
    say(
        f"\nBoth releases together: ε = {epsilon}, δ = {delta} "
        f"(ε = {total['epsilon_requested']} was requested)."
    )
    show.one_machine(saw_records=True)
    say(f"\n[bold]Before and after: {before_after.NO_GUARANTEE}[/]")
    say(
        f"Logistic regression without the group, on the {shown.test_rows:,} applicants held out: "
        "unmitigated; refitted with each scheme's weights; with thresholds for each group. Mean ± standard "
        f"deviation over {shown.splits} splits."
    )
    table = Table("")
    for model in before_after.models(shown.evaluation):
        table.add_column(model.replace("-", "-\n"), justify="right", overflow="fold")
    for row in before_after.table(shown.evaluation):
        table.add_row(*row)
    out.print(table)
    for sentence in before_after.changes(shown.evaluation):
        say(sentence)
    say(
        f"{before_after.HOW_TO_READ} `balanced` gives every group and label the same weight, "
        "`kamiran-calders` makes group and label independent, `thresholds` approves each group from a score "
        "of its own. Split 0's come from the values opened above, the other splits' from the same releases "
        "simulated in the clear."
    )
    if shown.fallbacks:
        say(
            f"In {shown.fallbacks} splits the noisy curves allowed no thresholds, and the unmitigated "
            "model's predictions were taken: a larger ε helps."
        )
