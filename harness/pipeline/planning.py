"""A release on a domain: its noise, the privacy that it has, and the event that a ledger is asked about."""

import json
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Generic, TypeVar

from fairshares.harness.engines.execution import Progress
from fairshares.harness.errors import ShareError, named
from fairshares.harness.inputs.record_schema import RecordDomain
from fairshares.harness.pipeline.sources import CountableUploads
from fairshares.harness.privacy.ledger.accountants import NoiseEvent
from fairshares.harness.privacy.ledger.charge import Account
from fairshares.harness.privacy.ledger.populations import PrivacyEvent, RevealOfTask, RunChain, uncovered
from fairshares.harness.releases.base import Answer, PreparedRelease, Statistic
from fairshares.harness.request.request import Request
from fairshares.harness.uploads.policy import ClientPolicies
from fairshares.protocols.accounting.rounds import Concentrated

R = TypeVar("R", bound=Answer)


class Planner(CountableUploads, Generic[R]):
    """Plans a release for the domain that its inputs turn out to have.

    A release whose uploads have policies of their own is planned before they are counted, as what it spends
    decides whose uploads count.
    """

    def __init__(
        self, statistic: Statistic[R], release: Request, account: Account, out: Path, progress: Progress
    ) -> None:
        self.statistic = statistic
        self.out = out
        self._release = release
        self._account = account
        self._progress = progress
        self._prepared: dict[RecordDomain, PreparedRelease[R]] = {}

    def prepared(self, domain: RecordDomain) -> PreparedRelease[R]:
        """Return the release on a domain, which is worked out once.

        Raises ShareError if these records do not suit the statistic, or as `Statistic.prepare`.
        """
        if domain not in self._prepared:
            check_kind(self.statistic, domain)
            self._progress("plan")
            self._prepared[domain] = self.statistic.prepare(self._release, domain)
        return self._prepared[domain]

    def uncovered(self, domain: RecordDomain, policies: ClientPolicies) -> Collection[str]:
        event = event_of(self.prepared(domain), self.statistic.name, self.out)
        return uncovered(policies, event, self._account.ledger.spent_on(policies.uploads))

    def counted(self, uploads: Iterable[str]) -> Collection[str]:
        chain = self._release.charged_with
        return self._account.ledger.counted(self._account.population, chain, uploads)


def check_kind(statistic: Statistic[Answer], domain: RecordDomain) -> None:
    """Raise ShareError unless records of this domain suit the statistic."""
    if domain.kind is not statistic.kind:
        raise ShareError(
            f"These shares are of records with {domain.kind.described}; {statistic.name} needs "
            f"{statistic.kind.described}. Clients have to share again, with the right {named('task')}."
        )


def event_of(prepared: PreparedRelease[Answer], task: str, out: Path) -> PrivacyEvent:
    """Return the event for a ledger."""
    plan = prepared.plan
    release = prepared.release
    noise: NoiseEvent | Concentrated | None = None
    if plan.rounds is not None:
        noise = plan.rounds.loss
    elif plan.queries and plan.largest == 1:
        noise = NoiseEvent(plan.noise, plan.changed)
    chain: RunChain | None = None
    if release.charged_with is not None:
        domain = json.dumps(prepared.domain.in_all_reveals.to_json(), sort_keys=True)
        chain = RunChain(release.charged_with, domain)
        if release.series is not None:
            chain = RevealOfTask(release.series.task, domain, release.series.number)
    return PrivacyEvent(
        task=task,
        model=release.model.title,
        exact=plan.exact,
        unit=plan.unit,
        relation=plan.relation,
        out=out,
        noise=noise,
        chain=chain,
        family=plan.family,
        has_rounds=plan.rounds is not None,
    )
