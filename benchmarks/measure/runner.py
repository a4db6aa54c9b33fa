"""Runs a suite's missing cells, and keeps each result at once."""

import fcntl
import hashlib
import os
import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

from msgspec import to_builtins

from benchmarks.measure.cell import HERE, Place, source_of
from benchmarks.measure.samples import (
    ABOUT,
    OK,
    SAMPLES,
    SCHEMA,
    SKIPPED,
    Cell,
    Level,
    Sample,
    append,
    by_cell,
    load,
    name_of,
)
from benchmarks.suites import EXPERIMENT, OURS, PROGRAM, PROGRAMS, Planned, Suite, read_experiment
from harness.engines.program_hash import sources_of
from harness.errors import MixedResultsError, OptionError
from harness.hosts.inventory import read_hosts
from harness.pipeline.manifests import environment, machine
from harness.request.fields import typed
from harness.system.documents import as_type
from harness.system.files import working_directory
from harness.system.result_files import not_result, read_result, write_json

Todo = tuple[Planned, int]  # a cell, and the number of its repetition
Watch = Callable[[int, int, float | None, Todo], object]  # is told runs done, all, seconds left, the next run


@dataclass(frozen=True)
class Chosen:
    """The part of a suite that is run, and how."""

    suite: Suite
    quick: bool = False
    models: tuple[str, ...] = ()  # all if empty
    repetitions: int | None = None
    timeout_s: float | None = None
    told: str = ""  # the command, without these options
    hosts: str = ""
    seed: int | None = None  # of the order of runs, else as planned

    def plan(self) -> list[Planned]:
        """Return the cells, or raise OptionError if there is none."""
        plan = self.suite.plan(
            quick=self.quick,
            models=self.models,
            repetitions=self.repetitions,
            timeout_s=self.timeout_s,
        )
        if not plan:
            terms = " with --quick" if self.quick else f" on --security {','.join(self.models)}"
            raise OptionError(f"Suite {self.suite.name} has nothing to run{terms}.")
        return plan

    @property
    def command(self) -> str:
        """The command for it."""
        given = typed(
            hosts=self.hosts,
            quick=self.quick,
            security=",".join(self.models),
            repetitions=self.repetitions,
            timeout=self.timeout_s and f"{self.timeout_s:g}",
        )
        return f"./inv {self.told}{given}"

    def to_json(self) -> dict[str, Any]:
        """Return the fields for `chosen_in`."""
        return {**vars(self), "suite": self.suite.name, "models": list(self.models)}


def start(directory: Path, chosen: Chosen, text: str, beside: Path = OURS) -> None:
    """Make a directory with the experiment and its programs."""
    programs = {path.name: path.read_bytes() for path in _programs(chosen.plan(), beside)}
    if chosen.hosts:
        read_hosts(Path(chosen.hosts))
    try:
        directory.mkdir(parents=True)
        (directory / SAMPLES).touch()
        (directory / EXPERIMENT).write_text(text, encoding="utf-8")
        (directory / PROGRAMS).mkdir()
        for name, program in programs.items():
            (directory / PROGRAMS / name).write_bytes(program)
    except FileExistsError:
        raise OptionError(
            f"--out {directory} exists already; name a new directory, or go on with what is there by "
            f"--resume {directory}."
        ) from None
    except OSError as error:
        raise OptionError(f"Cannot write to {directory}: {error.strerror}.") from None
    write_json(
        directory / ABOUT,
        {
            "schema": SCHEMA,
            "suite": chosen.suite.name,
            "title": chosen.suite.title,
            "finished": False,
            "sha256": {name: hashlib.sha256(program).hexdigest() for name, program in programs.items()},
            "command": chosen.command,
            "chosen": chosen.to_json(),
            "started": environment().time,
        },
    )


def _programs(plan: Sequence[Planned], beside: Path) -> list[Path]:
    kinds = {
        (planned.cell.get(PROGRAM), planned.cell.get("protocol"), planned.cell.get("variant")): planned
        for planned in plan
    }
    beside_it = {beside / str(name) for name, _, _ in kinds if name is not None}
    if missing := [path for path in beside_it if not path.is_file()]:
        raise OptionError(f"There is no program {missing[0]}; name one that is there.")
    ours = {source_of(planned.cell) for planned in kinds.values() if PROGRAM not in planned.cell}
    return sorted({*beside_it, *(path for source in ours for path in sources_of(source))})


def chosen_in(directory: Path) -> Chosen:
    """Return the choice whose results a directory has."""
    refusal = not_result(directory / ABOUT, ABOUT)
    fields = as_type(dict[str, Any], read_result(directory, ABOUT)["chosen"], refusal)
    fields |= {"suite": read_experiment(directory / EXPERIMENT), "models": tuple(fields["models"])}
    return Chosen(**fields)


