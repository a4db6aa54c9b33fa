"""A party's work on its uploads before a run: it lists the sound ones, then adds up those in all lists.

The parties exchange their lists in between, as `lists.py` describes them.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from fairshares.harness.uploads.aggregates import Header
from fairshares.harness.uploads.counting import Opener, OpeningPlace, UploadCount, kept_count
from fairshares.harness.uploads.files import check_place, place_of_party
from fairshares.harness.uploads.lists import (
    LIST_SUFFIX,
    UploadReport,
    new_uploads,
    read_lists,
    write_uploads,
)


class EarlierRuns(Protocol):
    """A party's knowledge of the runs that counted its uploads before."""

    def check_open(self, task: str) -> None:
        """Raise UsedUploadsError if a task, by its digest, was closed: its uploads are counted no more."""
        ...

    def counted(self, uploads: Iterable[str]) -> Collection[str]:
        """Return the uploads among these, by identity, that the run of the list may not count again."""
        ...


@dataclass(frozen=True)
class ListedUploads:
    """A party's uploads, as it has listed them.

    Attributes:
        report: The list, without its signature.
        repeated: The number of further envelopes that repeat a sound upload, or claim to be one.
    """

    report: UploadReport
    repeated: int


def list_uploads(
    opener: Opener, place: Path | str, out: Path, keys: Path, *, earlier: EarlierRuns
) -> ListedUploads:
    """Write a party's signed list of its uploads, and keep their count, sealed, for `aggregate`.

    Guarantees: an upload that earlier runs counted is in no list of sound uploads.
    [test: tests/harness/uploads/test_party.py]

    Args:
        opener: Opens the party's envelopes.
        place: The place of the uploads: a directory, which may have one for each party, or an object store.
        out: The file of the list.
        keys: The party's directory of keys, one of which signs the list.
        earlier: The runs that counted uploads before.

    Raises:
        ShareError: The directory of keys has the keys of another party, the uploads cannot be read, or a file
            cannot be written.
        UsedUploadsError: The task was closed, or earlier runs counted all sound uploads.
    """
    task = opener.task
    key = task.signer(opener.party, keys)
    earlier.check_open(task.name)
    count = UploadCount(opener)
    count.add(place_of_party(place, opener.party))
    report = count.report()
    listed = new_uploads(report, earlier.counted(report.sound))
    write_uploads(listed, out, key)
    count.keep(_kept_beside(out))
    return ListedUploads(listed, count.repeated)


def aggregate(
    opener: Opener, place: Path | str, lists: Path, out: Path, opened_by: OpeningPlace | None = None
) -> Header:
    """Add up a party's shares of the uploads that are sound in all parties' lists.

    What `list_uploads` has kept beside the party's own list is used if it has all of these uploads. Otherwise
    they are counted anew, and a count that was interrupted goes on.

    Args:
        opener: Opens the party's envelopes.
        place: The place of the uploads, as for `list_uploads`.
        lists: The directory of all parties' lists, `party-<i>.uploads`.
        out: The file of the aggregate.
        opened_by: The machines that open envelopes in place of this machine.

    Returns:
        The aggregate's header.

    Raises:
        ShareError: Others could replace the aggregate, a list is missing or unsigned, no upload is sound
            at all parties, or uploads are gone or too few.
    """
    check_place(out)
    agreement = read_lists(lists, opener.task)
    within = place_of_party(place, opener.party)
    own_list = lists / f"party-{opener.party}{LIST_SUFFIX}"
    count = kept_count(opener, within, _kept_beside(own_list), agreement.accepted)
    if count is None:
        partial = out.with_name(f"{out.name}.partial")
        count = UploadCount(opener, agreement.accepted, partial)
        count.add(within, opened_by=opened_by)
    return count.write(out, agreement.left_out)


def _kept_beside(own_list: Path) -> Path:
    """Return the file that keeps the count of a party's list, sealed for the party, until it is added up."""
    return own_list.with_name(f"{own_list.name}.count")
