"""The guard between the coordinator and a host's party: derives, checks, charges and signs the job.

Everything in the job follows from the request and the host's own inputs. A `Guard` is a run that the host's
owner allows, a `GuardedJob` has the run's inputs, too, and a `GuardedCharge` its charge in the host's ledger.
"""

import hashlib
import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from msgspec import to_builtins

from fairshares.harness.charged import Chargeable
from fairshares.harness.engines.execution import PrivateJob
from fairshares.harness.errors import HostUnfitError, LedgerError, ShareError
from fairshares.harness.hosts import policy
from fairshares.harness.hosts.decision import Attempt, Release, Rule
from fairshares.harness.hosts.ledger_heads import compare_heads, lost_piece, seen_of
from fairshares.harness.hosts.messages import Agree
from fairshares.harness.hosts.signed_results import (
    SIGNED_AS_NONE,
    InputSource,
    Intent,
    PreparedParty,
    UploadList,
)
from fairshares.harness.inputs.record_schema import RecordDomain
from fairshares.harness.online.session import ClientInputs
from fairshares.harness.pipeline.jobs import make_job
from fairshares.harness.pipeline.planning import check_kind, event_of
from fairshares.harness.pipeline.preprocessing import NoiseToMake, charging_for, joint_noise_of
from fairshares.harness.pipeline.run import RunSettings
from fairshares.harness.pipeline.sources import (
    PartyInputs,
    SentInputs,
    read_terms,
    request_of_run,
    sent_inputs,
    terms_of,
)
from fairshares.harness.privacy.ledger.charge import ABORTED_TIMEOUT_S, Account, ChargedRun, Entry
from fairshares.harness.privacy.ledger.entries import Ledger
from fairshares.harness.privacy.ledger.populations import (
    AskedRun,
    LedgerState,
    PrivacyEvent,
    RevealOfTask,
    Status,
    refuse_closed,
    refuse_used_reveal,
    spent_text,
    uncovered,
)
from fairshares.harness.privacy.stock import Piece, Stock
from fairshares.harness.releases.base import Answer, PreparedRelease, Statistic, statistic_of
from fairshares.harness.request.request import Request
from fairshares.harness.request.wire_form import RequestTexts
from fairshares.harness.uploads.lists import UploadReport, new_uploads
from fairshares.harness.uploads.policy import ClientPolicies
from fairshares.harness.uploads.task import Task
from fairshares.protocols.guarantee import Budget
from fairshares.protocols.json_values import JsonFields
from fairshares.protocols.spec import CLIENTS

_NAMES_AT_ONCE = 4096  # of uploads or certificates, for a digest of them all