def go_on(directory: Path, chosen: Chosen, watch: Watch, place: Place = HERE) -> None:
    """Run what is missing, repetition by repetition, so that a drift meets all cells alike.

    A cell that fails is run again only by the next command.

    Guarantees: no cell gets results of two programs, compile options or builds of MP-SPDZ. At an interrupt
    all results so far are on the disk.
    [test: tests/benchmarks/measure/test_runner.py]
    Raises:
        MixedResultsError: Present programs are not those of the results.
        OptionError: Another command runs in the directory.
    """
    path = directory / SAMPLES
    plan = [replace(planned, excluded=place.why_not(planned)) for planned in chosen.plan()]
    with _alone(path):
        samples = load(path)
        check_current(samples, place)
        _change_about(directory, command=chosen.command, chosen=chosen.to_json(), finished=False)
        failed, warm, announced = set[Cell](), set[tuple[str | None, Level]](), None
        total = sum(planned.repetitions for planned in plan if planned.excluded is None)
        with (
            working_directory(directory) as scratch,
            # each program is compiled anew, once in a command, so that its compile time is known
            patch.dict(os.environ, {"XDG_CACHE_HOME": str(scratch.resolve() / "cache")}),
        ):
            while todo := [run for run in missing(plan, samples, chosen.seed) if run[0].key not in failed]:
                planned, repetition = todo[0]
                left = sum(run.excluded is None for run, _ in todo)
                if todo[0] != announced:  # else the last run was its warm-up
                    watch(total - left, total, time_left(todo, samples), todo[0])
                announced = todo[0]
                sample = place.measure(chosen.suite.name, planned, repetition, scratch)
                check_alike([earlier for earlier in samples if earlier.key == planned.key], sample)
                if sample.status != OK:
                    failed.add(planned.key)
                elif chosen.suite.warm_up and (sample.program_hash, sample.cell["security"]) not in warm:
                    warm.add((sample.program_hash, sample.cell["security"]))
                    sample = replace(sample, warm_up=True)
                append(path, sample, schema=SCHEMA)
                samples.append(sample)
        _change_about(directory, finished=not missing(plan, samples), ended=environment().time)


def missing(plan: Sequence[Planned], samples: Sequence[Sample], seed: int | None = None) -> list[Todo]:
    """Return the repetitions to run, of which the seed orders cells within a repetition.

    A skipped cell has one line. A cell that runs until its interval is narrow has one repetition more.
    """
    known = by_cell(samples)
    remaining: list[Todo] = []
    for planned in plan:
        skipped = planned.excluded is not None
        good = [s for s in known.get(planned.key, []) if s.status == (SKIPPED if skipped else OK)]
        done, wanted = {sample.repetition for sample in good}, 1 if skipped else planned.repetitions
        if planned.until and not skipped and len(done) >= wanted:
            wanted = len(done) + (not planned.until.enough([sample.times["mpc_s"] for sample in good]))
        remaining += [(planned, number) for number in range(wanted) if number not in done]

    def place(todo: Todo) -> tuple[int, str]:
        text = "" if seed is None else f"{seed} {todo[1]} {todo[0].key}"
        return todo[1], text and hashlib.sha256(text.encode()).hexdigest()

    return sorted(remaining, key=place)


def check_current(samples: Sequence[Sample], place: Place = HERE) -> None:
    """Raise MixedResultsError if a cell's program has changed."""
    for of in by_cell(samples).values():
        good = [sample for sample in of if sample.status == OK]
        now = place.identity(good[0].cell) if good else None
        for sample in good:
            if now is not None and sample.program_hash != now[0]:
                raise MixedResultsError(_mixed(sample, now[1]))


def check_alike(earlier: Sequence[Sample], sample: Sample) -> None:
    """Raise MixedResultsError if a cell's results differ in program or hosts."""
    for other in [other for other in earlier if OK == sample.status == other.status]:
        if sample.program_hash != other.program_hash:
            raise MixedResultsError(_mixed(other, sample.engine_version))
        then, now = (", ".join(str(host["name"]) for host in compared.hosts) for compared in (other, sample))
        if then != now:
            raise MixedResultsError(
                f"The results on file are of hosts {then or 'none'}, and this one of {now or 'none'}; they "
                "cannot be in one table. Measure into a new directory with --out, or go back to those hosts."
            )


def _mixed(sample: Sample, version: str | None) -> str:
    what = "program, circuits or compile options"
    if version != sample.engine_version:
        what = f"engine ({sample.engine_version} then, {version} now)"
    return (
        f"The results on file are of another {what} than would run now, as those of {name_of(sample.cell)}; "
        "they cannot be in one table. Measure into a new directory with --out, or go back to what was run."
    )


def time_left(todo: Sequence[Todo], samples: Sequence[Sample]) -> float | None:
    """Estimate the seconds of all missing runs, if possible."""
    walls = [sample.times["wall_s"] for sample in samples if sample.status == OK]
    left = [planned for planned, _ in todo if planned.excluded is None]
    known = walls and not any(planned.until for planned in left)
    return statistics.mean(walls) * len(left) if known else None


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OptionError(f"Another command measures into {path.parent} now; wait for its end.") from None
        yield


def _change_about(directory: Path, **changes: Any) -> None:
    partial, about = directory / f"{ABOUT}.new", read_result(directory, ABOUT)
    write_json(
        partial,
        {**about, "machine": to_builtins(machine()), "environment": to_builtins(environment()), **changes},
    )
    partial.rename(directory / ABOUT)
