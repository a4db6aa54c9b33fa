"""`confusion`, `gap` and `count`; and what all commands that release a statistic do alike."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from harness.cli import terminal as cli
from harness.cli.commands.choices import (
    cap_and_release,
    chosen_account,
    chosen_form,
    chosen_hosts,
    chosen_law,
    chosen_model,
    chosen_spec,
    declared_domain,
    score_cut,
    with_cap,
)
from harness.cli.release_options import (
    ConfusionOptions,
    CountOptions,
    GapOptions,
    ReleaseOptions,
)
from harness.cli.report import write_beside
from harness.cli.terminal import show
from harness.cli.train_options import TrainOptions
from harness.clients.invitations import check_directory
from harness.engines.base import Progress
from harness.errors import FairSharesError, OptionError
from harness.inputs.aggregation import UploadPolicy
from harness.inputs.contribution_bounds import AUTO, Cap, caps_to_choose_from
from harness.inputs.record_schema import DEFAULT_MAX_COUNT, RecordDomain, RecordKind, read_domain
from harness.inputs.records import ClientRecords, ScoreCut, read_records
from harness.inputs.shares import MAX_VALUES
from harness.pipeline.capped_run import cap_directory, run_with_chosen_cap
from harness.pipeline.party_inputs import InvitedSource, RecordsSource, SharesSource, Source
from harness.pipeline.run import (
    Run,
    RunSettings,
    check_unread,
    run_release,
)
from harness.pipeline.terms import asked_of
from harness.privacy.ledger.charge import UNCHARGED
from harness.releases.base import Release, Statistic
from harness.releases.contribution_cap import ChosenCap
from harness.request.readers import parse_cap, parse_choice
from harness.system.result_files import check_new, default_out
from harness.views import run as run_view
from harness.views.ledger import charge
from harness.views.parts import Part, View
from harness.views.releases import cap as cap_view
from protocols.accounting.calibration import PrivacyUnit
from protocols.guarantee import Guarantee
from protocols.spec import (
    CLIENTS,
    PI_CAP,
    REPLICATED,
    SHARES,
    SLOTS,
    ProtocolSpec,
)

if TYPE_CHECKING:
    import pandas as pd

    from harness.hosts.runner import HostsRunner

_ANY = ("a", "b")  # groups or labels, where nothing depends on which there are

T = TypeVar("T")


def confusion(options: ConfusionOptions) -> None:
    """Run π_CF on a records file or on shares."""
    from harness.views.releases import confusion as confusion_view  # each command pays for its own

    cut = score_cut(options)
    if cut is not None and options.shares:
        raise OptionError("With --shares the predictions are those that were shared; leave out --threshold.")
    run, out = released(options, confusion_view.STEPS, cut)
    shown = confusion_view.confusion(run.found, cut)
    conclude(options, run, out, shown, "confusion matrices")


def gap(options: GapOptions) -> None:
    """Run π_GAP on a file of clients' values or on shares."""
    from harness.views.releases import gaps as gaps_view

    run, out = released(options, gaps_view.STEPS)
    conclude(options, run, out, gaps_view.gaps(run.found), "gaps")


def count(options: CountOptions) -> None:
    """Run π_COUNT on a records file or on shares."""
    from harness.views.releases import counts as counts_view

    run, out = released(options, counts_view.STEPS)
    conclude(options, run, out, counts_view.counts(run.found), "counts")


def released(
    options: ReleaseOptions, steps: dict[str, str], cut: ScoreCut | None = None
) -> tuple[Run[Any], Path]:
    """Run the statistic that the options make. Args, returns: as `release`."""
    spec = chosen_spec(options)
    settings = settings_of(options, spec)
    return release(options, options.statistic(spec), settings, steps, cut)


def settings_of(options: ReleaseOptions, spec: ProtocolSpec) -> RunSettings:
    """Check how the options go together, and return what they stand for.

    Raises: OptionError; UnsupportedError: the model cannot do it.
    """
    if not any(form.capped for form in spec.input_forms.values()):
        parse_choice("--privacy-unit", str(options.privacy_unit), [str(PrivacyUnit.RECORD)])
    _check_sources(options)
    hosts = _hosts(options) if options.hosts else None
    of_cap = _of_the_cap(options)
    release = Release(
        model=hosts.model if hosts else chosen_model(options.model),
        form=chosen_form(
            spec.input_forms, options.input_form, CLIENTS if options.invite else options.input_path
        ),
        epsilon=options.epsilon - of_cap.epsilon,
        delta=options.delta - of_cap.delta,
        relation=options.neighboring_relation,
        unit=options.privacy_unit,
        law=chosen_law(options.noise, options.law),
    )
    settings = RunSettings(
        release,
        timeout_s=options.timeout,
        account=chosen_account(options.population, options.budget, options.ledger),
        hosts=hosts,
    )
    settings.check_supported(spec)
    return settings


