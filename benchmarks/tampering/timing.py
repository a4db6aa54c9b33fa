"""Sizes and times of packets on two extreme inputs, run in pairs: do they tell of secrets?

Large values, every slot and fair bit are 0 in one run and 1 in the other, more than a secret could change.
Runs alternate in random order, so that a busy machine hides differences but invents none.
"""

import random
import statistics
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.measure.samples import append, interval_of_median, load_lines
from benchmarks.tampering.attack import Attack, build_interposer
from benchmarks.tampering.operations import TOO_LONG, Operation
from harness.security_models import SecurityModel

FALSE_ALARM = 0.05  # of all intervals of a study together
_LARGE = 1 << 20


@dataclass(frozen=True)
class Pair:
    """A run on zeros, and one on ones.

    Attributes:
        same: Whether every party sent as many messages of each size to each other.
        seconds: Of each, from the slowest party's first message to its last.
    """

    security: str
    operation: str
    same: bool
    seconds: Sequence[float]


def watch(attack: Attack, ones: bool) -> tuple[list[Counter[tuple[int, int]]], float]:
    """Return each party's messages by receiver and size, and the run's seconds."""
    operation, first = attack.operation, int(ones)
    values = [(first * _LARGE,) * len(value) for value in operation.values[:1]]
    bits = [
        tuple(
            (one * ((1 << max(map(int.bit_length, words), default=0)) - 1),) * len(words)
            for one in (first, 0)
        )
        for words, _ in operation.bits
    ]
    attack.feed((*values, *[(0,) * len(value) for value in operation.values[1:]]), bits)
    sent = attack.watch()
    times = [[at for *_, at in messages] for messages in sent]
    return [Counter((to, size) for to, size, _ in messages) for messages in sent], max(
        max(moments) - min(moments) for moments in times
    ) / 1e9


def go_on(
    models: Sequence[SecurityModel],
    tried: Sequence[Operation],
    path: Path,
    seconds: float,
    tell: Callable[[int, int], None],
) -> None:
    """Run pairs of all programs in turn until the time is over."""
    began = time.monotonic()
    with TemporaryDirectory() as scratch, ExitStack() as stack:
        built = build_interposer(Path(scratch))
        attacks = []
        for model, operation in product(models, tried):
            if (model.name, operation.name) not in TOO_LONG:
                work = Path(scratch, f"{model.name}-{operation.name}")
                attacks.append(Attack(model, operation, 0, built, work))
                stack.enter_context(attacks[-1].laid_out())
                attacks[-1].messages()  # some machines keep what they send in a directory's first run
        while True:
            for attack in random.sample(attacks, len(attacks)):
                order = random.sample((False, True), 2)
                runs = {ones: watch(attack, ones) for ones in order}
                zeros, of_ones = runs[False], runs[True]
                pair = Pair(
                    *(attack.model.name, attack.operation.name),
                    zeros[0] == of_ones[0],
                    (zeros[1], of_ones[1]),
                )
                append(path, pair)
                if time.monotonic() - began > seconds:
                    return
                tell(int(time.monotonic() - began), int(seconds))


def load(path: Path) -> list[Pair]:
    """Return the pairs so far."""
    return load_lines(path, Pair, "a pair of runs of bench.timing")


def summary(pairs: Sequence[Pair]) -> list[dict[str, Any]]:
    """Return, per model and program, whether sizes differ, and an interval of the difference in time.

    Intervals are of the median of differences within pairs; all hold at once with 95 %.
    """
    cells: dict[tuple[str, str], list[Pair]] = {}
    for pair in pairs:
        cells.setdefault((pair.security, pair.operation), []).append(pair)
    rows = []
    for (model, operation), of in sorted(cells.items()):
        differences = [ones - zeros for zeros, ones in (pair.seconds for pair in of)]
        interval = interval_of_median(differences, 1 - FALSE_ALARM / len(cells))
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
