"""Stands between the coordinator and a host's party: derives, checks, charges and signs the job.

Everything in the job follows from the request and the host's own inputs.
"""

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import to_builtins

from harness.engines.base import PrivateJob
from harness.errors import HostUnfitError, LedgerError, ShareError
from harness.hosts import keys, policy
from harness.hosts.decision import Attempt, Release, Rule
from harness.hosts.messages import (
    PIECE,
    Aggregate,
    Aggregated,
    Answering,
    CheckUploads,
    Fields,
    ReadList,
    TakeList,
)
from harness.hosts.signed_results import (
    AGGREGATE,
    UPLOADS,
    Intent,
    PreparedParty,
    UploadList,
    lists_of_others,
    sign,
)
from harness.hosts.states import State
from harness.inputs.record_schema import RecordDomain
from harness.pipeline.jobs import make_job
from harness.pipeline.planning import check_kind, event_of
from harness.pipeline.preprocessing import charging_for, joint_noise_of, terms_of as terms_of_noise
from harness.pipeline.run import RunSettings
from harness.pipeline.sources import (
    PartyInputs,
    check_task,
    inputs_in,
    read_terms,
    request_of_run,
    sent_inputs,
    terms_of,
)
from harness.privacy.ledger.charge import ABORTED_TIMEOUT_S, Account, Entry
from harness.privacy.ledger.entries import Ledger
from harness.privacy.ledger.populations import LedgerState, PrivacyEvent, Status, uncovered
from harness.privacy.stock import Piece, Stock
from harness.releases.base import PreparedRelease, statistic_of
from harness.system.files import append
from harness.uploads.aggregates import check_own, extract_values
from harness.uploads.counting import Count, Opener
from harness.uploads.files import AGGREGATE_SUFFIX, SUFFIX
from harness.uploads.identities import MOST_UPLOADS
from harness.uploads.lists import (
    LIST_SUFFIX,
    LONGEST_LIST,
    UploadReport,
    new_uploads,
    read_lists,
    write_uploads,
)
from harness.uploads.policy import ClientPolicy
from harness.uploads.signatures import Signed
from harness.uploads.task import read_task
from protocols.guarantee import Budget
from protocols.spec import CLIENTS, REPLICATED


