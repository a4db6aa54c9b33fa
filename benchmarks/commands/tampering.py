"""`bench.tampering`, which changes messages, and `bench.timing`, which compares them."""

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from msgspec import to_builtins

from benchmarks.commands.directories import directory_of, resumable
from benchmarks.commands.options import TamperingOptions, TimingOptions
from benchmarks.measure.samples import ABOUT, SAMPLES
from benchmarks.tampering import timing as pairs, walk
from benchmarks.tampering.attack import STOCK, Reaction
from benchmarks.tampering.operations import (
    NOISE,
    OPERATIONS,
    PROGRAMS,
    SIGNED_PROGRAMS,
    Operation,
    distance_of,
    family_in,
)
from fairshares.harness.cli import terminal
from fairshares.harness.errors import OptionError, UnsupportedError, named, typed
from fairshares.harness.pipeline.manifest_of_run import environment
from fairshares.harness.releases.programs import PROTOCOLS
from fairshares.harness.security_models import MODELS, SecurityModel, get_model
from fairshares.harness.system.result_files import SCHEMA, check_new, write_json
from fairshares.harness.views.parts import Bad, Good, Part, Table
from fairshares.harness.views.run_summary import results
from fairshares.protocols.circuits.coins import NoiseFamily

Rows = Sequence[dict[str, Any]]

TRIED: Mapping[str, Mapping[NoiseFamily, Sequence[Operation]]] = {
    "programs": PROGRAMS,
    "noise": NOISE,
    "stock": STOCK,
}


def operations_of(tried: str, family: NoiseFamily) -> Sequence[Operation]:
    """Return the operations that are tried, by name; the small programs have no noise, so no family."""
    if tried == "operations":
        return OPERATIONS
    return TRIED[tried][family]


def tampering(options: TamperingOptions) -> None:
    """Change as many messages as time allows, in models for active parties."""
    _carry_out(
        "bench.tampering",
        options,
        _models(options.security, options.parties, [model for model in MODELS.values() if model.active]),
        go_on=partial(
            walk.go_on,
            tried=operations_of(options.tried, NoiseFamily(options.noise_family)),
            turns=options.turns,
        ),
        summarized=lambda path: summary(walk.load(path)),
        view=_view,
    )


def _models(
    names: Sequence[str] | None, parties: int | None, default: Sequence[SecurityModel]
) -> list[SecurityModel]:
    """Return the named models of so many parties, or the default models that take the number.

    Args:
        names: The models' names; None for the default.
        parties: The number of parties of each model; None for the model's usual number.
        default: The models where none are named, of their usual numbers.

    Raises OptionError: A named model does not take the number.
    """
    if names is not None:
        return [get_model(name, parties) for name in names]
    if parties is None:
        return [*default]
    return [model.with_parties(parties) for model in default if model.takes(parties)]


def timing(options: TimingOptions) -> None:
    """Compare the sizes and times of packets on two inputs."""
    tried = [program for program in SIGNED_PROGRAMS if program.program in (options.programs or PROTOCOLS)]
    _carry_out(
        "bench.timing",
        options,
        _models(options.security, None, [model for model in MODELS.values() if model.virtual_machine]),
        go_on=partial(pairs.go_on, tried=tried),
        summarized=lambda path: pairs.summary(pairs.load(path)),
        view=_times,
    )


def _carry_out(
    command: str,
    options: TamperingOptions | TimingOptions,
    models: Sequence[SecurityModel],
    *,
    go_on: Callable[..., None],
    summarized: Callable[[Path], Rows],
    view: Callable[[Rows], Iterator[Part]],
) -> None:
    directory = directory_of(options, command)
    if sys.platform != "linux":
        raise UnsupportedError("Messages are changed and watched on Linux alone.")
    kept = [name for name in options.declared if name not in ("out", "json", "resume")]
    given = options.written(*kept)
    command_line = f"{command}{typed(**given)}"
    path = directory / SAMPLES
    for model in models:
        if model.virtual_machine is None:
            raise OptionError(
                f"Messages are changed and watched between machines of MP-SPDZ, and {model.name} is none; "
                f"name others by {named('security')}."
            )
    if not options.resume:
        check_new(directory)
        directory.mkdir(parents=True)
        path.touch()
        write_json(
            directory / ABOUT,
            {"schema": SCHEMA, "command": f"./inv {command_line}", "environment": to_builtins(environment())},
        )
    with (
        resumable(command_line, directory),
        terminal.steps({"run": "run parties"}) as begin,
        TemporaryDirectory() as work,
    ):
        begin("run")
        go_on(
            models,
            work=Path(work),
            path=path,
            seconds=options.minutes * 60,
            tell=begin.count,
        )
    rows = summarized(path)
    terminal.show(*view(rows), results(directory))
    if terminal.output.json:
        terminal.print_json(rows)


