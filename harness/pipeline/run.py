"""From clients' records, or their shares, to a private result and its manifest, for every protocol.

Each step leaves files that parties could hold apart; a command that does all of it takes the same steps.
"""

from __future__ import annotations

import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Generic, TypeVar

from harness.engines.base import PROGRAMS, EngineResult, Job, Progress, Runner
from harness.engines.network.profiles import Network
from harness.engines.registry import engine_of
from harness.errors import OptionError, ShareError, UnsupportedError
from harness.inputs.aggregation import ANY, UploadPolicy
from harness.inputs.neighboring import relation_for
from harness.inputs.record_schema import RecordDomain, RecordKind
from harness.inputs.records import ClientRecords
from harness.pipeline import manifest as report
from harness.pipeline.party_inputs import (
    PartyInputs,
    feed_directory,
    feed_from_clients,
    feed_invited,
    feed_shares,
    share_and_aggregate,
)
from harness.privacy.ledger.charge import Account, Entry, entry
from harness.privacy.ledger.populations import NoiseEvent, PrivacyEvent
from harness.privacy.statement import privacy_fields
from harness.security_models import Model
from harness.system.result_files import new_directory, write_json
from protocols.accounting.calibration import (
    NeighboringRelation,
    NoisePlan,
    PrivacyUnit,
    plan_noise,
    plan_nominal_noise,
)
from protocols.accounting.queries import LinearQueries
from protocols.circuits.noise import fair_bits_per_sample, input_widths
from protocols.noise.truncated import Guarantee
from protocols.spec import CLIENTS, KEYS, InputForm, ProtocolSpec

DEFAULT_TIMEOUT_S = 600.0
DEFAULT_DELTA = "2^-40"

T = TypeVar("T")


@dataclass(frozen=True)
class Settings:
    """What the user chose for one release.

    Attributes: epsilon, delta: totals of the release; relation: None for the domain's default; unit: whose
    records are protected together; account: where it is charged; network: emulated between the parties,
    None for the machine's loopback; hosts: that run the parties, None for this machine.
    """

    model: Model
    form: InputForm
    epsilon: Fraction
    delta: Fraction
    relation: NeighboringRelation | None = None
    unit: PrivacyUnit = PrivacyUnit.RECORD
    timeout_s: float = DEFAULT_TIMEOUT_S
    account: Account = field(default_factory=Account)
    network: Network | None = None
    hosts: Runner | None = None

    @property
    def runner(self) -> Runner:
        """What runs the model: the hosts if there are some, else its engine on this machine."""
        return self.hosts or engine_of(self.model)

    @property
    def malleable_slots(self) -> bool:
        """Whether a party may move clients' records between cells, so that noise is for exchanged ones."""
        of_clients = self.unit is PrivacyUnit.CLIENT
        return of_clients and self.form.exchangeable and self.model.tolerates == "active"

    def relation_in(self, domain: RecordDomain) -> NeighboringRelation:
        """Return the relation that was chosen, or the default. Raises: OptionError: as `relation_for`."""
        return relation_for(domain, self.form, self.relation, self.unit)


class Statistic(ABC, Generic[T]):
    """What one command computes: a protocol, its size for a domain, and what follows from its result.

    Attributes: name: of the command, as manifests say it; detail: what a record has to hold besides its
    group and label.
    """

    name: str
    detail: RecordKind = RecordKind.NONE

    @property
    def nominal(self) -> bool:
        """Whether epsilon and delta are each opened value's, as published; what is spent is their sum."""
        return False

    @property
    @abstractmethod
    def spec(self) -> ProtocolSpec:
        """The protocol that it runs."""

    def charged(self, settings: Settings, domain: RecordDomain) -> Fraction:  # noqa: ARG002
        """Return the total epsilon that noise is made for; below the one allowed where less will do."""
        return settings.epsilon

    @abstractmethod
    def shape(self, domain: RecordDomain) -> Mapping[str, object]:
        """Return the program's arguments that follow from the domain, by name.

        Raises: RecordDomainError: the protocol is not for such records; ValueError: no noise fits the budget.
        """

    def check(self, domain: RecordDomain, clients: int, plan: NoisePlan) -> None:
        """Refuse, before anything is shared or run, what the protocol cannot do. Raises: OptionError."""

    @abstractmethod
    def read(self, result: EngineResult, domain: RecordDomain, clients: int, plan: NoisePlan) -> T:
        """Turn opened integers into what the command gives; from here on all is post-processing.

        Raises: OutputError: they cannot be what this protocol opens; the message gives no value.
        """

    @abstractmethod
    def files(self, found: T) -> Mapping[str, Mapping[str, Any]]:
        """Return the result files by name, as JSON, without the fields that all files have."""


@dataclass(frozen=True)
class Run(Generic[T]):
    """A finished run: what follows from what it opened, the manifest, and its place in the ledger."""

    found: T
    manifest: dict[str, Any]
    charging: Entry