def _check_sources(options: ReleaseOptions) -> None:
    """Raise OptionError unless it is clear where clients' values come from."""
    if not options.hosts and sum(map(bool, (options.records, options.shares, options.invite))) != 1:
        raise OptionError(
            "Give either --records (a file of clients' records) or --shares (what `share` wrote)"
            + (", or --invite (a directory for clients' invitations)." if options.invite else ".")
        )
    if options.clients_per_upload and (options.records or options.invite):
        raise OptionError("--clients-per-upload is about uploads; it goes with --shares.")
    if bool(options.invite) != bool(options.clients):
        raise OptionError("--invite and --clients (how many) go together.")
    if not (options.records or options.invite) and options.input_path is CLIENTS:
        raise OptionError(
            "Shares were sent before the run, not by --input-path clients; leave out --input-path, or say "
            "replicated if they are."
        )
    if options.invite and options.input_path is REPLICATED:
        raise OptionError(
            "--input-path replicated is of shares that wait for the run, and --invite has clients send "
            "during it; leave out one of them."
        )
    if options.wants_chosen_cap and not options.chooses_cap:
        parse_cap(AUTO)  # which says why not
    if options.cap_epsilon and not options.chooses_cap:
        raise OptionError(f"--cap-epsilon is for --cap {AUTO}; give both, or neither.")


def _of_the_cap(options: ReleaseOptions) -> Guarantee:
    """Return how much of the command's epsilon and delta choosing the cap may spend."""
    if not options.chooses_cap:
        return Guarantee(Fraction(0), Fraction(0))
    return cap_and_release(options)[0]


def release(
    options: ReleaseOptions,
    statistic: Statistic[T],
    settings: RunSettings,
    steps: dict[str, str],
    cut: ScoreCut | None = None,
) -> tuple[Run[T], Path]:
    """Run the statistic on the records or shares; return what it found, and where its files are.

    Args: steps: what to call the steps; cut: as for `read_records`.
    """
    target = options.out or default_out(statistic.name)
    with cli.steps({**run_view.HOST_STEPS, **run_view.CAP_STEPS, **steps}) as begin:
        if settings.hosts is not None:
            return _run_on_hosts(options, statistic, settings, target, begin), target
        if options.shares:
            source = SharesSource(options.shares, policy_of(options, statistic, settings))
            return run_release(statistic, source, settings, target, begin), target
        if options.invite:
            return run_release(statistic, _invited(options, settings), settings, target, begin), target
        assert options.records is not None
        return run_on_records(options, statistic, options.records, settings, target, begin, cut), target


def run_on_records(
    options: ReleaseOptions,
    statistic: Statistic[T],
    source: Path | pd.DataFrame,
    settings: RunSettings,
    target: Path,
    begin: Progress,
    cut: ScoreCut | None = None,
) -> Run[T]:
    """Run the statistic on the records of a file or a table; where the options say so, after a cap's choice.

    Args: target: a new directory for the files.
    """
    domain = declared_domain(options, of_values=statistic.kind is RecordKind.VALUE)
    _check_unread(options, statistic, settings, domain, target)
    begin("records")
    records = read_records(
        source,
        domain,
        options.max_count or DEFAULT_MAX_COUNT,
        kind=statistic.kind,
        cut=cut,
    )
    if options.chooses_cap:
        return _run_after_cap(options, statistic, records, settings, target, begin)
    records = replace(records, domain=with_cap(records.domain, options.cap, settings.release.unit))
    return run_release(statistic, RecordsSource(records), settings, target, begin)


def _check_unread(
    options: ReleaseOptions,
    statistic: Statistic[T],
    settings: RunSettings,
    declared: RecordDomain | None,
    target: Path,
) -> None:
    """Check what can be known before records are read: the cap, the directories, the budget."""
    unit, total = settings.release.unit, None
    named = str(options.texts.get("positive_label") or _ANY[0])
    labels = tuple(sorted((named, _ANY[named == _ANY[0]])))  # any other
    domain = declared or RecordDomain(_ANY, labels, options.max_count or DEFAULT_MAX_COUNT)
    if not domain.values:
        domain = domain.with_kind(statistic.kind)
    cap = options.cap
    if options.chooses_cap and not domain.cap:
        cap, total = Cap(caps_to_choose_from(domain.max_count)[-1]), Guarantee(options.epsilon, options.delta)
        check_new(cap_directory(target))
    check_unread(statistic, settings, with_cap(domain, cap, unit), target, total)


def policy_of(options: ReleaseOptions, statistic: Statistic[T], settings: RunSettings) -> UploadPolicy:
    """Return what uploads have to be."""
    if any(options.given("groups", "labels", "max_count", "range", "steps", "cap").values()):
        raise OptionError(
            "With --shares the domain is the one that was shared; leave out the options for it, or name "
            "a file with it by --domain."
        )
    most = options.clients_per_upload or MAX_VALUES
    if not options.domain:
        return UploadPolicy(clients=most)
    domain = read_domain(options.domain).with_kind(statistic.kind)
    return UploadPolicy(with_cap(domain, None, settings.release.unit), most)


