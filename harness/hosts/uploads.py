"""What a host takes of uploads: it lists what it has, hears the other hosts' lists, adds up what follows."""

from collections.abc import Mapping, Sequence
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
from harness.inputs.shares.file_format import AGGREGATE_SUFFIX, SUFFIX, check_own, extract_values
from harness.inputs.shares.party import (
    UploadReport,
    aggregate,
    paths_of,
    policy_from_json,
    uploads_at,
)
from harness.pipeline.party_inputs import PartyInputs, agreed, inputs_in
from harness.pipeline.preprocessing import joint_noise_of, terms_of
from protocols.spec import REPLICATED

AGGREGATES = "aggregates"  # in a host's directory, by its owner


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
        self._shares = directory / "shares"  # where the owner has clients' uploads placed
        self._report: UploadReport | None = None
        self._rules: dict[str, Any] = {}  # by which that was judged
        self._listed: Heard | None = None  # what it signed of both
        self._told: dict[int, Signed] = {}  # by other parties' hosts
        self._adding = False  # whether it has begun to
        self.heard: dict[int, Heard] = {}
        self.inputs: PartyInputs | None = None
        self.values: Path | None = None
        self.source = ""
        self.terms = ""

    def check_uploads(self, party: int, rules: dict[str, Any]) -> dict[str, str] | None:
        """Say, signed, which uploads in the host's own directory are sound; None if they are aggregated.

        Reveals: identities, names and kinds of uploads. Args: rules: what they have to be.
        Raises: HostUnfitError: it has said that; as `keys.check_keys`.
        """
        if self._aggregate_beside(self._shares) is not None:
            return None
        once(self._report, "listed its uploads")
        self._keys.check(party)
        self._report = self._guard.judged(uploads_at(party, self._shares, policy_from_json(rules)))
        self._rules = rules
        signed = sign(UploadList(self._nonce, rules, self._report.to_json()), self._keys.own(party))
        self._listed = heard_of(self._nonce, signed["said"])
        return signed

    def take_list(self, of: int, signed: Signed) -> None:
        """Take what another party's host signed of its uploads; what all take follows from all lists."""
        if of not in range(self._guard.release.security.parties):
            raise HostUnfitError("It was told of uploads of a party that its model does not have.")
        self._told[of] = signed

    def aggregate(self, party: int) -> dict[str, Any]:
        """Aggregate this party's shares; return what all may know of them.

        They are the one file in the host's own directory `aggregates`, else what lies in `shares`: of these
        what all parties take by their lists, if it was told these; else all of them have to be sound.
        Guarantees: replicated shares are added up here, each compared with its digest in the identity. So
        hosts that begin the same run have the same of each share.
        [test: tests/harness/hosts/test_replicated_shares.py]
        Reveals: the aggregate's first two lines, its header and the uploads' identities, and their size; how
        many were left out, by why; the names of noise that was made ahead.
        Raises: ShareError: there are none, one is not sound, more than one aggregate is there, or one of
        replicated shares; as `lists_of_others`.
        """
        release, scratch, shares = self._guard.release, self._scratch, self._shares
        once(self._adding, "been asked to add its shares up")
        self._adding = True
        ready = self._aggregate_beside(shares)
        if ready and release.form.path is REPLICATED:
            raise ShareError(
                f"{ready.name} was added up before, and hosts compare replicated shares upload by upload; "
                "give each host the files that `share` wrote for it instead."
            )
        aggregated = ready or scratch / f"party-{party}.aggregate"
        accepted, left_out = self._agreed(party) if self._told else (None, {})
        if not ready:
            aggregate(party, shares, aggregated, accepted)
        inputs = inputs_in(check_own(aggregated, party), aggregated, release.form, release.security)
        if inputs.policies and not ready:  # each client's own, in place of what all of them allow
            report = self._report if self._report and accepted is not None else uploads_at(party, shares)
            if not set(inputs.batches) <= report.sound_batches.keys():
                raise ShareError(f"Uploads in {shares} changed meanwhile; start again.")
            allowed = {each: report.policies[each] for each in inputs.batches if each in report.policies}
            inputs = replace(inputs, policies=allowed)
        self.source = AGGREGATE if ready else UPLOADS
        self.inputs = replace(inputs, excluded=left_out)
        self.values = extract_values(aggregated, scratch / "values")
        with aggregated.open("rb") as file:
            head = file.readline() + file.readline()
        return {
            "head": head.decode(),
            "bytes": sum(path.lstat().st_size for path in shares.glob(f"*{SUFFIX}")),
            "left_out": dict(left_out),
            "pieces": self._pieces(party, inputs.domain) if release.offline else [],
        }

    def _pieces(self, party: int, domain: RecordDomain) -> list[str]:
        """Return the names of this host's noise for the run."""
        self.terms = terms_of(joint_noise_of(self._guard.prepared(domain)), self._keys.fingerprints(party))
        return self._guard.stock.pieces(self.terms, party)

    def _agreed(self, party: int) -> tuple[Sequence[Path] | None, Mapping[str, int]]:
        """Return the uploads that all parties take by their lists, None for all that there are.

        Returns: beside them, how many were left out, by why. Raises: as `lists_of_others`.
        """
        if self._report is None or self._listed is None:
            raise HostUnfitError("It was told of others' uploads before it listed its own.")
        release = self._guard.release
        reports, self.heard = {party: self._report}, {party: self._listed}
        for other, report, heard in lists_of_others(self._rules, self._told, self._keys.others(party)):
            reports[other], self.heard[other] = report, heard
        self._told.clear()  # a million uploads are 74 MB in each
        agreement = agreed([reports[i] for i in sorted(reports)], release.form, release.security)
        if agreement is None:
            return None, {}
        return paths_of(agreement.taken, self._report, self._shares), agreement.left_out

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
