"""Result files read back."""

import json
from pathlib import Path

import pytest

from fairshares.harness.errors import ResultFileError, WriteError
from fairshares.harness.system.result_files import new_directory, read_result


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


def test_a_directory_that_another_run_made_meanwhile_is_left_as_it_is(tmp_path: Path) -> None:
    out = tmp_path / "results"

    def write() -> None:
        with new_directory(out) as partial:
            (partial / "mine").touch()
            out.mkdir()
            (out / "theirs").touch()

    with pytest.raises(WriteError, match=r"^Another run made .*results meanwhile; no result of this was"):
        write()
    assert [path.name for path in tmp_path.rglob("*")] == ["results", "theirs"]
