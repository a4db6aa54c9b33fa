"""Fields of a call or a command besides its request."""

from pathlib import Path
from typing import Any, ClassVar

from harness.request.base import Request
from harness.request.fields import Option, Options, optional, usual
from harness.request.readers import (
    in_module,
    parse_budget,
    parse_grid,
    parse_max_count,
    parse_names,
    parse_path,
    parse_range,
    parse_seconds,
    parse_threshold,
    whole,
)

RECORDS = optional(
    parse_path,
    "CSV or Parquet, a file, directory or glob, with group, label, and client_id where clients have several",
)
SHARES = optional(
    parse_path, "instead of --records: what parties' `aggregate` wrote; or uploads with all keys"
)
DOMAIN = optional(
    parse_path,
    'JSON file: {"groups": [...], "labels": [...], "max_count": n, "thresholds": t}, the last two '
    "optional; t: a list of thresholds, or how many, evenly from 0 to 1 (default: 101)",
)
GROUPS = optional(parse_names, "all groups, for example a,b; with --labels, instead of --domain")
LABELS = optional(parse_names, "all labels, for example 0,1")
MAX_COUNT = optional(parse_max_count, "most records of one client; default: 2^31")
RANGE = optional(
    parse_range, "ends of the range of clients' performance values, for example 0,1; with --groups"
)
STEPS = optional(
    whole(1, in_module("harness.inputs.record_schema:MAX_STEPS")),
    "values are rounded to so many steps on each side of the range's center; default: 1000",
)
THRESHOLD = optional(parse_threshold, "predict the positive label from this score on")
BUDGET = optional(
    parse_budget,
    "the population's total ε, or ε,δ, for example 3 or 3,1e-6; refuses runs beyond it",
)
LEDGER = optional(
    parse_path,
    "the ledger's file; default: $FAIRSHARES_LEDGER, else fairshares/ledger.sqlite in $XDG_DATA_HOME "
    "(~/.local/share)",
)
OUT = optional(parse_path, "a new directory for the results; default: runs/<task>-<time>")
TIMEOUT = usual("600", parse_seconds, "seconds that the parties may take")


STOCK = optional(
    parse_path,
    "the directory of noise made ahead, by --preprocess, for --offline; default: stock, beside the ledger",
)
GRID = optional(
    parse_grid,
    "where scores are cut: how many thresholds, evenly from 0 to 1, or these, for example 0.3,0.5; "
    "default: those of --domain, else 101",
)


class Records(Options):
    """The source of clients' records, and their domain."""

    records: Option[Path | None] = RECORDS
    shares = SHARES
    domain = DOMAIN
    groups = GROUPS
    labels: Any = LABELS
    max_count: Any = MAX_COUNT
    # Fields of some releases only.
    range: Any = None
    steps: Any = None
    threshold: Any = None
    invite: Any = None
    clients: Any = None


class Account(Options):
    """Where a release is charged, besides its request's population."""

    budget = BUDGET
    ledger = LEDGER


class Run(Options):
    """A run's time limit, and the directory of its files."""

    out = OUT
    timeout = TIMEOUT


class ReleaseCall(Run, Account, Records, Request):
    """A request with everything needed to run it; `releases.CALLS` has one for each."""

    requested: ClassVar[type[Request]]

    stock: Any = None

    @property
    def request(self) -> Any:
        """The request alone."""
        return self.requested.of(self)
