"""A host's uploads: it lists its own, receives other lists, and adds up the common ones."""

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.errors import HostUnfitError, ShareError
from harness.hosts import keys
from harness.hosts.guard import Guard
from harness.hosts.signed_results import (
    AGGREGATE,
    UPLOADS,
    Signed,
    UploadList,
    lists_of_others,
    sign,
)
from harness.inputs.record_schema import RecordDomain
from harness.inputs.shares.aggregates import check_own, extract_values
from harness.inputs.shares.counting import Count, Opener
from harness.inputs.shares.file_format import AGGREGATE_SUFFIX, SUFFIX, ClientPolicy
from harness.inputs.shares.party import LIST_SUFFIX, read_lists, write_uploads
from harness.inputs.shares.task import read_task
from harness.pipeline.preprocessing import joint_noise_of, terms_of
from harness.pipeline.sources import PartyInputs, check_task, inputs_in
from harness.system.files import append
from protocols.spec import REPLICATED

AGGREGATES = "aggregates"  # in a host's directory, placed by its owner like the next three
SHARES, TASK, SEALING = "shares", "task.json", "sealing"  # uploads, what they are for, and the party's keys
CHECKPOINT = "count.partial"  # the counts so far, sealed for the host itself, in case its process dies
PIECE = 1 << 24  # bytes of a list in one message
_NOT_LISTED = "It was told of others' uploads before it listed its own."


