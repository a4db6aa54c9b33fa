"""The command `plan`: its options."""

from __future__ import annotations

from invoke import Context

from harness.cli.tasking import (
    CAP_HELP,
    CHOSEN_CAP_HELP,
    DOMAIN_HELP,
    ERROR_HELP,
    RELEASE_HELP,
    RELEASE_OF_CAP_HELP,
    VALUES_HELP,
    by_name,
)


@by_name(
    help={
        "clients": "how many there would be",
        "records": "how many they have in all; default: one each",
        "groups": "how many (2), their names (a,b), or with their shares of the records (a:0.7,b:0.3)",
        "labels": "the same of labels; default: 2",
        "task": "weights (default), confusion, thresholds, gap, count or cap",
        "variant": "of thresholds, or a cap for them: histogram (default), records or published",
        "thresholds": "how many; default: 1001",
        "steps": VALUES_HELP["steps"],
        "max-count": DOMAIN_HELP["max-count"],
        "input-form": RELEASE_HELP["input-form"],
        "reveal": "of weights: counts (default) or weights",
        "reweighing": "of weights: balanced (default), label or kamiran-calders",
        "epsilon": RELEASE_HELP["epsilon"],
        "delta": RELEASE_HELP["delta"],
        "neighboring-relation": RELEASE_HELP["neighboring-relation"],
        "privacy-unit": RELEASE_HELP["privacy-unit"],
        "cap": f"{CAP_HELP['cap']}; or auto: chosen first, by π_CAP",
        "cap-epsilon": CHOSEN_CAP_HELP["cap-epsilon"],
        **{name: f"of a cap: {said}" for name, said in RELEASE_OF_CAP_HELP.items() if name != "variant"},
        **{name: f"of count: {said}" for name, said in ERROR_HELP.items()},
        "model": "only this one; default: all",
        "network": "none (default: all parties on one machine), lan, wan, or a round-trip time and a "
        "bandwidth, for example 40ms,100Mbit",
        "error": "the error to say for what it takes, for example 0.01 (default)",
        "units": "directory of unit costs that `./inv bench.units` measured; default: those recorded here",
        "json": "print JSON",
    }
)
def plan(
    _c: Context,
    clients: str = "",
    records: str = "",
    groups: str = "",
    labels: str = "",
    task: str = "weights",
    variant: str = "",
    thresholds: str = "",
    steps: str = "",
    max_count: str = "",
    input_form: str = "",
    reveal: str = "",
    reweighing: str = "",
    epsilon: str = "",
    delta: str = "2^-40",
    neighboring_relation: str = "",
    privacy_unit: str = "record",
    cap: str = "",
    cap_epsilon: str = "",
    release: str = "",
    release_epsilon: str = "",
    counts: str = "",
    relative_error: str = "",
    error_from: str = "",
    error_to: str = "",
    model: str = "",
    network: str = "none",
    error: str = "",
    units: str = "",
    json: bool = False,
) -> None:
    """Say what a release would cost in each model, and how far off it would be, before anything runs."""
    from harness.cli.commands.plan import PlanOptions
    from harness.cli.commands.plan import plan as show_plan

    given = {name: value for name, value in locals().items() if name in PlanOptions.__dataclass_fields__}
    show_plan(PlanOptions(**given))
