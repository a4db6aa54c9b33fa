"""The programs that are tampered with, their inputs, and the values that they open.

Two honest parties make all inputs and bits by fixed shares, so that `reference` gives the one right result.
In `NOISE` one of the two tampers: its inputs have to be bits, and noise has to keep its distribution.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from operator import le

import numpy as np

from harness.releases.noise_samples import joint_sampler, summarise
from protocols import reference
from protocols.arrays import Integers as Array
from protocols.circuits.coins import design_coins
from protocols.circuits.gaussian import JointGaussian, refinements
from protocols.circuits.noise import fair_bits_per_sample
from protocols.circuits.slots import slot_bits, value_bits
from protocols.noise.added import NoiseDistribution

Integers = tuple[int, ...]
LAW = _EPSILON, _DELTA_BITS = "2", 20  # few coins
SAMPLER = joint_sampler(Fraction(_EPSILON), Fraction(1, 1 << _DELTA_BITS))


def distance_of(opened: Sequence[int]) -> tuple[float, float]:
    """Return sup |F_n - F| (1 of impossible values), and a bound that chance exceeds with 10^-9 at most."""
    summary, (least, most) = summarise(opened, SAMPLER), SAMPLER.edges
    possible = least <= summary.extremes[0] and summary.extremes[1] <= most
    return summary.distance if possible else 1.0, summary.distance_bound


@dataclass(frozen=True)
class Operation:
    """A program, the inputs of two parties, and the opened values."""

    name: str  # of its file, and a form
    values: tuple[Integers, ...] = ()
    bits: tuple[tuple[Integers, Integers], ...] = ()  # block by block
    right: Integers = ()
    arguments: tuple[object, ...] = ()  # of a production program, after the two parties
    noise: int = 0  # samples that are opened in place of `right`; one of the two parties then tampers

    @property
    def program(self) -> str:
        """The name of the program's file."""
        return self.name.partition(" ")[0]

    def is_right(self, opened: Integers) -> bool:
        """Return whether an honest party may accept the opened values."""
        if self.noise:
            return len(opened) == self.noise and le(*distance_of(opened))
        return opened == self.right


_X, _Y = (3, -5, 7, 11), (13, 17, -19, 23)
_A, _B = (0b1011, 0b0101, 0b1111, 0b0011), (0b1101, 0b1010, 0b1111, 0b0001)  # four bits in each of four lanes


def _opened() -> tuple[int, ...]:
    steps = [tuple(x + y for x, y in zip(_X, _Y, strict=True))]
    for _ in range(3):
        steps.append(tuple(x - y + last for x, y, last in zip(_X, _Y, steps[-1], strict=True)))
    return tuple(value for step in steps for value in step)


_PAIRS = tuple(a & b for a, b in zip(_A, _B, strict=True))


OPERATIONS = (
    Operation("input", (_X, _Y), right=(*_X, *_Y)),
    Operation("opening", (_X, _Y), right=_opened()),
    Operation(
        "multiplication",
        (_X, _Y),
        right=(
            *(x * y * x for x, y in zip(_X, _Y, strict=True)),
            sum(x * y for x, y in zip(_X, _Y, strict=True)),
        ),
    ),
    Operation(
        "and",
        bits=((_A, _B),),
        right=(
            *(word >> i & 1 for i in range(4) for word in _PAIRS),
            *(int(word == 15) for word in _PAIRS),
        ),
    ),
    Operation("conversion", bits=((_A, _B),), right=tuple(a ^ b for a, b in zip(_A, _B, strict=True))),
    Operation("comparison", (_X, _Y), right=tuple(int(x < y) for x, y in zip(_X, _Y, strict=True))),
)


_Opened = Callable[[list[int]], list[int]]  # of the noise

_COINS = design_coins(Fraction(_EPSILON), _DELTA_BITS)
_GAUSSIAN = JointGaussian(Fraction(1, 2), steps=2, levels=1)
_GROUPS, _LABELS, _BINS, _STEPS = 2, 2, 3, 5
_OFFSET, _MOST = 20, 100
_CAPS, _ABOVE = (1, 2, 3, 4), 1

_GROUP, _LABEL = np.array([0, 1, 1, 0, 1]), np.array([1, 0, 1, 1, 1])
_PREDICTION, _SCORE = np.array([1, 1, 0, 1, 0]), np.array([2, 0, 1, 2, 1])
_VALUE, _EXCEEDED = np.array([-5, 0, 3, 5, -1]), np.array([0, 2, 1, 3, 0])
_N = len(_GROUP)
_COUNTS = reference.counts(_GROUP, _LABEL, _GROUPS, _LABELS)


def _plus(truth: Array) -> _Opened:
    return lambda noise: (truth.ravel() + np.array(noise)).tolist()