@dataclass(frozen=True)
class Guard:
    """One run, as its host allows it.

    Guarantees: nothing runs that the host's policy, the clients' terms or the engine refuse, nor before the
    host's own ledger has the exact charge.  [test: tests/harness/hosts/test_agreement.py]

    Attributes:
        directory: The host's directory.
        coordinator: The name that the host's own command line gives to the coordinator's key.
        asked: The request, as it was sent.
        release: The request, read.
        statistic: The statistic that the run reveals.
        facts: The facts that the owner's policy is asked about.
        ledger: The host's ledger.
        stock: The host's noise made ahead.
    """

    directory: Path
    coordinator: str
    asked: RequestTexts
    release: Request
    statistic: Statistic[Answer]
    facts: Release
    ledger: Ledger
    stock: Stock

    @classmethod
    def of_run(cls, directory: Path, asked: RequestTexts, coordinator: str) -> Self:
        """Return the guard of a proposed run.

        Raises PolicyError, UnsupportedError or OptionError; UsedRevealError for a reveal that was begun.
        """
        release = request_of_run(asked)
        facts = Release(
            task=release.task,
            model=release.model.title,
            unit=str(release.protect.privacy_unit),
            population=release.population,
            # The runs of a series may count the same clients, so nothing is declared of these.
            chain=release.chain_name,
            clients_send=release.form.path is CLIENTS,
        )
        policy.ask_about_release(directory, coordinator, facts)
        ledger = Ledger(directory / policy.LEDGER)
        series = release.series
        if series is not None and facts.charged_to is not None:  # first, and again as it is charged
            last = ledger.last_reveal(facts.charged_to, series.task)
            refuse_used_reveal(series.number, series.task, last)
        statistic = statistic_of(release)
        RunSettings(release).check_supported(statistic.spec)
        return cls(
            directory=directory,
            coordinator=coordinator,
            asked=asked,
            release=release,
            statistic=statistic,
            facts=facts,
            ledger=ledger,
            stock=Stock(directory / policy.STOCK),
        )

    def _ask(self, event: PrivacyEvent, ledger: LedgerState | None = None) -> Rule:
        """Return the rule that allows an event of this run, or raise as the policy refuses it."""
        facts = replace(self.facts, event=event)
        return policy.ask_about_release(self.directory, self.coordinator, facts, ledger)

    def account(self, event: PrivacyEvent) -> Account:
        """Return the account that an allowed event is charged to; its ledger asks again before it writes."""
        rule = self._ask(event)
        population = self.facts.charged_to
        budget = rule.budget if population is not None else None
        return Account(self.ledger, population, budget, self)

    def check_charge(
        self,
        state: LedgerState,
        name: str | None,  # noqa: ARG002  as `account` has it
        budget: Budget | None,  # noqa: ARG002  likewise
        event: PrivacyEvent,
    ) -> None:
        """Raise PolicyError unless the host's policy allows a charge, given the state of its ledger."""
        self._ask(event, state)

    def check_attempt(self, number: int) -> None:
        """Raise PolicyError if a piece of noise was begun too often."""
        policy.ask_owner(self.directory, self.coordinator, Attempt(number))

    def noise_ahead(self, domain: RecordDomain) -> NoiseToMake:
        """Return the noise that this release needs, if the policy would allow its run.

        Raises PolicyError, or as `prepared`.
        """
        prepared = self.prepared(domain)
        self._ask(event_of(prepared, self.statistic.name, self.directory))
        return joint_noise_of(prepared)

    def judged(self, report: UploadReport, policies: ClientPolicies, domain: RecordDomain) -> UploadReport:
        """Return a report without uploads that earlier runs counted, or whose clients do not allow the run.

        Raises UsedUploadsError if none is left by earlier runs, or as `prepared`.
        """
        counted = self.ledger.counted(self.facts.charged_to, self.release.charged_with, report.sound)
        report = new_uploads(report, counted)
        event = event_of(self.prepared(domain), self.statistic.name, self.directory)
        return report.without(uncovered(policies, event, self.ledger.spent_on(policies.uploads)))

    def task_of_run(self, task: Task) -> Task:
        """Return the task whose uploads the run counts, of the one that the owner has placed at the host.

        Raises RecordDomainError if a run is of a reveal that the task does not declare.
        """
        series = self.release.series
        return task if series is None else task.of_reveal(series.number)

    def with_task(self, task: Task) -> Self:
        """Return the guard of the same run on uploads of a task.

        The owner's policy names tasks as their makers wrote them, and not the tasks of single reveals.

        Raises PolicyError unless the owner allows them, or UsedUploadsError if the owner closed the task;
        ShareError if the run is of another task's reveals.
        """
        declared = task.declared.name
        series = self.release.series
        if series is not None and declared != series.task:
            raise ShareError(
                f"Its uploads are for task {declared[:16]}, and it was asked for a reveal of task "
                f"{series.task[:16]}; have its owner bring that task and its uploads."
            )
        facts = replace(self.facts, upload_task=declared)
        policy.ask_about_release(self.directory, self.coordinator, facts)
        refuse_closed(self.ledger.closed_on(declared), declared, self.ledger.path)
        return replace(self, facts=facts)

    def prepared(self, domain: RecordDomain) -> PreparedRelease[Answer]:
        """Return the release on a domain. Raises ShareError, or as `Statistic.prepare`."""
        check_kind(self.statistic, domain)
        return self.statistic.prepare(self.release, domain)

    def sent(self, terms: JsonFields, certificates: Sequence[str]) -> SentInputs:
        """Return the inputs of clients that send; HostUnfitError or ShareError for other terms."""
        domain = read_terms(terms, "What clients are told").domain
        if terms_of(self.release, domain) != terms:
            raise HostUnfitError("It was asked to run something else than clients are told.")
        return sent_inputs(domain, certificates, self.release.form, terms)

    def job(self, inputs: PartyInputs) -> "GuardedJob":
        """Return the job on these inputs, which only its charge can still refuse.

        Raises PolicyError, BudgetError, PopulationError or LedgerError, or as `prepared`.
        """
        head = self.ledger.head()
        prepared = self.prepared(inputs.domain)
        event = event_of(prepared, self.statistic.name, self.directory)
        event = replace(
            event, uploads=inputs.batches, upload_task=inputs.upload_task, policies=inputs.policies
        )
        Entry(self.account(event)).check(event)
        return GuardedJob(self, inputs, make_job(prepared, inputs), event, head)

    def seen(self, histories: Mapping[int, Sequence[str]]) -> dict[str, str]:
        """Return the known heads of other parties' ledgers, by the first keys of their owners.

        A host has one ledger for all engines. A head that version 1.0 wrote is known by the key of one engine
        alone, and counts in runs of the others, too.
        """
        seen = self.ledger.seen()
        known: dict[str, str] = {}
        for party, firsts in histories.items():
            heads = [seen[first] for first in firsts if first in seen]
            if heads:
                known[str(party)] = heads[0]
        return known

    def with_heads(
        self, intent: Intent, histories: Mapping[int, Sequence[str]], heads: Sequence[str]
    ) -> Intent:
        """Return a statement with the ledgers' heads; others know `heads` of this one."""
        had = self.ledger.had(heads)
        lacks = [head for head in heads if head not in had]
        return replace(intent, head=self.ledger.head(), seen=self.seen(histories), had=had, lacks=lacks)

    def compare_heads(self, own: Intent, others: Mapping[int, Intent]) -> None:
        """Raise HostUnfitError as `ledger_heads.compare_heads`, by what this host's ledger has had by now.

        Args:
            own: The statement that this host signed before the run.
            others: The statements that the other parties' hosts signed, by party.
        """
        heads = {*seen_of(own.party, others).values()}
        had = self.ledger.had(heads)
        by_now = replace(own, had=had, lacks=[head for head in heads if head not in had])
        compare_heads({own.party: by_now, **others})

    def remember(self, heads: Mapping[int, str], histories: Mapping[int, Sequence[str]]) -> bool:
        """Write the heads of other parties' ledgers, by the first keys of their owners; say if it worked."""
        by_first = {first: head for party, head in heads.items() for first in histories[party]}
        try:
            self.ledger.remember(by_first)
        except LedgerError:  # the agreement on the piece still holds
            return False
        return True


