"""Readers of uploads: files of envelopes, tasks, parties' descriptions, lists, aggregates, partial counts."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import numpy as np

from fairshares.harness.errors import FairSharesError, ShareError
from fairshares.harness.system.stores import File
from fairshares.harness.uploads import counting, envelope_files
from fairshares.harness.uploads.aggregates import check_own, extract_values, read_uploads
from fairshares.harness.uploads.client import seal_upload
from fairshares.harness.uploads.counting import UploadCount
from fairshares.harness.uploads.envelope import KEY, TASK_DIGEST, bound_in, identity_of, info_of
from fairshares.harness.uploads.keys import read_party
from fairshares.harness.uploads.lists import UploadReport, _read_list, common_uploads, write_uploads
from fairshares.harness.uploads.opening import open_envelope
from fairshares.harness.uploads.reasons import CHANGED
from fairshares.harness.uploads.task import task_from_bytes
from tests.fuzz.mutate import Target
from tests.support.envelopes import CAPPED, FileOfBytes, made_task, opener, unsealed
from tests.support.sharing import allowing

_TEMPORARY = TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None)
_PLACE = Path(_TEMPORARY.name)
_TASK = made_task(_PLACE)
_OPENER = opener(_TASK, 0, _PLACE)
_SEALED = [seal_upload(_TASK, np.array([i, 1, 0, 2**40]), None) for i in range(2)]
_STRICT = seal_upload(_TASK, np.array([1, 0, 0, 0]), allowing(("weights",), "1", "1/2"))
_FIRST = _SEALED[0][1][0]


@contextmanager
def _served(content: bytes) -> Iterator[None]:
    def files_in(place: object, suffix: str, *, fetch: bool = True) -> Iterator[File]:
        yield FileOfBytes(f"0{suffix}", len(content), content)

    with patch.object(envelope_files, "files_in", files_in):
        yield


def _read_file_of_envelopes(data: bytes) -> None:
    """Count a file; raise ShareError if nothing in it is an upload."""
    count = UploadCount(_OPENER)
    with _served(data):
        count.add(_PLACE, 0)
    if count.identities - {name for name, _ in (*_SEALED, _STRICT)}:
        raise AssertionError("an upload that nobody made counts")
    if not count.identities:
        raise ShareError("There is no upload.")


def _read_plain(data: bytes) -> None:
    """Open what a client may seal: anything, under the identity that it claims."""
    size = len(unsealed(_TASK, 0, _FIRST, _PLACE / "keys-0"))
    plain = data[:size].ljust(size)
    head = _FIRST[: TASK_DIGEST.stop] + identity_of(_TASK.digest, plain[bound_in(3)]) + _FIRST[KEY]
    envelope = head + _TASK.parties[0].keys[0].seal(plain, info_of(head, 0))
    opened = open_envelope(_TASK, 0, _OPENER.keys, envelope)
    if isinstance(opened, str):
        raise ShareError(opened)
    assert opened.shares.shape == (_TASK.columns, 1)


def _from_file(name: str, read: Callable[[Path], object]) -> Callable[[bytes], None]:
    path = _PLACE / name

    def read_bytes(data: bytes) -> None:
        path.write_bytes(data)
        read(path)

    return read_bytes


def _read_upload_list(path: Path) -> None:
    report = _read_list(path)
    common_uploads([report, report])


def _read_aggregate(path: Path) -> None:
    check_own(path, 0)
    read_uploads(path)
    values = path.with_suffix(".values")
    values.unlink(missing_ok=True)
    extract_values(path, values)


def _read_checkpoint(path: Path) -> None:
    """Go on from a partial count; raise ShareError if nothing of it is taken up."""
    if not UploadCount(_OPENER, None, path).identities:
        raise ShareError("There is no partial count.")


def _read_plain_checkpoint(data: bytes) -> None:
    """Go on from a partial count with any content, as whoever knows the task can seal one."""
    count, path = UploadCount(_OPENER), _PLACE / "plain.partial"
    sealed = _TASK.parties[0].keys[0].seal(data, count._info)
    path.write_bytes(len(sealed).to_bytes(8, "big") + sealed)
    _read_checkpoint(path)


def _list() -> bytes:
    names = [name for name, _ in _SEALED]
    report = UploadReport(0, _TASK.name, frozenset(names), {CHANGED: frozenset(["ab" * 32])})
    write_uploads(report, _PLACE / "seed.uploads", _TASK.signer(0, _PLACE / "keys-0"))
    return (_PLACE / "seed.uploads").read_bytes()


def _aggregate() -> bytes:
    count = UploadCount(_OPENER)
    with _served(_FIRST + _SEALED[1][1][0]):
        count.add(_PLACE, 0)
    count.write(_PLACE / "seed.aggregate", {CHANGED: 1})
    return (_PLACE / "seed.aggregate").read_bytes()


def _checkpoint() -> tuple[bytes, bytes]:
    """Return a checkpoint's file, and the content of its first seal."""
    path, plain = _PLACE / "seed.partial", list[bytes]()
    count, key = UploadCount(_OPENER, None, _PLACE / "seed.partial"), type(_TASK.parties[0].keys[0])
    original = key.seal

    def seal(own: object, content: bytes, info: bytes) -> bytes:
        plain.append(content)
        return original(own, content, info)  # type: ignore[arg-type]

    with (
        patch.object(key, "seal", seal),
        patch.object(counting, "_CHECKPOINT_S", -1.0),
        _served(_FIRST + _STRICT[1][0]),
    ):
        count.add(_PLACE, 0)
    return path.read_bytes(), plain[0]


_SAVED = _checkpoint()
_TASKS = [
    _TASK.text,
    made_task(_PLACE / "slots", "slots", domain=CAPPED).text,
    made_task(_PLACE / "hybrid", "split", "replicated", "ps-rep-ring", hybrid=True).text,
]

TARGETS = [
    Target(
        "envelopes",
        _read_file_of_envelopes,
        [_FIRST, _FIRST + _SEALED[1][1][0], _STRICT[1][0], bytes(len(_FIRST)), 3 * _FIRST],
        (ShareError,),
    ),
    Target(
        "sealed-content",
        _read_plain,
        [
            unsealed(_TASK, 0, envelope, _PLACE / "keys-0")
            for envelope in (_FIRST, _STRICT[1][0], _SEALED[1][1][0])
        ],
        (ShareError,),
    ),
    Target("tasks", lambda data: task_from_bytes(data, "The task"), _TASKS, (FairSharesError,)),
    Target(
        "parties",
        _from_file("party.json", read_party),
        [json.dumps(json.loads(text)["parties"][0]).encode() for text in _TASKS],
        (ShareError,),
    ),
    Target("upload-lists", _from_file("fuzzed.uploads", _read_upload_list), [_list()], (ShareError,)),
    Target("aggregates", _from_file("fuzzed.aggregate", _read_aggregate), [_aggregate()], (FairSharesError,)),
    Target("partial-counts", _from_file("fuzzed.partial", _read_checkpoint), [_SAVED[0]], (ShareError,)),
    Target("partial-counts-content", _read_plain_checkpoint, [_SAVED[1]], (ShareError,)),
]
