"""Stands between the coordinator and a host's party: derives the job, checks it, charges it, signs it.

The host works out by itself what a release spends; program, arguments and noise follow from the request and
from the host's own inputs.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from harness.engines.base import Job
from harness.engines.parties.certificates import fingerprint
from harness.errors import HostUnfitError, LedgerError
from harness.hosts import policy
from harness.hosts.signed_results import Intent, UploadList
from harness.inputs.record_schema import RecordDomain
from harness.inputs.shares.file_format import ClientPolicy
from harness.inputs.shares.party import UploadReport, new_uploads
from harness.pipeline.preprocessing import charging_for
from harness.pipeline.run import RunSettings, check_kind, event_of, make_job
from harness.pipeline.sources import (
    PartyInputs,
    read_terms,
    request_of_run,
    sent_inputs,
    terms_of,
)
from harness.privacy.ledger.charge import ABORTED_TIMEOUT_S, Account, Entry
from harness.privacy.ledger.entries import Ledger
from harness.privacy.ledger.populations import PrivacyEvent, Status, key_of, uncovered
from harness.privacy.stock import Piece, Stock
from harness.releases.base import PreparedRelease, statistic_of
from protocols.spec import CLIENTS


class Guard:
    """One run, as its host allows it.

    Guarantees: nothing runs that the host's policy, the clients' terms or the engine refuse, nor before the
    host's own ledger has the exact charge.  [test: tests/harness/hosts/test_agreement.py]

    Raises PolicyError, UnsupportedError, or OptionError if this version does not know the release.
    """

    def __init__(self, directory: Path, asked: dict[str, str]) -> None:
        self._directory, self.asked = directory, asked
        self.release = request_of_run(asked)
        rule = policy.read_policy(directory).rule_for(self.release)
        self.statistic = statistic_of(self.release)
        RunSettings(self.release).check_supported(self.statistic.spec)
        self.event: PrivacyEvent | None = None
        self._inputs: PartyInputs | None = None
        self._compared = 0
        # Shares need no population: the ledger knows used ones, and refuses them a second time without one.
        of_shares = self.release.form.path is not CLIENTS
        self._population = self.release.population or (None if of_shares else policy.UNNAMED)
        self._ledger = Ledger(directory / policy.LEDGER)
        self.stock = Stock(directory / policy.STOCK)
        self._entry = Entry(self._account(rule))

    def _account(self, rule: policy.Rule) -> Account:
        return Account(self._ledger, self._population, rule.budget if self._population else None)

    def _allow(self, event: PrivacyEvent) -> None:
        rule = policy.read_policy(self._directory).rule_for(self.release)
        policy.refuse_beyond(rule, event)
        self._entry.account = self._account(rule)
        for population in self._ledger.populations() if self._population else ():
            if key_of(population.name) == key_of(str(self._population)) and population.budget != rule.budget:
                self._ledger.set_budget(population.name, rule.budget)

    def judged(
        self, report: UploadReport, policies: Mapping[str, ClientPolicy], domain: RecordDomain
    ) -> UploadReport:
        """Return a report without uploads that earlier runs counted, or whose clients do not allow the run.

        Raises UsedUploadsError if earlier runs counted all of them, or as `prepared`.
        """
        counted = partial(self._ledger.counted, self._population, self.release.chain)
        report = new_uploads(report, counted)
        event = event_of(self.prepared(domain), self.statistic.name, self._directory)
        return report.without(uncovered(policies, event, self._ledger.spent_on(policies)))

    def check_task(self, task: str) -> None:
        """Raise PolicyError unless the owner allows uploads of this task now."""
        policy.refuse_task(policy.read_policy(self._directory).rule_for(self.release), task)

    def prepared(self, domain: RecordDomain) -> PreparedRelease[Any]:
        """Return the release on records of a domain. Raises ShareError, or as `Statistic.prepare`."""
        check_kind(self.statistic, domain)
        return self.statistic.prepare(self.release, domain)

    def job(self, inputs: PartyInputs) -> Job:
        """Return the job, once nothing is left that could refuse it but its charge.

        Raises PolicyError, BudgetError, PopulationError or LedgerError, or as `prepared`.
        """
        prepared = self.prepared(inputs.domain)
        job = make_job(prepared, inputs)
        event = event_of(prepared, self.statistic.name, self._directory)
        event = replace(event, uploads=inputs.batches, policies=inputs.policies)
        self._allow(event)
        self._entry.check(event)
        self.event, self._inputs, self._compared = event, inputs, job.compared
        return job

    def takes(self, piece: Piece) -> None:
        """Have the ledger remember a piece with the charge, in case a copy of the stock comes back."""
        assert self.event is not None
        self.event = replace(self.event, piece=piece.name)

    def sent(self, terms: dict[str, Any], certificates: Sequence[str]) -> PartyInputs:
        """Return the inputs of clients that send.

        Raises HostUnfitError or ShareError unless their terms are of this release.
        """
        _, domain = read_terms(terms, "What clients are told")
        if terms_of(self.release, domain) != terms:
            raise HostUnfitError("It was asked to run something else than clients are told.")
        form, model = self.release.form, self.release.security
        return sent_inputs(domain, certificates, form, model, terms)

    def intent(
        self,
        nonces: Sequence[str],
        started: str,
        facts: Mapping[str, Any],
        heard: Mapping[int, UploadList],
        source: str,
        piece: Piece | None = None,
    ) -> Intent:
        """Return the statement before the run, with `facts` of its program.

        Raises:
            HostUnfitError: One of the lists is of another run.
        """
        if any(nonces[other : other + 1] != [listed.nonce] for other, listed in heard.items()):
            raise HostUnfitError("It was told of uploads by a list of another run; start it again.")
        assert self._inputs is not None
        inputs, sending = self._inputs, self._inputs.sending
        names = [upload.certificate for upload in sending.uploads] if sending else [*inputs.batches]
        uploads = hashlib.sha256(json.dumps(names).encode()).hexdigest()
        return Intent(
            list(nonces),
            facts["party"],
            facts["run"],
            started,
            self.asked,
            inputs.domain.to_json(),
            source,
            inputs.public(self.release.form),
            uploads,
            facts["program_hash"],
            facts["engine_version"],
            self._compared,
            {str(other): listed.digest for other, listed in heard.items()},
            piece.name if piece else "",
            piece.attempts if piece else 0,
        )

    def seen(self, certificates: Mapping[int, str]) -> dict[str, str]:
        """Return the heads of other parties' ledgers that this host knows, by certificate."""
        seen, named_by = self._ledger.seen(), _fingerprints(certificates)
        return {str(party): seen[text] for party, text in named_by.items() if text in seen}

    def with_heads(self, intent: Intent, certificates: Mapping[int, str], heads: Sequence[str]) -> Intent:
        """Return a statement with the heads of this host's ledger and of others'.

        `heads` are those of this ledger that others know.
        """
        ledger, seen = self._ledger, self.seen(certificates)
        return replace(intent, head=ledger.head(), seen=seen, had=ledger.had(heads))

    def compare_heads(self, own: Intent, others: Mapping[int, Intent]) -> None:
        """Check that each host's ledger has had all heads that other hosts have seen of it.

        Each host signs that itself: a restored one is honest, and one that lies of its ledger needs no
        backup.
        Guarantees: of a host that was restored from a backup, or copied, no noise that was made ahead is used
        any more.  [test: tests/harness/hosts/test_preparation.py]

        Raises HostUnfitError.
        """
        for party, intent in {own.party: own, **others}.items():
            seen = {one.seen.get(str(party), "") for one in (own, *others.values())} - {""}
            had = self._ledger.had(seen) if intent is own else intent.had
            if lost := sorted(seen.difference(had)):
                if intent is own:
                    self.stock.destroy()
                raise HostUnfitError(
                    f"The ledger of party {party} does not go on from what other hosts have seen of it: it "
                    "was restored from a backup, or copied. Noise that its host made ahead is used no more. "
                    f"Its owner goes on by ./inv hosts.restored --seen {','.join(lost)}."
                )

    def remember(self, heads: Mapping[int, str], certificates: Mapping[int, str]) -> None:
        """Write the heads of other parties' ledgers, by their certificates."""
        named_by = _fingerprints(certificates)
        with suppress(LedgerError):  # the agreement on the piece still holds
            self._ledger.remember({named_by[party]: head for party, head in heads.items()})

    def charge(self, run: str) -> None:
        """Write the run's charge to the host's ledger, where it stays, with a digest that all hosts signed.

        Raises as `job`.
        """
        assert self.event is not None
        self.event = replace(self.event, run=run)
        self._allow(self.event)
        with charging_for(self.stock, self.event.piece):
            self._entry.start(self.event)

    def settle(self, status: Status) -> None:
        """Write how the run ended, if it was charged; its charge stays."""
        with suppress(LedgerError):  # it stays `running` then, and is shown as aborted
            self._entry.settle(status, ABORTED_TIMEOUT_S)


def _fingerprints(certificates: Mapping[int, str]) -> dict[int, str]:
    return {party: fingerprint(text.encode()) for party, text in certificates.items()}