class Guard:
    """One run, as its host allows it.

    Guarantees: nothing runs that the host's policy, the clients' terms or the engine refuse, nor before the
    host's own ledger has the exact charge.  [test: tests/harness/hosts/test_agreement.py]

    Raises PolicyError, UnsupportedError, or OptionError.
    """

    def __init__(self, directory: Path, asked: dict[str, str], coordinator: str = "") -> None:
        self._directory, self.asked, self._coordinator = directory, asked, coordinator
        self.release = request_of_run(asked)
        self._facts = Release(
            task=self.release.task,
            model=self.release.model.name,
            unit=str(self.release.protect.privacy_unit),
            population=self.release.population,
            chain=self.release.inputs.chain or "",
            clients_send=self.release.form.path is CLIENTS,
        )
        self._ask()
        self.statistic = statistic_of(self.release)
        RunSettings(self.release).check_supported(self.statistic.spec)
        self.event: PrivacyEvent | None = None
        self._inputs: PartyInputs | None = None
        self._compared = 0
        self._head = ""  # the ledger's, before the run took noise made ahead
        self._population = self._facts.charged_to
        self._ledger = Ledger(directory / policy.LEDGER)
        self.stock = Stock(directory / policy.STOCK)
        self._entry = Entry(Account(self._ledger, self._population))

    def _ask(self, event: PrivacyEvent | None = None, ledger: LedgerState | None = None) -> Rule:
        """Return the rule that allows the run, with all that is known of it by now; raise without one."""
        facts = replace(self._facts, event=event)
        rule = policy.ask_owner(self._directory, self._coordinator, facts, ledger)
        assert rule is not None
        return rule

    def _account(self, event: PrivacyEvent) -> Account:
        """Return the account that an allowed event is charged to; its ledger asks again before it writes."""
        rule = self._ask(event)

        def refuse(
            state: LedgerState, _name: str | None, _budget: Budget | None, release: PrivacyEvent
        ) -> None:
            self._ask(release, state)

        budget = rule.budget if self._population is not None else None
        return Account(self._ledger, self._population, budget, refuse)

    def check_attempt(self, number: int) -> None:
        """Raise PolicyError if a piece of noise was begun too often."""
        policy.ask_owner(self._directory, self._coordinator, Attempt(number))

    def check_noise(self, domain: RecordDomain) -> PreparedRelease[Any]:
        """Return the release that noise is made ahead for, if the policy would allow its run.

        Raises PolicyError, or as `prepared`.
        """
        prepared = self.prepared(domain)
        self._ask(event_of(prepared, self.statistic.name, self._directory))
        return prepared

    def judged(
        self, report: UploadReport, policies: Mapping[str, ClientPolicy], domain: RecordDomain
    ) -> UploadReport:
        """Return a report without uploads that earlier runs counted, or whose clients do not allow the run.

        Raises UsedUploadsError if none is left by earlier runs, or as `prepared`.
        """
        chain = self.release.inputs.chain or ""
        report = new_uploads(report, partial(self._ledger.counted, self._population, chain))
        event = event_of(self.prepared(domain), self.statistic.name, self._directory)
        return report.without(uncovered(policies, event, self._ledger.spent_on(policies)))

    def check_task(self, task: str) -> None:
        """Raise PolicyError unless the owner allows uploads of this task."""
        self._facts = replace(self._facts, upload_task=task)
        self._ask()

    def prepared(self, domain: RecordDomain) -> PreparedRelease[Any]:
        """Return the release on a domain. Raises ShareError, or as `Statistic.prepare`."""
        check_kind(self.statistic, domain)
        return self.statistic.prepare(self.release, domain)

    def job(self, inputs: PartyInputs) -> PrivateJob:
        """Return the job, which only its charge can still refuse.

        Raises PolicyError, BudgetError, PopulationError or LedgerError, or as `prepared`.
        """
        self._head = self._ledger.head()
        prepared = self.prepared(inputs.domain)
        job = make_job(prepared, inputs)
        event = event_of(prepared, self.statistic.name, self._directory)
        event = replace(event, uploads=inputs.batches, policies=inputs.policies)
        self._entry.account = self._account(event)
        self._entry.check(event)
        self.event, self._inputs, self._compared = event, inputs, job.compared
        return job

    def takes(self, piece: Piece) -> None:
        """Have the ledger keep a piece's name, which finds out a copy of the stock."""
        assert self.event is not None
        self.event = replace(self.event, piece=piece.name)

    def sent(self, terms: Fields, certificates: Sequence[str]) -> PartyInputs:
        """Return the inputs of clients that send; HostUnfitError or ShareError for other terms."""
        _, domain = read_terms(terms, "What clients are told")
        if terms_of(self.release, domain) != terms:
            raise HostUnfitError("It was asked to run something else than clients are told.")
        return sent_inputs(domain, certificates, self.release.form, self.release.model, terms)

    def intent(
        self,
        prepared: PreparedParty,
        *,
        nonces: Sequence[str],
        started: str,
        source: str,
        heard: Mapping[int, UploadList],
    ) -> Intent:
        """Return the statement before the run, without noise made ahead.

        Raises HostUnfitError if a list of uploads is of another run.
        """
        if any(nonces[other : other + 1] != [listed.nonce] for other, listed in heard.items()):
            raise HostUnfitError("It was told of uploads by a list of another run; start it again.")
        assert self._inputs is not None
        inputs, sending = self._inputs, self._inputs.sending
        names = [upload.certificate for upload in sending.uploads] if sending else [*inputs.batches]
        return Intent(
            nonces=list(nonces),
            party=prepared.party,
            run=prepared.run,
            started=started,
            asked=self.asked,
            domain=inputs.domain.to_json(),
            source=source,
            inputs=to_builtins(inputs.public(self.release.form)),
            uploads=hashlib.sha256(json.dumps(names).encode()).hexdigest(),
            program_hash=prepared.program_hash,
            engine_version=prepared.engine_version,
            compared=self._compared,
            lists={str(other): listed.digest for other, listed in heard.items()},
        )

    def seen(self, histories: Mapping[int, Sequence[str]]) -> dict[str, str]:
        """Return the known heads of other parties' ledgers, by the first keys of their owners.

        A host has one ledger for all engines. A head that version 1.0 wrote is known by the key of one engine
        alone, and counts in runs of the others, too.
        """
        seen, known = self._ledger.seen(), dict[str, str]()
        for party, firsts in histories.items():
            heads = [seen[first] for first in firsts if first in seen]
            if heads:
                known[str(party)] = heads[0]
        return known

    def with_heads(
        self, intent: Intent, histories: Mapping[int, Sequence[str]], heads: Sequence[str]
    ) -> Intent:
        """Return a statement with the ledgers' heads; others know `heads` of this one."""
        had = self._ledger.had(heads)
        lacks = [head for head in heads if head not in had]
        return replace(intent, head=self._ledger.head(), seen=self.seen(histories), had=had, lacks=lacks)

    def compare_heads(self, own: Intent, others: Mapping[int, Intent]) -> None:
        """Raise HostUnfitError unless each ledger has had all heads that any host has seen of it.

        A host may lie about what it has seen, and a coordinator may not ask for it. So nothing is destroyed,
        and only the word of two hosts names the command by which an owner says that a ledger was restored.

        Guarantees: noise made ahead at a host that was restored from a backup, or copied, is not used again.
        A host that lies costs at most the piece that this run has taken.
        [test: tests/harness/hosts/test_preparation.py]
        """
        everybody = {own.party: own, **others}
        for party, intent in everybody.items():
            seen = {
                other: said.seen.get(str(party), "") for other, said in everybody.items() if other != party
            }
            heads = {*seen.values()} - {""}
            had = self._ledger.had(heads) if intent is own else intent.had
            lost = {other: head for other, head in seen.items() if head and head not in had}
            if intent is not own and not {*lost.values()} <= {*intent.lacks}:
                raise HostUnfitError(
                    f"The host of party {party} was not asked for a head that {_named(lost)} signed to have "
                    f"seen of its ledger: whoever starts this run, or {_named(lost)}, said something else "
                    "before; start it again."
                )
            if lost:
                raise HostUnfitError(f"{_contradiction(party, lost)}{self._lost_piece()}")

    def _lost_piece(self) -> str:
        piece = self.event.piece if self.event is not None else ""
        return f" The noise made ahead that it had taken, piece {piece[:12]}, was removed." if piece else ""

    def remember(self, heads: Mapping[int, str], histories: Mapping[int, Sequence[str]]) -> bool:
        """Write the heads of other parties' ledgers, by the first keys of their owners; say if it worked."""
        by_first = {first: head for party, head in heads.items() for first in histories[party]}
        try:
            self._ledger.remember(by_first)
        except LedgerError:  # the agreement on the piece still holds
            return False
        return True

    def charge(self, run: str) -> None:
        """Write the run's charge, with a digest that all hosts signed.

        Guarantees: noise that a run took before its ledger was restored is not used.
        [test: tests/harness/hosts/test_restored_hosts.py]

        Raises as `job`; HostUnfitError if the ledger changed since the run took its noise.
        """
        assert self.event is not None
        if self.event.piece and self._ledger.head() != self._head:
            raise HostUnfitError(
                "Its ledger was changed since this run took its noise, which may have been used before; "
                f"start it again.{self._lost_piece()}"
            )
        self.event = replace(self.event, run=run)
        self._entry.account = self._account(self.event)
        with charging_for(self.stock, self.event.piece):
            self._entry.charge(self.event)

    def settle(self, status: Status) -> None:
        """Write the outcome of a charged run; its charge stays."""
        with suppress(LedgerError):  # it stays `running` then, and is shown as aborted
            self._entry.settle(status, ABORTED_TIMEOUT_S)


