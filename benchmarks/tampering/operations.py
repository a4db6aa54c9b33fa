"""The programs that are tampered with, their inputs, and the values that they open.

Two honest parties give all inputs and bits by fixed shares, so that `reference` says which result is right.
In `NOISE` one of the two tampers. There inputs have to be bits, and the noise has to keep its distribution.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import numpy as np

from fairshares.harness.releases.noise_samples import joint_sampler, summarise
from fairshares.protocols import reference
from fairshares.protocols.arrays import Integers as Array
from fairshares.protocols.circuits.coins import (
    NoiseFamily,
    SymmetricCoins,
    coins_of_magnitude,
    design_noise,
)
from fairshares.protocols.circuits.gaussian import JointGaussian, refinements
from fairshares.protocols.circuits.noise import fair_bits_per_sample
from fairshares.protocols.circuits.slots import slot_bits, value_bits
from fairshares.protocols.noise.added import NoiseDistribution

Integers = tuple[int, ...]
_EPSILON = "2"  # large, so that noise has few coins
_DELTA_BITS = 20
SAMPLERS = {
    family: joint_sampler(Fraction(_EPSILON), Fraction(1, 1 << _DELTA_BITS), family) for family in NoiseFamily
}


def law_of(family: NoiseFamily) -> tuple[object, ...]:
    """Return a program's last arguments, which say that its joint noise is of this family."""
    return tuple(SAMPLERS[family].arguments.values())


def distance_of(opened: Sequence[int], family: NoiseFamily) -> tuple[float, float]:
    """Return how far opened noise is from its distribution.

    Args:
        opened: The opened values.
        family: The family of the noise.

    Returns:
        sup |F_n - F|, or 1 if a value is impossible; and a bound that chance exceeds with a probability of
        10^-9 at most.
    """
    sampler = SAMPLERS[family]
    summary = summarise(opened, sampler)
    least, most = sampler.edges
    lowest, highest = summary.extremes
    is_possible = least <= lowest and highest <= most
    distance = summary.distance if is_possible else 1.0
    return distance, summary.distance_bound


def name_of(program: str, family: NoiseFamily) -> str:
    """Return an operation's name. Recorded names without a family are of signed noise."""
    if family is NoiseFamily.SIGNED:
        return program
    return f"{program} {family.value}"


def family_in(operation: str) -> NoiseFamily:
    """Return the family that an operation's name says."""
    if operation.endswith(f" {NoiseFamily.SYMMETRIC.value}"):
        return NoiseFamily.SYMMETRIC
    return NoiseFamily.SIGNED


@dataclass(frozen=True)
class Operation:
    """A program, the inputs of two parties, and the opened values.

    Args:
        name: The name of the program's file. A form of its inputs may follow after a space, and then the
            family of its noise, unless that is signed.
        values: The values of the first and of the second party; empty for none.
        bits: The words of the first and of the second party, for each block of bits.
        right: The opened values that honest parties may accept.
        arguments: The arguments of a production program, after the two parties.
        noise: The number of samples of noise that are opened in place of `right`; 0 for none. If there are
            some, one of the two parties tampers.
    """

    name: str
    values: tuple[Integers, ...] = ()
    bits: tuple[tuple[Integers, Integers], ...] = ()
    right: Integers = ()
    arguments: tuple[object, ...] = ()
    noise: int = 0

    @property
    def program(self) -> str:
        """The name of the program's file."""
        file, _, _ = self.name.partition(" ")
        return file

    @property
    def family(self) -> NoiseFamily:
        """The family of the program's joint noise, if it has any."""
        return family_in(self.name)

    def is_right(self, opened: Integers) -> bool:
        """Return whether an honest party may accept the opened values."""
        if self.noise:
            if len(opened) != self.noise:
                return False
            distance, bound = distance_of(opened, self.family)
            return distance <= bound
        return opened == self.right


_X = (3, -5, 7, 11)
_Y = (13, 17, -19, 23)
_A = (0b1011, 0b0101, 0b1111, 0b0011)  # four bits in each of four lanes
_B = (0b1101, 0b1010, 0b1111, 0b0001)


def _opened() -> Integers:
    """Return the values that `opening` opens: X + Y, then 3 (X - Y) plus what was opened before."""
    last = [x + y for x, y in zip(_X, _Y, strict=True)]
    opened = list(last)
    for _ in range(3):
        last = [x - y + before for x, y, before in zip(_X, _Y, last, strict=True)]
        opened += last
    return tuple(opened)


def _products() -> Integers:
    """Return the values that `multiplication` opens: X * Y * X, and the inner product of X and Y."""
    products = [x * y for x, y in zip(_X, _Y, strict=True)]
    opened = [product * x for product, x in zip(products, _X, strict=True)]
    opened.append(sum(products))
    return tuple(opened)


def _conjunctions() -> Integers:
    """Return the values that `and` opens: the bits of A & B, and whether all bits of a lane are 1."""
    words = [a & b for a, b in zip(_A, _B, strict=True)]
    opened = []
    for bit in range(4):
        opened += [word >> bit & 1 for word in words]
    opened += [int(word == 0b1111) for word in words]
    return tuple(opened)


