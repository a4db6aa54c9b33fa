"""The common part of all releases' calls: the source of records, their domain, and the request."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from fairshares.harness.errors import OptionError, named
from fairshares.harness.request.fields import OptionGroup, Options, as_text, optional
from fairshares.harness.request.readers import as_given, parse_max_count, parse_names, parse_path
from fairshares.harness.request.request import AccountOptions, Protect, Request, Where

if TYPE_CHECKING:
    from pathlib import Path

    from fairshares.harness.inputs.record_schema import RecordDomain, RecordKind
    from fairshares.harness.inputs.records import ClientRecords
    from fairshares.harness.inputs.tables import TabularRecords
    from fairshares.protocols.spec import ProtocolSpec


class SourceOptions(Options):
    """The source of clients' records."""

    records = optional(
        parse_path,
        "CSV or Parquet, a file, directory or glob, with group, label, and client_id where clients have "
        "several",
    )
    shares = optional(
        parse_path, "instead of --records: what parties' `aggregate` wrote; or uploads with all keys"
    ).but(of_runs=True)
    client_id = optional(as_given, "the column of clients; default: client_id, if there is one")
    group = optional(
        parse_names, "the column of groups, or several, as race,sex, which are crossed; default: group"
    )
    label = optional(as_given, "the column of labels; default: label")

    @property
    def columns(self) -> dict[str, str | list[str]]:
        """The names of the records' columns, by ours, where they differ; several together name a group."""
        columns: dict[str, str | list[str]] = {}
        for name, value in self.values().items():
            if isinstance(value, str):
                columns[name] = value
            elif isinstance(value, list):
                columns[name] = value if len(value) > 1 else value[0]
        return columns

    def tabular(self) -> TabularRecords:
        """Return the records under our names of the columns; RecordsError if one has two roles."""
        from fairshares.harness.inputs.tables import with_names

        return with_names(self.records, self.columns)


class ScoredSource(SourceOptions):
    """The source of records with scores."""

    score = optional(as_given, "the column of scores; default: score")


class DeclaredDomain(Options):
    """A declaration of the groups, labels and sizes that records may have; or a file's name that has it."""

    domain = optional(
        parse_path,
        'JSON file: {"groups": [...], "labels": [...], "max_count": n, "thresholds": t}, the last two '
        "optional; t: a list of thresholds, or how many, evenly from 0 to 1 (default: 101)",
    )
    groups = optional(parse_names, "all groups, for example a,b; with --labels, instead of --domain")
    labels = optional(parse_names, "all labels, for example 0,1")
    max_count = optional(parse_max_count, "most records of one client; default: 2^31")

    def of_kind(self, kind: RecordKind) -> RecordDomain | None:  # noqa: ARG002
        """Return the declared domain of records of a kind, or None if nothing declares it.

        Raises:
            OptionError: The domain is declared twice, or not whole.
            RecordDomainError: The file, or what is declared, is no domain.
        """
        from fairshares.harness.inputs.record_schema import DEFAULT_MAX_COUNT, RecordDomain, read_domain

        if self.domain:
            if self.groups or self.labels or self.max_count:
                raise OptionError(
                    f"Declare the domain either by {named('domain')} or by {named('groups')}, "
                    f"{named('labels')} and {named('max_count')}."
                )
            return read_domain(self.domain)
        if not self.groups and not self.labels:
            return None
        if not self.groups or not self.labels:
            raise OptionError(f"{named('groups')} and {named('labels')} go together: declare both.")
        groups = tuple(sorted(self.groups))
        labels = tuple(sorted(self.labels))
        return RecordDomain(groups, labels, self.max_count or DEFAULT_MAX_COUNT)


@dataclass(frozen=True)
class Invited:
    """Clients that are invited to send during a run.

    Attributes:
        directory: The directory into which the invitations are written.
        clients: The number of clients.
        field: The field that invites them, for messages.
    """

    directory: Path
    clients: int
    field: str


class ReleaseCall(Options):
    """A request with everything needed to run it.

    A release whose call has further fields says here what these change in a run.
    """

    also = "--records my.csv"

    request = OptionGroup(Request)
    source = OptionGroup(SourceOptions)
    declares = OptionGroup(DeclaredDomain)
    account = OptionGroup(AccountOptions)
    where = OptionGroup(Where)

    def check_source(self, *, clients_send: bool) -> None:
        """Raise OptionError if fields of this release alone do not go with the source of the records.

        Args:
            clients_send: Whether clients are invited to send during the run.
        """

    def check_columns(self, columns: Collection[str]) -> None:
        """Raise OptionError if columns, named by their roles, do not go with fields of this release alone."""

    def with_kind(self, domain: RecordDomain, kind: RecordKind) -> RecordDomain:
        """Return a domain of groups and labels as one of records of a kind.

        Raises:
            RecordDomainError: The domain says something else than the call.
        """
        return domain.with_kind(kind)

    def read(
        self, source: TabularRecords, domain: RecordDomain | None, max_count: int, kind: RecordKind
    ) -> ClientRecords:
        """Return the records of a source, as `read_records`, which has the arguments and errors."""
        from fairshares.harness.inputs.records import read_records

        return read_records(source, domain, max_count, kind=kind)

    def planned_sizes(self) -> dict[str, str]:
        """Return the sizes that the call declares, as texts of fields of `plans.Expected`, or ""."""
        return {
            "groups": as_text(self.declares.groups),
            "labels": as_text(self.declares.labels),
            "max_count": as_text(self.declares.max_count),
        }


def form_help(usually: str, other: str) -> str:
    """Return the help of input encodings, from what the first two share."""
    slots = "or slots (default with --privacy-unit client: no client can exceed the cap)"
    return f"split (default: {usually}), product ({other}) {slots}"


class NoiseRequest(Request):
    """Reveal samples of noise, which then protect nothing, for audits and benchmarks (π_LAP)."""

    task = "noise"
    protocols: ClassVar = {"default": "pi_lap"}

    protect = OptionGroup(Protect, without=("privacy_unit", "neighboring_relation", "cap", "cap_epsilon"))

    @classmethod
    def programs(cls) -> dict[str, ProtocolSpec]:
        from fairshares.protocols.spec import PI_LAP

        return {PI_LAP.name: PI_LAP}
