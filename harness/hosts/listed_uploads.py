"""A release at a host before it has inputs: its uploads are listed, then added up by all hosts' lists.

Only the owner places uploads and aggregates in the host's directory.
"""

import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from fairshares.harness.errors import HostUnfitError, ShareError
from fairshares.harness.hosts.guard import Guard
from fairshares.harness.hosts.local_host import LocalHost
from fairshares.harness.hosts.messages import (
    PIECE,
    Aggregate,
    Aggregated,
    CheckUploads,
    Propose,
    ReadList,
    TakeList,
)
from fairshares.harness.hosts.party_run import ClientsInvited, Fed, RunPlace, RunState
from fairshares.harness.hosts.runs import ClientsOfRelease, UploadedInputs
from fairshares.harness.hosts.signed_results import (
    InputSource,
    Intent,
    UploadList,
    lists_of_others,
    sign,
)
from fairshares.harness.hosts.states import RunKind, State, Step, Stepping
from fairshares.harness.inputs.record_schema import RecordDomain
from fairshares.harness.pipeline.preprocessing import joint_noise_of, terms_of
from fairshares.harness.pipeline.sources import check_task, inputs_in
from fairshares.harness.system.files import append, sha256_of
from fairshares.harness.system.signals import uninterrupted
from fairshares.harness.uploads.aggregates import check_own, extract_values
from fairshares.harness.uploads.counting import Opener, UploadCount
from fairshares.harness.uploads.files import AGGREGATE_SUFFIX, SUFFIX, TASK_FILE
from fairshares.harness.uploads.identities import MOST_UPLOADS
from fairshares.harness.uploads.lists import LIST_SUFFIX, LONGEST_LIST, read_lists, write_uploads
from fairshares.harness.uploads.policy import ClientPolicies
from fairshares.harness.uploads.signatures import Signed
from fairshares.harness.uploads.task import Task, read_task
from fairshares.protocols.spec import CLIENTS, REPLICATED

# Files in a host's directory. Its owner places the first three there, and `TASK_FILE`.
AGGREGATES = "aggregates"
SHARES = "shares"  # clients' uploads
SEALING = "sealing"  # the party's sealing keys
CHECKPOINT = "count.partial"  # the count so far, sealed for the host itself, in case its process dies
# Files in a run's directory.
_LISTS = "lists"  # each party's list of uploads
_ADDED_UP = "added up"  # the aggregate, and in `_VALUES` the party's values
_VALUES = "values"


def release_proposed(host: LocalHost, message: Propose) -> "Proposed | ClientsInvited[Intent]":
    """Take a release. Raises PolicyError, OptionError, UnsupportedError, or as `RunPlace.open`."""
    guard = Guard.of_run(host.directory, message.asked, host.coordinator)
    place = RunPlace.open(host, RunKind.RELEASE, guard.release.model)
    if guard.release.form.path is CLIENTS:
        return ClientsInvited(place, ClientsOfRelease(guard))
    return Proposed(place, guard)


@dataclass(frozen=True)
class Proposed(RunState):
    """A release that has been accepted, and whose uploads have not been listed.

    Attributes:
        guard: The guard of the release.
    """

    guard: Guard

    NAME = State.PROPOSED

    def steps(self) -> Sequence[Stepping]:
        return [CheckUploads.leads_by(self.check_uploads)]

    def check_uploads(self, message: CheckUploads) -> Step[Signed | None]:
        """List sound uploads in the host's own directory; answer with the signed list's digest.

        The answer is None if there is an aggregate.
        Reveals: identities, and the reasons why others are left out.

        Raises HostUnfitError, ShareError without uploads or a key, or as `RunKeys.check`.
        """
        place = self.place
        party = message.party
        directory = place.host.directory
        place.keys.check(party)
        found = _aggregates_in(directory)
        if found:
            return Step(Given(place, self.guard, found[0]), None)
        release = self.guard.release
        task = self.guard.task_of_run(read_task(directory / TASK_FILE))
        check_task(task, release.form, release.model)
        guard = self.guard.with_task(task)
        count = _counted(directory, Opener(task, party, task.secrets(party, directory / SEALING)))
        report = guard.judged(count.report(), count.policies, task.domain)
        with _new_directory(place.scratch / _LISTS) as lists:
            own = lists / _list_name(party)
            write_uploads(report, own)
            listed = UploadList(place.nonce, sha256_of(own))
            signed = sign(listed, place.keys.own(party))
        return Step(Listed(place, guard, party, count, listed), signed)


