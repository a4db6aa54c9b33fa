"""What all releases' calls have in common: the source of records, their domain, and the request."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from fairshares.harness.request.base import Account, Protect, Request, Where
from fairshares.harness.request.fields import Options, Part, optional
from fairshares.harness.request.readers import (
    in_module,
    parse_max_count,
    parse_names,
    parse_path,
    parse_range,
    whole,
)

if TYPE_CHECKING:
    from fairshares.harness.inputs.record_schema import Grid
    from fairshares.harness.inputs.records import ScoreCut
    from fairshares.protocols.spec import ProtocolSpec


class Source(Options):
    """The source of clients' records."""

    records = optional(
        parse_path,
        "CSV or Parquet, a file, directory or glob, with group, label, and client_id where clients have "
        "several",
    )
    shares = optional(
        parse_path, "instead of --records: what parties' `aggregate` wrote; or uploads with all keys"
    )


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
    range = optional(
        parse_range, "ends of the range of clients' performance values, for example 0,1; with --groups"
    )
    steps = optional(
        whole(1, in_module("fairshares.harness.inputs.record_schema:MAX_STEPS")),
        "values are rounded to so many steps on each side of the range's center; default: 1000",
    )


class Invitations(Options):
    """Clients that are invited to send during the run."""

    invite = optional(
        parse_path,
        "instead of --records: a new directory for the clients' invitations, by which each sends "
        "during the run (needs MP-SPDZ)",
    )
    clients = optional(
        whole(1, in_module("fairshares.harness.online.session:MAX_CONNECTIONS")),
        "how many clients are invited",
    )


class ReleaseCall(Options):
    """A request with everything needed to run it."""

    also = "--records my.csv"

    request = Part(Request)
    source = Part(Source)
    declares = Part(DeclaredDomain, without=("range", "steps"))
    account = Part(Account)
    where = Part(Where)

    @property
    def grid(self) -> Grid:
        """The thresholds beside the domain, or ()."""
        return ()

    @property
    def cut(self) -> ScoreCut | None:
        """The rule that makes predictions from scores, if any."""
        return None


def form_help(usually: str, other: str) -> str:
    """Return the help of input encodings, from what the first two share."""
    slots = "or slots (default with --privacy-unit client: no client can exceed the cap)"
    return f"split (default: {usually}), product ({other}) {slots}"


class NoiseRequest(Request):
    """Reveal samples of noise, which then protect nothing, for audits and benchmarks (π_LAP)."""

    task = "noise"
    protocols: ClassVar = {"default": "pi_lap"}

    protect = Part(Protect, without=("privacy_unit", "neighboring_relation", "cap", "cap_epsilon"))

    @classmethod
    def programs(cls) -> dict[str, ProtocolSpec]:
        from fairshares.protocols.spec import PI_LAP

        return {PI_LAP.name: PI_LAP}
