"""Where shares are written: not where others write, not over others' files, not under a name to guess."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.errors import ShareError
from harness.inputs.record_schema import RecordDomain
from harness.inputs.records import ClientRecords
from harness.inputs.rings import RING
from harness.inputs.shares import client as sharing
from harness.inputs.shares.client import Client
from harness.inputs.shares.file_format import extract_values, read_header
from harness.inputs.shares.party import aggregate
from protocols.spec import SPLIT
from tests.support.sharing import share

DOMAIN = RecordDomain(("a", "b"), ("0", "1"))


@pytest.fixture
def one() -> ClientRecords:
    zero = np.array([0])
    return ClientRecords(DOMAIN, np.array(["k"]), zero, zero, zero)


def names_below(directory: Path) -> set[str]:
    return {str(path.relative_to(directory)) for path in directory.rglob("*")}


@pytest.mark.parametrize("mode", [0o777, 0o730])
def test_a_directory_that_others_write_to_takes_no_shares(
    mode: int, one: ClientRecords, tmp_path: Path
) -> None:
    """They could put a share of their own in place of this one."""
    theirs = tmp_path / "shares" / "party-1"
    theirs.mkdir(parents=True)
    theirs.chmod(mode)
    before = names_below(tmp_path)
    with pytest.raises(ShareError) as error:
        share(one, SPLIT, RING, 3, tmp_path / "shares")
    assert str(error.value) == (
        f"Other users can write to {theirs}, so others could replace shares; "
        "name another --out, or chmod go-w it."
    )
    assert names_below(tmp_path) == before
    theirs.chmod(0o750)
    share(one, SPLIT, RING, 3, tmp_path / "shares")


@pytest.mark.parametrize("call", range(6))
@pytest.mark.parametrize("step", ["fsync", "rename"])
def test_uploads_in_parts_are_all_there_or_none(
    step: str, call: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else who shares again, after a disk was full, shares the first parts twice."""
    alternating = np.arange(3) % 2
    three = ClientRecords(DOMAIN, np.array(["k", "l", "m"]), np.arange(3), alternating, alternating)
    monkeypatch.setattr(sharing, "MAX_VALUES", 4)  # of one client
    where: Any = os if step == "fsync" else Path
    real, calls = getattr(where, step), iter(range(100))

    def fails_once(*arguments: Any) -> Any:
        if next(calls) == call:
            raise OSError(28, "No space left on device")
        return real(*arguments)

    monkeypatch.setattr(where, step, fails_once)
    with pytest.raises(ShareError, match="nothing was left there"):
        Client(SPLIT, RING, 2).share(three, tmp_path / "shares")
    assert names_below(tmp_path) == set()
    batches = Client(SPLIT, RING, 2).share(three, tmp_path / "shares")
    files = {f"party-{i}/{batch}.share" for i in range(2) for batch in batches}
    assert names_below(tmp_path / "shares") == {"party-0", "party-1", *files} and len(files) == 6


def test_an_uploads_identity_is_salted_and_not_made_from_its_shares_alone(
    one: ClientRecords, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else who knows the shares' files could tell two clients' equal ones, or take one upload for another."""
    same = list(sharing.split_into_shares(RING.encode(np.array([1, 0, 0, 0])), RING, 2))
    monkeypatch.setattr(sharing, "split_into_shares", lambda *_: same)
    batches = {share(one, SPLIT, RING, 2, tmp_path) for _ in range(20)}
    assert len(batches) == 20 and all(len(batch) == 64 for batch in batches)


def test_nothing_is_written_through_a_link(one: ClientRecords, tmp_path: Path) -> None:
    """In a directory that others write to, such as /tmp, they may have put links where files are expected."""
    share(one, SPLIT, RING, 2, tmp_path / "shares")
    victim = tmp_path / "victim"
    victim.write_text("precious")
    out = tmp_path / "out"
    for name in ("out", "out.partial"):
        (tmp_path / name).symlink_to(victim)
    aggregate(0, tmp_path / "shares" / "party-0", out)
    assert victim.read_text() == "precious"
    assert not out.is_symlink() and read_header(out).kind == "aggregate"
    assert out.stat().st_mode & 0o777 == 0o600

    values = tmp_path / "values"
    values.symlink_to(victim)
    with pytest.raises(FileExistsError):
        extract_values(out, values)
    assert victim.read_text() == "precious"
    values.unlink()
    values.symlink_to(tmp_path / "nowhere")
    with pytest.raises(OSError, match=r"exists|symbolic"):
        extract_values(out, values)
    assert not (tmp_path / "nowhere").exists()