@dataclass(frozen=True)
class Given(RunState):
    """A release for whose inputs there is an aggregate, which has not been read.

    Attributes:
        guard: The guard of the release.
        file: The aggregate.
    """

    guard: Guard
    file: Path

    NAME = State.GIVEN

    def steps(self) -> Sequence[Stepping]:
        return [Aggregate.leads_by(self.aggregate)]

    def aggregate(self, message: Aggregate) -> Step[Aggregated]:
        """Take the one file in the host's own `aggregates`; answer with the facts that all may know.

        Reveals: the aggregate's header, the uploads' identities and size; the names of noise made ahead.

        Raises ShareError for a wrong aggregate, or of replicated shares; PolicyError for another task.
        """
        release = self.guard.release
        if release.form.path is REPLICATED:
            raise ShareError(
                f"{self.file.name} was added up before, and hosts compare replicated shares upload by "
                "upload; give each host the uploads instead."
            )
        header = check_own(self.file, message.party)
        guard = self.guard.with_task(header.task)
        inputs = inputs_in(header, self.file, release.form, release.model)
        noise_terms, pieces = _noise_ahead(guard, self.place, message.party, inputs.domain)
        with _new_directory(self.place.scratch / _ADDED_UP) as added_up:
            values = extract_values(self.file, added_up / _VALUES)
            aggregated = Aggregated(
                head=_head_of(self.file, message.party),
                bytes=_bytes_of_uploads(self.place.host.directory / SHARES),
                left_out=header.excluded,
                pieces=pieces,
            )
        fed = UploadedInputs(guard, inputs, values, InputSource.AGGREGATE, heard={}, noise_terms=noise_terms)
        return Step(Fed(self.place, fed), aggregated)


@dataclass(frozen=True)
class Told:
    """The statements that a host was told of another party's list of uploads.

    Attributes:
        signed: The statement of its list that the party's host signed.
        size: The number of bytes of the list that have come.
    """

    signed: Signed
    size: int


@dataclass(frozen=True)
class Listed(RunState):
    """A release whose uploads have been listed, and not added up.

    Attributes:
        guard: The guard of the release.
        party: The host's party.
        count: The count of the uploads in the host's own list.
        own: The list that the host signed.
        told: The statements of other parties' lists that the host was told, by party.
    """

    guard: Guard
    party: int
    count: UploadCount = field(compare=False)
    own: UploadList
    told: Mapping[int, Told] = field(default_factory=dict)

    NAME = State.LISTED

    def steps(self) -> Sequence[Stepping]:
        return [
            ReadList.leads_by(self.read_list),
            TakeList.leads_by(self.take_list),
            Aggregate.leads_by(self.aggregate),
        ]

    def list_of(self, party: int) -> Path:
        """Return the file of a party's list."""
        return self.place.scratch / _LISTS / _list_name(party)

    def read_list(self, message: ReadList) -> Step[str]:
        """Answer with a piece of the host's own list from a byte on, or with "" at its end."""
        with self.list_of(self.party).open("rb") as file:
            file.seek(message.at)
            return Step(self, file.read(PIECE).decode())

    def take_list(self, message: TakeList) -> Step[None]:
        """Take the next piece of another party's signed list, from a byte on.

        Guarantees: a coordinator neither changes this party's own list nor what it has sent of another, and
        fills the disk by no more than the lists of the most uploads of a run.
        [test: tests/harness/hosts/test_work.py]

        Raises HostUnfitError.
        """
        lister = message.lister
        if lister not in range(self.place.model.parties):
            raise HostUnfitError("It was told of uploads of a party that its model does not have.")
        if lister == self.party:
            raise HostUnfitError("It was told of its own uploads, which it has listed itself.")
        size = self.told[lister].size if lister in self.told else 0
        if message.at != size:
            raise HostUnfitError(
                f"It was told of the list of party {lister} from byte {message.at} on, and has {size} bytes "
                "of it; the pieces have to come in order, so start again."
            )
        added = message.piece.encode()
        if size + len(added) > LONGEST_LIST:
            raise HostUnfitError(
                f"It was told of more uploads of party {lister} than the {MOST_UPLOADS:,} that a run may "
                "have; start again with fewer."
            )
        append(self.list_of(lister), size, added)
        told = Told(message.signed, size + len(added))
        return Step(replace(self, told={**self.told, lister: told}), None)

    def aggregate(self, message: Aggregate) -> Step[Aggregated]:
        """Add up the uploads that are in all lists; answer with the facts that all may know.

        Guarantees: replicated shares are compared with digests in identities, so hosts of a run have the
        same.
        [test: tests/harness/hosts/test_replicated_shares.py]
        Reveals: the aggregate's header, the uploads' identities and size; how many were left out, by reason;
        the names of noise made ahead.

        Raises ShareError for no or too few inputs, HostUnfitError for another party, or as `lists_of_others`.
        """
        place = self.place
        release = self.guard.release
        if message.party != self.party:
            raise HostUnfitError("It was asked to add up another party's shares than the one that it listed.")
        heard = self._heard()
        with _new_directory(place.scratch / _ADDED_UP) as added_up:
            head = added_up / f"party-{self.party}.head"
            values = added_up / _VALUES
            policies = self._write_sum(head, values)
            header = check_own(head, self.party)
            guard = self.guard.with_task(header.task)
            inputs = inputs_in(header, head, release.form, release.model)
            # Each client's own policy, in place of the common one.
            inputs = replace(inputs, policies=policies.among(inputs.batches))
            noise_terms, pieces = _noise_ahead(guard, place, self.party, inputs.domain)
            aggregated = Aggregated(
                head=_head_of(head, self.party),
                bytes=_bytes_of_uploads(_uploads_for(header.task, place.host.directory)),
                left_out=header.excluded,
                pieces=pieces,
            )
        fed = UploadedInputs(guard, inputs, values, InputSource.UPLOADS, heard, noise_terms)
        return Step(Fed(place, fed), aggregated)

    def _heard(self) -> dict[int, UploadList]:
        """Return all hosts' lists as they signed them, or raise HostUnfitError for another one."""
        signed = {lister: told.signed for lister, told in self.told.items()}
        heard = {self.party: self.own, **lists_of_others(signed, self.place.keys.others(self.party))}
        for lister, listed in heard.items():
            if sha256_of(self.list_of(lister)) != listed.digest:
                raise HostUnfitError(
                    f"It was told another list of party {lister} than that party's host signed; start again."
                )
        return heard

    def _write_sum(self, head: Path, values: Path) -> ClientPolicies:
        """Write the aggregate of the uploads that all lists have, its head and its values to a file each.

        Returns:
            The policies of listed clients.
        """
        agreement = read_lists(self.place.scratch / _LISTS, self.count.opener.task, signed=False)
        count = self.count
        if count.identities != agreement.accepted:
            directory = self.place.host.directory
            kept = count.kept(agreement.accepted, _uploads_for(count.opener.task, directory))
            count = kept or _counted(directory, count.opener, agreement.accepted)
        count.write_apart(head, values, agreement.left_out)
        return self.count.policies


