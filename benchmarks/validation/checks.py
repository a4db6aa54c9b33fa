"""Checks of measured runs."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, product
from math import nextafter, sqrt
from typing import Any

from benchmarks.literal import FORMS
from benchmarks.measure.cell import error_ratio
from benchmarks.measure.samples import FAILED, SKIPPED, Level, name_of
from benchmarks.papers import privfairfl
from benchmarks.validation import texts
from benchmarks.validation.cells import CellRuns, Measured, fullest
from benchmarks.validation.findings import Check, Explanation, Finding, Status, all_well, explanations, judge
from benchmarks.validation.side_by_side import (
    AT_ONCE,
    LEAST_LEVELS,
    LEAST_RATIO,
    LITERAL,
    NOT_YET,
    PRINTED,
    TABLE2,
    Row,
    Took,
    fit,
    rows,
)
from harness.security_models import MODELS, get_model

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
PHASES = ((AT_ONCE, AT_ONCE, 10), ("default", "default", 1.0))  # variants of curves, of weights, least ratio
MACHINE = ("python", "platform", "cores", "packages", "mp_spdz_commit")  # of an environment
SURE = 0.9  # the share of pairs of runs in one order
BYTES = 0.01  # the share by which bytes may differ in the embedded engine, due to its headers
SCATTER = 1.0  # the share by which equal seconds may differ on a busy machine
LEAST_SHARE = 0.5  # the share of the largest cost that has to grow
BAND = 3.0  # the factor within which times count as alike
GAIN = 1000.0  # the default takes at most a thousandth of the faster literal form, of ADS
# As shares of what was asked for. A round trip also takes the machine's own time, a transfer is never faster.
ROUND_TRIP, BANDWIDTH = (0.95, 1.5), (0.5, 1.1)


@dataclass(frozen=True)
class Validation:
    """The findings of `bench.validate`, and Table 2 side by side."""

    findings: Sequence[Finding]
    rows: Sequence[Row]

    @property
    def passed(self) -> bool:
        """Whether something was judged and nothing failed."""
        return all_well(self.findings)

    def of(self, status: Status) -> list[Finding]:
        """Return the findings with a status."""
        return [finding for finding in self.findings if finding.status is status]

    def to_json(self) -> dict[str, Any]:
        """Return everything, with the number of findings by status."""
        return {
            "passed": self.passed,
            "counts": {str(status): len(self.of(status)) for status in Status},
            "findings": [finding.to_json() for finding in self.findings],
        }


def validate(
    measured: Measured, known: Sequence[Explanation] | None = None, programs: Iterable[Check] = ()
) -> Validation:
    """Judge measured runs against the papers and each other.

    Guarantees: each kind of check fails on results that break it. A check that cannot be judged is no pass.
    [test: tests/benchmarks/test_validation.py]
    """
    table = rows(measured)
    checks = chain(
        *(_whole(suite, measured) for suite in dict.fromkeys(cell.suite for cell in measured.cells)),
        _sizes(measured),
        programs,
        _orders(measured),
        _growths(measured),
        _networks(measured),
        _distributed_noise(measured),
        _times(measured, table),
    )
    shown = {
        f"{cell.suite}.{cell.name}": f"{texts.seconds(cell.median_s or 0)} s, {cell.rounds or 0:,} rounds"
        for cell in measured.cells
        if cell.ok
    }
    return Validation(judge(checks, explanations() if known is None else known, shown), table)


def none_of(key: str, says: str, wrong: Sequence[str], of: int, what: str) -> Check:
    """Check that nothing is wrong with as many things."""
    if not of:
        return Check(key, says, unjudged=f"there are no {what}")
    shown = "; ".join(wrong[:3]) + ("; …" if len(wrong) > 3 else "")
    return Check(key, says, len(wrong), 0, 0, shown or f"all of {of:,} {what}")


def _whole(suite: str, measured: Measured) -> Iterator[Check]:
    cells, key = measured.where(suite), f"whole.{suite}"
    ran = [cell for cell in cells if cell.ok or cell.of(FAILED)]
    runs = [run for cell in cells for run in cell.ok]
    about, plan = measured.abouts.get(suite), measured.plans.get(suite, {})
    by_key = {cell.runs[0].key: cell for cell in cells}
    fewer = {cell: _shortfall(by_key.get(cell), dict(cell), times) for cell, times in plan.items()}
    if about is not None:
        # Of a suite that was stopped, cells that lack runs are missing, and those that failed are wrong.
        stopped = not about.get("finished")
        failed = {cell.runs[0].key for cell in cells if cell.of(FAILED)}
        missing = [what for cell, what in fewer.items() if stopped and what and cell not in failed]
        yield none_of(
            f"{key}.finished",
            "the suite ran to its end",
            missing or [f"begun {about.get('started', 'at some time')}"] * stopped,
            1,
            "suites",
        )
        fewer = {cell: what for cell, what in fewer.items() if what not in missing}
    mixed = [cell.name for cell in ran if len({run.program_hash for run in cell.ok}) > 1]
    machines = [json.dumps([run.environment.get(of) for of in MACHINE], sort_keys=True) for run in runs]
    versions = {(run.engine, run.engine_version, of) for run, of in zip(runs, machines, strict=True)}
    engines = {run.engine for run in runs}
    for name, says, wrong, of, what in (
        (
            "repetitions",
            "every cell ran as often as planned, and well",
            list(fewer.values()),
            len(plan),
            "cells",
        ),
        ("program", "all runs of a cell are of one program", mixed, len(ran), "cells"),
        (
            "versions",
            "all runs are of one version of each engine, on one machine",
            sorted(str(version) for _, version, _ in versions) if len(versions) > len(engines) else [],
            len(runs),
            "runs",
        ),
    ):
        yield none_of(f"{key}.{name}", says, list(filter(None, wrong)), of, what)
    for cell in cells:
        if cell not in ran:
            yield Check(f"{key}.measured.{cell.name}", "the cell was measured", unjudged=cell.reason)


def _shortfall(cell: CellRuns | None, planned: Mapping[str, Level], times: int) -> str:
    if cell is None:
        return f"{name_of(planned)}: none"
    well = [run.repetition for run in cell.ok]
    skipped = len(cell.of(SKIPPED)) == len(cell.runs)
    whole = well == list(range(max(times, len(well)))) and not cell.of(FAILED)
    return "" if whole or skipped else f"{cell.name}: {len(well)} of {times}"


def _sizes(measured: Measured) -> Iterator[Check]:
    paper, cells = privfairfl(), [cell for cell in measured.where(*TABLE2) if cell.ok]
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
    grid = [cell for cell in cells if cell["protocol"] == "pi_roc" and cell["variant"] not in FORMS]
    yield none_of(
        "exact.thresholds",
        f"a curve has {paper.thresholds:,} thresholds",
        [cell.name for cell in grid if cell["thresholds"] != paper.thresholds],
        len(grid),
        "cells",
    )
    for model, parties in paper.parties.items():
        runs = [run for cell in measured.where(security=model) for run in cell.ok]
        yield none_of(
            f"exact.parties.{model}",
            f"{model} has {parties} parties, as {MODELS[model].paper_name} has",
            [f"{len(run.sent_bytes)} sent" for run in runs if len(run.sent_bytes) != parties],
            len(runs),
            "runs",
        )


def _orders(measured: Measured) -> Iterator[Check]:
    claims, by_rest = privfairfl().claims, dict[object, dict[Level | None, CellRuns]]()
    for cell in (
        *measured.where(*TABLE2, noise="joint"),
        *(cell for cell in measured.where(*LITERAL) if cell["variant"] in FORMS),
    ):
        by_rest.setdefault(cell.without("security"), {})[cell["security"]] = cell
    for (claim, slower, quicker), models in product(PAIRS, by_rest.values()):
        if slower in models and quicker in models:
            a, b = models[slower], models[quicker]
            key = f"order.{claim}.{name_of(a.runs[0].cell, 'security')}.{slower}.{quicker}"
            if a["input_path"] != "clients":  # whose connections take most seconds
                yield order_of_seconds(f"{key}.seconds", claims[claim], a, b)
            yield order_of_bytes(f"{key}.bytes", claims[claim], a, b)
    for (post, pre, times), shape, model in product(PHASES, privfairfl().shapes, privfairfl().parties):
        where = {"shape": shape, "security": model, "noise": "joint"}
        suites = LITERAL if post in FORMS else TABLE2
        long = fullest(measured.where(*suites, protocol="pi_roc", variant=post, **where))
        short = fullest(measured.where(*suites, protocol="pi_rw", variant=pre, **where))
        if long and short and long["thresholds"] == privfairfl().thresholds:  # fewer take less time
            yield order_of_seconds(f"order.phases.{long.name}", claims["phases"], long, short, times)


def order_of_seconds(key: str, says: str, slower: CellRuns, quicker: CellRuns, times: float = 1.0) -> Check:
    """Check that one takes longer than `times` the other, in 9 of 10 pairs of runs."""
    a, b = slower.seconds(), quicker.seconds()
    if a is None or b is None:
        return Check(key, says, unjudged=(quicker if a else slower).reason)
    long, short = ([run.times["mpc_s"] for run in cell.ok] for cell in (slower, quicker))
    share = sum(x > times * y for x in long for y in short) / (len(long) * len(short))
    many = f"more than {times:g} times as long" if times > 1 else "longer"
    compared = (
        f"{a.median:.3g} s against {b.median:.3g} s, {many} in {share:.0%} of {len(long)}×{len(short)} pairs"
    )
    if 1 - SURE < share < SURE:
        return Check(key, says, unjudged=f"the runs overlap: {compared}")
    return Check(key, says, share, SURE, 1.0, compared)


def order_of_bytes(key: str, says: str, slower: CellRuns, quicker: CellRuns) -> Check:
    """Check that all parties together send more in the first."""
    a, b = slower.sent_bytes, quicker.sent_bytes
    if a is None or b is None:
        return Check(key, says, unjudged=(quicker if a else slower).reason)
    return Check(key, says, a / b, nextafter(1, 2), found=f"{a:,.0f} bytes against {b:,.0f}")


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
    linear: bool  # else it should stay constant
    where: Mapping[str, str]  # levels of the cells that it is said of
    why: str
    also: tuple[str, ...] = ()  # factors that may vary with it
    several: bool = False  # said only of clients with several records; of one, noise is for another relation


_RECORDS = ("records",)  # clients count their own
GROWTHS = (
    Growth(
        "clients",
        True,
        {"protocol": "pi_rw", "variant": "product"},
        "a product per client and label",
        _RECORDS,
    ),
    Growth(
        "clients", False, {"protocol": "pi_rw", "variant": "default"}, "each party adds up before", _RECORDS
    ),
    Growth("clients", False, {"protocol": "pi_roc", "variant": "default"}, "each party adds up before"),
    Growth("records", False, {"protocol": "pi_roc", "variant": "default"}, "clients count before", (), True),
    *(
        Growth(factor, True, {"protocol": "pi_roc", "variant": form}, "all records with each threshold")
        for factor in ("records", "thresholds")
        for form in FORMS
    ),
)


def _growths(measured: Measured) -> Iterator[Check]:
    for growth in GROWTHS:
        cells = [
            cell
            for cell in measured.where(**growth.where)
            if not growth.several or cell.number("records") > cell.number("clients")
        ]
        for series in measured.series(growth.factor, cells, growth.also):
            for name, (cost, tolerance) in COSTS.items():
                yield check_series(series, growth, name, cost, tolerance)


def check_series(
    series: Sequence[CellRuns], growth: Growth, name: str, cost: Cost, tolerance: float
) -> Check:
    """Check one cost of cells that differ in the growth's factor."""
    first, verb = series[0], "linear" if growth.linear else "constant"
    where = f"{first.suite}.{name_of(first.runs[0].cell, growth.factor, *growth.also)}"
    key = f"{verb}.{growth.factor}.{where}.{name}"
    says = f"{verb} in {growth.factor}: {growth.why}"
    points = {cell.number(growth.factor): value for cell in series if (value := cost(cell))}
    levels, costs = list(points), list(points.values())
    if len(levels) < LEAST_LEVELS or levels[-1] < LEAST_RATIO * levels[0]:
        known = ", ".join(f"{level:,}" for level in levels) or "none"
        return Check(key, says, unjudged=f"too few levels to tell ({known})")
    over = f"{growth.factor} {levels[0]:,} to {levels[-1]:,}"
    if not growth.linear:
        spread = max(costs) / min(costs)
        counted = name == "bytes" and get_model(str(first["security"])).virtual_machine is not None
        most = 1.0 if counted else 1 + (BYTES if name == "bytes" else SCATTER)
        return Check(key, says, spread, 1.0, most, f"most over least {spread:.2f}, {over}")
    slope, residual = fit(levels, costs)
    share = slope * (levels[-1] - levels[0]) / costs[-1]
    if residual <= tolerance and share < LEAST_SHARE:
        return Check(key, says, unjudged=f"only {max(share, 0):.0%} of the cost grows, {over}")
    return Check(key, says, residual, 0.0, tolerance, f"off a line by {residual:.1%} at most, {over}")


