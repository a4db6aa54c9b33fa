"""`share` shares whatever its client has, and tells that client alone what counts for nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command import call, files_below, refused

DECLARED = ("--groups", "a,b", "--labels", "0,1", "--max-count", "2", "--model", "mpyc")


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """Return a directory with records of one client: two that count, one with another label, one too many."""
    rows = "me,a,0\nme,a,2\nme,a,0\nme,a,0\n"
    (tmp_path / "mine.csv").write_text(f"client_id,group,label\n{rows}")
    return tmp_path


def test_a_check_says_what_would_be_left_out_and_writes_nothing(here: Path) -> None:
    before = files_below(here)
    done = call("share", "--records", "mine.csv", *DECLARED, "--check", cwd=here)
    assert done.returncode == 0 and files_below(here) == before
    assert done.stdout == "2 records of 1 client would be shared; nothing was.\n"
    assert "mine.csv, row 3: label '2' is not declared (declared: 0, 1); left out." in done.stderr
    assert (
        "more records than the maximum of 2, of which as many are drawn at random; left out." in done.stderr
    )


@pytest.mark.parametrize("form", ["split", "product"])
def test_an_upload_is_as_long_whatever_was_left_out(form: str, here: Path) -> None:
    (here / "other.csv").write_text("client_id,group,label\nme,b,1\n")
    sizes = set()
    for name in ("mine", "other"):
        options = ("--records", f"{name}.csv", *DECLARED, "--input-form", form, "--out", name)
        assert call("share", *options, cwd=here).returncode == 0
        files = sorted((here / name).rglob("*.share"))
        assert len(files) == 3
        sizes.add(tuple(path.stat().st_size for path in files))
    assert len(sizes) == 1


def test_a_file_that_cannot_be_read_is_refused(here: Path) -> None:
    (here / "mine.csv").write_text("client_id,group\nme,a\n")
    assert "has no column label" in refused(
        "share", "--records", "mine.csv", *DECLARED, "--out", "s", cwd=here
    )
    assert "--out is missing" in refused("share", "--records", "mine.csv", *DECLARED, cwd=here)
