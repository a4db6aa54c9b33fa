"""The command `gap`; what it needs is imported when it runs."""

from __future__ import annotations

from invoke import Context

from harness.tasking import LEDGER_HELP, RELEASE_HELP, VALUES_HELP, by_name


@by_name(
    help={
        **{name: said for name, said in RELEASE_HELP.items() if name != "input-form"},
        **LEDGER_HELP,
        **VALUES_HELP,
        "records": "CSV or Parquet with client_id, group, value; a number, or a fraction of counts as 17/20",
        "shares": "instead of --records: what `share --task gap` or `aggregate` wrote",
        "domain": 'JSON file: {"groups": [...], "values": {"low": x, "high": y, "steps": n}}, steps optional',
        "groups": "all groups, for example a,b; with --range, instead of --domain",
        "neighboring-relation": "replace_one (default: a client's group and value) or add_or_remove_one",
        "privacy-unit": "record",
        "json": "print gap.json, and nothing else, on standard output",
    }
)
def gap(
    _c: Context,
    epsilon: str = "",
    records: str = "",
    shares: str = "",
    domain: str = "",
    groups: str = "",
    range: str = "",
    steps: str = "",
    model: str = "",
    delta: str = "2^-40",
    neighboring_relation: str = "",
    privacy_unit: str = "record",
    population: str = "",
    budget: str = "",
    ledger: str = "",
    out: str = "",
    timeout: str = "600",
    json: bool = False,
) -> None:
    """Compute DP gaps between groups' mean performance values (π_GAP)."""
    from harness.commands.gap import gap
    from harness.commands.release import ReleaseOptions

    options = ReleaseOptions(
        *(epsilon, records, shares, (domain, groups, "", ""), model, "split", delta, neighboring_relation),
        *(out, timeout, json, (population, budget, ledger), {"--privacy-unit": (privacy_unit, "record")}),
        values=(range, steps),
    )
    gap(options)