def _run_after_cap(
    options: ReleaseOptions,
    statistic: Statistic[T],
    records: ClientRecords,
    settings: RunSettings,
    target: Path,
    begin: Progress,
) -> Run[T]:
    spent = _of_the_cap(options)
    release = settings.release
    form, path = PI_CAP.input_forms[SLOTS.name], release.form.path
    form = form.by(path if path in PI_CAP.input_paths else SHARES)
    first = replace(release, form=form, epsilon=spent.epsilon, delta=spent.delta, law=None)
    of_cap = replace(settings, release=first)

    def chosen(cap: ChosenCap) -> None:
        left = Guarantee(release.epsilon, release.delta)
        cli.announce(*cap_view.going_on_with(cap, records.clients, left))

    return run_with_chosen_cap(statistic, records, of_cap, settings, target, begin, chosen)


def _hosts(options: ReleaseOptions) -> HostsRunner:
    from harness.hosts.runner import HostsRunner  # it loads what talks ssh

    assert options.hosts is not None
    hosts, model = chosen_hosts(options.hosts, options.model)
    return HostsRunner(hosts, model)


def _run_on_hosts(
    options: ReleaseOptions, statistic: Statistic[T], settings: RunSettings, target: Path, begin: Progress
) -> Run[T]:
    from harness.hosts.runner import HostsRunner, HostsSource

    hosts = settings.hosts
    assert isinstance(hosts, HostsRunner)
    source: Source
    if options.invite:
        source = _invited(options, settings)
    else:
        source = HostsSource(hosts, policy_of(options, statistic, settings))
    asked = asked_of(statistic, settings.release, settings.account.population)
    with hosts.connected(asked, begin):
        return run_release(statistic, source, settings, target, begin)


def _invited(options: ReleaseOptions, settings: RunSettings) -> InvitedSource:
    """Return what clients may have, where their invitations are to be, and how many; say so."""
    directory, clients = options.invite, options.clients
    assert directory is not None and clients is not None
    domain = declared_domain(options)
    if domain is None:
        raise OptionError("--invite needs --domain, or --groups and --labels: nobody has all records.")
    domain = with_cap(domain, options.cap, settings.release.unit)
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise OptionError(f"Cannot write to --invite {directory}: {error.strerror}.") from None
    check_directory(directory, clients)
    cli.announce(
        f"Each of {clients} clients sends by ./inv send --records FILE --invitation "
        f"{directory / 'client-<k>.json'}, k from 0, once that file is there."
    )
    return InvitedSource(domain, directory, clients)


def conclude(
    options: ReleaseOptions,
    run: Run[Any],
    target: Path,
    answer: View,
    what: str,
    hints: Sequence[str] = (),
    problem: FairSharesError | None = None,
) -> None:
    """Show the answer, then what every release says; print its file instead where JSON was asked for.

    Args: what: it is, in the plural; hints: what can be done next.
    Raises: problem, if there is one: why the result falls short although its epsilon is spent.
    """
    after = [
        *(run_view.chosen_cap(run.manifest, cap_directory(target)) if options.chooses_cap else ()),
        *hints,
        charge(run.charging, options.population == UNCHARGED),
    ]
    short, full = [*_in_short(options, run), *after], [*_in_full(options, run, what), *after]
    present(options, run.manifest, target, what.capitalize(), list(answer), short, full, problem)


def present(
    options: ReleaseOptions | TrainOptions,
    manifest: dict[str, Any],
    target: Path,
    title: str,
    answer: Sequence[Part],
    short: Sequence[Part],
    full: Sequence[Part],
    problem: FairSharesError | None = None,
    file: str = "",
) -> None:
    """Show the answer and, in short or in full, what is said of it; write the report, if asked to.

    Args: manifest: of the run that opened what the answer follows from; file: the answer's, if it is not
    named for the manifest's task. Raises: problem.
    """
    show(*answer)
    if not options.quiet:
        show(*(full if options.verbose else short))
    if options.plot:
        write_beside(target, title, run_view.subtitle(manifest), [*answer, *full])
    results = run_view.results(target, options.plot)
    if not options.quiet:
        show(results)
    if options.json:
        cli.announce(f"{results.label}: {results.text}")
    if problem is not None:
        raise problem
    if options.json:
        print((target / (file or f"{manifest['task']}.json")).read_text(encoding="utf-8"), end="")


def _in_short(options: ReleaseOptions, run: Run[Any]) -> Iterator[Part]:
    yield ""
    here = not options.hosts
    yield run_view.in_short(run.manifest, options.given("epsilon")["epsilon"], here)
    if options.hosts:  # what the starter saw, and could do, goes beyond the model
        yield run_view.on_hosts(bool(options.invite))
    yield from run_view.left_out(run.manifest)


def _in_full(options: ReleaseOptions, run: Run[Any], what: str) -> Iterator[Part]:
    yield from run_view.statement(run.manifest, what, options.given("epsilon")["epsilon"])
    if options.hosts:
        yield run_view.on_hosts(bool(options.invite))
    else:
        yield run_view.one_machine(bool(options.records))