def summary(attempts: Sequence[walk.Attempt]) -> Rows:
    """Return outcomes by model and operation, and a bound of the share that showed a wrong value."""
    by_place: dict[tuple[str, str], list[walk.Attempt]] = {}
    for attempt in attempts:
        by_place.setdefault((attempt.security, attempt.operation), []).append(attempt)
    rows = []
    for (model, operation), attempts_there in sorted(by_place.items()):
        counted = Counter(attempt.outcome for attempt in attempts_there)
        changed = len(attempts_there) - counted[Reaction.UNTOUCHED]
        harmful = counted[Reaction.WRONG] + counted[Reaction.SHIFTED]
        noise = Counter[str]()
        for attempt in attempts_there:
            noise.update(attempt.noise)
        row: dict[str, Any] = {
            "security": model,
            "operation": operation,
            "changed": changed,
            "harmful": harmful,
        }
        for reaction in Reaction:
            row[reaction.name.lower()] = counted[reaction]
        row["wrong_at_most"] = round(walk.most_wrong(changed, harmful), 5)
        if noise:
            distance, by_chance = distance_of(
                [int(value) for value in noise.elements()], family_in(operation)
            )
            row["noise"] = noise.total()
            row["distance"] = round(distance, 5)
            row["by_chance"] = round(by_chance, 5)
        rows.append(row)
    return rows


def _view(rows: Rows) -> Iterator[Part]:
    yield Table(
        (
            "security model",
            "operation",
            "changed",
            "aborted",
            "opened, aborted",
            "right",
            "wrong",
            "at most",
        ),
        [
            [
                row["security"],
                row["operation"],
                f"{row['changed']:,}",
                f"{row['aborted']:,}",
                f"{row['opened']:,}",
                f"{row['right']:,}",
                Bad(str(row["harmful"])) if row["harmful"] else "0",
                f"{100 * row['wrong_at_most']:.2g} %",
            ]
            for row in rows
        ],
    )
    yield (
        "Wrong: an honest party took, or saw before it aborted, a result that the function does not give. At "
        "most: of all such changes, at 95 %, as far as a random sample tells."
    )
    for row in rows:
        if "noise" in row:
            tone = Good if row["distance"] <= row["by_chance"] else Bad
            shown = tone(f"{row['distance']:.2g} from its distribution, {row['by_chance']:.2g} being chance")
            yield f"{row['security']}: {row['noise']:,} samples of noise: {shown}."
    for model, rows_of_model in groupby(rows, lambda row: row["security"]):
        wrong = sum(row["harmful"] for row in rows_of_model)
        found = Bad(f"{wrong} wrong results") if wrong else Good("no wrong result")
        yield f"{model}: {found}."


def _times(rows: Rows) -> Iterator[Part]:
    yield Table(
        ("security model", "program", "pairs", "other sizes", "seconds", "difference, µs"),
        [
            [
                row["security"],
                row["operation"],
                str(row["pairs"]),
                Bad(str(row["sizes_differ"])) if row["sizes_differ"] else "0",
                f"{row['seconds']:.3g}",
                _ends(row),
            ]
            for row in rows
        ],
    )
    yield (
        "Other sizes: pairs in which a party sent another number of messages, or others. Difference: of the "
        "median, ones less zeros; all intervals hold at once with 95 %, and one without 0 is a leak."
    )


def _ends(row: dict[str, Any]) -> str:
    if row["difference_s"] is None:
        return "too few pairs"
    low, high = row["difference_s"]
    text = f"{1e6 * low:,.0f} to {1e6 * high:,.0f}"
    if row["found"]:
        return Bad(text)
    return text