def run_on_records(
    statistic: Statistic[T],
    records: ClientRecords,
    settings: Settings,
    out: Path,
    progress: Progress,
    task: str | None = None,
    earlier: Mapping[str, dict[str, Any]] | None = None,
) -> Run[T]:
    """Share all clients' records, run the protocol, write its files and `manifest.json` into `out`.

    Args: task, earlier: as for `run_fed`.
    Raises: FairSharesError: `out` does not exist then, and nothing of the shares is left.
    """
    model, form = settings.model, settings.form

    def feed(partial: Path) -> PartyInputs:
        plan = plan_release(statistic, settings, records.domain)  # refused before anything is shared
        statistic.check(records.domain, records.clients, plan)
        if form.path is CLIENTS:
            terms = terms_of(statistic, settings, records.domain)
            return feed_from_clients(records, form, model, terms, partial, settings.timeout_s)
        progress("share")
        aggregates, share_s, sent = share_and_aggregate(records, form, model, partial, progress)
        fed = feed_shares(aggregates, form, model, partial, lasting=False, uploaded=sent)
        return replace(fed, domain=records.domain, share_s=share_s)

    return run_fed(statistic, feed, settings, out, progress, task, earlier)


def run_on_shares(
    statistic: Statistic[T],
    shares: Path,
    settings: Settings,
    out: Path,
    progress: Progress,
    rules: UploadPolicy = ANY,
) -> Run[T]:
    """Run the protocol on what `share` or `aggregate` wrote, all parties on this machine.

    Args: shares: a directory with a directory `party-<i>` of share files per party, or a file
    `party-<i>.aggregate` per party; it stays as it is; rules: what uploads have to be.
    Raises: FairSharesError: `out` does not exist then.
    """
    check_supported(statistic.spec, settings)
    aggregates = sorted(shares.glob("party-*.aggregate"))
    parties = len(aggregates or [path for path in shares.glob("party-*") if path.is_dir()])
    if not parties:
        raise ShareError(
            f"{shares} holds no shares: there is neither a directory party-0, as `share` makes, nor a file "
            "party-0.aggregate, as `aggregate` does."
        )
    if parties != settings.model.parties:
        raise ShareError(
            f"{shares} holds shares for {parties} parties, model {settings.model.name} has "
            f"{settings.model.parties}; share for this model, or choose the one it was shared for."
        )

    def feed(partial: Path) -> PartyInputs:
        progress("aggregate")
        if aggregates:
            return feed_shares(aggregates, settings.form, settings.model, partial, lasting=True, rules=rules)
        return feed_directory(shares, settings.form, settings.model, partial, rules)

    return run_fed(statistic, feed, settings, out, progress)


def run_for_invited(
    statistic: Statistic[T],
    invited: tuple[Path, int],
    domain: RecordDomain,
    settings: Settings,
    out: Path,
    progress: Progress,
) -> Run[T]:
    """Run the protocol on what invited clients send while the parties run.

    Args: invited: a directory for the invitations, and how many; they are gone when the run is over.
    Raises: FairSharesError: `out` does not exist then.
    """
    check_supported(statistic.spec, settings)
    plan_release(statistic, settings, domain)
    directory, clients = invited

    def feed(partial: Path) -> PartyInputs:
        terms = terms_of(statistic, settings, domain)
        return feed_invited(domain, clients, settings.form, settings.model, terms, partial, directory)

    return run_fed(statistic, feed, settings, out, progress)


