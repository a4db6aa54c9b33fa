"""Result files read back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.errors import ResultFileError
from harness.results import read_result


def test_reads_a_file_or_the_one_of_a_directory(tmp_path: Path) -> None:
    (tmp_path / "thing.json").write_text(json.dumps({"schema": 1, "a": 2}))
    for path in (tmp_path, tmp_path / "thing.json", str(tmp_path)):
        assert read_result(path, "thing.json")["a"] == 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "is not JSON in UTF-8"),
        (b"\xff", "is not JSON in UTF-8"),
        (b"[1]", "is not the thing.json of a run"),
        (b'{"a": 1}', "is not the thing.json of a run"),
        (b'{"schema": 0}', "has schema 0; this version reads schema 1"),
    ],
)
def test_refuses(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "thing.json").write_bytes(content)
    with pytest.raises(ResultFileError, match=message):
        read_result(tmp_path, "thing.json")


def test_absent_file(tmp_path: Path) -> None:
    with pytest.raises(ResultFileError, match="Cannot read"):
        read_result(tmp_path, "thing.json")
