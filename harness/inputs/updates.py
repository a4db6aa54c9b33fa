"""The vectors of a sum: clipped, then weighed, then rounded at random, by public, exact bounds."""

import math
import os
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from fairshares.harness.errors import OptionError
from fairshares.protocols.accounting.calibration import PrivacyUnit
from fairshares.protocols.arrays import Floats, Integers

MAX_COORDINATES = 1 << 24
MIN_WEIGHT = 1e-6
MAX_WEIGHT = 1 << 20
MOST_UNITS = 1 << 40  # units of the grid to a clipping norm

_SLACK = 1 - 1e-9  # the slack of a clipped norm: exceeds the error of floats
_ROUNDING = 25  # a norm is at least this many times the most that rounding adds to it
_GRID = 10**15  # the grid of a square root
_COIN_BITS = 32  # bits of the coin that rounds a coordinate; its mean is off by 2^-32 of a unit at most


def units_for(coordinates: int, largest_weight: float) -> int:
    """Return the units per clipping norm, a power of 2, at which rounding adds at most 4 % to a norm."""
    least = _ROUNDING * math.sqrt(coordinates) / largest_weight
    return 1 << max(0, math.ceil(math.log2(least)))


def rounding_error(rows: int) -> float:
    """Return a bound on the standard deviation that rounding adds to a sum of `rows` vectors, in units.

    Computes: sqrt(rows) / 2. A coin decides whether a coordinate between two units is rounded up or down.
    """
    return math.sqrt(rows) / 2


@dataclass(frozen=True)
class UpdateRule:
    """How a vector becomes integers, and how far a vector that comes or goes moves their sum.

    Attributes:
        coordinates: The length d of a vector.
        clip: The largest norm C before weighing, above 0.
        largest_weight: A bound w_max on weights. It is chosen without looking at data.
        units: Units of the grid per clipping norm.
        unit: The unit that is protected.
        rows: The unit whose vector a row is, a client or a record.
        are_replaced: Whether another record may take the place of a protected one; else it comes or goes.
    """

    coordinates: int
    clip: float
    largest_weight: float
    units: int
    unit: PrivacyUnit
    rows: PrivacyUnit
    are_replaced: bool = False

    def __post_init__(self) -> None:
        if not (hasattr(self.coordinates, "__index__") and 1 <= self.coordinates <= MAX_COORDINATES):
            raise OptionError(f"A sum has 1 to {MAX_COORDINATES} coordinates, not {self.coordinates}.")
        if not (hasattr(self.clip, "__float__") and 0 < self.clip < math.inf):
            raise OptionError(f"The clipping norm is a positive number, not {self.clip}.")
        if not (
            hasattr(self.largest_weight, "__float__") and MIN_WEIGHT <= self.largest_weight <= MAX_WEIGHT
        ):
            raise OptionError(
                f"The largest weight is from {MIN_WEIGHT:g} to {MAX_WEIGHT}, not {self.largest_weight}."
            )
        if (self.unit, self.rows) == (PrivacyUnit.CLIENT, PrivacyUnit.RECORD):
            raise OptionError(
                "A client may have any number of records, each of which moves the sum: to protect clients, "
                "clip one vector of each client."
            )
        if self.unit is PrivacyUnit.CLIENT and self.are_replaced:
            raise OptionError("A client comes or goes with all its records; only a record is replaced.")

    @property
    def norm(self) -> Fraction:
        """The largest norm of a weighed vector, in units."""
        return Fraction(self.largest_weight) * self.units

    @property
    def squares(self) -> int:
        """The largest squared distance between two neighbors' sums, in units.

        Computes: (C w_max + sqrt(d))^2 for a vector that comes or goes. Rounding adds at most 1 to each
        coordinate, whatever the coins are. Replacing a vector changes the sum by at most twice that, so the
        square is four times as large. A vector is replaced in two cases: a protected record with its own
        vector is replaced, or a protected record within a client's vector changes in any way.
        [test: tests/harness/inputs/test_updates.py]
        """
        root = Fraction(math.isqrt(self.coordinates * _GRID**2) + 1, _GRID)  # above sqrt(d)
        squares = self.norm**2 + 2 * self.norm * root + self.coordinates
        if self.are_replaced or self.unit is not self.rows:
            squares *= 4
        return math.floor(squares)

    @property
    def largest(self) -> int:
        """The largest absolute coordinate, in units."""
        return math.floor(self.norm) + 1

    def check_sums(self, rows: int, noise: int) -> None:
        """Raise OptionError if the sum of so many rows and this noise could overflow."""
        if rows * self.largest + noise >= 1 << 63:
            raise OptionError(
                f"Sums of {rows} vectors could overflow at {self.units} units to the clipping norm and "
                f"weights up to {self.largest_weight:g}; declare fewer clients, or fewer records of each."
            )

    def encode(self, updates: Floats, weights: Floats | None = None) -> Integers:
        """Return the vectors, shape (rows, coordinates), as integers in units; OptionError for other shapes.

        Each coordinate is rounded up or down at random, so that its mean is the coordinate itself. With
        rounding to the nearest unit, the errors of clients that are alike would add up.
        Guarantees: whatever the coins are, each row's squared norm is at most `squares`, and no coordinate
        exceeds `largest`.
        [test: tests/harness/inputs/test_updates.py]
        Edge cases: a row that is not finite counts as zeros. There is one weight per row. Weights are cut to
        [0, largest_weight], and NaN counts as 0.
        """
        updates = _numbers(updates, "Updates")
        if updates.ndim != 2 or updates.shape[1] != self.coordinates:
            raise OptionError(f"Updates have shape (rows, {self.coordinates}), not {updates.shape}.")
        weighed = np.ones(len(updates)) if weights is None else _numbers(weights, "Weights")
        if weighed.shape != (len(updates),):
            raise OptionError(f"There is a weight for each of {len(updates)} rows, not {weighed.shape}.")
        weighed = np.clip(np.nan_to_num(weighed), 0, self.largest_weight)
        finite = np.where(np.isfinite(updates).all(axis=1, keepdims=True), updates, 0.0)
        most = np.abs(finite).max(axis=1, initial=0.0)
        scaled = finite / np.where(most > 0, most, 1.0)[:, np.newaxis]  # squares neither overflow nor vanish
        norms = np.linalg.norm(scaled, axis=1)
        with np.errstate(over="ignore"):  # of a norm beyond all floats, which is clipped
            clipped = np.minimum(1.0, most / self.clip * norms) / np.where(norms > 0, norms, 1.0)
        factors = _SLACK * clipped * weighed * self.units
        exact = scaled * factors[:, np.newaxis]
        below = np.floor(exact)
        integers: Integers = below.astype(np.int64) + (_coins(exact.shape) < exact - below)
        return integers

    def decode(self, sums: Integers | Floats) -> Floats:
        """Return the sums of vectors, in their own units, for sums of the integers of `encode`."""
        return np.asarray(sums * (self.clip / self.units), dtype=np.float64)


def _numbers(values: Floats, name: str) -> Floats:
    """Return values as floats; OptionError, which shows none of them, if they are something else."""
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise OptionError(f"{name} are arrays of numbers, of rows that are equally long.") from None


def _coins(shape: tuple[int, ...]) -> Floats:
    """Return random numbers from 0 to 1 - 2^-32, drawn by the operating system."""
    random_bytes = os.urandom(math.prod(shape) * _COIN_BITS // 8)
    words = np.frombuffer(random_bytes, dtype=np.uint32)
    return words.reshape(shape) / 2.0**_COIN_BITS