class Uploads:
    """The uploads of one run at one host; public methods are requests to the agent.

    Nothing in a request becomes an upload or an aggregate: only the owner places those.

    Attributes:
        terms: Name of the noise made ahead that the run uses.
    """

    REQUESTS = ("check_uploads", "read_list", "take_list", "aggregate")

    def __init__(
        self,
        directory: Path,
        guard: Guard,
        own: keys.RunKeys,
        scratch: Path,
        nonce: str,
    ) -> None:
        self._directory, self._guard, self._keys = directory, guard, own
        self._scratch, self._nonce = scratch, nonce
        self._shares = directory / SHARES  # clients' uploads, placed there for the owner
        self._lists = scratch / "lists"
        self._lists.mkdir()
        self._count: Count | None = None  # of the uploads that it listed
        self._policies: Mapping[str, ClientPolicy] = {}  # of their clients
        self._own = Path()  # the list that it signed
        self._told: dict[int, Signed] = {}  # lists of other parties' hosts
        self._adding = False  # whether it has begun to add up
        self.heard: dict[int, UploadList] = {}
        self.inputs: PartyInputs | None = None
        self.values: Path | None = None
        self.source = ""
        self.terms = ""

    def check_uploads(self, party: int) -> dict[str, str] | None:
        """Return the signed list of sound uploads in the host's own directory; None if there is an aggregate.

        Reveals: identities, and why others are left out.

        Raises HostUnfitError if it has listed them before, ShareError if it has no uploads or key, or as
        `RunKeys.check`.
        """
        if self._aggregate_beside(self._shares) is not None:
            return None
        once(self._count, "listed its uploads")
        self._keys.check(party)
        release, task = self._guard.release, read_task(self._directory / TASK)
        check_task(task, release.form, release.security)
        self._guard.check_task(task.name)
        opener = Opener(task, party, task.secrets(party, self._directory / SEALING))
        self._count = self._counted(opener)
        self._policies, self._own = self._count.policies, self._list_of(party)
        write_uploads(self._guard.judged(self._count.report(), self._policies, task.domain), self._own)
        self.heard[party] = UploadList(self._nonce, _digest(self._own))
        return sign(self.heard[party], self._keys.own(party))

    def _counted(self, opener: Opener, accepted: Collection[str] | None = None) -> Count:
        """Count uploads, from a dead process's checkpoint, but none that have been removed since."""
        checkpoint = self._directory / CHECKPOINT
        count = Count(opener, accepted, checkpoint)
        count.add(self._shares)
        if not count.gone:
            return count
        checkpoint.unlink()
        return self._counted(opener, accepted)

    def _list_of(self, party: int) -> Path:
        return self._lists / f"party-{party}{LIST_SUFFIX}"

    def read_list(self, at: int) -> str:
        """Return a piece of its list, from a byte on, "" at the end."""
        if self._count is None:
            raise HostUnfitError(_NOT_LISTED)
        with self._own.open("rb") as file:
            file.seek(at)
            return file.read(PIECE).decode()

    def take_list(self, of: int, signed: Signed, at: int, piece: str) -> None:
        """Take a piece, from byte `at` on, of another party's signed list."""
        if of not in range(self._guard.release.security.parties):
            raise HostUnfitError("It was told of uploads of a party that its model does not have.")
        self._told[of] = signed
        append(self._list_of(of), at, piece.encode())

    def aggregate(self, party: int) -> dict[str, Any]:
        """Aggregate this party's shares; return the facts that all may know.

        The shares are the one file in the host's own `aggregates`, or the uploads in `shares` that are in all
        lists.
        Guarantees: replicated shares are added up here, each compared with its digest in the identity. So
        hosts that begin the same run have the same of each share.
        [test: tests/harness/hosts/test_replicated_shares.py]
        Reveals: the aggregate's header, the uploads' identities and size; how many were left out, by reason;
        the names of noise that was made ahead.

        Raises ShareError if there are none, too few, or several aggregates, or one of replicated shares; or
        as `lists_of_others`.
        """
        release, scratch, shares = self._guard.release, self._scratch, self._shares
        once(self._adding, "been asked to add its shares up")
        self._adding = True
        ready = self._aggregate_beside(shares)
        if ready and release.form.path is REPLICATED:
            raise ShareError(
                f"{ready.name} was added up before, and hosts compare replicated shares upload by upload; "
                "give each host the uploads instead."
            )
        aggregated = ready or scratch / f"party-{party}.aggregate"
        if not ready:
            self._add_up(party, aggregated)
        header = check_own(aggregated, party)
        self._guard.check_task(header.task.name)
        inputs = inputs_in(header, aggregated, release.form, release.security)
        if not ready:  # each client's own policy, in place of the common one
            inputs = replace(inputs, policies={client: self._policies[client] for client in inputs.batches})
        self.source = AGGREGATE if ready else UPLOADS
        self.inputs = inputs
        self.values = extract_values(aggregated, scratch / "values")
        with aggregated.open("rb") as file:
            head = file.readline() + file.readline()
        return {
            "head": head.decode(),
            "bytes": sum(path.lstat().st_size for path in shares.glob(f"*{SUFFIX}")),
            "left_out": header.excluded,
            "pieces": self._pieces(party, inputs.domain) if release.offline else [],
        }

    def _pieces(self, party: int, domain: RecordDomain) -> list[str]:
        self.terms = terms_of(joint_noise_of(self._guard.prepared(domain)), self._keys.fingerprints(party))
        return self._guard.stock.pieces(self.terms, party)

    def _add_up(self, party: int, out: Path) -> None:
        count = self._count
        if count is None:
            raise HostUnfitError(_NOT_LISTED)
        self.heard.update(lists_of_others(self._told, self._keys.others(party)))
        for of, upload_list in self.heard.items():
            if _digest(self._list_of(of)) != upload_list.digest:
                raise HostUnfitError(
                    f"It was told another list of party {of} than that party's host signed; start again."
                )
        agreement = read_lists(self._lists, count.opener.task, signed=False)
        if count.identities != agreement.accepted:
            count = self._counted(count.opener, agreement.accepted)
        count.write(out, agreement.left_out)

    def _aggregate_beside(self, shares: Path) -> Path | None:
        ready = sorted((self._directory / AGGREGATES).glob(f"*{AGGREGATE_SUFFIX}"))
        uploads = next(shares.glob(f"*{SUFFIX}"), None) if ready else None
        if len(ready) > 1 or uploads:
            raise ShareError(
                f"{self._directory} holds {ready[0].name} in `{AGGREGATES}` and, beside it, "
                f"{(uploads or ready[-1]).name}; leave one aggregate, or the uploads."
            )
        return ready[0] if ready else None


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def once(done: object, what: str) -> None:
    """Raise HostUnfitError if this connection has done that already: what was checked stays what runs."""
    if done:
        raise HostUnfitError(f"It has {what} already; a connection is for one run.")
