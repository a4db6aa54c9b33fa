"""Result files: what is read is what was written, and tables of other shapes are no result."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fairshares as fs
from fairshares.harness.releases.base import statistic_class
from fairshares.harness.releases.files import file_to_json, needed_file, read_file
from fairshares.harness.releases.weights.statistic import WeightsFile
from tests.conftest import PROJECT

GOLDEN = PROJECT / "tests" / "golden" / "1.0"
TASKS = ("weights", "confusion", "thresholds", "gap", "count", "cap")
OF_ANY_LENGTH = {"revealed", "public", "cautions", "privacy_by_size", "caps"}


def files_of(task: str) -> list[Path]:
    """Return a run's result files."""
    return [path for path in sorted((GOLDEN / task).glob("*.json")) if path.name != "manifest.json"]


@pytest.mark.parametrize("task", TASKS)
def test_files_of_1_0_are_written_as_they_were(task: str) -> None:
    """With the same fields, each of the same value."""
    kinds = {kind.file_name: kind for kind in statistic_class(task).file_types}
    for path in files_of(task):
        written = json.loads(json.dumps(file_to_json(read_file(path, kinds[path.name]))))
        assert written == json.loads(path.read_text())


def lists_in(value: Any, place: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yield the places of all lists in a document, but those of any length."""
    if isinstance(value, list):
        yield place
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, inner in pairs:
        if name not in OF_ANY_LENGTH:
            yield from lists_in(inner, (*place, name))


@pytest.mark.parametrize("task", TASKS)
def test_a_list_that_is_too_short_is_no_result(task: str, tmp_path: Path) -> None:
    for path in files_of(task):
        whole = path.read_text()
        for number, place in enumerate(lists_in(json.loads(whole))):
            fields: Any = json.loads(whole)
            shortened: Any = fields
            for step in place:
                shortened = shortened[step]
            if not shortened:
                continue
            shortened.pop()
            run = shutil.copytree(GOLDEN / task, tmp_path / f"{path.stem}-{number}")
            (run / path.name).write_text(json.dumps(fields))
            with pytest.raises(fs.FairSharesError):
                pytest.fail(f"{path.name} without {place}: {fs.load(run)}")


def test_a_missing_file_is_named() -> None:
    with pytest.raises(fs.FairSharesError, match=r"weights\.json is missing"):
        needed_file([], WeightsFile)
