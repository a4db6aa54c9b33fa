"""What `bench.tampering` does: change messages, and say what the others made of it."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from benchmarks.commands.options import TamperingOptions, typed
from benchmarks.measure.samples import ABOUT, SAMPLES
from benchmarks.tampering.attack import Outcome
from benchmarks.tampering.walk import Attempt, go_on, load, most_wrong
from harness.cli.terminal import INTERRUPTED_EXIT, err, plain, say, show, steps
from harness.errors import OptionError, UnsupportedError
from harness.pipeline.manifest import environment
from harness.security_models import MODELS
from harness.system.result_files import SCHEMA, check_new, default_out, write_json
from harness.views.parts import Bad, Good, Part, Table
from harness.views.run import results

_STEPS = {"walk": "change messages"}


def tampering(options: TamperingOptions) -> None:
    """Change every message of models for active parties once, or as many as there is time for."""
    if options.out and options.resume:
        raise OptionError("--out is for a new directory, --resume for an earlier one; give one of them.")
    if sys.platform != "linux":
        raise UnsupportedError("Messages are changed on Linux alone.")
    names = options.models or [model.name for model in MODELS.values() if model.active]
    directory = options.resume or options.out or default_out("bench.tampering")
    if not options.resume:
        check_new(directory)
        directory.mkdir(parents=True)
        given = typed(models=",".join(options.models or ()), turns=options.turns, minutes=options.minutes)
        about = {"schema": SCHEMA, "command": f"./inv bench.tampering{given}", "environment": environment()}
        write_json(directory / ABOUT, about)
    path = directory / SAMPLES
    try:
        with steps(_STEPS) as begin:
            begin("walk")
            go_on([MODELS[name] for name in names], path, options.turns, options.minutes * 60, begin.count)
    except KeyboardInterrupt:
        again = f"./inv bench.tampering --resume {plain(str(directory))}"
        say(f"Interrupted: {len(load(path))} messages were changed. Go on by {again}.", err)
        sys.exit(INTERRUPTED_EXIT)
    rows = summary(load(path))
    show(*_view(rows), results(directory))
    if options.json:
        print(json.dumps(rows, indent=2, ensure_ascii=False))


def summary(attempts: Sequence[Attempt]) -> list[dict[str, Any]]:
    """Return how many changes came to what, by model and operation, and a bound of those unnoticed."""

    def place(attempt: Attempt) -> tuple[str, str]:
        return attempt.model, attempt.operation

    rows = []
    for (model, operation), each in groupby(sorted(attempts, key=place), place):
        counted = Counter(attempt.outcome for attempt in each)
        tried = counted.total() - counted[Outcome.UNTOUCHED]
        wrong = counted[Outcome.WRONG]
        bound = most_wrong(tried, wrong)
        figures = {outcome.name.lower(): counted[outcome] for outcome in Outcome}
        rows.append({"model": model, "operation": operation, **figures, "wrong_at_most": round(bound, 5)})
    return rows


def _view(rows: Sequence[dict[str, Any]]) -> Iterator[Part]:
    columns = ("model", "operation", "changed", "aborted", "opened, aborted", "right", "wrong", "at most")
    yield Table(columns, [_cells(row) for row in rows])
    yield (
        "Wrong: an honest party took a result that the function does not give. At most: of all such changes, "
        "at 95 %, as far as a random sample tells."
    )
    for model, of in groupby(rows, lambda row: row["model"]):
        wrong = sum(row["wrong"] for row in of)
        found = f"{wrong} wrong results" if wrong else "no wrong result"
        yield f"{model}: {Bad(found) if wrong else Good(found)}."


def _cells(row: dict[str, Any]) -> list[str]:
    tried = sum(row[outcome.name.lower()] for outcome in Outcome if outcome is not Outcome.UNTOUCHED)
    wrong = str(row["wrong"])
    return [
        row["model"],
        row["operation"],
        f"{tried:,}",
        f"{row['aborted']:,}",
        f"{row['opened'] + row['shifted']:,}",
        f"{row['right']:,}",
        Bad(wrong) if row["wrong"] else wrong,
        f"{100 * row['wrong_at_most']:.2g} %",
    ]
