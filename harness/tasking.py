"""How a function becomes a command: every option by its name, with two dashes; what common options mean."""

from __future__ import annotations

from functools import partial

from invoke import task
from invoke.parser import context as parsing

# Options by name only: a misspelt one is then never taken for another one's value.
by_name = partial(task, positional=[], auto_shortflags=False)
# And all of ours with two dashes, that of one letter too, which invoke would spell `-n`.
_flag = parsing.to_flag
parsing.to_flag = lambda name: "--n" if name == "n" else _flag(name)

RECORDS = "CSV or Parquet with client_id, group, label"
RELEASE_HELP = {
    "epsilon": "privacy budget ε of this command, in total; above 0, at most 20, for example 1 or 0.5",
    "delta": "upper bound of its δ, in total; default: 2^-40",
    "model": "see `./inv schemes`; default: ring if available, else mpyc",
    "input-form": "split (default: counts per group and label) or product "
    "(group indicator times label counts)",
    "neighboring-relation": "add_or_remove_one or replace_one; default: the latter where --max-count is 1",
    "out": "a new directory for the results; default: runs/<task>-<time>",
    "timeout": "seconds that the parties may take; default: 600",
}
LEDGER_HELP = {
    "population": "whose records these are, a name of your choice, which is charged; none: nobody counts",
    "budget": "the population's total ε, or ε,δ, for example 3 or 3,1e-6; refuses runs beyond it",
    "ledger": "the ledger's file; default: $FAIRSHARES_LEDGER, else runs/ledger.sqlite",
}
DOMAIN_HELP = {
    "records": RECORDS,
    "domain": 'JSON file: {"groups": [...], "labels": [...], "max_count": n, "thresholds": t}, the last two '
    "optional; t: a list, or how many from 0 to 1 (1001)",
    "groups": "all groups, for example a,b; with --labels, instead of --domain",
    "labels": "all labels, for example 0,1",
    "max-count": "most records of one client; default: 2^31",
}
VALUES_HELP = {
    "range": "ends of the range of clients' performance values, for example 0,1; with --groups",
    "steps": "values are rounded to so many steps on each side of the range's centre; default: 1000",
}