@dataclass(frozen=True)
class GuardedJob:
    """A run's job on the host's own inputs, and what its charge will be.

    Attributes:
        guard: The guard of the run.
        inputs: The facts about the inputs.
        job: The party's program and its inputs.
        event: The event that the ledger will charge.
        head: The ledger's head before the run took noise made ahead.
        attempts: The number of attempts at the piece of noise that the run takes; 0 without a piece.
    """

    guard: Guard
    inputs: PartyInputs
    job: PrivateJob
    event: PrivacyEvent
    head: str
    attempts: int = 0

    def with_piece(self, piece: Piece) -> Self:
        """Return the same with a piece of noise, whose name the ledger keeps, which finds out a copy."""
        event = replace(self.event, piece=piece.name)
        job = replace(self.job, pieces=piece.parties)
        return replace(self, event=event, job=job, attempts=piece.attempts)

    def check(self) -> None:
        """Raise what `charged` would raise by what this host knows without the others.

        Whoever starts the run charges its own ledger once all hosts have signed it. So a host refuses before
        it signs what it can.

        Guarantees: a run that a host refuses by what it knew before it signed is charged nowhere.
        [test: tests/harness/hosts/test_restored_hosts.py]
        """
        self._check_head()
        account = self.guard.account(self.event)
        with charging_for(self.guard.stock, self.event.piece):
            Entry(account).check(self.event)

    def intent(
        self,
        prepared: PreparedParty,
        agree: Agree,
        source: InputSource,
        heard: Mapping[int, UploadList],
    ) -> Intent:
        """Return the statement before the run, without heads of ledgers and the run's certificate.

        Args:
            prepared: The run's name, its party and its program.
            agree: The coordinator's message about the run.
            source: The source of the inputs.
            heard: The lists of uploads, by party.

        Raises HostUnfitError if a list of uploads is of another run.
        """
        for other, listed in heard.items():
            if agree.nonces[other : other + 1] != [listed.nonce]:
                raise HostUnfitError("It was told of uploads by a list of another run; start it again.")
        names: Iterable[str] = self.inputs.batches
        if isinstance(self.inputs.values, ClientInputs):
            names = (upload.certificate for upload in self.inputs.values.uploads)
        return Intent(
            nonces=list(agree.nonces),
            party=prepared.party,
            run=prepared.run,
            started=agree.started.isoformat(),
            asked=self.guard.asked,
            domain=self.inputs.domain.to_json(),
            source=source,
            inputs=to_builtins(self.inputs.public(self.guard.release.form)),
            uploads=hash_of_names(names),
            program_hash=prepared.program_hash,
            engine_version=prepared.engine_version,
            compared=self.job.compared,
            lists={str(other): listed.digest for other, listed in heard.items()},
            piece=self.event.piece or SIGNED_AS_NONE,
            attempts=self.attempts,
        )

    def charged(self, own: Intent, others: Mapping[int, Intent], agreed: Chargeable) -> "GuardedCharge":
        """Write the charge of a run on which hosts have agreed, with the digest of what all of them signed.

        Guarantees: noise that a run took before its ledger was restored is not used.
        [test: tests/harness/hosts/test_restored_hosts.py]

        Raises:
            HostUnfitError: As `Guard.compare_heads`, or the ledger changed since the run took its noise.
            PolicyError, BudgetError, PopulationError, LedgerError, UsedUploadsError, UsedNoiseError: It is
                refused, and nothing is charged.
        """
        try:
            self.guard.compare_heads(own, others)
        except HostUnfitError as error:
            raise HostUnfitError(f"{error}{lost_piece('it', self.event.piece)}") from None
        self._check_head()
        asked_by = AskedRun(own.run, self.guard.coordinator)
        event = replace(self.event, run=own.digest, asked_by=asked_by)
        account = self.guard.account(event)
        with charging_for(self.guard.stock, event.piece):
            return GuardedCharge(self.guard, event, ChargedRun(account, event, agreed))

    def _check_head(self) -> None:
        """Raise HostUnfitError if the ledger is another than when the run took noise made ahead."""
        if self.event.piece is not None and self.guard.ledger.head() != self.head:
            raise HostUnfitError(
                "Its ledger was changed since this run took its noise, which may have been used before; "
                f"start it again.{lost_piece('it', self.event.piece)}"
            )


