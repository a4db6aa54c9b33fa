"""The measured runs that the repository carries: whole suites, each cell of one program."""

import json
from pathlib import Path

import pytest

from benchmarks.measure.runner import chosen_in
from benchmarks.measure.samples import ABOUT, FAILED, OK, by_cell, load
from benchmarks.suites import SUITES
from tests.conftest import PROJECT

RESULTS = [PROJECT / "benchmarks" / "results" / name for name in SUITES]


@pytest.mark.parametrize("directory", RESULTS, ids=[path.name for path in RESULTS])
def test_recorded_results_are_a_whole_suite(directory: Path) -> None:
    about = json.loads((directory / ABOUT).read_text())
    assert about["suite"] == directory.name and about["finished"] is True
    cells = by_cell(load(directory))
    plan = {planned.key: planned for planned in chosen_in(directory).plan()}
    assert set(cells) == set(plan)
    for key, samples in cells.items():
        good = [sample for sample in samples if sample.status == OK]
        assert FAILED not in {sample.status for sample in samples}, key
        assert not good or len(good) >= plan[key].repetitions, key
        assert len({(sample.program_hash, sample.engine_version) for sample in good}) <= 1, key