def _networks(measured: Measured) -> Iterator[Check]:
    kinds = (("rtt", "s", ROUND_TRIP), ("bandwidth", "bits_per_s", BANDWIDTH))
    for cell, (what, unit, (low, high)) in product([cell for cell in measured.cells if cell.networks], kinds):
        key, says = f"network.{what}.{cell.suite}.{cell.name}", f"the {what} was what was asked for"
        wanted, name = cell.networks[0][f"{what}_{unit}"], f"measured_{what}_{unit}"
        ratios = [network[name] / wanted for network in cell.networks if network.get(name) is not None]
        if ratios:
            worst = max(ratios, key=lambda ratio: max(low / ratio, ratio / high))
            yield Check(key, says, worst, low, high, f"×{worst:.3g} of {wanted:g} {unit}")
        else:
            yield Check(key, says, unjudged="it was not measured")


def _distributed_noise(measured: Measured) -> Iterator[Check]:
    """Check that distributed noise sends less, errs as stated, and of curves takes less time."""
    says = "distributed noise takes less, and errs as much more as is stated"
    for joint, own in measured.pairs():
        model, name = get_model(str(own["security"])), f"{own.suite}.{own.name}"
        stated = sqrt(model.parties / (model.parties - model.corruptions))
        ratio = error_ratio(own.runs[0].cell)
        yield Check(
            *(f"own.error.{name}", says, ratio, 0, stated),
            f"standard error ×{ratio:.3g}, with {model.parties} parties at most ×{stated:.3g}",
        )
        yield order_of_bytes(f"own.bytes.{name}", says, joint, own)
        if own["protocol"] == "pi_roc":  # whose noise is most of the cost
            yield order_of_seconds(f"own.seconds.{name}", says, joint, own)