def _counted(directory: Path, opener: Opener, accepted: Collection[str] | None = None) -> UploadCount:
    """Count a host's uploads, and go on from the checkpoint of a process that died, if there is one.

    If uploads in the checkpoint have been removed since, it is thrown away, and the count begins anew.

    Args:
        directory: The host's own directory.
        opener: Opens the envelopes.
        accepted: The identities that all parties accept. None accepts all that can be opened.
    """
    checkpoint = directory / CHECKPOINT
    count = UploadCount(opener, accepted, checkpoint)
    count.add(_uploads_for(opener.task, directory))
    if not count.gone:
        return count
    checkpoint.unlink()
    return _counted(directory, opener, accepted)


def _noise_ahead(
    guard: Guard, place: RunPlace, party: int, domain: RecordDomain
) -> tuple[str | None, list[str]]:
    """Return the name of the noise made ahead that a release takes, and the names of its pieces here.

    For a release that takes none, the name is None, and there are no pieces.
    """
    if not guard.release.randomness.offline:
        return None, []
    noise_terms = terms_of(joint_noise_of(guard.prepared(domain)), place.keys.fingerprints(party))
    return noise_terms, guard.stock.pieces(noise_terms, party)


@contextmanager
def _new_directory(directory: Path) -> Iterator[Path]:
    """Yield a new directory; remove it with all that is in it if the block fails."""
    directory.mkdir(mode=0o700)
    try:
        yield directory
    except BaseException:
        with uninterrupted():
            shutil.rmtree(directory, ignore_errors=True)
        raise


def _list_name(party: int) -> str:
    return f"party-{party}{LIST_SUFFIX}"


def _aggregates_in(directory: Path) -> list[Path]:
    """Return a list with a host's aggregate, which is empty if the host has none.

    Raises:
        ShareError: The host has several aggregates, or an aggregate and uploads.
    """
    aggregates = sorted((directory / AGGREGATES).glob(f"*{AGGREGATE_SUFFIX}"))
    if not aggregates:
        return []
    uploads = sorted((directory / SHARES).glob(f"*{SUFFIX}"))
    beside = uploads + aggregates[1:]
    if beside:
        raise ShareError(
            f"{directory} holds {aggregates[0].name} in `{AGGREGATES}` and, beside it, {beside[0].name}; "
            "leave one aggregate, or the uploads."
        )
    return aggregates


def _uploads_for(task: Task, directory: Path) -> Path:
    """Return the place of a task's uploads at a host; uploads for a reveal have a directory of their own."""
    vectors = task.domain.vectors
    if vectors is not None:
        of_reveal = directory / SHARES / f"reveal-{vectors.reveal}"
        if of_reveal.is_dir():
            return of_reveal
    return directory / SHARES


def _bytes_of_uploads(uploads: Path) -> int:
    return sum(path.lstat().st_size for path in uploads.glob(f"*{SUFFIX}"))


def _head_of(aggregate: Path, party: int) -> str:
    """Return the first lines of an aggregate: the header, and at party 0 the identities of the uploads.

    The identities of a million uploads are 65 MB, and 190 MB of memory until they are sent. The headers of
    the other parties have a fingerprint of the same identities, by which the coordinator compares them.
    """
    with aggregate.open("rb") as file:
        header = file.readline()
        identities = file.readline() if party == 0 else b""
    return (header + identities).decode()
