"""Fields of a release's plan in place of records."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from harness.errors import OptionError, Surface, as_command, as_flag, named
from harness.request.fields import Options, optional, required_unless, usual
from harness.request.readers import in_module, parse_error, parse_path, parse_shares, whole
from harness.request.releases import DeclaredDomain

if TYPE_CHECKING:
    from harness.engines.emulated_network.profiles import Network

MOST_PLANNED = 10**12  # clients, or records
DEFAULT_ERROR = "0.01"
FILE = "file"  # in place of a number of clients: plan for the given records


def parse_link(text: str, _option: str = "network") -> Network | None:
    """Read an emulated network; None for this machine alone."""
    from harness.engines.emulated_network.profiles import parse_network

    return parse_network(text)


class Expected(Options):
    """Sizes of a planned federation, and what the plan reports."""

    from_records = optional(
        parse_path,
        "instead of clients, records, groups and labels: a file of records, to see whether its smallest "
        "group survives the noise; what is printed is not protected, and for the file's owner only",
    )
    clients = required_unless("from_records", whole(1, MOST_PLANNED), "number of clients", "100")
    records = optional(whole(1, MOST_PLANNED), "number of records of all clients together; default: one each")
    groups = required_unless(
        "from_records",
        parse_shares,
        "a number of groups (2), their names (a,b), or names with shares of the records (a:0.7,b:0.3)",
        "2",
    )
    labels = optional(parse_shares, "the same for labels; default: 2")
    thresholds = optional(
        whole(2, in_module("harness.inputs.record_schema:MAX_THRESHOLDS")), "how many; default: 101"
    )
    steps = DeclaredDomain.steps
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


def in_plan(field: str, value: object = "") -> str:
    """Return a field as a planning command has it, for messages."""
    of_plan = {"from_records": FILE, "clients": "CLIENTS", "records": "CLIENTS,RECORDS"}
    if field in of_plan:
        return as_flag("plan", value or of_plan[field])
    return f"{field}={value}" if field in ("network", "error", "units") else as_flag(field, value)


IN_PLAN = Surface(in_plan, as_command)
_SIZES = re.compile(f"({FILE}|[0-9^e]+)(?:,([0-9^e]+))?")
_MORE = re.compile(",(?=(?:network|error|units)=)")


def parse_plan(text: str, option: str = "plan") -> dict[str, str]:
    """Read a plan as texts of `Expected`'s fields.

    It begins with clients (`100`), clients and records (`100,300`) or `file`; `network=wan` may follow.
    """
    sizes, *more = _MORE.split(text)
    match = _SIZES.fullmatch(sizes)
    if match is None:
        raise OptionError(
            f"{named(option)} must be how many clients there would be, and how many records in all if these "
            f"are more, or {FILE}, for those of {named('records')}; then what else is asked for, as "
            f"network=wan, error=0.01 or units=DIR: for example 100,300,network=wan; got {text!r}."
        )
    return {
        "clients": "" if match[1] == FILE else match[1],
        "records": match[2] or "",
        **dict(part.split("=", 1) for part in more),
    }
