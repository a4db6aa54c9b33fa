"""What a host takes of uploads: it lists what it has, hears the other hosts' lists, adds up what follows."""

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
    Heard,
    Signed,
    UploadList,
    heard_of,
    lists_of_others,
    sign,
)
from harness.inputs.record_schema import RecordDomain
from harness.inputs.shares.aggregates import check_own, extract_values
from harness.inputs.shares.counting import Count, Opener
from harness.inputs.shares.file_format import AGGREGATE_SUFFIX, SUFFIX, ClientPolicy
from harness.inputs.shares.party import UploadReport, common_uploads
from harness.inputs.shares.task import read_task
from harness.pipeline.party_inputs import PartyInputs, check_task, inputs_in
from harness.pipeline.preprocessing import joint_noise_of, terms_of
from protocols.spec import REPLICATED

AGGREGATES = "aggregates"  # in a host's directory, by its owner, as are the following
SHARES, TASK, SEALING = "shares", "task.json", "sealing"  # uploads, what they are for, and the party's keys


class Uploads:
    """The uploads of one run, as one host has them. Its public methods are requests to the agent.

    Nothing that comes by a request is taken for an upload or an aggregate: those are the owner's to place.
    Args: directory: the host's own; guard: the run's; own: the host's keys; scratch: a directory for the run;
    nonce: the host's own, drawn for the run.
    Attributes: inputs, values: what was added up, None before that; source: which of these it was, "" before
    that; heard: of all parties' lists, if all take what follows from these; terms: what names the noise that
    the run takes, if it was made ahead.
    """

    REQUESTS = ("check_uploads", "take_list", "aggregate")

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
        self._shares = directory / SHARES  # where the owner has clients' uploads placed
        self._opener: Opener | None = None
        self._report: UploadReport | None = None
        self._policies: Mapping[str, ClientPolicy] = {}  # of the clients of these
        self._listed: Heard | None = None  # what it signed of them
        self._told: dict[int, Signed] = {}  # by other parties' hosts
        self._adding = False  # whether it has begun to
        self.heard: dict[int, Heard] = {}
        self.inputs: PartyInputs | None = None
        self.values: Path | None = None
        self.source = ""
        self.terms = ""

    def check_uploads(self, party: int) -> dict[str, str] | None:
        """Say, signed, which uploads in the host's own directory are sound; None if they are aggregated.

        Reveals: identities, and why others are left out.
        Raises: HostUnfitError: it has said that; ShareError: it has no uploads for this run, or no key; as
        `keys.check_keys`.
        """
        if self._aggregate_beside(self._shares) is not None:
            return None
        once(self._report, "listed its uploads")
        self._keys.check(party)
        release, task = self._guard.release, read_task(self._directory / TASK)
        check_task(task, release.form, release.security)
        self._guard.check_task(task.name)
        self._opener = Opener(task, party, task.secrets(party, self._directory / SEALING))
        count = self._counted(self._opener)
        self._policies = count.policies
        self._report = self._guard.judged(count.report(), self._policies, task.domain)
        signed = sign(UploadList(self._nonce, self._report.to_json()), self._keys.own(party))
        self._listed = heard_of(self._nonce, signed["said"])
        return signed

    def _counted(self, opener: Opener, accepted: Collection[str] | None = None) -> Count:
        count = Count(opener, accepted)
        count.add(self._shares)
        return count

    def take_list(self, of: int, signed: Signed) -> None:
        """Take what another party's host signed of its uploads; what all take follows from all lists."""
        if of not in range(self._guard.release.security.parties):
            raise HostUnfitError("It was told of uploads of a party that its model does not have.")
        self._told[of] = signed

    def aggregate(self, party: int) -> dict[str, Any]:
        """Aggregate this party's shares; return what all may know of them.

        They are the one file in the host's own directory `aggregates`; else of the uploads in `shares` those
        that all parties take by their lists.
        Guarantees: replicated shares are added up here, each compared with its digest in the identity. So
        hosts that begin the same run have the same of each share.
        [test: tests/harness/hosts/test_replicated_shares.py]
        Reveals: the aggregate's first two lines, its header and the uploads' identities, and their size; how
        many were left out, by why; the names of noise that was made ahead.
        Raises: ShareError: there are none, or too few, more than one aggregate is there, or one of replicated
        shares; as `lists_of_others`.
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
        if not ready:  # each client's own, in place of what all of them allow
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
        """Return the names of this host's noise for the run."""
        self.terms = terms_of(joint_noise_of(self._guard.prepared(domain)), self._keys.fingerprints(party))
        return self._guard.stock.pieces(self.terms, party)

    def _add_up(self, party: int, out: Path) -> None:
        """Add up the uploads that all parties take by their lists. Raises: as `aggregate`."""
        if self._report is None or self._listed is None or self._opener is None:
            raise HostUnfitError("It was told of others' uploads before it listed its own.")
        reports, self.heard = {party: self._report}, {party: self._listed}
        for other, report, heard in lists_of_others(self._told, self._keys.others(party)):
            reports[other], self.heard[other] = report, heard
        self._told.clear()  # a million uploads are 70 MB in each
        agreement = common_uploads([reports[i] for i in sorted(reports)])
        self._counted(self._opener, agreement.accepted).write(out, agreement.left_out)

    def _aggregate_beside(self, shares: Path) -> Path | None:
        """Return the aggregate that the owner placed, None if there is none.

        Raises: ShareError: there are several, or uploads as well.
        """
        ready = sorted((self._directory / AGGREGATES).glob(f"*{AGGREGATE_SUFFIX}"))
        uploads = next(shares.glob(f"*{SUFFIX}"), None) if ready else None
        if len(ready) > 1 or uploads:
            raise ShareError(
                f"{self._directory} holds {ready[0].name} in `{AGGREGATES}` and, beside it, "
                f"{(uploads or ready[-1]).name}; leave one aggregate, or the uploads."
            )
        return ready[0] if ready else None


def once(done: object, what: str) -> None:
    """Raise HostUnfitError if this connection has done that already: what was checked stays what runs."""
    if done:
        raise HostUnfitError(f"It has {what} already; a connection is for one run.")
