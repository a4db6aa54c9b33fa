"""Fields of a release's plan in place of records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairshares.harness.errors import Surface, as_command, as_flag, as_typed_command
from fairshares.harness.request.fields import Options, optional, required_unless, usual
from fairshares.harness.request.readers import Whole, in_module, parse_error, parse_path, parse_shares
from fairshares.harness.request.releases import DeclaredDomain

if TYPE_CHECKING:
    from fairshares.harness.request.networks import NetworkProfile

FROM_FILE = "file"  # the word in place of a number of clients: plan for the given records
MOST_PLANNED = 10**12  # clients, or records
DEFAULT_ERROR = "0.01"


def parse_link(text: str, _option: str = "network") -> NetworkProfile | None:
    """Read an emulated network; None for this machine alone."""
    from fairshares.harness.request.networks import parse_network

    return parse_network(text)


class Expected(Options):
    """Sizes of a planned federation, and what the plan reports.

    A release whose records have further sizes has a subclass with these, as `ReleaseOptions.expected`.
    """

    from_records = optional(
        parse_path,
        "instead of clients, records, groups and labels: a file of records, to see whether its smallest "
        "group survives the noise; what is printed is not protected, and for the file's owner only",
    )
    clients = required_unless("from_records", Whole(1, MOST_PLANNED), "number of clients", "100")
    records = optional(Whole(1, MOST_PLANNED), "number of records of all clients together; default: one each")
    groups = required_unless(
        "from_records",
        parse_shares,
        "a number of groups (2), their names (a,b), or names with shares of the records (a:0.7,b:0.3)",
        "2",
    )
    labels = optional(parse_shares, "the same for labels; default: 2")
    thresholds = optional(
        Whole(2, in_module("fairshares.harness.inputs.record_schema:MAX_THRESHOLDS")),
        "how many; default: 101",
    )
    max_count = DeclaredDomain.max_count
    network = usual(
        "none",
        parse_link,
        "none (default: all parties on one machine), lan, wan, or a round-trip time and a bandwidth, for "
        "example 40ms,100Mbit",
    )
    error = optional(
        parse_error,
        "target error: says the ε and the number of records that reach it, for example "
        f"{DEFAULT_ERROR} (default)",
    )
    units = optional(
        parse_path, "directory of unit costs that `./inv bench.run units` measured; default: those recorded"
    )

    @property
    def value_steps(self) -> int | None:
        """The steps to which performance values are rounded; None if the release has none, or by default."""
        return None


def in_plan(field: str, value: object = "") -> str:
    """Return a field as a planning command has it, for messages."""
    of_plan = {"from_records": FROM_FILE, "clients": "CLIENTS", "records": "CLIENTS,RECORDS"}
    if field in of_plan:
        return as_flag("plan", value or of_plan[field])
    return f"{field}={value}" if field in ("network", "error", "units") else as_flag(field, value)


IN_PLAN = Surface(in_plan, as_command, as_typed_command)
