"""From a call to its run: domain, account, and one release or two."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

from fairshares.harness.engines.execution import Backend, Progress, StepsOfRun
from fairshares.harness.engines.registry import choose_model, chosen_model, engine_of
from fairshares.harness.errors import BudgetError, OptionError, cannot, named, refuse
from fairshares.harness.inputs.record_schema import (
    AUTO,
    DEFAULT_MAX_COUNT,
    DEFAULT_THRESHOLDS,
    Cap,
    RecordDomain,
    RecordKind,
    caps_to_choose_from,
    most_of_own_records,
)
from fairshares.harness.inputs.records import ClientRecords
from fairshares.harness.inputs.tables import TabularRecords
from fairshares.harness.online.client import check_directory
from fairshares.harness.pipeline.planning import event_of
from fairshares.harness.pipeline.preprocessing import MadeNoise, joint_noise_of, preprocess
from fairshares.harness.pipeline.relations import new_default, under_kept_relation
from fairshares.harness.pipeline.run import Run, RunSettings, check_supported, run_release
from fairshares.harness.pipeline.sources import InvitedSource, RecordsSource
from fairshares.harness.privacy.ledger.charge import (
    Entry,
    SeriesEntry,
    account_read,
    chosen_account,
    chosen_ledger,
    settled,
)
from fairshares.harness.privacy.ledger.populations import PrivacyEvent
from fairshares.harness.privacy.stock import Stock
from fairshares.harness.releases.base import Answer, PreparedRelease, Statistic, statistic_of
from fairshares.harness.releases.cap.request import CapRequest
from fairshares.harness.releases.cap.spec import PI_CAP
from fairshares.harness.releases.cap.statistic import (
    CAP_SHARE,
    CapStatistic,
    CapTarget,
    ChosenCap,
    sizes_alone,
)
from fairshares.harness.request.fields import as_text
from fairshares.harness.request.readers import parse_cap
from fairshares.harness.request.releases import DeclaredDomain, Invited, ReleaseCall
from fairshares.harness.request.request import AccountOptions, Inputs, Randomness, Request, Trust, Where
from fairshares.harness.system.progress import Say, nothing_said
from fairshares.harness.system.result_files import check_new
from fairshares.protocols.accounting.calibration import PrivacyUnit
from fairshares.protocols.guarantee import Guarantee, compose
from fairshares.protocols.spec import CLIENTS, REPLICATED, SHARES

_ANY = ("a", "b")  # groups or labels, where names do not matter

# Receives the chosen bound, the number of clients, and the budget that is left for the release.
SayCap = Callable[[ChosenCap, int, Guarantee], None]


def nothing_said_of_cap(_cap: ChosenCap, _clients: int, _left: Guarantee) -> None:
    """Say nothing."""


def settings_of(
    call: ReleaseCall,
    hosts: Backend | None = None,
    say: Say = nothing_said,
    invited: Invited | None = None,
) -> RunSettings:
    """Check how a call's fields combine, and return the settings of its run.

    Args:
        call: The options of the call.
        hosts: The hosts where it will run, whose model the call names. The settings lack what runs it there
            once they are connected. None for this machine.
        say: A function that is told what is chosen.
        invited: Clients that are invited to send during the run.

    Raises OptionError, or UnsupportedError if the model cannot run this.
    """
    request = call.request
    if invited is not None:
        request = request.but(Inputs.input_path, CLIENTS)
    request.check_unit()
    _check_sources(call, invited, at_hosts=hosts is not None)
    request = request.but(Trust.security, chosen_model(request.security, say, request.trust.parties))
    if request.randomness.offline:
        _check_undivided(call)
    if chooses_cap(call):
        _, left = cap_and_release(request)
        request = request.spending(left)
    settings = RunSettings(
        request,
        timeout_s=call.where.timeout,
        account=chosen_account(
            request.population,
            call.account.budget,
            call.account.ledger,
            say,
            of_records=call.source.records is not None,
        ),
        stock=stock_of(call.where, call.account) if request.randomness.offline and not hosts else None,
    )
    for needed in (request, *request.also_needed()):
        check_supported(needed, needed.spec, hosts or engine_of(needed.model))
    return settings


def of_noise(call: ReleaseCall, hosts: Backend | None = None) -> PreparedRelease[Answer]:
    """Return the release whose noise is made ahead, or raise OptionError.

    On this machine it is under the relation that its population has, if it names one.
    """
    _check_undivided(call)
    request = call.request.but(Randomness.offline, True)
    request = request.but(Trust.security, request.security or choose_model(None, request.trust.parties))
    statistic = statistic_of(request)
    declared = domain_of_noise(call.declares, statistic.kind)
    domain = with_cap(declared, request.protect.bound, request.protect.privacy_unit)
    check_supported(request, statistic.spec, hosts or engine_of(request.model))
    if statistic.kind is not RecordKind.VALUE:
        domain = call.with_kind(domain, statistic.kind)
    if hosts is None:
        account = account_read(request.population, call.account.ledger)
        request = under_kept_relation(request, domain, account)
    return statistic.prepare(request, domain)


def make_noise_ahead(call: ReleaseCall, runs: int, progress: Progress) -> MadeNoise:
    """Make the noise of so many runs of a release, and keep it in the stock of this machine.

    Raises OptionError as `of_noise`, or as `preprocess`.
    """
    stock = stock_of(call.where, call.account)
    noise = joint_noise_of(of_noise(call))
    pieces = preprocess(noise, stock, runs, call.where.timeout, progress)
    return MadeNoise(str(stock.directory), pieces)


def domain_of_noise(declares: DeclaredDomain, kind: RecordKind = RecordKind.NONE) -> RecordDomain:
    """Return the declared domain; OptionError if there is none, as noise depends on it."""
    domain = declares.of_kind(kind)
    if domain is None:
        raise OptionError(
            f"Noise depends on the domain; declare it by {named('domain')}, or {named('groups')} and "
            f"{named('labels')}."
        )
    return domain


def _check_undivided(call: ReleaseCall) -> None:
    """Refuse to divide ε between two releases: noise for all of ε fits neither."""
    if call.request.protect.chooses_cap:
        raise OptionError(
            f"Noise is made ahead for one release that spends all of ε, and {named('cap', AUTO)} divides ε; "
            f"leave that out, or {named('offline')}."
        )


def invited_source(call: ReleaseCall, invited: Invited, request: Request) -> InvitedSource:
    """Return the source of a run to which clients are invited, and make the directory of invitations.

    Raises OptionError if no domain is declared, or the directory cannot be used.
    """
    domain = call.declares.of_kind(statistic_of(request).kind)
    if domain is None:
        raise OptionError(
            f"{named(invited.field)} needs {named('domain')}, or {named('groups')} and {named('labels')}: "
            "nobody has all records."
        )
    domain = with_cap(domain, request.protect.bound, request.protect.privacy_unit)
    directory = invited.directory
    with cannot(f"write to {named(invited.field, directory)}", OptionError):
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    check_directory(directory, invited.clients)
    return InvitedSource(domain, directory, invited.clients)


def stock_of(where: Where, account: AccountOptions) -> Stock:
    """Return the stock of runs on this machine."""
    return Stock.chosen(where.stock, chosen_ledger(account.ledger).path)


def chooses_cap(call: ReleaseCall) -> bool:
    """Return whether a first release chooses the contribution bound."""
    return call.request.protect.chooses_cap and call.source.records is not None


def _check_sources(call: ReleaseCall, invited: Invited | None, *, at_hosts: bool) -> None:
    """Raise OptionError if the inputs conflict with each other, or with other fields of a call."""
    clients_send = invited is not None
    records = call.source.records
    shares = call.source.shares
    path = call.request.inputs.input_path
    protect = call.request.protect
    or_invitations = "."
    if invited is not None:
        or_invitations = f", or {named(invited.field)} (a directory for invitations of clients)."
    refuse(
        OptionError,
        (
            at_hosts and (records or shares),
            f"Hosts hold the shares themselves; leave out {named('records' if records else 'shares')}, "
            f"or {named('hosts')}.",
        ),
        (
            not at_hosts and sum(map(bool, (records, shares, clients_send))) != 1,
            f"Give either {named('records')} (a file of clients' records) or {named('shares')} (what `share` "
            f"wrote){or_invitations}",
        ),
    )
    call.check_source(clients_send=clients_send)
    refuse(
        OptionError,
        (
            not (records or clients_send) and path is CLIENTS,
            f"Shares were sent before the run, not by {named('input_path', 'clients')}; leave out "
            f"{named('input_path')}, or say replicated if they are.",
        ),
    )
    if invited is not None and path is REPLICATED:
        raise OptionError(
            f"{named('input_path', 'replicated')} is of shares that wait for the run, and "
            f"{named(invited.field)} has clients send during it; leave out one of them."
        )
    if protect.chooses_cap and records is None:
        parse_cap(AUTO)  # raises with the reason
    declared = [*call.declares.values().values(), protect.cap]
    refuse(
        OptionError,
        (
            not (records or clients_send) and any(declared),
            "The domain of uploads is that of the task that clients shared for; leave out the options for "
            "it.",
        ),
        (
            protect.cap_epsilon and not chooses_cap(call),
            f"{named('cap_epsilon')} is for {named('cap', AUTO)}; give both, or neither.",
        ),
    )


def cap_and_release(request: Request) -> tuple[Guarantee, Guarantee]:
    """Divide the budget of `cap="auto"` between bound and release."""
    total = request.protect.guarantee
    chosen = request.protect.cap_epsilon
    of_cap = Guarantee(chosen or total.epsilon * CAP_SHARE, total.delta * CAP_SHARE)
    if of_cap.epsilon >= total.epsilon:
        raise OptionError(
            f"{named('cap_epsilon', as_text(chosen))} leaves nothing of "
            f"{named('epsilon', as_text(total.epsilon))}, the total."
        )
    return of_cap, total - of_cap


def with_cap(domain: RecordDomain, cap: Cap | None, unit: PrivacyUnit) -> RecordDomain:
    """Return the domain with the requested contribution bound, else its own; 1 for performance values.

    Raises OptionError if the domain has another bound, or a smaller maximum count.
    """
    chosen = cap or domain.cap
    if chosen is None and domain.values and unit is PrivacyUnit.CLIENT:
        chosen = Cap(1)
    if chosen is None:
        return domain
    refuse(
        OptionError,
        (
            domain.cap not in (None, chosen),
            f"The domain file says how much of a client counts; leave out {named('cap')}, or say the same.",
        ),
        (
            chosen.slots > domain.max_count and not chosen.weight_one,
            f"A cap of {chosen.slots} is above the {domain.max_count} records that a client has at most, and "
            f"costs noise for nothing; say {domain.max_count} or less, or declare a larger maximum "
            f"(max_count in a domain file, or {named('max_count')}).",
        ),
    )
    return replace(domain, cap=chosen)


def run_on_records(
    call: ReleaseCall,
    source: TabularRecords,
    settings: RunSettings,
    out: Path,
    progress: Progress,
    *,
    say_cap: SayCap = nothing_said_of_cap,
    say: Say = nothing_said,
) -> Run[Answer]:
    """Run a release on records in files or a frame, and its bound's choice before, if the call says so.

    If a bound is chosen, the call's own request has the ε of both, and the request of `settings` has the ε
    that is left for the release. `say_cap` is told of the bound before the release begins. Before anything is
    spent, `say` is told of a relation that version 1.0 would not have taken, unless the population has it
    already.
    """
    whole = call.request
    rest = settings.release
    protect = whole.protect
    most = call.declares.max_count or DEFAULT_MAX_COUNT
    statistic = _statistic(call, rest)
    domain = call.declares.of_kind(statistic.kind)
    _check_unread(call, statistic, settings, domain, out)
    progress("records")
    records = call.read(source, domain, most, statistic.kind)
    records.check_unit(protect.privacy_unit, protect.cap or records.domain.cap)
    if not chooses_cap(call):
        capped = with_cap(records.domain, protect.bound, protect.privacy_unit)
        records = replace(records, domain=capped)
        release = under_kept_relation(rest, capped, settings.account)
        changed = new_default(release, capped, most if domain is None else domain.max_count)
        if changed:
            say(changed)
        settings = replace(settings, release=release)
        return run_release(statistic, RecordsSource(records), settings, out, progress)
    of_cap, _ = cap_and_release(whole)
    return run_with_chosen_cap(
        statistic,
        records,
        replace(settings, release=request_of_cap(rest, of_cap)),
        settings,
        out,
        progress=progress,
        say_cap=say_cap,
    )


def cap_directory(out: Path) -> Path:
    """Return the directory of the bound's choice."""
    return out.parent / f"{out.name}-cap"


