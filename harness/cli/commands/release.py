"""What all commands that release a statistic do alike: read the options, run, say what was opened."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from harness.cli import terminal as cli
from harness.cli.commands.choices import (
    UNCHARGED,
    cap_and_release,
    chosen_account,
    chosen_form,
    chosen_hosts,
    chosen_model,
    declared_domain,
    with_cap,
)
from harness.cli.commands.ledger import show_charge
from harness.cli.options import (
    parse_cap,
    parse_choice,
    parse_clients,
    parse_delta,
    parse_epsilon,
    parse_max_count,
    parse_relation,
    parse_seconds,
    parse_upload_clients,
    require,
)
from harness.cli.terminal import plain, say
from harness.clients.invitations import check_directory
from harness.engines.base import Progress
from harness.errors import FairSharesError, OptionError
from harness.inputs.aggregation import UploadPolicy
from harness.inputs.contribution_bounds import AUTO
from harness.inputs.record_schema import DEFAULT_MAX_COUNT, RecordDomain, RecordKind, read_domain
from harness.inputs.records import ClientRecords, read_records
from harness.pipeline.capped_run import cap_directory, run_with_chosen_cap
from harness.pipeline.run import (
    Run,
    Settings,
    Statistic,
    check_supported,
    run_fed,
    run_for_invited,
    run_on_records,
    run_on_shares,
)
from harness.releases.contribution_cap import ChosenCap
from harness.system.result_files import default_out
from harness.views import cap as show_cap
from harness.views import weights as show
from protocols.accounting.calibration import PrivacyUnit
from protocols.noise.truncated import Guarantee
from protocols.spec import CLIENTS, PI_CAP, SHARES, SLOTS, ProtocolSpec

if TYPE_CHECKING:
    from harness.hosts.runner import HostsRunner
    from harness.pipeline.party_inputs import PartyInputs

T = TypeVar("T")


@dataclass(frozen=True)
class ReleaseOptions:
    """The options of a release, by their names and as given; see `harness.cli.tasking.RELEASE_OPTIONS`.

    Those with a default here are options of some releases only.
    """

    epsilon: str
    records: str
    shares: str
    domain: str
    groups: str
    labels: str
    max_count: str
    model: str
    input_form: str
    delta: str
    neighboring_relation: str
    privacy_unit: str
    population: str
    budget: str
    ledger: str
    out: str
    timeout: str
    json: bool
    input_path: str = SHARES.name
    invite: str = ""
    clients: str = ""
    cap: str = ""
    cap_epsilon: str = ""
    range: str = ""
    steps: str = ""
    hosts: str = ""
    clients_per_upload: str = ""

    @property
    def declared(self) -> tuple[str, str, str, str]:
        return self.domain, self.groups, self.labels, self.max_count

    @property
    def by_slots(self) -> bool:
        """Whether slots are counted: where clients are the unit, unless another form is asked for."""
        if self.input_form:
            return self.input_form == SLOTS.name
        by_shares = self.input_path == SHARES.name and not self.invite
        return self.privacy_unit == PrivacyUnit.CLIENT and by_shares

    def settings(self, spec: ProtocolSpec) -> Settings:
        """Check the options and return what they stand for. Raises: OptionError; UnsupportedError."""
        require({"--epsilon": self.epsilon})
        several = any(form.capped for form in spec.input_forms.values())
        units = [*PrivacyUnit] if several else [PrivacyUnit.RECORD]
        unit = PrivacyUnit(parse_choice("--privacy-unit", self.privacy_unit, list(map(str, units))))
        if self.json:
            cli.out.stderr = True  # nothing but JSON on stdout
        if not self.hosts and sum(map(bool, (self.records, self.shares, self.invite))) != 1:
            raise OptionError(
                "Give either --records (a file of clients' records) or --shares (what `share` wrote)"
                + (", or --invite (a directory for clients' invitations)." if self.invite else ".")
            )
        if self.hosts and self.shares and self.invite:
            raise OptionError("Give either --shares or --invite: clients share, or send while it runs.")
        if self.clients_per_upload and (self.records or self.invite):
            raise OptionError("--clients-per-upload is about uploads; it goes with --shares.")
        if bool(self.invite) != bool(self.clients):
            raise OptionError("--invite and --clients (how many) go together.")
        path = CLIENTS.name if self.invite else self.input_path
        if self.shares and path != SHARES.name:
            raise OptionError("--shares come by --input-path shares; leave out --input-path.")
        if self.cap == AUTO and not self.chooses_cap:
            parse_cap(self.cap)  # which says why not
        if self.cap_epsilon and not self.chooses_cap:
            raise OptionError(f"--cap-epsilon is what --cap {AUTO} may spend; say both, or neither.")
        hosts = self._hosts() if self.hosts else None
        of_cap = self._of_the_cap()
        settings = Settings(
            model=hosts.model if hosts else chosen_model(self.model),
            form=chosen_form(spec.input_forms, self.input_form, path),
            epsilon=parse_epsilon(self.epsilon) - of_cap.epsilon,
            delta=parse_delta(self.delta) - of_cap.delta,
            relation=parse_relation(self.neighboring_relation),
            unit=unit,
            timeout_s=parse_seconds(self.timeout),
            account=chosen_account(self.population, self.budget, self.ledger),
            hosts=hosts,
        )
        check_supported(spec, settings)
        return settings

    @property
    def chooses_cap(self) -> bool:
        """Whether a first run is to choose the cap: only where all clients' records are at hand."""
        return self.cap == AUTO and bool(self.records)

    def _of_the_cap(self) -> Guarantee:
        """Return how much of the command's epsilon and delta choosing the cap may spend."""
        if not self.chooses_cap:
            return Guarantee(Fraction(0), Fraction(0))
        return cap_and_release(self.epsilon, self.delta, self.cap_epsilon)[0]

    def run(
        self,
        statistic: Statistic[T],
        settings: Settings,
        steps: dict[str, str],
        positive_from: float | None = None,
    ) -> tuple[Run[T], Path]:
        """Run the statistic on the records or shares; return what it found, and where its files are.

        Args: steps: what to call the steps; positive_from: as for `read_records`.
        """
        target = Path(self.out) if self.out else default_out(statistic.name)
        with cli.steps({**show.HOST_STEPS, **show.CAP_STEPS, **steps}) as begin:
            if settings.hosts is not None:
                return self._run_on_hosts(statistic, settings, target, begin), target
            if self.shares:
                rules = self._rules(statistic, settings)
                return run_on_shares(statistic, Path(self.shares), settings, target, begin, rules), target
            if self.invite:
                declared, invited = self._invited(settings)
                return run_for_invited(statistic, invited, declared, settings, target, begin), target
            begin("records")
            values = (self.range, self.steps) if statistic.detail is RecordKind.VALUE else None
            domain = declared_domain(*self.declared, values)
            most = parse_max_count(self.max_count) if self.max_count else DEFAULT_MAX_COUNT
            path = Path(self.records)
            records = read_records(path, domain, most, kind=statistic.detail, positive_from=positive_from)
            if self.chooses_cap:
                return self._run_after_cap(statistic, records, settings, target, begin), target
            records = replace(records, domain=with_cap(records.domain, self.cap, settings.unit))
            return run_on_records(statistic, records, settings, target, begin), target

    def _rules(self, statistic: Statistic[T], settings: Settings) -> UploadPolicy:
        """Return what uploads have to be."""
        if any((*self.declared[1:], self.range, self.steps, self.cap)):
            raise OptionError(
                "With --shares the domain is the one that was shared; leave out the options for it, or name "
                "a file with it by --domain."
            )
        most = parse_upload_clients(self.clients_per_upload)
        if not self.domain:
            return UploadPolicy(clients=most)
        domain = read_domain(Path(self.domain)).with_kind(statistic.detail)
        return UploadPolicy(with_cap(domain, "", settings.unit), most)

    def _run_after_cap(
        self,
        statistic: Statistic[T],
        records: ClientRecords,
        settings: Settings,
        target: Path,
        begin: Progress,
    ) -> Run[T]:
        spent = self._of_the_cap()
        form = PI_CAP.input_forms[SLOTS.name]
        of_cap = replace(settings, form=form, epsilon=spent.epsilon, delta=spent.delta)

        def chosen(cap: ChosenCap) -> None:
            show_cap.going_on_with(cap, records.clients, Guarantee(settings.epsilon, settings.delta))

        return run_with_chosen_cap(statistic, records, of_cap, settings, target, begin, chosen)

    def _hosts(self) -> HostsRunner:
        from harness.hosts.runner import HostsRunner  # it loads what talks ssh

        hosts, model = chosen_hosts(self.hosts, self.model)
        return HostsRunner(hosts, model, Path(self.shares) if self.shares else None)

    def _run_on_hosts(
        self, statistic: Statistic[T], settings: Settings, target: Path, begin: Progress
    ) -> Run[T]:
        from harness.hosts.runner import HostsRunner

        hosts = settings.hosts
        assert isinstance(hosts, HostsRunner)
        if self.invite:
            domain, invited = self._invited(settings)
            with hosts.connected(begin):
                return run_for_invited(statistic, invited, domain, settings, target, begin)
        rules = self._rules(statistic, settings)

        def feed(scratch: Path) -> PartyInputs:
            return hosts.feed(settings.form, scratch, begin, rules)

        with hosts.connected(begin):
            return run_fed(statistic, feed, settings, target, begin)

    def _invited(self, settings: Settings) -> tuple[RecordDomain, tuple[Path, int]]:
        """Return what clients may have, where their invitations are to be, and how many; say so."""
        directory, clients = Path(self.invite), parse_clients(self.clients)
        domain = declared_domain(*self.declared)
        if domain is None:
            raise OptionError("--invite needs --domain, or --groups and --labels: nobody has all records.")
        domain = with_cap(domain, self.cap, settings.unit)
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise OptionError(f"Cannot write to --invite {directory}: {error.strerror}.") from None
        check_directory(directory, clients)
        say(
            f"Each of {clients} clients sends by ./inv send --records FILE --invitation "
            f"{plain(str(directory / 'client-<k>.json'))}, k from 0, once that file is there.",
            cli.err,
        )
        return domain, (directory, clients)

    def conclude(self, run: Run[Any], target: Path, problem: FairSharesError | None = None) -> None:
        """Say what every release says after its result; print its file where JSON was asked for.

        Raises: problem, if there is one: why the result falls short although its epsilon is spent.
        """
        if self.chooses_cap:
            show.chosen_cap(run.manifest, cap_directory(target))
        if self.hosts:
            show.on_hosts(bool(self.shares), bool(self.invite))
        else:
            show.one_machine(bool(self.records))
        show_charge(run.charging, self.population == UNCHARGED)
        show.results(target)
        if problem is not None:
            raise problem
        if self.json:
            print((target / f"{run.manifest['task']}.json").read_text(encoding="utf-8"), end="")
