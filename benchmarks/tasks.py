"""The commands `bench.*`."""

from __future__ import annotations

from invoke import Collection, Context

from harness.tasking import by_name


@by_name(
    help={
        "quick": "two small settings instead of the whole suite, in seconds",
        "repetitions": "how often everything is drawn anew; default: 10",
        "neighboring-relation": "of the noise made in the computation: replace_one (default, as local DP "
        "protects) or add_or_remove_one",
        "out": "a new directory for the results; default: runs/bench.utility-<time>",
        "json": "print the summary as JSON, and nothing else, on standard output",
    }
)
def utility(
    _c: Context,
    quick: bool = False,
    repetitions: str = "10",
    neighboring_relation: str = "",
    out: str = "",
    json: bool = False,
) -> None:
    """Measure what released score curves are worth, by method, ε, records and groups."""
    from benchmarks.commands import utility

    utility(quick, repetitions, neighboring_relation, out, json)


bench = Collection("bench", utility)