def run_with_chosen_cap(
    statistic: Statistic[Answer],
    records: ClientRecords,
    of_cap: RunSettings,
    settings: RunSettings,
    out: Path,
    *,
    progress: Progress,
    say_cap: SayCap,
) -> Run[Answer]:
    """Choose a contribution bound by π_CAP (`of_cap`), then run the statistic with it (`settings`).

    Each is a release with a charge; a budget for a declared number of runs takes one charge for both. The
    bound's files stay if the statistic fails: its ε is spent, and the bound can be used again. The
    statistic's files state the loss of both.

    If a run fails, `out` does not exist. Predictable faults are raised before anything is spent.
    """
    domain = records.domain
    cap_out = cap_directory(out)
    release = settings.release
    if domain.cap:
        raise OptionError(f"The domain file says how much of a client counts; leave out {named('cap')}.")
    largest = Cap(caps_to_choose_from(domain.max_count)[-1])
    plan = statistic.prepare(release, replace(domain, cap=largest)).plan
    both = compose([of_cap.release.protect.guarantee, release.protect.guarantee])
    event = PrivacyEvent(statistic.name, release.model.title, both, plan.unit, plan.relation, out)
    Entry(settings.account).check(event)
    series = SeriesEntry(settings.account, event) if settings.account.declared else None
    target = CapTarget(
        statistic.name,
        release.protect.guarantee,
        len(domain.thresholds) or DEFAULT_THRESHOLDS,
        release.malleable_slots,
    )
    with nullcontext() if series is None else settled(series) as within:
        cap = run_release(
            CapStatistic(target),
            RecordsSource(sizes_alone(records)),
            of_cap,
            cap_out,
            StepsOfRun("cap", progress).begin,
            within=within,
        )
        say_cap(cap.found, records.clients, release.protect.guarantee)
        capped = RecordsSource(replace(records, domain=replace(domain, cap=Cap(cap.found.cap))))
        return run_release(
            statistic, capped, settings, out, progress, earlier={"cap": cap.manifest}, within=within
        )


