"""The commands behind the tasks: read options, call the pipeline, show people what came out."""

from __future__ import annotations

import functools
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, ParamSpec

from rich.console import Console
from rich.progress import Progress as RichProgress
from rich.progress import SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from harness.errors import FairSharesError

P = ParamSpec("P")

INTERRUPTED_EXIT = 130

out = Console(highlight=False, soft_wrap=True)
err = Console(stderr=True, highlight=False, soft_wrap=True)


def command(function: Callable[P, None]) -> Callable[P, None]:
    """Make a task end well: one sentence for our own errors, no traceback, exit code != 0.

    Being terminated, or losing the terminal, counts as Ctrl-C, so that parties are stopped and shares
    removed then, too.  [test: tests/e2e/test_faults.py]
    """

    @functools.wraps(function)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> None:
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
                signal.signal(number, _interrupt)
        try:
            function(*args, **kwargs)
            sys.stdout.flush()
        except FairSharesError as error:
            err.print(f"[bold red]Error:[/] {_plain(str(error))}")
            sys.exit(1)
        except KeyboardInterrupt:
            err.print("Interrupted: all parties were stopped and no result was written.")
            sys.exit(INTERRUPTED_EXIT)
        except BrokenPipeError:  # the reader of our output left
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(1)

    return guarded


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _plain(text: str) -> str:
    return text.replace("[", r"\[")


@contextmanager
def steps(names: dict[str, str]) -> Iterator[Callable[[str], None]]:
    """Show each step as it runs, with its time, on stderr; yield what starts the next one.

    Args: names: what to call a step, by its key.
    """
    display = RichProgress(
        SpinnerColumn(finished_text="[green]✓[/]"),
        TextColumn("{task.description}"),
        TimeElapsedColumn(),
        console=err,
        disable=not err.is_terminal,
    )
    running: list[tuple[TaskID, str, float]] = []

    def finish() -> None:
        if running:
            row, name, begun = running.pop()
            display.update(row, completed=1)
            if not err.is_terminal:
                err.print(f"{name}: {time.monotonic() - begun:.2f} s")

    def begin(key: str) -> None:
        finish()
        name = names.get(key, key)
        running.append((display.add_task(name, total=1), name, time.monotonic()))

    with display:
        yield begin
        finish()


WEIGHT_STEPS = {
    "read": "read records",
    "share": "clients: split counts into shares",
    "aggregate": "parties: add up their own columns",
    "compile": "compile the program",
    "run": "parties: run π_RW",
    "weights": "derive weights from the noisy counts",
}

QUICKSTART_STEPS = {
    **WEIGHT_STEPS,
    "read": "read the mortgage applications",
    "evaluate": "fit and assess models on 20 splits",
}


def show_schemes(as_json: bool) -> None:
    """Print which models can run here."""
    from harness.schemes import schemes

    rows = schemes()
    if as_json:
        print(json.dumps(rows, indent=2))
        return
    table = Table("model", "engine", "parties", "adversary", "available", "why not")
    for row in rows:
        table.add_row(
            row["model"],
            row["engine_version"] or row["engine"],
            str(row["parties"]),
            row["adversary"],
            "[green]yes[/]" if row["available"] else "[red]no[/]",
            _plain(row["reason"] or ""),
        )
    out.print(table)


def show_results(directory: Path) -> None:
    """Print where the result files are, last."""
    out.print(f"Results: {_plain(str(directory))}")


def show_one_machine(saw_records: bool) -> None:
    """Print what a run with all parties on one machine does not protect."""
    seen = "and it saw all records" if saw_records else "and it held all shares"
    out.print(
        f"All parties ran on this machine, {seen}: the run protects nothing against the machine's owner."
    )


def show_weights(run: Any) -> None:
    """Print a finished run's weights, its privacy statement and its cost."""
    from harness.models import get_model
    from harness.report import privacy_statement

    weights, manifest = run.weights, run.manifest
    table = Table("group", "label", "noisy count", "weight", f"{float(weights.confidence):.0%} interval")
    for s, group in enumerate(weights.domain.groups):
        for y, label in enumerate(weights.domain.labels):
            low, high = weights.interval[s, y]
            count = f"{weights.noisy_counts[s, y]:,.1f}" + (" → floor 1" if weights.floored[s, y] else "")
            table.add_row(
                _plain(group), _plain(label), count, f"{weights.weights[s, y]:.4g}", f"{low:.4g} – {high:.4g}"
            )
    out.print(table)
    if weights.floored.any():
        out.print(
            "A noisy count below 1 was raised to 1: its weight says little; more records or a larger ε would."
        )
    out.print("[bold]Privacy of what the computation opened[/]")
    for sentence in privacy_statement(manifest["privacy"], get_model(manifest["model"])):
        out.print(f"  {_plain(sentence)}")
    sent = sum(manifest["sent_bytes"])
    rounds = "" if manifest["rounds"] is None else f", {manifest['rounds']} rounds"
    out.print(
        f"Cost: {manifest['mpc_s']:.3f} s in the computation, {sent / 1e3:,.0f} kB sent "
        f"by all parties{rounds}; "
        f"{manifest['wall_s']:.2f} s in all ({manifest['engine_version']}).",
    )


_SHOWN_METRICS = {
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced accuracy",
    "selection_rate": "selection rate (approved)",
    "demographic_parity_difference": "demographic parity difference",
    "equal_opportunity_difference": "equal opportunity difference",
    "equalized_odds_difference": "equalized odds difference",
}
_SHOWN_CHANGES = {
    metric: _SHOWN_METRICS[metric]
    for metric in ("balanced_accuracy", "demographic_parity_difference", "equalized_odds_difference")
}


def show_quickstart(shown: Any) -> None:
    """Print the private result, then, apart from it, the evaluation in the clear."""
    out.print(
        f"\n[bold]DP weights for {shown.clients:,} mortgage applicants[/] "
        "(each a client with one record: group, and whether the loan was approved)"
    )
    show_weights(shown.run)
    show_one_machine(saw_records=True)
    out.print(
        "\n[bold]Evaluation in the clear on public data: no privacy guarantee; model training is not DP[/]\n"
        f"Logistic regression without the group, on the {shown.test_rows:,} applicants held out, before and "
        "after refitting\nwith weights from the noisy counts; mean ± standard deviation over 20 splits."
    )
    summary = shown.evaluation.summary()
    models = list(dict.fromkeys(summary["model"]))
    table = Table("", *models)
    for metric, name in _SHOWN_METRICS.items():
        rows = summary[summary["metric"] == metric].set_index("model")
        table.add_row(name, *(f"{rows.loc[m, 'mean']:.3f} ± {rows.loc[m, 'std']:.3f}" for m in models))
    out.print(table)
    changes = shown.evaluation.changes().set_index(["model", "metric"])
    for model in models[1:]:
        told = [_moved(name, changes.loc[(model, metric)]) for metric, name in _SHOWN_CHANGES.items()]
        out.print(f"{model}: {', '.join(told)}.")
    out.print(
        "Differences are between groups, best at 0. A model that approves almost everybody has small ones,\n"
        "and finds few denials: read them beside balanced accuracy. `balanced` gives every group and label\n"
        "the same weight, `kamiran-calders` makes group and label independent. Split 0's weights come from\n"
        "the counts opened above, the other splits' from the same release simulated in the clear."
    )


def _moved(name: str, change: Any) -> str:
    rose, fell = int(change["higher"]), int(change["lower"])
    verb, often = ("rose", rose) if rose >= fell else ("fell", fell)
    return f"{name} {verb} in {often} of {int(change['splits'])} splits ({change['mean']:+.3f} on average)"
