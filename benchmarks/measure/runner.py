"""Runs the cells of a suite that have no result yet, and keeps each result at once."""

import fcntl
import hashlib
import os
import shutil
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

from msgspec import to_builtins

from benchmarks.errors import MixedResultsError
from benchmarks.factors import PROGRAM
from benchmarks.measure.cell import HERE, Place, source_of
from benchmarks.measure.given_files import input_files
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
    model_name,
    name_of,
)
from benchmarks.suites import EXPERIMENT, INPUTS, OURS, PROGRAMS, Planned, Suite, read_experiment
from fairshares.harness.engines.program_hash import sources_of
from fairshares.harness.errors import OptionError, typed
from fairshares.harness.hosts.inventory import read_hosts
from fairshares.harness.pipeline.manifest_of_run import environment, hardware
from fairshares.harness.system.documents import as_type
from fairshares.harness.system.files import sha256_of, working_directory
from fairshares.harness.system.result_files import not_result, read_result, write_json

Todo = tuple[Planned, int]  # a cell, and the number of its repetition

# Is called before each run, with the number of runs done, of all runs, the seconds left, and the next run.
Watch = Callable[[int, int, float | None, Todo], object]


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
    seed: int | None = None  # the seed of the order of runs; None for the order of the plan

    def plan(self) -> list[Planned]:
        """Return the cells.

        Raises:
            OptionError: There is none.
        """
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
        """The command that runs it."""
        given = typed(
            hosts=self.hosts,
            quick=self.quick,
            security=",".join(self.models),
            repetitions=self.repetitions,
            timeout=self.timeout_s and f"{self.timeout_s:g}",
        )
        return f"./inv {self.told}{given}"

    def to_json(self) -> dict[str, Any]:
        """Return the fields from which `chosen_in` makes it again."""
        return {**vars(self), "suite": self.suite.name, "models": list(self.models)}


@dataclass(frozen=True)
class _ChosenOnFile:
    """A choice as `about.json` has it."""

    suite: str
    quick: bool
    models: tuple[str, ...]
    repetitions: int | None
    timeout_s: float | None
    told: str
    hosts: str
    seed: int | None

    def with_suite(self, suite: Suite) -> Chosen:
        """Return the choice from a suite."""
        return Chosen(
            suite,
            quick=self.quick,
            models=self.models,
            repetitions=self.repetitions,
            timeout_s=self.timeout_s,
            told=self.told,
            hosts=self.hosts,
            seed=self.seed,
        )


def start(
    directory: Path,
    chosen: Chosen,
    text: str,
    beside: Path = OURS,
    inputs: Mapping[str, Path] | None = None,
) -> None:
    """Make a directory for results, with the experiment, its programs and their files of inputs.

    Args:
        directory: The new directory of the results.
        chosen: The runs that are chosen.
        text: The experiment's file.
        beside: The directory of programs that the experiment names.
        inputs: Directories of inputs that are elsewhere, by the names that the experiment has for them.

    Raises:
        OptionError: The directory exists, or can't be written; or a program, or a file of inputs, is missing.
    """
    programs = {path.name: path.read_bytes() for path in _programs(chosen.plan(), beside)}
    files = _input_files(chosen.plan(), beside, inputs or {})
    if chosen.hosts:
        read_hosts(Path(chosen.hosts))
    try:
        directory.mkdir(parents=True)
        (directory / SAMPLES).touch()
        (directory / EXPERIMENT).write_text(text, encoding="utf-8")
        (directory / PROGRAMS).mkdir()
        for name, program in programs.items():
            (directory / PROGRAMS / name).write_bytes(program)
        for name, path in files.items():
            (directory / INPUTS / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, directory / INPUTS / name)  # keeps the permission to be executed
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
            "sha256": {
                **{name: hashlib.sha256(program).hexdigest() for name, program in programs.items()},
                **{f"{INPUTS}/{name}": sha256_of(path) for name, path in files.items()},
            },
            "command": chosen.command,
            "chosen": chosen.to_json(),
            "started": environment().time,
        },
    )


