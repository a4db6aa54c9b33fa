"""One cap for all uploads of a client: what may still be shared, and a file that errs on the safe side."""

import json
import secrets
import tempfile
import threading
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

from fairshares.harness.errors import RecordsError
from fairshares.harness.inputs.record_schema import Cap, RecordDomain
from fairshares.harness.inputs.records import ClientRecords
from fairshares.harness.system.files import write_whole
from fairshares.harness.uploads import counted_records
from fairshares.harness.uploads.counted_records import records_left

pytestmark = pytest.mark.usefixtures("in_shell")

DOMAIN = RecordDomain(("a", "b"), ("0", "1"), 100, cap=Cap(3))


def records(*clients: int, cap: int | None = 3) -> ClientRecords:
    """Return a record of the client at each place, of three clients; its cell tells the place."""
    client, place = np.array(clients, dtype=np.int64), np.arange(len(clients))
    domain = replace(DOMAIN, cap=Cap(cap) if cap else None)
    return ClientRecords(domain, np.array(["c0", "c1", "c2"]), client, place // 2 % 2, place % 2)


def source(place: Path, text: str = "") -> Path:
    """Return a file of records, whose bytes are those of no other unless they are given."""
    path = place / "mine.csv"
    path.write_text(text or secrets.token_hex(8))
    return path


@given(st.lists(st.lists(st.integers(0, 2), max_size=8), max_size=4), st.integers(1, 5))
def test_all_uploads_hold_no_more_than_the_cap(uploads: list[list[int]], cap: int) -> None:
    with tempfile.TemporaryDirectory() as place:
        file, shared_so_far, had = Path(place) / "counted.json", Counter[int](), Counter[int]()
        for upload in uploads:
            kept = records_left(records(*upload, cap=cap), source(file.parent), file)
            assert kept.clients == 3 and Counter(kept.client.tolist()) <= Counter(upload)
            shared_so_far.update(kept.client.tolist())
            had.update(upload)
            assert shared_so_far == Counter({who: min(cap, count) for who, count in had.items()})
            assert json.loads(file.read_text())["records"] == {
                f"c{who}": n for who, n in shared_so_far.items() if n
            }


def test_what_is_kept_is_a_random_choice(tmp_path: Path) -> None:
    """Of 4 records of a client one: the first, 40 times in turn, has probability 4^-40."""
    tries = [records_left(records(0, 0, 0, 0, cap=1), source(tmp_path), tmp_path / str(i)) for i in range(40)]
    assert len({int(2 * chosen.group[0] + chosen.label[0]) for chosen in tries}) > 1


@pytest.mark.parametrize(
    "text",
    [
        *("", "{}", '{"schema": 2, "records": {"c0": "2"}}', '{"schema": 1, "records": {}}'),
        *('{"schema": 2, "records": {"c0": -1}}', '{"schema": 2, "files": [1]}'),
    ],
)
def test_a_file_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "counted.json"
    file.write_text(text)
    with pytest.raises(RecordsError, match=r"is not what ./inv share --counted writes: .*; restore it"):
        records_left(records(0), source(tmp_path), file)
    assert file.read_text() == text


def test_of_two_at_once_the_second_sees_what_the_first_shared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first is held up where it has read the file and has not written it yet."""
    file, held, reading = tmp_path / "counted.json", [], threading.Event()
    second = threading.Thread(target=lambda: held.append(records_left(records(0, 0), source(tmp_path), file)))

    def then_the_second(path: Path, text: bytes) -> None:
        if not reading.is_set():
            reading.set()
            second.start()
            second.join(0.2)  # which it does not end in, unless it goes on without waiting
            assert not held
        write_whole(path, text)

    monkeypatch.setattr(counted_records, "write_whole", then_the_second)
    held.append(records_left(records(0, 0), source(tmp_path), file))
    second.join()
    assert [len(upload.client) for upload in held] == [2, 1]
    assert json.loads(file.read_text())["records"] == {"c0": 3}


def test_nothing_is_shared_that_cannot_be_written_down(tmp_path: Path) -> None:
    with pytest.raises(RecordsError, match=r"Cannot write .*; nothing was shared\."):
        records_left(records(0), source(tmp_path), tmp_path / "nowhere" / "counted.json")


@pytest.mark.parametrize("cap", [None, 1])
def test_a_file_of_records_is_shared_once(tmp_path: Path, cap: int | None) -> None:
    """Whatever it is called; without a cap all of another file's records are shared."""
    file, again = tmp_path / "counted.json", tmp_path / "again.csv"
    first = records_left(records(0, 0, cap=cap), source(tmp_path, "a"), file)
    second = records_left(records(0, 1, cap=cap), source(tmp_path, "b"), file)
    assert [len(remaining.client) for remaining in (first, second)] == ([2, 2] if cap is None else [1, 1])
    state = file.read_text()
    again.write_text("a")
    with pytest.raises(
        RecordsError, match=r"again\.csv was shared before, by .*, and each record is shared once"
    ):
        records_left(records(2, cap=cap), again, file)
    with pytest.raises(RecordsError, match="knows records by their file"):
        records_left(records(2, cap=cap), tmp_path, file)
    assert file.read_text() == state
