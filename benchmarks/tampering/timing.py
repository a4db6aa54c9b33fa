"""Sizes and times of packets on two extreme inputs, run in pairs: do they depend on secrets?

Every slot and fair bit is 0 in one run and 1 in the other, and values are 0 or large. The order is random, so
a busy machine can hide differences, but not cause any.
"""

import random
import statistics
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks.measure.samples import append, interval_of_median, load_lines
from benchmarks.tampering.attack import Attack, build_interposer
from benchmarks.tampering.operations import TOO_LONG, Operation
from harness.security_models import SecurityModel

FALSE_ALARM = 0.05  # of all intervals of a study together
_LARGE = 1 << 20


@dataclass(frozen=True)
class Pair:
    """A run on zeros, and one on ones."""

    security: str
    operation: str
    same: bool  # whether every party sent as many messages of each size to each other
    seconds: Sequence[float]  # of each run, from the slowest party's first message to its last


def watch(attack: Attack, ones: bool) -> tuple[list[Counter[tuple[int, int]]], float]:
    """Return each party's messages by receiver and size, and the run's seconds."""
    factors = int(ones), 0  # of the first input and of the second
    attack.feed(
        [(one * _LARGE,) * len(of) for one, of in zip(factors, attack.operation.values, strict=False)],
        [
            [(one * ((1 << max(map(int.bit_length, words), default=0)) - 1),) * len(words) for one in factors]
            for words, _ in attack.operation.bits
        ],
    )
    sent = attack.watch()
    spans = [max(at for *_, at in messages) - min(at for *_, at in messages) for messages in sent]
    return [Counter((to, size) for to, size, _ in messages) for messages in sent], max(spans) / 1e9


def go_on(
    models: Sequence[SecurityModel],
    *,
    tried: Sequence[Operation],
    work: Path,
    path: Path,
    seconds: float,
    tell: Callable[[int, int], None],
) -> None:
    """Run pairs of all programs in turn, until the time is over."""
    began = time.monotonic()
    built = build_interposer(work)
    attacks = [
        Attack(model, operation, 0, built, work / f"{model.name}-{operation.name}")
        for model, operation in product(models, tried)
        if (model.name, operation.name) not in TOO_LONG
    ]
    for attack in attacks:
        attack.lay_out()
        attack.messages()  # some machines keep what they send in a directory's first run
    while True:
        for attack in random.sample(attacks, len(attacks)):
            runs = {ones: watch(attack, ones) for ones in random.sample((False, True), 2)}
            (zeros, *times), (of_ones, *other) = runs[False], runs[True]
            names = attack.model.name, attack.operation.name
            append(path, Pair(*names, zeros == of_ones, (*times, *other)))
            if time.monotonic() - began > seconds:
                return
            tell(int(time.monotonic() - began), int(seconds))


def load(path: Path) -> list[Pair]:
    """Return the pairs so far."""
    return load_lines(path, Pair, "a pair of runs of bench.timing")


def summary(pairs: Sequence[Pair]) -> list[dict[str, Any]]:
    """Return whether sizes differ, and intervals of median differences in time, all at once with 95 %."""
    cells: dict[tuple[str, str], list[Pair]] = {}
    for pair in pairs:
        cells.setdefault((pair.security, pair.operation), []).append(pair)
    rows = []
    for (model, operation), of in sorted(cells.items()):
        interval = interval_of_median(
            [pair.seconds[1] - pair.seconds[0] for pair in of], 1 - FALSE_ALARM / len(cells)
        )
        rows.append(
            {
                "security": model,
                "operation": operation,
                "pairs": len(of),
                "sizes_differ": sum(not pair.same for pair in of),
                "seconds": round(statistics.median(s for pair in of for s in pair.seconds), 6),
                "difference_s": None if interval is None else [round(end, 6) for end in interval],
                "found": interval is not None and not interval[0] <= 0 <= interval[1],
            }
        )
    return rows
