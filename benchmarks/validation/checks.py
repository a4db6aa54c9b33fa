"""Checks of measured runs: against the papers, against each other, and against what was planned."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import nextafter, sqrt
from typing import Any

from benchmarks.literal import FORMS, VARIANTS
from benchmarks.measure.cell import error_ratio, model_of
from benchmarks.measure.samples import FAILED, SKIPPED, Level, Sample, name_of
from benchmarks.papers import privfairfl
from benchmarks.validation import texts
from benchmarks.validation.cells import CellRuns, Measured, fullest
from benchmarks.validation.findings import Check, Explanation, Finding, Status, all_well, explanations, judge
from benchmarks.validation.side_by_side import (
    AT_ONCE,
    BAND,
    LEAST_LEVELS,
    LEAST_RATIO,
    NOT_YET,
    Ratio,
    Row,
    Took,
    fit,
    table2_rows,
)

# (claim, the model that takes longer, the other)
PAIRS = (
    ("parties", "semi2k", "ring"),
    ("parties", "spdz2k", "sy-rep-ring"),
    ("parties", "spdz2k", "ps-rep-ring"),
    ("parties", "spdz2k", "rep4-ring"),
    ("adversary", "spdz2k", "semi2k"),
    ("adversary", "sy-rep-ring", "ring"),
    ("adversary", "ps-rep-ring", "ring"),
    ("adversary", "rep4-ring", "ring"),
)
# Variants of curves and of weights, and how many times as long curves should take at least.
PHASES = ((AT_ONCE, AT_ONCE, 10), ("default", "default", 1.0))
MACHINE = ("python", "platform", "cores", "packages", "mp_spdz_commit")  # keys of an environment
SURE = 0.9  # the share of pairs of runs in one order
BYTES = 0.01  # the share by which bytes may differ in the embedded engine, due to its headers
SCATTER = 1.0  # the share by which equal seconds may differ on a busy machine
LEAST_SHARE = 0.5  # the share of the largest cost that has to grow
GAIN = 100.0  # for ADS the default takes at most a hundredth of the fastest literal form's time
# Shares of what was asked for. A round trip also takes the machine's own time; a transfer is never faster.
ROUND_TRIP = (0.95, 1.5)
BANDWIDTH = (0.5, 1.1)


@dataclass(frozen=True)
class Validation:
    """The findings of `bench.validate`, and the rows of Table 2."""

    findings: Sequence[Finding]
    rows: Sequence[Row]

    @property
    def passed(self) -> bool:
        """Whether something was judged and nothing failed."""
        return all_well(self.findings)

    def with_status(self, status: Status) -> list[Finding]:
        """Return the findings with a status."""
        return [finding for finding in self.findings if finding.status is status]

    def to_json(self) -> dict[str, Any]:
        """Return all findings, with their number by status."""
        return {
            "passed": self.passed,
            "counts": {str(status): len(self.with_status(status)) for status in Status},
            "findings": [finding.to_json() for finding in self.findings],
        }


def validate(
    measured: Measured, known: Sequence[Explanation] | None = None, programs: Iterable[Check] = ()
) -> Validation:
    """Judge measured runs against the papers and each other.

    Args:
        measured: The runs.
        known: The explanations of deviations; None for the explanations on file.
        programs: Checks of programs.

    Guarantees: each kind of check fails on results that break it. A check that cannot be judged is no pass.
    [test: tests/benchmarks/test_validation.py]
    """
    table = table2_rows(measured)
    checks: list[Check] = []
    for suite in dict.fromkeys(cell.suite for cell in measured.cells):
        checks += _whole(suite, measured)
    checks += _sizes(measured)
    checks += programs
    checks += _orders(measured)
    checks += _growths(measured)
    checks += _networks(measured)
    checks += _distributed_noise(measured)
    checks += _times(measured, table)
    medians = {}
    for cell in measured.cells:
        if cell.median_s is not None:
            medians[f"{cell.suite}.{cell.name}"] = cell.median_s
    if known is None:
        known = explanations()
    return Validation(judge(checks, known, medians), table)


def none_of(key: str, says: str, wrong: Sequence[str], total: int, what: str) -> Check:
    """Check that none of some things is wrong.

    Args:
        key: The check's key.
        says: The claim.
        wrong: The things that are wrong, in words.
        total: The number of things that were looked at. If 0, the check is not judged.
        what: The kind of the things, in the plural.
    """
    if not total:
        return Check(key, says, unjudged=f"there are no {what}")
    shown = "; ".join(wrong[:3])
    if len(wrong) > 3:
        shown += "; …"
    return Check(key, says, len(wrong), 0, 0, shown or f"all of {total:,} {what}")


def _whole(suite: str, measured: Measured) -> Iterator[Check]:
    """Check that a suite ran as planned, of one program per cell and on one machine."""
    key = f"whole.{suite}"
    cells = measured.where(suite)
    ran = [cell for cell in cells if cell.ok or cell.with_status(FAILED)]
    about = measured.abouts.get(suite)
    plan = measured.plans.get(suite, {})
    by_key = {cell.runs[0].key: cell for cell in cells}
    shortfalls = {cell: _shortfall(by_key.get(cell), dict(cell), times) for cell, times in plan.items()}
    if about is not None:
        # If a suite was stopped, cells that lack runs are missing, and cells that failed are wrong.
        was_stopped = not about.get("finished")
        missing = []
        if was_stopped:
            failed = {cell.runs[0].key for cell in cells if cell.with_status(FAILED)}
            missing = [what for cell, what in shortfalls.items() if what and cell not in failed]
        unfinished = missing
        if was_stopped and not missing:
            unfinished = [f"begun {about.get('started', 'at some time')}"]
        yield none_of(f"{key}.finished", "the suite ran to its end", unfinished, 1, "suites")
        shortfalls = {cell: what for cell, what in shortfalls.items() if what not in missing}
    yield none_of(
        f"{key}.repetitions",
        "every cell ran as often as planned, and well",
        [what for what in shortfalls.values() if what],
        len(plan),
        "cells",
    )
    of_several_programs = []
    for cell in ran:
        hashes = {run.program_hash for run in cell.ok}
        if len(hashes) > 1:
            of_several_programs.append(cell.name)
    yield none_of(
        f"{key}.program",
        "all runs of a cell are of one program",
        of_several_programs,
        len(ran),
        "cells",
    )
    yield _check_of_versions(key, [run for cell in cells for run in cell.ok])
    for cell in cells:
        if cell not in ran:
            yield Check(f"{key}.measured.{cell.name}", "the cell was measured", unjudged=cell.reason)


def _check_of_versions(key: str, runs: Sequence[Sample]) -> Check:
    engines = {run.engine for run in runs}
    versions = set()
    for run in runs:
        machine = json.dumps([run.environment.get(name) for name in MACHINE], sort_keys=True)
        versions.add((run.engine, run.engine_version, machine))
    mixed = []
    if len(versions) > len(engines):
        mixed = sorted(str(version) for _, version, _ in versions)
    says = "all runs are of one version of each engine, on one machine"
    return none_of(f"{key}.versions", says, [version for version in mixed if version], len(runs), "runs")


def _shortfall(cell: CellRuns | None, planned: Mapping[str, Level], times: int) -> str:
    """Return how many of the planned repetitions a cell has; an empty text if it has all, or is skipped."""
    if cell is None:
        return f"{name_of(planned)}: none"
    good = [run.repetition for run in cell.ok]
    is_skipped = len(cell.with_status(SKIPPED)) == len(cell.runs)
    is_whole = good == list(range(max(times, len(good)))) and not cell.with_status(FAILED)
    if is_whole or is_skipped:
        return ""
    return f"{cell.name}: {len(good)} of {times}"


def _sizes(measured: Measured) -> Iterator[Check]:
    paper = privfairfl()
    cells = [cell for cell in measured.cells if cell.ok and cell["shape"] in paper.shapes]
    for shape, factor in product(paper.shapes.values(), ("clients", "records")):
        size = getattr(shape, factor)
        given = [cell for cell in cells if cell["shape"] == shape.name and isinstance(cell[factor], int)]
        yield none_of(
            f"exact.{factor}.{shape.name}",
            f"{shape.title} has {size:,} {factor}",
            [f"{cell.name} has {cell[factor]}" for cell in given if cell[factor] != size],
            len(given),
            "cells",
        )
    curves: dict[object, CellRuns] = {}  # the cell with most thresholds, of cells that differ in these alone
    for cell in cells:
        if cell["protocol"] == "pi_roc" and cell["variant"] not in VARIANTS:
            alike = (cell.suite, cell.without("thresholds"))
            if alike not in curves or cell.number("thresholds") > curves[alike].number("thresholds"):
                curves[alike] = cell
    yield none_of(
        "exact.thresholds",
        f"a curve has {paper.thresholds:,} thresholds",
        [cell.name for cell in curves.values() if cell["thresholds"] != paper.thresholds],
        len(curves),
        "cells",
    )
    for model, parties in paper.parties.items():
        cells_of_model = measured.where(security=model)
        runs = [run for cell in cells_of_model if "parties" not in cell.runs[0].cell for run in cell.ok]
        yield none_of(
            f"exact.parties.{model}",
            f"{model} has {parties} parties, as {paper.schemes[model]} has",
            [f"{len(run.sent_bytes)} sent" for run in runs if len(run.sent_bytes) != parties],
            len(runs),
            "runs",
        )


def _orders(measured: Measured) -> Iterator[Check]:
    """Check the orders of models, and of the two phases, that the paper claims."""
    claims = privfairfl().claims
    cells = _compared(measured)
    by_rest: dict[object, dict[Level | None, CellRuns]] = {}  # cells that differ in the model alone
    for cell in cells:
        by_rest.setdefault(cell.without("security"), {})[cell["security"]] = cell
    for (claim, slower, quicker), models in product(PAIRS, by_rest.values()):
        if slower in models and quicker in models:
            slow = models[slower]
            quick = models[quicker]
            key = f"order.{claim}.{name_of(slow.runs[0].cell, 'security')}.{slower}.{quicker}"
            if slow["input_path"] != "clients":  # their connections take most of the seconds
                yield order_of_seconds(f"{key}.seconds", claims[claim], slow, quick)
            yield order_of_bytes(f"{key}.bytes", claims[claim], slow, quick)
    for (post, pre, times), shape, model in product(PHASES, privfairfl().shapes, privfairfl().parties):
        where = {"shape": shape, "security": model, "noise": "joint"}
        long = fullest([cell for cell in cells if cell.has(protocol="pi_roc", variant=post, **where)])
        short = fullest([cell for cell in cells if cell.has(protocol="pi_rw", variant=pre, **where)])
        if long and short and long["thresholds"] == privfairfl().thresholds:  # fewer take less time
            yield order_of_seconds(f"order.phases.{long.name}", claims["phases"], long, short, times)


def _compared(measured: Measured) -> list[CellRuns]:
    """Return the cells by which models and phases are compared: literal ones, and ours of both federations.

    Ours have joint noise. The network is the machine's own, or that between hosts.
    """
    here = measured.where(noise="joint", network="none")
    literal = [cell for cell in here if cell["variant"] in VARIANTS]
    ours = [cell for cell in here if cell["shape"] in privfairfl().shapes and cell not in literal]
    return measured.distinct(literal + ours)


def order_of_seconds(key: str, says: str, slower: CellRuns, quicker: CellRuns, times: float = 1.0) -> Check:
    """Check that a cell takes more than `times` as long as another, in 9 of 10 pairs of runs."""
    slower_summary = slower.seconds()
    quicker_summary = quicker.seconds()
    if slower_summary is None:
        return Check(key, says, unjudged=slower.reason)
    if quicker_summary is None:
        return Check(key, says, unjudged=quicker.reason)
    long = [run.times["mpc_s"] for run in slower.ok]
    short = [run.times["mpc_s"] for run in quicker.ok]
    pairs = list(product(long, short))
    as_claimed = [pair for pair in pairs if pair[0] > times * pair[1]]
    share = len(as_claimed) / len(pairs)
    how_long = "longer"
    if times > 1:
        how_long = f"more than {times:g} times as long"
    compared = (
        f"{slower_summary.median:.3g} s against {quicker_summary.median:.3g} s, {how_long} in {share:.0%} of "
        f"{len(long)}×{len(short)} pairs"
    )
    if 1 - SURE < share < SURE:
        return Check(key, says, unjudged=f"the runs overlap: {compared}")
    return Check(key, says, share, SURE, 1.0, compared)


def order_of_bytes(key: str, says: str, slower: CellRuns, quicker: CellRuns) -> Check:
    """Check that all parties together send more in the first cell than in the second."""
    more = slower.sent_bytes
    less = quicker.sent_bytes
    if more is None or less is None:
        lacking = quicker if more else slower
        return Check(key, says, unjudged=lacking.reason)
    return Check(key, says, more / less, nextafter(1, 2), found=f"{more:,.0f} bytes against {less:,.0f}")


Cost = Callable[[CellRuns], float | None]


# How far the fit may be off, as a share: seconds share two cores, bytes are counted.
COSTS: Mapping[str, tuple[Cost, float]] = {
    "seconds": (lambda cell: cell.median_s, 0.35),
    "bytes": (lambda cell: cell.sent_bytes, 0.05),
}


@dataclass(frozen=True)
class Growth:
    """How a cost should grow in a factor."""

    factor: str
    linear: bool  # if not, the cost should stay constant
    where: Mapping[str, str]  # levels of the cells for which this is claimed
    why: str
    also: tuple[str, ...] = ()  # factors that may vary with this factor
    # Claimed only of clients with several records, because with one record noise is for another relation.
    several: bool = False


_GROWTHS_OF_OURS = (
    Growth(
        factor="clients",
        linear=True,
        where={"protocol": "pi_rw", "variant": "product"},
        why="a product per client and label",
        also=("records",),  # clients count their own
    ),
    Growth(
        factor="clients",
        linear=False,
        where={"protocol": "pi_rw", "variant": "default"},
        why="each party adds up before",
        also=("records",),
    ),
    Growth(
        factor="clients",
        linear=False,
        where={"protocol": "pi_roc", "variant": "default"},
        why="each party adds up before",
    ),
    Growth(
        factor="records",
        linear=False,
        where={"protocol": "pi_roc", "variant": "default"},
        why="clients count before",
        several=True,
    ),
)
_GROWTHS_OF_LITERAL_FORMS = tuple(
    Growth(
        factor=factor,
        linear=True,
        where={"protocol": "pi_roc", "variant": form},
        why="all records with each threshold",
    )
    for factor in ("records", "thresholds")
    for form in FORMS
)
GROWTHS = _GROWTHS_OF_OURS + _GROWTHS_OF_LITERAL_FORMS


def _growths(measured: Measured) -> Iterator[Check]:
    for growth in GROWTHS:
        cells = measured.where(**growth.where)
        if growth.several:
            cells = [cell for cell in cells if cell.number("records") > cell.number("clients")]
        for series in measured.series(growth.factor, cells, growth.also):
            for name, (cost, tolerance) in COSTS.items():
                yield check_series(series, growth, name, cost, tolerance)


def check_series(
    series: Sequence[CellRuns], growth: Growth, name: str, cost: Cost, tolerance: float
) -> Check:
    """Check how a cost grows over cells that differ in the growth's factor.

    Args:
        series: The cells, in the order of the factor.
        growth: How costs should grow.
        name: The cost's name.
        cost: The cost of a cell.
        tolerance: How far a linear cost may be off a line, as a share.
    """
    first = series[0]
    verb = "linear" if growth.linear else "constant"
    where = f"{first.suite}.{name_of(first.runs[0].cell, growth.factor, *growth.also)}"
    key = f"{verb}.{growth.factor}.{where}.{name}"
    says = f"{verb} in {growth.factor}: {growth.why}"
    points = {}
    for cell in series:
        value = cost(cell)
        if value:
            points[cell.number(growth.factor)] = value
    levels = list(points)
    costs = list(points.values())
    if len(levels) < LEAST_LEVELS or levels[-1] < LEAST_RATIO * levels[0]:
        known = ", ".join(f"{level:,}" for level in levels) or "none"
        return Check(key, says, unjudged=f"too few levels to tell ({known})")
    over = f"{growth.factor} {levels[0]:,} to {levels[-1]:,}"
    if not growth.linear:
        spread = max(costs) / min(costs)
        if name != "bytes":
            most = 1 + SCATTER
        elif model_of(first.runs[0].cell).virtual_machine is None:
            most = 1 + BYTES
        else:
            most = 1.0  # MP-SPDZ counts bytes exactly
        return Check(key, says, spread, 1.0, most, f"most over least {spread:.2f}, {over}")
    slope, residual = fit(levels, costs)
    share = slope * (levels[-1] - levels[0]) / costs[-1]
    if residual <= tolerance and share < LEAST_SHARE:
        return Check(key, says, unjudged=f"only {max(share, 0):.0%} of the cost grows, {over}")
    return Check(key, says, residual, 0.0, tolerance, f"off a line by {residual:.1%} at most, {over}")


def _networks(measured: Measured) -> Iterator[Check]:
    """Check that emulated networks were as slow as they should be."""
    kinds = (("rtt", "s", ROUND_TRIP), ("bandwidth", "bits_per_s", BANDWIDTH))
    cells = [cell for cell in measured.cells if cell.networks]
    for cell, (what, unit, (low, high)) in product(cells, kinds):
        key = f"network.{what}.{cell.suite}.{cell.name}"
        says = f"the {what} was what was asked for"
        wanted = cell.networks[0][f"{what}_{unit}"]
        name = f"measured_{what}_{unit}"
        ratios = [network[name] / wanted for network in cell.networks if network.get(name) is not None]
        if ratios:
            worst = max(ratios, key=lambda ratio: max(low / ratio, ratio / high))
            yield Check(key, says, worst, low, high, f"×{worst:.3g} of {wanted:g} {unit}")
        else:
            yield Check(key, says, unjudged="it was not measured")


def _distributed_noise(measured: Measured) -> Iterator[Check]:
    """Check that distributed noise sends less, errs as stated, and for curves takes less time."""
    says = "distributed noise takes less, and errs as much more as is stated"
    for joint, own in measured.pairs():
        model = model_of(own.runs[0].cell)
        name = f"{own.suite}.{own.name}"
        stated = sqrt(model.parties / (model.parties - model.corruptions))
        ratio = error_ratio(own.runs[0].cell)
        yield Check(
            key=f"own.error.{name}",
            says=says,
            value=ratio,
            low=0,
            high=stated,
            found=f"standard error ×{ratio:.3g}, with {model.parties} parties at most ×{stated:.3g}",
        )
        yield order_of_bytes(f"own.bytes.{name}", says, joint, own)
        if own["protocol"] == "pi_roc":  # noise is most of its cost
            yield order_of_seconds(f"own.seconds.{name}", says, joint, own)


def _times(measured: Measured, rows: Sequence[Row]) -> Iterator[Check]:
    by_cell = {(row.protocol, row.shape, row.model): row for row in rows if row.beside is None}
    for (protocol, shape, model), row in by_cell.items():
        says = f"{protocol} as printed takes about as long as in Table 2"
        times = f"{texts.took(row.printed)} s, the paper {row.paper} s{_of_a_round(row.printed)}"
        yield _near_paper(f"ratio.table2.{protocol}.{shape}.{model}", says, row.of_paper, times)
        ring = by_cell[protocol, shape, "ring"]  # ratios to its time depend less on the machine
        if row is not ring:
            says = f"{model} costs as many times what ring does as in Table 2"
            ours = _ratio(row.printed, ring.printed)
            of_paper = row.paper.seconds / ring.paper.seconds
            times = f"{texts.ratio(ours)}, the paper {texts.times(of_paper)}"
            key = f"ratio.models.{protocol}.{shape}.{model}"
            yield _near_paper(key, says, _over(ours, of_paper), times)
        if protocol == "pi_roc" and shape == "ads":
            says = f"the default takes at most 1/{GAIN:,.0f} of the fastest literal form"
            key = f"gain.pi_roc.{shape}.{model}"
            if row.gain is None:
                yield Check(key, says, unjudged=row.why_no_default or NOT_YET)
            else:
                times = NOT_YET
                if row.fastest:
                    times = f"{texts.took(row.fastest.literal)} s against {texts.spread(row.fastest.ours)} s"
                yield Check(key, says, row.gain.median, GAIN, found=times)
    yield from _figure_1(measured)
    yield _figure_2(by_cell)


def _ratio(above: Took | None, below: Took | None) -> Ratio | None:
    if not above or not below:
        return None
    return Ratio(above.median / below.median, above.low / below.high, above.high / below.low)


def _over(ratio: Ratio | None, number: float) -> Ratio | None:
    if not ratio:
        return None
    return Ratio(ratio.median / number, ratio.low / number, ratio.high / number)


def _of_a_round(took: Took | None) -> str:
    if not took or not took.a_round:
        return ""
    here_s, paper_s = took.a_round
    here = f"{texts.seconds(here_s * 1e6)} µs"
    return f"; a round takes {here} here, by the paper's time {texts.seconds(paper_s * 1e6)} µs"


def _near_paper(key: str, says: str, ratio: Ratio | None, found: str) -> Check:
    """Check that the median here is within a factor of 3 of the printed figure.

    Args:
        key: The check's key.
        says: The claim.
        ratio: The ratio of the measured figure to the printed figure; None if nothing was measured.
        found: The measured figure and the printed figure, in words.

    Guarantees: neither the spread of the runs nor the rounding of the printed figure helps a median to pass.
    [test: tests/benchmarks/test_validation.py::test_a_noisy_machine_passes_no_more]
    """
    if ratio is None:
        return Check(key, says, unjudged=NOT_YET)
    return Check(key, says, ratio.median, 1 / BAND, BAND, f"{found}: {texts.ratio(ratio)}")


def _figure_1(measured: Measured) -> Iterator[Check]:
    """Compare the figure with both literal forms, because the paper may mean either of them."""
    claim = privfairfl().figures["figure1"]
    says = f"{claim.title}: {claim.text}"
    for form in FORMS:
        of_form = measured.where(
            protocol=claim.protocol, security=claim.security, variant=form, shape="", network="none"
        )
        timed = {}  # seconds by the number of clients
        for cell in of_form:
            summary = cell.seconds()
            level = cell.number(claim.factor)
            if summary is not None and claim.at[0] <= level <= claim.at[1]:
                timed[level] = summary
        ratio = None
        found = ""
        if timed:
            most = max(timed)
            span = timed[most]
            ratio = _over(Ratio(span.median, span.low, span.high), claim.seconds)
            found = f"{texts.spread(span)} s with {most:,} clients"
        yield _near_paper(f"ratio.figure1.{form}", says, ratio, found)


def _figure_2(rows: Mapping[tuple[str, str, str], Row]) -> Check:
    """Compare the figure with Table 2's runs, scaled to the figure's number of records."""
    claim = privfairfl().figures["figure2"]
    ads = privfairfl().shapes["ads"]
    printed = rows[claim.protocol, ads.name, claim.security].printed
    ratio = None
    found = ""
    if printed:
        scale = claim.at[0] / ads.records
        ratio = _over(Ratio(printed.median, printed.low, printed.high), claim.seconds / scale)
        found = f"{texts.seconds(printed.median * scale)} s, scaled from {ads.records:,} records"
    return _near_paper("ratio.figure2", f"{claim.title}: {claim.text}", ratio, found)
