"""Changes between two measurements of the same cells, beyond noise."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.measure.samples import CONFIDENCE, OK, Cell, Level, Sample, by_cell, interval_of_median

SLOWER, FASTER, NOISE, FEW = "slower", "faster", "within noise", "too few runs to tell"


@dataclass(frozen=True)
class Change:
    """The change of a cell.

    Attributes:
        interval: Of the second median over the first.
        others: Other changes, in words.
    """

    cell: Mapping[str, Level]
    seconds: tuple[float | None, float | None]
    ratio: float | None
    interval: tuple[float, float] | None
    verdict: str
    others: str


def compare(first: Sequence[Sample], second: Sequence[Sample]) -> Iterator[Change]:
    """Yield the change of each cell, in the order in which they first ran.

    Computes: the ratio of the medians of `mpc_s`. Its interval divides the ends of the medians' intervals,
    each at half the error, so that it holds with 95 %, whatever the distribution.
    Guarantees: two measurements of one distribution are called changed with probability 5 % at most.
    [test: tests/benchmarks/test_compare.py]
    """
    before, after = by_cell(first), by_cell(second)
    for key in dict.fromkeys([*before, *after]):
        both = [[run for run in of.get(key, []) if run.status == OK] for of in (before, after)]
        if any(both):
            yield _change(key, *both)


def _change(key: Cell, first: Sequence[Sample], second: Sequence[Sample]) -> Change:
    times = [[run.times["mpc_s"] for run in of] for of in (first, second)]
    a, b = (median(of) if of else None for of in times)
    if a is None or b is None:
        return Change(dict(key), (a, b), None, None, f"not in the {'first' if a is None else 'second'}", "")
    low, high = (interval_of_median(of, (1 + CONFIDENCE) / 2) for of in times)
    interval = (high[0] / low[1], high[1] / low[0]) if low and high else None
    verdict = FEW
    if interval is not None:
        verdict = SLOWER if interval[0] > 1 else FASTER if interval[1] < 1 else NOISE
    return Change(dict(key), (a, b), b / a, interval, verdict, ", ".join(_others(first[-1], second[-1])))


def _others(a: Sample, b: Sample) -> Iterator[str]:
    if sum(a.sent_bytes) != sum(b.sent_bytes):
        yield f"sent {sum(a.sent_bytes):,} and {sum(b.sent_bytes):,} bytes"
    for what, one, other in (
        ("rounds", a.rounds, b.rounds),
        ("hosts", len(a.hosts), len(b.hosts)),
        ("engine", a.engine_version, b.engine_version),
    ):
        if one != other:
            yield f"{what} {one} and {other}"
    if a.program_hash != b.program_hash:
        yield "another program"