def _times(measured: Measured, rows: Sequence[Row]) -> Iterator[Check]:
    by_cell = {(row.protocol, row.shape, row.model): row for row in rows if row.beside is None}
    for (protocol, shape, model), row in by_cell.items():
        says = f"{protocol} as printed takes about as long as in Table 2"
        times = f"{texts.took(row.printed)} s, the paper {row.paper} s{_of_a_round(row.printed)}"
        yield _in_band(
            f"ratio.table2.{protocol}.{shape}.{model}", says, _range(row.printed), row.paper.range, times
        )
        ring = by_cell[protocol, shape, "ring"]  # ratios to its time leave the machine out
        if row is not ring:
            says = f"{model} costs as many times what ring does as in Table 2"
            ours = _ratio(_range(row.printed), _range(ring.printed))
            times = f"×{(ours or (0, 0))[0]:.3g}, the paper ×{row.paper.seconds / ring.paper.seconds:.3g}"
            yield _in_band(
                *(f"ratio.models.{protocol}.{shape}.{model}", says, ours),
                _ratio(row.paper.range, ring.paper.range),
                times,
            )
        if (protocol, shape) == ("pi_roc", "ads"):
            says = f"the default takes at most 1/{GAIN:,.0f} of the faster literal form"
            key = f"gain.pi_roc.{shape}.{model}"
            if row.gain is None:
                yield Check(key, says, unjudged=row.why_no_default or NOT_YET)
            else:
                times = f"{texts.took(row.at_once)} s against {texts.spread(row.default)} s"
                yield Check(key, says, row.gain, GAIN, found=times)
    yield _figure_1(measured)
    yield _figure_2(by_cell)


