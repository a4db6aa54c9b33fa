"""Where the commands that tests disturb run, unless a test makes a place of its own."""

from pathlib import Path

import pytest

from tests.support.surroundings import Surroundings


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """Return a directory with records and nothing else."""
    directory = tmp_path / "here"
    directory.mkdir()
    (directory / "records.csv").write_text("client_id,group,label\nc0,a,0\nc1,b,1\n")
    return directory


@pytest.fixture
def around(tmp_path: Path) -> Surroundings:
    """Return what can be made hostile about it."""
    return Surroundings(tmp_path / "around")
