"""A client's own count of the records that it has shared, so that its bound holds over all its uploads."""

import json
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from fairshares.harness.errors import OptionError, RecordsError, cannot, named, named_call
from fairshares.harness.inputs.record_schema import RecordDomain
from fairshares.harness.inputs.records import ClientRecords
from fairshares.harness.system.documents import Refusal, as_type, read_json
from fairshares.harness.system.files import in_turn, sha256_of, write_whole
from fairshares.harness.system.places import way_fault

SCHEMA = 2


@dataclass(frozen=True)
class _Counted:
    records: dict[str, int] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)


def check_cap_is_a_number(domain: RecordDomain) -> None:
    """Raise OptionError if a client's bound can't be counted over several uploads."""
    if domain.cap and domain.cap.weight_one:
        raise OptionError(
            f"{named('counted')} keeps all uploads of a client to one cap, and that of this task is no "
            "number."
        )


def records_left(records: ClientRecords, source: Path, file: Path) -> ClientRecords:
    """Return the records that a client's bound leaves after earlier uploads, or raise RecordsError.

    The file is written first, so records of an upload that fails count as shared.
    Guarantees: all uploads made with this file, even concurrent ones, together hold at most the domain's
    bound of a client's records, if there is one, and come from different sources. Nobody else can put
    another file in its place.
    [test: tests/harness/uploads/test_counted_records.py, tests/harness/uploads/test_places_of_others.py]
    """
    refusal = Refusal(
        RecordsError,
        str(file),
        f"what {named_call('share', counted=True)} writes",
        "restore it, or name another",
    )
    names = list(map(str, records.client_ids))
    before = _Counted()
    cap = records.domain.cap
    if not source.is_file():
        raise RecordsError(f"{named('counted')} knows records by their file, and {source} is none; name one.")
    with cannot(f"write {file}", RecordsError, "nothing was shared"):
        reason = way_fault(file.parent)
        if reason is not None:
            raise RecordsError(
                f"{reason}, so others could replace {file}, which tells what was shared; nothing was shared. "
                f"Name another {named('counted')}, or take that right away (chmod go-w)."
            )
        digest = sha256_of(source)
        with in_turn(file.parent):
            if file.exists():
                before = as_type(_Counted, read_json(file, refusal, SCHEMA), refusal)
            if any(count < 0 for count in before.records.values()):
                refusal.say("a client has fewer than no records")
            if digest in before.files:
                raise RecordsError(
                    f"{source} was shared before, by {file}, and each record is shared once. If these are "
                    "other records that happen to be equal, give the file a column that says so, a date say."
                )
            counted = np.array([before.records.get(name, 0) for name in names])
            shared = records.at_most(np.maximum(cap.slots - counted, 0)) if cap else records
            counted = counted + shared.sizes
            now = {name: count for name, count in zip(names, counted.tolist(), strict=True) if count}
            after = _Counted({**before.records, **now}, [*before.files, digest])
            write_whole(file, json.dumps({"schema": SCHEMA, **vars(after)}).encode() + b"\n")
    return shared
