"""What all commands that release a statistic do alike: read the options, run, say what was opened."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from harness import cli
from harness.cli import plain, say
from harness.clients.invitations import check_directory
from harness.commands.chosen import chosen_account, chosen_form, chosen_model, declared_domain
from harness.engines.base import Progress
from harness.errors import OptionError
from harness.options import (
    parse_choice,
    parse_clients,
    parse_delta,
    parse_epsilon,
    parse_max_count,
    parse_relation,
    parse_seconds,
    require,
)
from harness.pipeline import (
    Run,
    Settings,
    Statistic,
    check_supported,
    default_out,
    run_for_invited,
    run_on_records,
    run_on_shares,
)
from harness.records import DEFAULT_MAX_COUNT, Detail, read_records
from protocols.spec import CLIENTS, SHARES, ProtocolSpec

T = TypeVar("T")


@dataclass(frozen=True)
class ReleaseOptions:
    """The options that every release has, as given.

    Attributes: declared: --domain, --groups, --labels, --max-count; account: --population, --budget,
    --ledger; only: options that offer one value so far, with the value given and the one offered;
    invited: --invite, --clients; values: --range, --steps.
    """

    epsilon: str
    records: str
    shares: str
    declared: tuple[str, str, str, str]
    model: str
    input_form: str
    delta: str
    relation: str
    out: str
    timeout: str
    as_json: bool
    account: tuple[str, str, str]
    only: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    input_path: str = SHARES.name
    invited: tuple[str, str] = ("", "")
    values: tuple[str, str] = ("", "")

    def settings(self, spec: ProtocolSpec) -> Settings:
        """Check the options and return what they stand for. Raises: OptionError; UnsupportedError."""
        require({"--epsilon": self.epsilon})
        for option, (given, offered) in self.only.items():
            parse_choice(option, given, [offered])
        if self.as_json:
            cli.out.stderr = True  # nothing but JSON on stdout
        directory, clients = self.invited
        if sum(map(bool, (self.records, self.shares, directory))) != 1:
            raise OptionError(
                "Give either --records (a file of clients' records) or --shares (what `share` wrote)"
                + (", or --invite (a directory for clients' invitations)." if directory else ".")
            )
        if bool(directory) != bool(clients):
            raise OptionError("--invite and --clients (how many) go together.")
        path = CLIENTS.name if directory else self.input_path
        if self.shares and path != SHARES.name:
            raise OptionError("--shares come by --input-path shares; leave out --input-path.")
        settings = Settings(
            model=chosen_model(self.model),
            form=chosen_form(spec.input_forms, self.input_form, path),
            epsilon=parse_epsilon(self.epsilon),
            delta=parse_delta(self.delta),
            relation=parse_relation(self.relation),
            timeout_s=parse_seconds(self.timeout),
            account=chosen_account(*self.account),
        )
        check_supported(spec, settings)
        return settings

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
        with cli.steps(steps) as begin:
            if self.shares:
                if any(self.declared + self.values):
                    raise OptionError(
                        "With --shares the domain is the one that was shared; leave out the options for it."
                    )
                return run_on_shares(statistic, Path(self.shares), settings, target, begin), target
            if self.invited[0]:
                return self._run_for_invited(statistic, settings, target, begin), target
            begin("records")
            values = self.values if statistic.detail is Detail.VALUE else None
            domain = declared_domain(*self.declared, values)
            most = parse_max_count(self.declared[3]) if self.declared[3] else DEFAULT_MAX_COUNT
            path = Path(self.records)
            records = read_records(path, domain, most, detail=statistic.detail, positive_from=positive_from)
            return run_on_records(statistic, records, settings, target, begin), target

    def _run_for_invited(
        self, statistic: Statistic[T], settings: Settings, target: Path, begin: Progress
    ) -> Run[T]:
        directory, clients = Path(self.invited[0]), parse_clients(self.invited[1])
        domain = declared_domain(*self.declared)
        if domain is None:
            raise OptionError("--invite needs --domain, or --groups and --labels: nobody has all records.")
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
        return run_for_invited(statistic, (directory, clients), domain, settings, target, begin)