OPERATIONS = (
    Operation("input", (_X, _Y), right=_X + _Y),
    Operation("opening", (_X, _Y), right=_opened()),
    Operation("multiplication", (_X, _Y), right=_products()),
    Operation("and", bits=((_A, _B),), right=_conjunctions()),
    Operation("conversion", bits=((_A, _B),), right=tuple(a ^ b for a, b in zip(_A, _B, strict=True))),
    Operation("comparison", (_X, _Y), right=tuple(int(x < y) for x, y in zip(_X, _Y, strict=True))),
)


_ResultOfNoise = Callable[[list[int]], list[int]]  # a function from the noise's samples to the opened values

_GAUSSIAN = JointGaussian(Fraction(1, 2), steps=2, levels=1)
_GROUPS = 2
_LABELS = 2
_BINS = 3
_STEPS = 5
_OFFSET = 20
_MOST = 100
_CAPS = (1, 2, 3, 4)
_ABOVE = 1

# Five records, column by column.
_GROUP = np.array([0, 1, 1, 0, 1])
_LABEL = np.array([1, 0, 1, 1, 1])
_PREDICTION = np.array([1, 1, 0, 1, 0])
_SCORE = np.array([2, 0, 1, 2, 1])
_VALUE = np.array([-5, 0, 3, 5, -1])
_EXCEEDED = np.array([0, 2, 1, 3, 0])
_RECORDS = len(_GROUP)
_OWN_NOISE = np.array([3, -1, 0, 2])  # the noise of both parties together, for each value of a vector
_COUNTS = reference.counts(_GROUP, _LABEL, _GROUPS, _LABELS)


def _plus(truth: Array) -> _ResultOfNoise:
    return lambda noise: (truth.ravel() + np.array(noise)).tolist()


def _made(
    rng: np.random.Generator,
    name: str,
    arguments: Sequence[object],
    samples: int,
    opened: _ResultOfNoise,
    *,
    family: NoiseFamily = NoiseFamily.SIGNED,
    values: Array | None = None,
    slots: tuple[Array, int] | None = None,
    gaussian: JointGaussian | None = None,
) -> Operation:
    """Return a program with fixed inputs and bits of noise, shared between two parties at random.

    Args:
        rng: The source of the noise's bits and of the shares.
        name: The operation's name.
        arguments: The arguments of the program, after the two parties.
        samples: How many values get noise.
        opened: A function from the noise's samples to the right result.
        family: The family of joint noise.
        values: The inputs, if any.
        slots: Clients' slots and the bits of each, if the program takes slots.
        gaussian: The noise, if it is not the default noise.
    """
    if gaussian:
        coins = [(coin.numerator, coin.bits) for coin in gaussian.coins]
        noise_of_bits = partial(reference.gaussian_of_bits, coins, refinements(gaussian.levels))
        fair_bits = gaussian.bits
    else:
        design = design_noise(Fraction(_EPSILON), _DELTA_BITS, family)
        coins = [(coin.numerator, coin.bits) for coin in coins_of_magnitude(design)]
        nonzero = None
        if isinstance(design, SymmetricCoins):
            nonzero = (design.nonzero.numerator, design.nonzero.bits)
        noise_of_bits = partial(reference.noise_of_bits, coins, nonzero=nonzero)
        fair_bits = fair_bits_per_sample(design)
    fair_words = rng.integers(0, 1 << fair_bits, samples)
    noise = []
    for word in fair_words:
        bits_of_sample = [int(word) >> i & 1 for i in range(fair_bits)]
        noise.append(noise_of_bits(bits_of_sample))
    inputs = np.array([], dtype=np.int64) if values is None else values
    first_summand = rng.integers(-(1 << 40), 1 << 40, len(inputs))
    second_summand = inputs - first_summand
    blocks = [(fair_words, fair_bits)]
    if slots:
        blocks.insert(0, slots)
    bits = []
    for words, width in blocks:
        first_words = rng.integers(0, 1 << width, len(words))
        second_words = words ^ first_words
        bits.append((tuple(first_words.tolist()), tuple(second_words.tolist())))
    return Operation(
        name=name_of(name, family),
        values=(tuple(first_summand.tolist()), tuple(second_summand.tolist())),
        bits=tuple(bits),
        right=tuple(opened(noise)),
        arguments=tuple(arguments),
    )