def _contradiction(party: int, lost: Mapping[int, str]) -> str:
    """Say who has seen a head that a party's ledger never had, and what its owner should do.

    Args:
        party: The party of the ledger.
        lost: The head that each of some parties has seen, by party.
    """
    heads = sorted({*lost.values()})
    who = _named(lost)
    if len(lost) > 1:
        return (
            f"The ledger of party {party} does not go on from what {who} have seen of it: it was restored "
            "from a backup, or copied. Its owner compares its runs with theirs, and goes on by "
            f"./inv hosts.restored --seen {','.join(heads)}."
        )
    return (
        f"The ledger of party {party} does not go on from what {who} says to have seen of it ({heads[0]}). "
        f"Either it was restored from a backup or copied, or {who} says so falsely, and no other party bears "
        "that out: the owners of both compare their runs, by ./inv ledger --ledger with their hosts' "
        "ledger.sqlite, before anything else (docs/how-to/own-a-host.md)."
    )


def _named(parties: Collection[int]) -> str:
    return " and ".join(f"party {party}" for party in sorted(parties))


AGGREGATES = "aggregates"  # in a host's directory, placed by its owner like the next three
SHARES, TASK, SEALING = "shares", "task.json", "sealing"  # uploads, what they are for, and the party's keys
CHECKPOINT = "count.partial"  # the counts so far, sealed for the host itself, in case its process dies
_NOT_LISTED = "It was told of others' uploads before it listed its own."