def _programs(plan: Sequence[Planned], beside: Path) -> list[Path]:
    """Return the files of all programs of a plan, with the circuits of our own."""
    files = set()
    cells_of_ours = {}  # by protocol and variant, of which each has one program
    for planned in plan:
        cell = planned.cell
        if PROGRAM in cell:
            path = beside / str(cell[PROGRAM])
            if not path.is_file():
                raise OptionError(f"There is no program {path}; name one that is there.")
            files.add(path)
        else:
            cells_of_ours[cell.get("protocol"), cell.get("variant")] = cell
    for source in {source_of(cell) for cell in cells_of_ours.values()}:
        files.update(sources_of(source))
    return sorted(files)


def _input_files(plan: Sequence[Planned], beside: Path, elsewhere: Mapping[str, Path]) -> dict[str, Path]:
    """Return the files of inputs of a plan's programs, by their names below a directory of them all."""
    files = {}
    for directory in {str(planned.cell["inputs"]) for planned in plan if _reads_files(planned.cell)}:
        for name, path in input_files(elsewhere.get(directory, beside / directory)).items():
            files[f"{directory}/{name}"] = path
    return files


def _reads_files(cell: Mapping[str, Level]) -> bool:
    return isinstance(cell.get("inputs"), str)


def chosen_in(directory: Path) -> Chosen:
    """Return the choice whose results are in a directory.

    Raises:
        ResultFileError: Another version has written it, or something else is there.
        ExperimentError: The experiment of the results is none of this version.
    """
    refusal = replace(
        not_result(directory / ABOUT, ABOUT),
        way_out="go on with the version that wrote it, or measure into a new directory",
    )
    about = read_result(directory, ABOUT)
    chosen = as_type(_ChosenOnFile, about.get("chosen"), refusal)
    return chosen.with_suite(read_experiment(directory / EXPERIMENT))


def go_on(directory: Path, chosen: Chosen, watch: Watch, place: Place = HERE) -> None:
    """Run what is missing of a choice.

    The first repetitions of all cells come first, then the second ones, and so on. Thus a machine that gets
    slower meets all cells in the same way. A cell that fails is run again only by the next command.

    Guarantees: no cell gets results of two programs, compile options or builds of MP-SPDZ. At an interrupt
    all results so far are on the disk.
    [test: tests/benchmarks/measure/test_runner.py]

    Args:
        directory: The directory of the results.
        chosen: The runs that are chosen.
        watch: A function that is called before each run.
        place: The machine or the hosts on which cells run.

    Raises:
        MixedResultsError: The programs have changed since the results were measured.
        OptionError: Another command runs in the directory.
    """
    path = directory / SAMPLES
    plan = [replace(planned, excluded=place.why_not(planned)) for planned in chosen.plan()]
    with _alone(path):
        samples = load(path)
        check_current(samples, place)
        _change_about(directory, command=chosen.command, chosen=chosen.to_json(), finished=False)
        failed: set[Cell] = set()
        warm: set[tuple[str | None, str]] = set()  # programs and models that have run in this command
        announced: Todo | None = None
        total = sum(planned.repetitions for planned in plan if planned.excluded is None)
        with (
            working_directory(directory) as scratch,
            # each program is compiled anew, once in a command, so that its compile time is known
            patch.dict(os.environ, {"XDG_CACHE_HOME": str(scratch.resolve() / "cache")}),
        ):
            todo = _to_run(plan, samples, chosen.seed, failed)
            while todo:
                run = todo[0]
                planned, repetition = run
                left = [other for other, _ in todo if other.excluded is None]
                if run != announced:  # else the last run was its warm-up
                    watch(total - len(left), total, time_left(todo, samples), run)
                announced = run
                sample = place.measure(chosen.suite.name, planned, repetition, scratch)
                check_alike([earlier for earlier in samples if earlier.key == planned.key], sample)
                program_and_model = (sample.program_hash, model_name(sample.cell))
                if sample.status != OK:
                    failed.add(planned.key)
                elif chosen.suite.warm_up and program_and_model not in warm:
                    warm.add(program_and_model)
                    sample = replace(sample, warm_up=True)
                append(path, sample, schema=SCHEMA)
                samples.append(sample)
                todo = _to_run(plan, samples, chosen.seed, failed)
        _change_about(directory, finished=not missing(plan, samples), ended=environment().time)