def request_of_cap(request: Request, spends: Guarantee) -> CapRequest:
    """Return the request that chooses the bound."""
    path = request.inputs.input_path
    return CapRequest(
        epsilon=spends.epsilon,
        delta=spends.delta,
        release=request.task,
        release_epsilon=request.protect.epsilon,
        security=request.security,
        population=request.population,
        input_path=path if path in PI_CAP.input_paths else SHARES,
    )


def _statistic(call: ReleaseCall, request: Request) -> Statistic[Answer]:
    """Return the statistic of a request, on the domain of the call's file if it has one."""
    if call.declares.domain:
        request = request.with_domain_of(call.declares.domain)
    return statistic_of(request)


def _check_unread(
    call: ReleaseCall,
    statistic: Statistic[Answer],
    settings: RunSettings,
    declared: RecordDomain | None,
    out: Path,
) -> None:
    """Refuse a bound, an existing directory or an exceeded budget before any record is read.

    Any names stand in for undeclared ones.  [test: tests/commands/test_output.py]
    """
    rest = settings.release  # the release with the ε that is left, if a bound is chosen before
    total: Guarantee | None = None
    positive = next(iter(rest.labels_named), _ANY[0])
    negative = next(name for name in _ANY if name != positive)
    labels = tuple(sorted((positive, negative)))
    domain = declared or RecordDomain(_ANY, labels, call.declares.max_count or DEFAULT_MAX_COUNT)
    if not domain.values:
        domain = call.with_kind(domain, statistic.kind)
    cap = rest.protect.bound
    if chooses_cap(call) and not domain.cap:
        cap = Cap(caps_to_choose_from(domain.max_count)[-1])
        total = call.request.protect.guarantee
        check_new(cap_directory(out))
    domain = with_cap(domain, cap, rest.protect.privacy_unit)
    check_new(out)
    if settings.account.population is None:
        return
    rest = under_kept_relation(rest, domain, settings.account)
    try:
        _check_charge(statistic, rest, domain, settings, out, total=total)
    except BudgetError:
        # The release stays as it is if each record turns out to be a client.
        of_own = replace(domain, max_count=most_of_own_records(domain.max_count))
        if rest.relation_in(of_own) is rest.relation_in(domain):
            raise
        _check_charge(statistic, rest, of_own, settings, out, total=total)


def _check_charge(
    statistic: Statistic[Answer],
    release: Request,
    domain: RecordDomain,
    settings: RunSettings,
    out: Path,
    *,
    total: Guarantee | None,
) -> None:
    """Raise the errors of a release's charge; of the `total` charge, if two releases are charged."""
    event = event_of(statistic.prepare(release, domain), statistic.name, out)
    Entry(settings.account).check(replace(event, exact=total or event.exact))