class Uploads:
    """The uploads of one run at one host.

    Only the owner places uploads and aggregates. `terms` name the noise made ahead.
    """

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

    def handlers(self) -> list[Answering]:
        """Return the handlers of what it answers."""
        return [
            CheckUploads.answered_by(self.check_uploads),
            ReadList.answered_by(self.read_list),
            TakeList.answered_by(self.take_list),
            Aggregate.answered_by(self.aggregate),
        ]

    @property
    def reached(self) -> State:
        """How far they are, before a party is prepared."""
        if self.inputs is not None:
            return State.FED
        if self._adding:
            return State.SPOILT
        return State.PROPOSED if self._count is None else State.LISTED

    def check_uploads(self, message: CheckUploads) -> Signed | None:
        """Return the signed list of sound uploads in the host's own directory; None if there is an aggregate.

        Reveals: identities, and the reasons why others are left out.

        Raises HostUnfitError, ShareError without uploads or a key, or as `RunKeys.check`.
        """
        if self._aggregate_beside(self._shares) is not None:
            return None
        once(self._count, "listed its uploads")
        party = message.party
        self._keys.check(party)
        release, task = self._guard.release, read_task(self._directory / TASK)
        check_task(task, release.form, release.model)
        self._guard.check_task(task.name)
        self._count = self._counted(Opener(task, party, task.secrets(party, self._directory / SEALING)))
        self._policies, self._own = self._count.policies, self._list_of(party)
        write_uploads(self._guard.judged(self._count.report(), self._policies, task.domain), self._own)
        self.heard[party] = UploadList(self._nonce, _digest(self._own))
        return sign(self.heard[party], self._keys.own(party))

    def _counted(self, opener: Opener, accepted: Collection[str] | None = None) -> Count:
        """Count uploads from a dead process's checkpoint, without those removed since."""
        checkpoint = self._directory / CHECKPOINT
        count = Count(opener, accepted, checkpoint)
        count.add(self._shares)
        if not count.gone:
            return count
        checkpoint.unlink()
        return self._counted(opener, accepted)

    def _list_of(self, party: int) -> Path:
        return self._lists / f"party-{party}{LIST_SUFFIX}"

    def read_list(self, message: ReadList) -> str:
        """Return a piece of its list from a byte on, "" at the end."""
        if self._count is None:
            raise HostUnfitError(_NOT_LISTED)
        with self._own.open("rb") as file:
            file.seek(message.at)
            return file.read(PIECE).decode()

    def take_list(self, message: TakeList) -> None:
        """Take the next piece of another party's signed list, from a byte on.

        Guarantees: a coordinator neither changes this party's own list nor what it has sent of another, and
        fills the disk by no more than the lists of the most uploads of a run.
        [test: tests/harness/hosts/test_work.py]

        Raises HostUnfitError.
        """
        lister = message.lister
        if lister not in range(self._guard.release.model.parties):
            raise HostUnfitError("It was told of uploads of a party that its model does not have.")
        if self._count is None:
            raise HostUnfitError(_NOT_LISTED)
        if lister in self.heard:
            raise HostUnfitError("It was told of its own uploads, which it has listed itself.")
        place = self._list_of(lister)
        there = place.stat().st_size if place.exists() else 0
        if message.at != there:
            raise HostUnfitError(
                f"It was told of the list of party {lister} from byte {message.at} on, and has {there} bytes "
                "of it; the pieces have to come in order, so start again."
            )
        added = message.piece.encode()
        if there + len(added) > LONGEST_LIST:
            raise HostUnfitError(
                f"It was told of more uploads of party {lister} than the {MOST_UPLOADS:,} that a run may "
                "have; start again with fewer."
            )
        self._told[lister] = message.signed
        append(place, there, added)

    def aggregate(self, message: Aggregate) -> Aggregated:
        """Aggregate this party's shares; return the facts that all may know.

        The shares are the one file in the host's own `aggregates`, or the uploads in `shares` that are in all
        lists.
        Guarantees: replicated shares are compared with digests in identities, so hosts of a run have the
        same.
        [test: tests/harness/hosts/test_replicated_shares.py]
        Reveals: the aggregate's header, the uploads' identities and size; how many were left out, by reason;
        the names of noise made ahead.

        Raises ShareError for no, too few or several inputs, or aggregated replicated shares; or as
        `lists_of_others`.
        """
        release, scratch, shares = self._guard.release, self._scratch, self._shares
        party = message.party
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
        inputs = inputs_in(header, aggregated, release.form, release.model)
        if not ready:  # each client's own policy, in place of the common one
            inputs = replace(inputs, policies={client: self._policies[client] for client in inputs.batches})
        self.source = AGGREGATE if ready else UPLOADS
        self.values = extract_values(aggregated, scratch / "values")
        self.inputs = inputs
        with aggregated.open("rb") as file:
            head = file.readline() + file.readline()
        return Aggregated(
            head=head.decode(),
            bytes=sum(path.lstat().st_size for path in shares.glob(f"*{SUFFIX}")),
            left_out=header.excluded,
            pieces=self._pieces(party, inputs.domain) if release.randomness.offline else [],
        )

    def _pieces(self, party: int, domain: RecordDomain) -> list[str]:
        self.terms = terms_of_noise(
            joint_noise_of(self._guard.prepared(domain)), self._keys.fingerprints(party)
        )
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
    """Raise HostUnfitError if this connection did that before: the checked run is the one that runs."""
    if done:
        raise HostUnfitError(f"It has {what} already; a connection is for one run.")