def run_fed(
    statistic: Statistic[T],
    feed: Callable[[Path], PartyInputs],
    settings: Settings,
    out: Path,
    progress: Progress,
    task: str | None = None,
    earlier: Mapping[str, dict[str, Any]] | None = None,
) -> Run[T]:
    """Run the protocol on what the parties are fed; write its files and `manifest.json` into `out`.

    Args: feed: has the parties' inputs ready, given a directory for what it needs meanwhile; task: what
    the manifest calls the run; the statistic's name unless given; earlier: manifests of releases on the same
    clients that this one was chosen after; what the files say is then of all of them together, this one at
    all that it was allowed: how much of that its noise spends depends on what they opened.
    Raises: FairSharesError: `out` does not exist then.
    """
    started, task = time.monotonic(), task or statistic.name
    check_supported(statistic.spec, settings)
    with entry(settings.account) as charging, new_directory(out) as partial:
        fed = feed(partial)
        model, domain = settings.model, fed.domain
        if domain.kind is not statistic.detail:
            held, needed = domain.kind.described, statistic.detail.described
            raise ShareError(
                f"These shares are of records with {held}; {statistic.name} needs {needed}. Clients share "
                "again, by share --task with what the shares are for."
            )
        plan = plan_release(statistic, settings, domain)
        statistic.check(domain, fed.clients, plan)
        release = PrivacyEvent(
            task,
            model.name,
            plan.exact,
            plan.unit,
            plan.relation,
            out,
            NoiseEvent(plan.coins, plan.changed) if plan.opened and plan.largest == 1 else None,
            fed.batches,
        )
        charging.check(release)
        result = settings.runner.run(
            make_job(statistic, settings, plan, fed),
            model,
            partial / "parties",
            settings.timeout_s,
            progress,
            starting=lambda: charging.start(release),
            network=settings.network,
        )
        progress("read")
        found = statistic.read(result, domain, fed.clients, plan)
        privacy = privacy_fields(
            statistic.spec, settings.form, model, plan, domain.inferred, domain.cap, domain.max_count
        )
        inputs, charged, wall_s = fed.public(settings.form), charging.fields(), time.monotonic() - started
        manifest = report.manifest(task, result, privacy, inputs, charged, wall_s, fed.share_s, fed.uploaded)
        if earlier:
            asked = Guarantee(settings.epsilon, settings.delta)
            manifest = report.combined_manifest(task, {**earlier, task: manifest}, asked)
            privacy = manifest["privacy"]
        for leftover in partial.iterdir():  # the engine has moved or removed all else
            leftover.unlink() if leftover.is_file() else shutil.rmtree(leftover)
        for name, fields in statistic.files(found).items():
            write_json(partial / name, {"schema": report.SCHEMA, **fields, "privacy": privacy})
        write_json(partial / "manifest.json", manifest)
        return Run(found, manifest, charging)


def terms_of(statistic: Statistic[T], settings: Settings, domain: RecordDomain) -> dict[str, Any]:
    """Return what clients who send to a run have to agree with: all that decides what is opened of them."""
    return {
        "task": statistic.name,
        "model": settings.model.name,
        "input_form": settings.form.name,
        "domain": domain.to_json(),
        "epsilon": str(settings.epsilon),
        "delta": str(settings.delta),
        "neighboring_relation": str(settings.relation_in(domain)),
    }


def check_supported(spec: ProtocolSpec, settings: Settings) -> None:
    """Raise UnsupportedError unless the model can run the protocol on this input form here."""
    reason = settings.runner.supports(spec, settings.model, settings.form)
    if reason is not None:
        raise UnsupportedError(f"Model {settings.model.name} cannot do this. {reason}")


def plan_release(statistic: Statistic[T], settings: Settings, domain: RecordDomain) -> NoisePlan:
    """Choose the noise from the linear map that the protocol declares.

    Raises: UnsupportedError: it declares none; OptionError: no noise fits the budget.
    """
    if statistic.spec.release is None:
        raise UnsupportedError(
            f"{statistic.spec.name} does not declare what a record changes in what it opens, "
            "so no guarantee can be stated; add `release` to its ProtocolSpec."
        )
    try:
        release = statistic.spec.release(_as_text(statistic.shape(domain)))
        relation, epsilon = settings.relation_in(domain), statistic.charged(settings, domain)
        if statistic.nominal:
            assert isinstance(release, LinearQueries)
            return plan_nominal_noise(release, relation, epsilon, settings.delta)
        together = domain.max_records_per_unit
        plan = plan_noise(release, relation, epsilon, settings.delta, together, settings.malleable_slots)
        return replace(plan, requested_epsilon=settings.epsilon)  # of which less may do
    except ValueError as error:
        raise OptionError(
            f"No noise fits --epsilon {settings.epsilon} and --delta {float(settings.delta):.3g}: {error}."
        ) from None


def make_job(statistic: Statistic[T], settings: Settings, plan: NoisePlan, fed: PartyInputs) -> Job:
    """Return the protocol's job: the arguments that its spec names, in order, and all nodes' fair bits."""
    rows = 0 if settings.form.summed_by_party else fed.rows
    arguments = {
        "form": settings.form.name,
        "path": settings.form.path.name,
        "parties": settings.model.parties,
        "clients": rows,
        "records": fed.entries if settings.form.name == KEYS.name else rows,
        "slots": fed.entries,
        "per_lane": settings.model.slots_per_lane,
        "parts": fed.sending.parts if fed.sending else 0,
        "most_records": fed.clients * fed.domain.max_contribution,
        "epsilon": plan.node_epsilon,
        "delta_bits": plan.node_delta_bits,
        **statistic.shape(fed.domain),
    }
    spec = statistic.spec
    return Job(
        spec=spec,
        source=PROGRAMS / f"{spec.name}.mpc",
        arguments=tuple(str(arguments[name]) for name in spec.arguments),
        party_inputs=tuple(fed.values),
        fair_bits=tuple((width, plan.nodes) for width in input_widths(fair_bits_per_sample(plan.coins))),
        clients=fed.sending,
    )


def _as_text(arguments: Mapping[str, object]) -> dict[str, str]:
    return {name: str(value) for name, value in arguments.items()}
