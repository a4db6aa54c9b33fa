"""The commands `bench.*`."""

from __future__ import annotations

from typing import Any

from invoke import Collection, Context

from harness.cli.tasking import by_name


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
    from benchmarks.commands.studies import utility

    utility(quick, repetitions, neighboring_relation, out, json)


@by_name(
    help={
        "quick": "one ε and few clients instead of the whole suite, in seconds",
        "runs": "how often each error is simulated; default: 1000",
        "out": "a new directory for the results; default: runs/bench.trust-<time>",
        "json": "print the summary as JSON, and nothing else, on standard output",
    }
)
def trust(_c: Context, quick: bool = False, runs: str = "1000", out: str = "", json: bool = False) -> None:
    """Compare local DP, noise per aggregator and noise in the computation, by error and clients needed."""
    from benchmarks.commands.studies import trust

    trust(quick, runs, out, json)


_MEASURED = {
    "quick": "a few small runs instead of the whole suite, in seconds",
    "models": "only these, for example ring,mpyc; default: all",
    "repetitions": "how often each cell is run; default: the suite's own, 1 to 7",
    "timeout": "seconds that a run may take before it counts as failed; default: the suite's own",
    "out": "a new directory for the results; default: runs/bench.<suite>-<time>",
    "resume": "instead of --out: the directory of an earlier command; what it has is not run again",
    "json": "print a summary of each cell as JSON, and nothing else, on standard output",
}


def _measured(suite: str, does: str, *, units: bool = False) -> Any:
    """Return the command that runs a suite of `benchmarks.suites`. Args: units: and derives unit costs."""

    def body(
        _c: Context,
        quick: bool = False,
        models: str = "",
        repetitions: str = "",
        timeout: str = "",
        out: str = "",
        resume: str = "",
        json: bool = False,
    ) -> None:
        from benchmarks.commands.measured import run_suite
        from benchmarks.measure.units import write_units

        conclude = write_units if units else None
        run_suite(suite, quick, models, repetitions, timeout, out, resume, json, conclude)

    body.__name__ = suite
    body.__doc__ = does
    return by_name(help=_MEASURED)(body)


table2 = _measured("table2", "Measure weights and score curves as in PrivFairFL's Table 2, by model.")
scale = _measured("scale", "Measure how costs grow with clients and records: PrivFairFL's Figures 1 and 2.")
noise = _measured("noise", "Measure what samples of noise cost, by sampler, number, ε and model.")
network = _measured("network", "Measure what delay and bandwidth between parties do, by protocol and model.")
clients = _measured("clients", "Measure what clients as the privacy unit cost: slots and capped keys.")
units = _measured("units", "Measure what `./inv plan` predicts from: unit costs of this machine.", units=True)

_RESULTS = "a directory that a suite wrote, or one of such directories; default: those of the repository"


@by_name(
    help={"results": _RESULTS, "json": "print all findings as JSON, and nothing else, on standard output"}
)
def validate(_c: Context, results: str = "", json: bool = False) -> None:
    """Judge measured runs: whole, in order, linear, and how far from PrivFairFL's figures."""
    from benchmarks.commands.judged import validate

    validate(results, json)


@by_name(help={"results": _RESULTS, "out": "a new directory; default: runs/bench.report-<time>"})
def report(_c: Context, results: str = "", out: str = "") -> None:
    """Render measured runs: tables and figures as Markdown and as one HTML file."""
    from benchmarks.commands.judged import report

    report(results, out)


bench = Collection("bench", utility, trust, table2, scale, noise, network, clients, units, validate, report)
