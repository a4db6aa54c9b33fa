"""How many of a client's records its earlier uploads hold, so that it keeps all of them to one cap."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from harness.errors import RecordsError
from harness.inputs.contribution_bounds import Cap
from harness.inputs.records import ClientRecords
from harness.system.documents import Refusal, as_type, read_json
from harness.system.files import in_turn, write_whole

SCHEMA = 1


@dataclass(frozen=True)
class _Counted:
    """What the file holds: by client, how many of its records went into uploads."""

    records: dict[str, int]


def of_what_is_left(records: ClientRecords, cap: Cap, file: Path) -> ClientRecords:
    """Return the records that may be shared: no more of a client than its cap leaves after earlier uploads.

    The file is written before anything is shared: records of an upload that then fails count as shared.
    Guarantees: all uploads of a client that were made with this file, several at once, too, hold `cap`
    records of it at most.  [test: tests/harness/inputs/test_counted.py]
    Args: file: made if it is not there. Raises: RecordsError: it holds something else, or cannot be written.
    """
    refusal = Refusal(RecordsError, str(file), "what share --counted writes", "restore it, or name another")
    names = list(map(str, records.client_ids))
    try:
        with in_turn(file.parent):
            before = (
                as_type(_Counted, read_json(file, refusal, SCHEMA), refusal).records if file.exists() else {}
            )
            if any(count < 0 for count in before.values()):
                refusal.say("a client has fewer than no records")
            counted = np.array([before.get(name, 0) for name in names])
            found = records.at_most(np.maximum(cap.slots - counted, 0))
            counted = counted + np.bincount(found.client, minlength=found.clients)
            now = {name: count for name, count in zip(names, counted.tolist(), strict=True) if count}
            text = json.dumps({"schema": SCHEMA, "records": {**before, **now}}).encode() + b"\n"
            write_whole(file, text)
    except OSError as error:
        raise RecordsError(f"Cannot write {file}: {error.strerror}; nothing was shared.") from None
    return found