def _range(took: Took | None) -> tuple[float, float] | None:
    return (took.low, took.high) if took else None


def _ratio(
    above: tuple[float, float] | None, below: tuple[float, float] | None
) -> tuple[float, float] | None:
    return (above[0] / below[1], above[1] / below[0]) if above and below else None


def _of_a_round(took: Took | None) -> str:
    if not took or not took.a_round:
        return ""
    here, there = (f"{texts.seconds(seconds * 1e6)} µs" for seconds in took.a_round)
    return f"; a round takes {here} here, by the paper's time {there}"


def _in_band(
    key: str, says: str, ours: tuple[float, float] | None, paper: tuple[float, float] | None, found: str
) -> Check:
    if ours is None or paper is None:
        return Check(key, says, unjudged=NOT_YET)
    ratio = ours[0] / paper[1] if ours[0] > paper[1] else min(ours[1] / paper[0], 1.0)
    return Check(key, says, ratio, 1 / BAND, BAND, f"{found}: ×{ratio:.3g}")


def _figure_1(measured: Measured) -> Check:
    """Compare both forms, as the paper may mean either."""
    claim = privfairfl().figures["figure1"]
    of_claim = measured.where(protocol=claim.protocol, security=claim.security, network="none")
    cells = [cell for form in (AT_ONCE, PRINTED) for cell in of_claim if cell["variant"] == form]
    near = [cell for cell in cells if claim.at[0] <= cell.number(claim.factor) <= claim.at[1]]
    timed = [(cell.number(claim.factor), took) for cell in near if (took := cell.seconds()) is not None]
    most = max((level for level, _ in timed), default=0)
    spans = [took for level, took in timed if level == most]
    ours = (min(span.low for span in spans), max(span.high for span in spans)) if spans else None
    found = f"{' and '.join(texts.spread(span) for span in spans)} s with {most:,} clients"
    return _in_band("ratio.figure1", f"{claim.title}: {claim.text}", ours, (claim.seconds,) * 2, found)


def _figure_2(rows: Mapping[tuple[str, str, str], Row]) -> Check:
    claim, ads = privfairfl().figures["figure2"], privfairfl().shapes["ads"]
    printed = _range(rows[claim.protocol, ads.name, claim.security].printed)
    scaled = printed and (printed[0] * claim.at[0] / ads.records, printed[1] * claim.at[0] / ads.records)
    return _in_band(
        *("ratio.figure2", f"{claim.title}: {claim.text}", scaled, (claim.seconds,) * 2),
        f"from {texts.seconds(scaled[0]) if scaled else '–'} s, scaled from {ads.records:,} records",
    )
