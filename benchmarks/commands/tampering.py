"""What `bench.tampering` does, which changes messages, and `bench.timing`, which compares them."""

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from benchmarks.commands.directories import directory_of, resumable
from benchmarks.commands.options import TamperingOptions, TimingOptions
from benchmarks.measure.samples import ABOUT, SAMPLES, typed
from benchmarks.tampering import timing as pairs
from benchmarks.tampering.attack import Outcome
from benchmarks.tampering.law import largest_distance
from benchmarks.tampering.operations import OPERATIONS
from benchmarks.tampering.production import NOISE, PROGRAMS
from benchmarks.tampering.walk import Attempt, go_on, load, most_wrong
from harness.cli import terminal
from harness.cli.terminal import print_json, show, steps
from harness.errors import UnsupportedError
from harness.pipeline.run import environment
from harness.security_models import MODELS
from harness.system.result_files import SCHEMA, check_new, write_json
from harness.views.parts import Bad, Good, Part, Table
from harness.views.run import results
from protocols.spec import PROTOCOLS

TRIED = {"operations": OPERATIONS, "programs": PROGRAMS, "noise": NOISE}


def tampering(options: TamperingOptions) -> None:
    """Change every message of models for active parties once, or as many as there is time for."""
    names = options.models or [model.name for model in MODELS.values() if model.active]
    directory = _directory("bench.tampering", options)
    path = directory / SAMPLES
    again = f"bench.tampering --tried {options.tried}"
    with resumable(again, directory), steps({"walk": "change messages"}) as begin:
        begin("walk")
        models = [MODELS[name] for name in names]
        go_on(models, TRIED[options.tried], path, options.turns, options.minutes * 60, begin.count)
    rows = summary(load(path))
    show(*_view(rows), results(directory))
    if terminal.output.json:
        print_json(rows)


def timing(options: TimingOptions) -> None:
    """Run programs on two extreme inputs in turn, and compare what somebody who sees packets sees."""
    names = options.models or [model.name for model in MODELS.values() if model.virtual_machine]
    tried = [each for each in PROGRAMS if each.program in (options.programs or PROTOCOLS)]
    directory = _directory("bench.timing", options)
    path = directory / SAMPLES
    with resumable("bench.timing", directory), steps({"pairs": "run pairs"}) as begin:
        begin("pairs")
        pairs.go_on([MODELS[name] for name in names], tried, path, options.minutes * 60, begin.count)
    rows = pairs.summary(pairs.load(path))
    show(*_times(rows), results(directory))
    if terminal.output.json:
        print_json(rows)


def _directory(command: str, options: TamperingOptions | TimingOptions) -> Path:
    """Return where the results go: a new directory that says what was run, or that of an earlier command."""
    directory = directory_of(options, command)
    if sys.platform != "linux":
        raise UnsupportedError("Messages are changed and watched on Linux alone.")
    if not options.resume:
        check_new(directory)
        directory.mkdir(parents=True)
        (directory / SAMPLES).touch()
        given = options.written(*(name for name in options.declared if name not in ("out", "json", "resume")))
        about = {"schema": SCHEMA, "command": f"./inv {command}{typed(**given)}"}
        write_json(directory / ABOUT, {**about, "environment": environment()})
    return directory


def summary(attempts: Sequence[Attempt]) -> list[dict[str, Any]]:
    """Return how many changes came to what, by model and operation, and a bound of those that did harm."""
    by_place: dict[tuple[str, str], list[Attempt]] = {}
    for attempt in attempts:
        by_place.setdefault((attempt.model, attempt.operation), []).append(attempt)
    rows = []
    for (model, operation), of in sorted(by_place.items()):
        counted = Counter(attempt.outcome for attempt in of)
        row: dict[str, Any] = {"model": model, "operation": operation}
        row |= {outcome.name.lower(): counted[outcome] for outcome in Outcome}
        row["wrong_at_most"] = round(most_wrong(_changed(row), _harmful(row)), 5)
        noise = sum((Counter(attempt.noise) for attempt in of), Counter[str]())
        rows.append({**row, **_of_noise(noise)} if noise else row)
    return rows


def _changed(row: Mapping[str, Any]) -> int:
    """Return how many messages were changed, of those that runs had."""
    return sum(row[outcome.name.lower()] for outcome in Outcome if outcome is not Outcome.UNTOUCHED)


def _of_noise(counted: Counter[str]) -> dict[str, Any]:
    """Return how far all noise that was opened is from its law, and how far that may be by chance."""
    n, law = counted.total(), NOISE[0].law
    assert law
    distance = law.distance(Counter({int(value): times for value, times in counted.items()}))
    return {"noise": n, "distance": round(distance, 5), "by_chance": round(largest_distance(n), 5)}


def _view(rows: Sequence[dict[str, Any]]) -> Iterator[Part]:
    columns = ("model", "operation", "changed", "aborted", "opened, aborted", "right", "wrong", "at most")
    yield Table(columns, [_cells(row) for row in rows])
    yield (
        "Wrong: an honest party took, or saw before it aborted, a result that the function does not give. At "
        "most: of all such changes, at 95 %, as far as a random sample tells."
    )
    for row in rows:
        if "noise" in row:
            near = row["distance"] <= row["by_chance"]
            found = f"{row['distance']:.2g} from its law, {row['by_chance']:.2g} being chance"
            yield f"{row['model']}: {row['noise']:,} samples of noise: {Good(found) if near else Bad(found)}."
    for model, of in groupby(rows, lambda row: row["model"]):
        wrong = sum(map(_harmful, of))
        found = f"{wrong} wrong results" if wrong else "no wrong result"
        yield f"{model}: {Bad(found) if wrong else Good(found)}."


def _harmful(row: Mapping[str, Any]) -> int:
    """Return after how many changes an honest party saw another value, whether it took it or aborted then."""
    wrong: int = row["wrong"] + row["shifted"]
    return wrong


def _cells(row: dict[str, Any]) -> list[str]:
    wrong = str(_harmful(row))
    return [
        row["model"],
        row["operation"],
        f"{_changed(row):,}",
        f"{row['aborted']:,}",
        f"{row['opened']:,}",
        f"{row['right']:,}",
        wrong if wrong == "0" else Bad(wrong),
        f"{100 * row['wrong_at_most']:.2g} %",
    ]


def _times(rows: Sequence[dict[str, Any]]) -> Iterator[Part]:
    columns = ("model", "program", "pairs", "other sizes", "seconds", "difference, µs")
    cells = [
        [
            *(row["model"], row["operation"], str(row["pairs"])),
            Bad(str(row["sizes_differ"])) if row["sizes_differ"] else "0",
            f"{row['seconds']:.3g}",
            _ends(row),
        ]
        for row in rows
    ]
    yield Table(columns, cells)
    yield (
        "Other sizes: pairs in which a party sent another number of messages, or others. Difference: of the "
        "median, ones less zeros; all intervals hold at once with 95 %, and one without 0 is a leak."
    )


def _ends(row: dict[str, Any]) -> str:
    if row["difference_s"] is None:
        return "too few pairs"
    text = " to ".join(f"{1e6 * end:,.0f}" for end in row["difference_s"])
    return Bad(text) if row["found"] else text
