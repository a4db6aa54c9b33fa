"""Sizes and times of packets on two extreme inputs, run in pairs: do they depend on secrets?

In one run of a pair every slot, fair bit and value is 0. In the other every slot and fair bit is 1, and
values are large. Which run is first is random, so that a busy machine can hide a difference, but not cause
one.
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
from fairshares.harness.security_models import SecurityModel

FALSE_ALARM = 0.05  # the probability for all intervals of a study together
_LARGE = 1 << 20


@dataclass(frozen=True)
class Pair:
    """A run on zeros, and a run on ones."""

    security: str
    operation: str
    same: bool  # whether every party sent as many messages of each size to each other
    seconds: Sequence[float]  # the seconds of each run, from the slowest party's first message to its last


def watch(attack: Attack, ones: bool) -> tuple[list[Counter[tuple[int, int]]], float]:
    """Return each party's messages by receiver and size, and the run's seconds."""
    # Inputs are sums, and bits exclusive ors, of two parties'; the second party's are always 0.
    value = _LARGE if ones else 0
    values = []
    for party, column in enumerate(attack.operation.values):
        fed = value if party == 0 else 0
        values.append(tuple(fed for _ in column))
    bits = []
    for words, _ in attack.operation.bits:
        width = max(map(int.bit_length, words), default=0)
        word = (1 << width) - 1 if ones else 0
        bits.append([tuple(word for _ in words), tuple(0 for _ in words)])
    attack.feed(values, bits)
    sizes = []
    spans = []
    for messages in attack.watch():
        sizes.append(Counter((sent.message.receiver, sent.message.length) for sent in messages))
        times = [sent.at_ns for sent in messages]
        spans.append(max(times) - min(times))
    return sizes, max(spans) / 1e9


def go_on(
    models: Sequence[SecurityModel],
    *,
    tried: Sequence[Operation],
    work: Path,
    path: Path,
    seconds: float,
    tell: Callable[[int, int], None],
) -> None:
    """Run pairs of all programs in turn, until the time is over.

    Args:
        models: The models.
        tried: The programs.
        work: An empty directory for the parties.
        path: The file of pairs.
        seconds: The time.
        tell: A function that is called with the seconds so far and all seconds.
    """
    began = time.monotonic()
    built = build_interposer(work)
    attacks = [
        Attack(model, operation, 0, built, work / f"{model.name}-{operation.name}")
        for model, operation in product(models, tried)
        if operation.program != TOO_LONG.get(model.name)
    ]
    for attack in attacks:
        attack.lay_out()
        attack.messages()  # some machines keep what they send in a directory's first run
    while True:
        for attack in random.sample(attacks, len(attacks)):
            runs = {ones: watch(attack, ones) for ones in random.sample((False, True), 2)}
            sizes_of_zeros, seconds_of_zeros = runs[False]
            sizes_of_ones, seconds_of_ones = runs[True]
            pair = Pair(
                security=attack.model.name,
                operation=attack.operation.name,
                same=sizes_of_zeros == sizes_of_ones,
                seconds=(seconds_of_zeros, seconds_of_ones),
            )
            append(path, pair)
            if time.monotonic() - began > seconds:
                return
            tell(int(time.monotonic() - began), int(seconds))


def load(path: Path) -> list[Pair]:
    """Return the pairs so far."""
    return load_lines(path, Pair, "a pair of runs of bench.timing")


def summary(pairs: Sequence[Pair]) -> list[dict[str, Any]]:
    """Return for each program in each model whether sizes differ, and by how much seconds do.

    All intervals of median differences hold at once with 95 %.
    """
    cells: dict[tuple[str, str], list[Pair]] = {}
    for pair in pairs:
        cells.setdefault((pair.security, pair.operation), []).append(pair)
    rows = []
    for (model, operation), cell_pairs in sorted(cells.items()):
        differences = []
        seconds: list[float] = []
        for pair in cell_pairs:
            on_zeros, on_ones = pair.seconds
            differences.append(on_ones - on_zeros)
            seconds += pair.seconds
        interval = interval_of_median(differences, 1 - FALSE_ALARM / len(cells))
        difference = None
        is_found = False
        if interval is not None:
            low, high = interval
            difference = [round(low, 6), round(high, 6)]
            is_found = not low <= 0 <= high
        rows.append(
            {
                "security": model,
                "operation": operation,
                "pairs": len(cell_pairs),
                "sizes_differ": sum(not pair.same for pair in cell_pairs),
                "seconds": round(statistics.median(seconds), 6),
                "difference_s": difference,
                "found": is_found,
            }
        )
    return rows