@dataclass(frozen=True)
class GuardedCharge:
    """A run that the host's ledger has charged, for which there has to be a `ChargedRun`.

    Attributes:
        guard: The guard of the run.
        event: The event that was charged, with the digest that all hosts signed.
        charged: The charge.
    """

    guard: Guard
    event: PrivacyEvent
    charged: ChargedRun

    @property
    def sentence(self) -> str:
        """A sentence on what was charged to whom, without anything that the run will reveal."""
        loss = spent_text(self.event.exact)
        if self.charged.population is None:
            return f"It spends {loss}, charged to no population."
        charge = "" if self.charged.number is None else f", as charge {self.charged.number}"
        chain = ""
        if isinstance(self.event.chain, RevealOfTask):
            of_task = self.event.chain
            chain = f", once for all reveals of task {of_task.name[:16]}; this is reveal {of_task.number}"
        elif self.event.chain is not None:
            chain = f", once for all runs of chain {self.event.chain.name!r}"
        return f"It spends {loss}, charged to population {self.charged.population.name!r}{charge}{chain}."

    def settle(self, status: Status) -> None:
        """Write the outcome; the charge stays."""
        if self.charged.number is None:
            return
        with suppress(LedgerError):  # it stays `running` then, and is shown as aborted
            Ledger(self.guard.ledger.path, ABORTED_TIMEOUT_S).settle(self.charged.number, status)


def hash_of_names(names: Iterable[str]) -> str:
    """Return the SHA-256 of names as a list in JSON, of which a few thousand at a time are in memory."""
    digest = hashlib.sha256(b"[")
    left = iter(names)
    separator = b""
    while some := list(itertools.islice(left, _NAMES_AT_ONCE)):
        digest.update(separator + json.dumps(some)[1:-1].encode())
        separator = b", "
    digest.update(b"]")
    return digest.hexdigest()