def _made(
    rng: np.random.Generator,
    name: str,
    arguments: Sequence[object],
    samples: int,
    opened: _Opened,
    *,
    values: Array | None = None,
    slots: tuple[Array, int] | None = None,
    gaussian: JointGaussian | None = None,
) -> Operation:
    """Return a program with fixed inputs and bits of noise."""
    coins = [(coin.numerator, coin.bits) for coin in (gaussian.coins if gaussian else _COINS)]
    noise_of, bits = partial(reference.noise_of_bits, coins), fair_bits_per_sample(_COINS)
    if gaussian:
        noise_of = partial(reference.gaussian_of_bits, coins, refinements(gaussian.levels))
        bits = gaussian.bits
    fair = rng.integers(0, 1 << bits, samples)
    noise = [noise_of([int(word) >> i & 1 for i in range(bits)]) for word in fair]
    fixed = np.array([], dtype=np.int64) if values is None else values
    one = rng.integers(-(1 << 40), 1 << 40, len(fixed))
    blocks = [*([slots] if slots else []), (fair, bits)]
    masks = [rng.integers(0, 1 << width, len(words)) for words, width in blocks]
    others = [words ^ mask for (words, _), mask in zip(blocks, masks, strict=True)]
    return Operation(
        name,
        tuple(tuple(summand.tolist()) for summand in (one, fixed - one)),
        tuple((tuple(a.tolist()), tuple(b.tolist())) for a, b in zip(masks, others, strict=True)),
        tuple(opened(noise)),
        tuple(arguments),
    )


def _programs() -> tuple[Operation, ...]:
    make, two = partial(_made, np.random.default_rng(5)), (_GROUPS, _LABELS, *LAW)
    confusion = reference.confusion(_GROUP, _LABEL, _PREDICTION, _GROUPS, _LABELS)
    sums = np.array(reference.sums_from_ends(_GROUP.tolist(), _VALUE.tolist(), _GROUPS, _STEPS))
    blocks = np.array(reference.block_counts(_LABEL, _SCORE.tolist(), _LABELS, range(_BINS), (1, 2)))
    keys = _LABEL * _BINS + _SCORE
    logarithms = np.array([reference.shifted_log(int(n), _OFFSET, _MOST) for n in _COUNTS.ravel()])
    columns = [_GROUP == 0, _LABEL == 0]
    pair = _GROUP * _LABELS + _LABEL
    of_group, of_cap = slot_bits(_GROUPS), slot_bits(len(_CAPS) - 1)

    def cap(noise: list[int]) -> list[int]:
        return [reference.first_below([_CAPS[i] for i in _EXCEEDED], _CAPS, _ABOVE, noise)]

    return (
        make("pi_lap", (2, 4, *LAW), 4, _plus(np.zeros(4, dtype=np.int64))),
        make(
            "pi_sum",
            (2, 4, NoiseDistribution.LAPLACE, 1, 30),
            0,
            lambda _: _COUNTS.ravel().tolist(),
            values=_COUNTS.ravel(),
        ),
        make(
            "pi_rounds",
            (2, 1, 4, *_GAUSSIAN.arguments().values()),
            4,
            _plus(_COUNTS),
            values=_COUNTS.ravel(),
            gaussian=_GAUSSIAN,
        ),
        make("pi_rw split", ("split", "shares", 2, 0, 0, *two), 4, _plus(_COUNTS), values=_COUNTS.ravel()),
        make(
            "pi_rw product",
            ("product", "shares", 2, _N, 0, *two),
            4,
            _plus(_COUNTS),
            values=np.concatenate([*columns, _LABEL == 1]).astype(np.int64),
        ),
        make("pi_rw_slots", (2, _N, 1, *two), 4, _plus(_COUNTS), slots=(pair + 1, slot_bits(_COUNTS.size))),
        make("pi_cf split", ("split", 2, 0, *two), 8, _plus(confusion), values=confusion.ravel()),
        make(
            "pi_cf product",
            ("product", 2, _N, *two),
            8,
            _plus(confusion),
            values=np.concatenate([*columns, _PREDICTION == 0]).astype(np.int64),
        ),
        make(
            "pi_cf_slots",
            (2, _N, 1, *two),
            8,
            _plus(confusion),
            slots=(pair * _LABELS + _PREDICTION + 1, slot_bits(confusion.size)),
        ),
        make(
            "pi_roc",
            (2, 1, _LABELS, _BINS, "1.2", *LAW),
            blocks.size,
            _plus(blocks),
            values=np.bincount(keys, minlength=_LABELS * _BINS),
        ),
        make(
            "pi_roc_records", (2, _N, 1, _LABELS, _BINS, "1.2", *LAW), blocks.size, _plus(blocks), values=keys
        ),
        make("pi_gap", (2, _GROUPS, *LAW), 4, _plus(sums), values=sums),
        make(
            "pi_gap_slots",
            (2, _N, 1, _GROUPS, _STEPS, *LAW),
            4,
            _plus(sums),
            slots=(_GROUP + 1 + (_VALUE + _STEPS << of_group), of_group + value_bits(_STEPS)),
        ),
        make(
            "pi_count",
            (2, _GROUPS, _LABELS, _OFFSET, _MOST, *LAW),
            4,
            _plus(logarithms),
            values=_COUNTS.ravel(),
        ),
        make("pi_cap", (2, _N, 1, len(_CAPS) - 1, _ABOVE, *LAW), len(_CAPS), cap, slots=(_EXCEEDED, of_cap)),
    )


PROGRAMS = _programs()
OFFLINE = _made(  # of noise that `pi_preprocess` makes of the same bits
    np.random.default_rng(6),
    "pi_sum_offline",
    (2, _COUNTS.size),
    _COUNTS.size,
    _plus(_COUNTS),
    values=_COUNTS.ravel(),
)
TOO_LONG = {("spdz2k", "pi_roc_records")}  # 120,000 messages and minutes in each run
_SAMPLES = 200  # more than any message of a run could change unnoticed
NOISE = (Operation("pi_lap", arguments=(2, _SAMPLES, *LAW), noise=_SAMPLES),)