def _programs(family: NoiseFamily) -> tuple[Operation, ...]:
    make = partial(_made, np.random.default_rng(5), family=family)
    law = law_of(family)
    table = (_GROUPS, _LABELS, *law)  # the last arguments of programs that count by group and label
    confusion = reference.confusion(_GROUP, _LABEL, _PREDICTION, _GROUPS, _LABELS)
    sums = np.array(reference.sums_from_ends(_GROUP.tolist(), _VALUE.tolist(), _GROUPS, _STEPS))
    blocks = np.array(reference.block_counts(_LABEL, _SCORE.tolist(), _LABELS, range(_BINS), (1, 2)))
    keys = _LABEL * _BINS + _SCORE
    logarithms = np.array([reference.shifted_log(int(count), _OFFSET, _MOST) for count in _COUNTS.ravel()])
    # Indicators of group, label and prediction, one column after the other.
    labels_one_hot = np.concatenate([_GROUP == 0, _LABEL == 0, _LABEL == 1]).astype(np.int64)
    predictions_one_hot = np.concatenate([_GROUP == 0, _LABEL == 0, _PREDICTION == 0]).astype(np.int64)
    pair = _GROUP * _LABELS + _LABEL
    group_bits = slot_bits(_GROUPS)
    slots_of_values = _GROUP + 1 + ((_VALUE + _STEPS) << group_bits)
    cap_bits = slot_bits(len(_CAPS) - 1)
    caps_exceeded = [_CAPS[place] for place in _EXCEEDED]

    def first_cap(noise: list[int]) -> list[int]:
        return [reference.first_below(caps_exceeded, _CAPS, _ABOVE, noise)]

    return (
        make("pi_lap", (2, 4, *law), 4, _plus(np.zeros(4, dtype=np.int64))),
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
        make(
            "pi_rounds distributed",
            (2, 1, 4, NoiseDistribution.GAUSSIAN, "1/8", 30),
            0,
            lambda _: (_COUNTS.ravel() + _OWN_NOISE).tolist(),
            values=np.concatenate([_COUNTS.ravel(), _OWN_NOISE]),
        ),
        make("pi_rw split", ("split", "shares", 2, 0, 0, *table), 4, _plus(_COUNTS), values=_COUNTS.ravel()),
        make(
            "pi_rw product",
            ("product", "shares", 2, _RECORDS, 0, *table),
            4,
            _plus(_COUNTS),
            values=labels_one_hot,
        ),
        make(
            "pi_rw_slots",
            (2, _RECORDS, 1, *table),
            4,
            _plus(_COUNTS),
            slots=(pair + 1, slot_bits(_COUNTS.size)),
        ),
        make("pi_cf split", ("split", 2, 0, *table), 8, _plus(confusion), values=confusion.ravel()),
        make(
            "pi_cf product",
            ("product", 2, _RECORDS, *table),
            8,
            _plus(confusion),
            values=predictions_one_hot,
        ),
        make(
            "pi_cf_slots",
            (2, _RECORDS, 1, *table),
            8,
            _plus(confusion),
            slots=(pair * _LABELS + _PREDICTION + 1, slot_bits(confusion.size)),
        ),
        make(
            "pi_roc",
            (2, 1, _LABELS, _BINS, "1.2", *law),
            blocks.size,
            _plus(blocks),
            values=np.bincount(keys, minlength=_LABELS * _BINS),
        ),
        make(
            "pi_roc_records",
            (2, _RECORDS, 1, _LABELS, _BINS, "1.2", *law),
            blocks.size,
            _plus(blocks),
            values=keys,
        ),
        make("pi_gap", (2, _GROUPS, *law), 4, _plus(sums), values=sums),
        make(
            "pi_gap_slots",
            (2, _RECORDS, 1, _GROUPS, _STEPS, *law),
            4,
            _plus(sums),
            slots=(slots_of_values, group_bits + value_bits(_STEPS)),
        ),
        make(
            "pi_count",
            (2, _GROUPS, _LABELS, _OFFSET, _MOST, *law),
            4,
            _plus(logarithms),
            values=_COUNTS.ravel(),
        ),
        make(
            "pi_cap",
            (2, _RECORDS, 1, len(_CAPS) - 1, _ABOVE, *law),
            len(_CAPS),
            first_cap,
            slots=(_EXCEEDED, cap_bits),
        ),
    )


_OF_OTHER_NOISE = ("pi_sum", "pi_rounds")
SIGNED_PROGRAMS = _programs(NoiseFamily.SIGNED)
SYMMETRIC_PROGRAMS = tuple(
    operation
    for operation in _programs(NoiseFamily.SYMMETRIC)
    if operation.program not in _OF_OTHER_NOISE  # which has no family, and is among the others
)
PROGRAMS = {NoiseFamily.SIGNED: SIGNED_PROGRAMS, NoiseFamily.SYMMETRIC: SYMMETRIC_PROGRAMS}


def _offline(family: NoiseFamily) -> Operation:
    """Return a program whose noise is what `pi_preprocess` makes from the same bits."""
    return _made(
        np.random.default_rng(6),
        "pi_sum_offline",
        (2, _COUNTS.size),
        _COUNTS.size,
        _plus(_COUNTS),
        family=family,
        values=_COUNTS.ravel(),
    )


OFFLINE = {family: _offline(family) for family in NoiseFamily}
TOO_LONG = {"spdz2k": "pi_roc_records"}  # 120,000 messages and minutes in each run
_SAMPLES = 200  # so many that a message cannot change the noise's distribution unnoticed


def _noise(family: NoiseFamily) -> tuple[Operation, ...]:
    arguments = (2, _SAMPLES, *law_of(family))
    return (Operation(name_of("pi_lap", family), arguments=arguments, noise=_SAMPLES),)


NOISE = {family: _noise(family) for family in NoiseFamily}
