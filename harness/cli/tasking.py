"""How a function becomes a command: every option by its name, with two dashes; what common options mean."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from inspect import Parameter, Signature, signature
from typing import Any

from invoke import Context, task
from invoke.parser import context as parsing

# Options by name only: a misspelt one is then never taken for another one's value.
by_name = partial(task, positional=[], auto_shortflags=False)
# And all of ours with two dashes, that of one letter too, which invoke would spell `-n`.
_flag = parsing.to_flag
parsing.to_flag = lambda name: "--n" if name == "n" else _flag(name)

RECORDS = "CSV or Parquet with client_id, group, label"
# What every release takes, and what it is unless given; `ReleaseOptions` has the same names.
RELEASE_OPTIONS: dict[str, str | bool] = {
    **dict.fromkeys(("epsilon", "records", "shares", "domain", "groups", "labels", "max_count", "model"), ""),
    "clients_per_upload": "",
    "input_form": "split",
    "delta": "2^-40",
    "neighboring_relation": "",
    "privacy_unit": "record",
    "population": "",
    "budget": "",
    "ledger": "",
    "out": "",
    "timeout": "600",
    "json": False,
}
RELEASE_HELP = {
    "epsilon": "privacy budget ε of this command, in total; above 0, at most 20, for example 1 or 0.5",
    "delta": "upper bound of its δ, in total; default: 2^-40",
    "model": "see `./inv schemes`; default: ring if available, else mpyc",
    "input-form": "split (default: counts per group and label) or product "
    "(group indicator times label counts)",
    "clients-per-upload": "with --shares: how many clients an upload may be of, 1 where each uploads for "
    "itself; default: any number",
    "neighboring-relation": "add_or_remove_one or replace_one; default: the latter where --max-count is 1",
    "privacy-unit": "what is protected: record (default), one of a client; or client, all of its records",
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
CAP_HELP = {
    "cap": "with --privacy-unit client: how many records of a client count, for example 10; or weight-one: "
    "all do, and together as much as one",
}
CHOSEN_CAP_HELP = {
    "cap": f"{CAP_HELP['cap']}; or auto, with --records: first chosen by π_CAP, a release of its own",
    "cap-epsilon": "what --cap auto spends of ε on choosing the cap; default: a fifth",
}
ERROR_TARGET = {"relative_error": "0.1", "error_from": "100", "error_to": "1048576"}
ERROR_HELP = {
    "relative-error": "of counts, on average: 0.1 (default) is a tenth of the count",
    "error-from": "the least count for which that holds; default: 100",
    "error-to": "the largest; default: 1048576",
}
RELEASE_OF_CAP_HELP = {
    "release": "what clients are to be capped for: weights (default), confusion, thresholds, or counts of "
    "records",
    "counts": "with --release counts: how many, each record in one of them; 1 for one sum",
    "variant": "with --release thresholds: histogram (default) or records, as it will be run",
    "release-epsilon": "the ε that it is to have; the smaller, the more clients may exceed the cap",
}
VALUES_HELP = {
    "range": "ends of the range of clients' performance values, for example 0,1; with --groups",
    "steps": "values are rounded to so many steps on each side of the range's centre; default: 1000",
}


def releasing(
    help: dict[str, str], *, without: tuple[str, ...] = (), **more: str | bool
) -> Callable[[Callable[..., None]], Any]:
    """Return a decorator that makes a command of a function of `ReleaseOptions` and of options of its own.

    The command takes what every release takes, so that no release says it again.
    Args: help: of the command's own options, or what it says of shared ones instead; without: shared
    options that it does not have; more: options of some releases, or other defaults of shared ones.
    """
    shared = {name: value for name, value in {**RELEASE_OPTIONS, **more}.items() if name not in without}

    def made(function: Callable[..., None]) -> Any:
        own = list(signature(function).parameters.values())[1:]

        @wraps(function)
        def body(_context: Context, **given: Any) -> None:
            from harness.cli.commands.release import ReleaseOptions

            names = {parameter.name for parameter in own}
            rest = {name: value for name, value in given.items() if name not in names}
            options = ReleaseOptions(**{**RELEASE_OPTIONS, **rest})
            function(options, **{name: value for name, value in given.items() if name in names})

        both = [Parameter(name, Parameter.KEYWORD_ONLY, default=value) for name, value in shared.items()]
        both += [parameter.replace(kind=Parameter.KEYWORD_ONLY) for parameter in own]
        first = Parameter("_context", Parameter.POSITIONAL_OR_KEYWORD)
        body.__signature__ = Signature([first, *both])  # type: ignore[attr-defined]
        said = {
            **DOMAIN_HELP,
            **RELEASE_HELP,
            **LEDGER_HELP,
            "json": f"print {function.__name__}.json, and nothing else, on standard output",
            **help,
        }
        left_out = {name.replace("_", "-") for name in without}
        return by_name(help={name: text for name, text in said.items() if name not in left_out})(body)

    return made