def _to_run(
    plan: Sequence[Planned], samples: Sequence[Sample], seed: int | None, failed: set[Cell]
) -> list[Todo]:
    """Return the missing repetitions, in order, without cells that failed in this command."""
    return [todo for todo in missing(plan, samples, seed) if todo[0].key not in failed]


def missing(plan: Sequence[Planned], samples: Sequence[Sample], seed: int | None = None) -> list[Todo]:
    """Return the repetitions to run, in order.

    A skipped cell gets one line. A cell that runs until its interval is narrow gets one more repetition at a
    time.

    Args:
        plan: The cells.
        samples: The results so far.
        seed: The seed of the order of cells within a repetition; None for the order of the plan.
    """
    known = by_cell(samples)
    remaining: list[Todo] = []
    for planned in plan:
        is_skipped = planned.excluded is not None
        status = SKIPPED if is_skipped else OK
        good = [sample for sample in known.get(planned.key, []) if sample.status == status]
        done = {sample.repetition for sample in good}
        wanted = 1 if is_skipped else planned.repetitions
        if planned.until and not is_skipped and len(done) >= wanted:
            is_enough = planned.until.enough([sample.times["mpc_s"] for sample in good])
            wanted = len(done) if is_enough else len(done) + 1
        remaining += [(planned, number) for number in range(wanted) if number not in done]

    def place_in_order(todo: Todo) -> tuple[int, str]:
        planned, repetition = todo
        if seed is None:
            return repetition, ""
        text = f"{seed} {repetition} {planned.key}"
        return repetition, hashlib.sha256(text.encode()).hexdigest()

    return sorted(remaining, key=place_in_order)


def check_current(samples: Sequence[Sample], place: Place = HERE) -> None:
    """Raise MixedResultsError if a cell's program is not the one that was measured."""
    for cell_samples in by_cell(samples).values():
        good = [sample for sample in cell_samples if sample.status == OK]
        now = place.identity(good[0].cell) if good else None
        if now is None:
            continue
        program_hash, engine_version = now
        for sample in good:
            if sample.program_hash != program_hash:
                raise MixedResultsError(_mixed(sample, engine_version))


def check_alike(earlier: Sequence[Sample], sample: Sample) -> None:
    """Raise MixedResultsError if a good result differs from a cell's earlier ones in program or hosts."""
    if sample.status != OK:
        return
    now = _names_of_hosts(sample)
    for other in earlier:
        if other.status != OK:
            continue
        if sample.program_hash != other.program_hash:
            raise MixedResultsError(_mixed(other, sample.engine_version))
        then = _names_of_hosts(other)
        if then != now:
            raise MixedResultsError(
                f"The results on file are of hosts {then or 'none'}, and this one of {now or 'none'}; they "
                "cannot be in one table. Measure into a new directory with --out, or go back to those hosts."
            )


def _names_of_hosts(sample: Sample) -> str:
    return ", ".join(str(host["name"]) for host in sample.hosts)


def _mixed(sample: Sample, version: str | None) -> str:
    what = "program, circuits or compile options"
    if version != sample.engine_version:
        what = f"engine ({sample.engine_version} then, {version} now)"
    return (
        f"The results on file are of another {what} than would run now, as those of {name_of(sample.cell)}; "
        "they cannot be in one table. Measure into a new directory with --out, or go back to what was run."
    )


def time_left(todo: Sequence[Todo], samples: Sequence[Sample]) -> float | None:
    """Estimate the seconds of all missing runs; None if their number or their cost is unknown."""
    seconds = [sample.times["wall_s"] for sample in samples if sample.status == OK]
    left = [planned for planned, _ in todo if planned.excluded is None]
    if not seconds or any(planned.until for planned in left):
        return None
    mean_s: float = statistics.mean(seconds)
    return mean_s * len(left)


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Lock a file of samples, so that no other command measures into its directory."""
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OptionError(f"Another command measures into {path.parent} now; wait for its end.") from None
        yield


def _change_about(directory: Path, **changes: Any) -> None:
    partial = directory / f"{ABOUT}.new"
    about = read_result(directory, ABOUT)
    now = {"machine": to_builtins(hardware()), "environment": to_builtins(environment())}
    write_json(partial, {**about, **now, **changes})
    partial.rename(directory / ABOUT)
