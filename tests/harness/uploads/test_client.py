"""Where shares are written: not where others write, not over others' files, not under a name to guess."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairshares.harness.errors import ShareError
from fairshares.harness.inputs.record_schema import RecordDomain
from fairshares.harness.inputs.records import ClientRecords
from fairshares.harness.inputs.rings import RING
from fairshares.harness.inputs.shares import split_into_shares
from fairshares.harness.security_models import MODELS
from fairshares.harness.uploads import client as sealing
from fairshares.harness.uploads.aggregates import extract_values, read_header
from fairshares.protocols.spec import SPLIT
from tests.support.envelopes import counts
from tests.support.sharing import share, trial

pytestmark = pytest.mark.usefixtures("in_shell")

DOMAIN = RecordDomain(("a", "b"), ("0", "1"))
MODEL = MODELS["ring"]


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
    task = trial(DOMAIN, SPLIT, MODEL, tmp_path / "task")
    theirs.mkdir(parents=True)
    theirs.chmod(mode)
    before = names_below(tmp_path)
    with pytest.raises(ShareError) as error:
        sealing.share(task, one, tmp_path / "shares")
    assert str(error.value) == (
        f"Other users can write to {theirs}, so others could replace shares; "
        "name another --out, or chmod go-w it."
    )
    assert names_below(tmp_path) == before
    theirs.chmod(0o750)
    sealing.share(task, one, tmp_path / "shares")


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()], ids=repr)
@pytest.mark.parametrize("call", range(9))
@pytest.mark.parametrize("step", ["fsync", "rename"])
def test_uploads_of_a_file_are_all_there_or_none(
    step: str, call: int, error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else who shares again, after a disk was full, shares the first ones twice; an earlier upload stays."""
    task = trial(DOMAIN, SPLIT, MODEL, tmp_path)
    alternating = np.arange(3) % 2
    three = ClientRecords(DOMAIN, np.array(["k", "l", "m"]), np.arange(3), alternating, alternating)
    where: Any = os if step == "fsync" else Path
    real, calls = getattr(where, step), iter(range(100))

    def fails_once(*arguments: Any) -> Any:
        if next(calls) == call:
            raise error
        return real(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(where, step, fails_once)
        with pytest.raises(ShareError if isinstance(error, OSError) else KeyboardInterrupt):
            sealing.share(task, three, tmp_path / "shares")
    assert not (tmp_path / "shares").exists()
    earlier = sealing.share(task, three, tmp_path / "shares")
    before = names_below(tmp_path / "shares")
    assert before == {
        f"party-{i}{file}" for i in range(3) for file in ("", *(f"/{e}.share" for e in earlier))
    }
    calls = iter(range(100))
    monkeypatch.setattr(where, step, fails_once)
    with pytest.raises(ShareError if isinstance(error, OSError) else KeyboardInterrupt):
        sealing.share(task, three, tmp_path / "shares")
    assert names_below(tmp_path / "shares") == before


def test_an_uploads_identity_is_salted_and_not_made_from_its_shares_alone(
    one: ClientRecords, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else who knows the shares' files could tell two clients' equal ones, or take one upload for another."""
    same = list(split_into_shares(RING.encode(np.array([1, 0, 0, 0])), RING, 3))
    monkeypatch.setattr(sealing, "split_into_shares", lambda *_: same)
    batches = {share(one, SPLIT, MODEL, tmp_path) for _ in range(20)}
    assert len(batches) == 20 and all(len(batch) == 64 for batch in batches)


def test_nothing_is_written_through_a_link(one: ClientRecords, tmp_path: Path) -> None:
    """In a directory that others write to, such as /tmp, they may have put links where files are expected."""
    share(one, SPLIT, MODEL, tmp_path / "shares")
    victim = tmp_path / "victim"
    victim.write_text("precious")
    out = tmp_path / "out"
    for name in ("out", "out.partial"):
        (tmp_path / name).symlink_to(victim)
    task = trial(DOMAIN, SPLIT, MODEL, tmp_path / "shares")
    counts(task, tmp_path / "shares", shares=tmp_path / "shares")[0].write(out, {})
    assert victim.read_text() == "precious"
    assert not out.is_symlink() and read_header(out).uploads == 1
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
