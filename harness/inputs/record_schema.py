"""Public facts about records, the same for everybody; only `Cap.choose` sees records."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from fairshares.harness.errors import OptionError, RecordDomainError, ThresholdGridError, named, refuse
from fairshares.harness.inputs.updates import MOST_UNITS, UpdateRule, units_for
from fairshares.harness.system.documents import DECLARATION, Refusal, as_type, read_json
from fairshares.protocols.accounting.calibration import PrivacyUnit
from fairshares.protocols.arrays import Integers
from fairshares.protocols.json_values import JsonFields, JsonValue
from fairshares.protocols.mechanisms.above_threshold import caps_up_to

DEFAULT_MAX_COUNT = 2**31
MAX_TOTAL = 2**62  # sums of counts stay below this, so that noise cannot wrap them around
DEFAULT_THRESHOLDS = 101  # 0.00, 0.01 ... 1.00
MAX_THRESHOLDS = 4096
DEFAULT_STEPS = 1000
MAX_STEPS = 10**5
MAX_CAP = 1000
MOST_REVEALS = 100_000  # reveals of a task of vectors
WEIGHT_ONE: Final = "weight-one"
# The most names in messages, and the most characters of each.
_NAMES_SHOWN = 5
_SHOWN = 40
AUTO = "auto"  # π_CAP chooses the bound
WEIGHT_SLOTS = 60  # a multiple of 1 to 6, 10, 12, 15, 20 and 30, so that as many records share it exactly


Grid = tuple[float, ...]  # thresholds, from 0 up


def shown(name: str) -> str:
    """Quote a name that a list could split."""
    return repr(name) if "," in name or name != name.strip() else name


class RecordKind(StrEnum):
    """The content of records besides group and label; also its column."""

    NONE = ""
    SCORE = "score"
    PREDICTION = "prediction"
    VALUE = "value"  # a model's performance; such records have no label
    SIZE = "size"  # only how many records a client has
    VECTOR = "vector"  # a vector of a client, in place of records

    @property
    def of_each(self) -> bool:
        """Whether each record has such a value."""
        return self not in (RecordKind.NONE, RecordKind.SIZE, RecordKind.VECTOR)

    @property
    def described(self) -> str:
        """The kind in messages."""
        return {"": "neither score nor prediction", "size": "their number alone"}.get(self, str(self))


@dataclass(frozen=True)
class RecordDomain:
    """The public facts about records.

    Attributes:
        groups: At least two distinct names, sorted, or in the order that the records' categories have.
        labels: As `groups`, also of predictions; empty with performance values.
        inferred: Whether groups and labels were read off the records, which publishes them.
        thresholds: The grid of scores, from 0.
        values: The grid of performance values; a client has one.
        vectors: The vectors of clients; a client has one in each reveal, and no group and label.
        cap: The contribution bound, if clients are the privacy unit.
    """

    groups: tuple[str, ...]
    labels: tuple[str, ...]
    max_count: int = DEFAULT_MAX_COUNT
    inferred: bool = False
    kind: RecordKind = RecordKind.NONE
    thresholds: Grid = ()
    values: ValueGrid | None = None
    cap: Cap | None = None
    vectors: VectorGrid | None = None

    def __post_init__(self) -> None:
        refuse(
            RecordDomainError,
            (
                (self.kind is RecordKind.VALUE) != (self.values is not None),
                f"Performance values and their range go together; declare it with {named('range')}, "
                "for example 0,1.",
            ),
            (
                self.values and (self.labels or self.max_count != 1),
                "A client has one performance value, without a label.",
            ),
            (
                self.values and self.cap not in (None, Cap(1)),
                "A client has one performance value: its cap is 1.",
            ),
            (
                (self.kind is RecordKind.VECTOR) != (self.vectors is not None),
                "Vectors are declared by their length, clipping norm and reveals, and are released as sums "
                "alone.",
            ),
            (
                self.vectors and (self.groups or self.labels or self.cap or self.max_count != 1),
                "A client has one vector, without group, label and cap.",
            ),
            (
                not 1 <= self.max_count < MAX_TOTAL,
                f"The maximum count must be 1 to 2^62 - 1, not {self.max_count}.",
            ),
            (
                (self.kind is RecordKind.SCORE) != bool(self.thresholds),
                "Scores and thresholds go together: a domain has both or neither.",
            ),
            (
                self.score_columns > 1 and self.cap,
                f"Of {len(self.labels)} labels a record has as many scores, and a cap takes one: protect "
                "records, and leave out the cap.",
            ),
            (
                self.kind is RecordKind.SIZE and self.cap,
                "The domain has a cap: there is no cap to choose; leave the cap out.",
            ),
        )
        lists: dict[str, tuple[str, ...]] = {}
        if not self.vectors:
            lists["group"] = self.groups
        if not self.vectors and not self.values:
            lists["label"] = self.labels
        for what, values in lists.items():
            counted = what if len(values) == 1 else f"{what}s"
            refuse(
                RecordDomainError,
                (
                    len(values) < 2,
                    f"The domain has {len(values)} {counted} {_some(values)}; "
                    "fairness between groups needs at least two. "
                    f"Declare all with {named(f'{what}s', 'a,b')}.",
                ),
                (
                    len(set(values)) != len(values) or "" in values,
                    f"The domain's {what}s {_some(values)} must be distinct and not empty.",
                ),
            )

    @property
    def shape(self) -> tuple[int, ...]:
        """The numbers of groups, labels and, if any, score bins or predictions; of vectors, their length.

        With several scores each (score, group) is a group, with the score's label and any other.
        """
        if self.vectors:
            return (self.vectors.coordinates,)
        if self.values:
            return len(self.groups), 2  # sums of distances from the lower and the upper end of the range
        pairs = len(self.groups), len(self.labels)
        if not self.kind.of_each:
            return pairs
        if self.score_columns > 1:
            pairs = self.score_columns * len(self.groups), 2
        return *pairs, len(self.thresholds if self.kind is RecordKind.SCORE else self.labels)

    @property
    def cells(self) -> int:
        """Number of cells; a record is in one, or in one per score."""
        return math.prod(self.shape)

    @property
    def score_columns(self) -> int:
        """Number of a record's scores: one per label if there are more than two."""
        return len(self.labels) if self.kind is RecordKind.SCORE and len(self.labels) > 2 else 1

    @property
    def max_contribution(self) -> int:
        """The most that a client adds to a cell, or takes from a coordinate of a sum."""
        if self.vectors:
            return self.vectors.rule.largest
        if self.values:
            return 2 * self.values.steps
        return self.cap.slots if self.cap else self.max_count

    @property
    def reveals(self) -> int:
        """The number of sums of vectors that may be revealed together; 0 for records."""
        return self.vectors.reveals if self.vectors else 0

    @property
    def in_all_reveals(self) -> RecordDomain:
        """The domain of vectors for all reveals, or of records, which have none."""
        if self.vectors is None:
            return self
        return replace(self, vectors=replace(self.vectors, reveal=0))

    def of_reveal(self, number: int) -> RecordDomain:
        """Return the domain of vectors for one reveal, which has a number from 1 on.

        Raises RecordDomainError if no such reveal is declared.
        """
        if self.vectors is None:
            raise RecordDomainError("Only sums of vectors have reveals, and these are records.")
        if number < 1:
            raise RecordDomainError(f"Reveals are numbered from 1, and {number} is none of them.")
        return replace(self, vectors=replace(self.vectors, reveal=number))

    def positive(self, label: str | None) -> int:
        """Return the positive label's index, by default the last; raise RecordDomainError if undeclared."""
        if label and label not in self.labels:
            raise RecordDomainError(
                f"The positive label {label!r} is not declared "
                f"(declared: {', '.join(map(shown, self.labels))})."
            )
        return self.labels.index(label or self.labels[-1])

    def with_kind(self, kind: RecordKind, grid: Grid = ()) -> RecordDomain:
        """Return the domain for a kind, by default with 101 thresholds, or raise RecordDomainError."""
        if grid and self.thresholds not in ((), grid):
            raise RecordDomainError(f"The domain has thresholds of its own; leave out {named('thresholds')}.")
        chosen: Grid = ()
        if kind is RecordKind.SCORE:
            chosen = self.thresholds or grid or even_grid()
        return replace(self, kind=kind, thresholds=chosen)

    def to_json(self) -> JsonFields:
        """Return the fields that `domain_from_json` reads."""
        fields: dict[str, JsonValue] = {
            "groups": list(self.groups),
            "labels": list(self.labels),
            "max_count": self.max_count,
            "thresholds": grid_to_json(self.thresholds) if self.thresholds else None,
            "values": self.values.to_json() if self.values else None,
            "vectors": self.vectors.to_json() if self.vectors else None,
            "predictions": self.kind is RecordKind.PREDICTION or None,
            "sizes": self.kind is RecordKind.SIZE or None,
            "cap": self.cap.to_json() if self.cap else None,
        }
        return JsonFields({name: value for name, value in fields.items() if value is not None})


@dataclass(frozen=True)
class _Declared:
    groups: list[str]
    labels: list[str]
    max_count: int = DEFAULT_MAX_COUNT
    thresholds: int | list[float] | None = None
    predictions: bool = False
    sizes: bool = False
    values: ValueGrid | None = None
    vectors: VectorGrid | None = None
    cap: int | str | None = None


def _some(names: Sequence[str]) -> str:
    """Show the first of a list of names, shortened, as a file may have millions."""
    first = ", ".join(repr(name[:_SHOWN]) for name in names[:_NAMES_SHOWN])
    if len(names) > _NAMES_SHOWN:
        return f"[{first}, …]"
    return f"[{first}]"


def read_domain(path: Path) -> RecordDomain:
    """Read a declared domain from JSON (docs/reference/files.md), or raise RecordDomainError.

    Values are rounded at random unless it says otherwise.
    """
    fields = read_json(path, _refusal(str(path)), limits=DECLARATION)
    domain = domain_from_json(fields, str(path))
    if domain.values is None:
        return domain
    assert isinstance(fields, dict) and isinstance(fields["values"], dict), "it was read"
    if "rounding" in fields["values"]:
        return domain
    return replace(domain, values=replace(domain.values, rounding=Rounding.RANDOM))


def domain_from_json(fields: JsonValue, where: str) -> RecordDomain:
    """Return a parsed domain, or raise RecordDomainError that begins with `where`."""
    refusal = _refusal(where)
    if isinstance(fields, dict) and "values" in fields:
        fields = {"labels": [], "max_count": 1, **fields}
    if isinstance(fields, dict) and "vectors" in fields:
        fields = {"groups": [], "labels": [], "max_count": 1, **fields}
    declared = as_type(_Declared, fields, refusal)
    assert isinstance(fields, dict), "no other value becomes a dataclass"
    if None in fields.values():
        refusal.say("null says nothing, leave that key out")
    grid = () if declared.thresholds is None else grid_from_json(declared.thresholds)
    declared_kinds = {
        RecordKind.SCORE: grid,
        RecordKind.PREDICTION: declared.predictions,
        RecordKind.VALUE: declared.values,
        RecordKind.SIZE: declared.sizes,
        RecordKind.VECTOR: declared.vectors,
    }
    kinds = [kind for kind, is_declared in declared_kinds.items() if is_declared]
    if len(kinds) > 1:
        refusal.say("it may have thresholds, predictions, values, sizes or vectors, and only one of them")
    kind = kinds[0] if kinds else RecordKind.NONE
    return RecordDomain(
        tuple(sorted(declared.groups)),
        tuple(sorted(declared.labels)),
        declared.max_count,
        kind=kind,
        thresholds=grid,
        values=declared.values,
        vectors=declared.vectors,
        cap=None if declared.cap is None else cap_from_json(declared.cap, where),
    )


def _refusal(where: str) -> Refusal:
    return Refusal(
        RecordDomainError,
        where,
        "a domain",
        'it is written like {"groups": ["a", "b"], "labels": ["0", "1"], "max_count": 100}',
    )


def check_grid(thresholds: npt.ArrayLike) -> None:
    """Raise ThresholdGridError for a grid that is empty, does not increase, or leaves [0, 1]."""
    grid = np.asarray(thresholds, dtype=float)
    if grid.ndim != 1 or not len(grid) or not ((grid >= 0) & (grid <= 1)).all():
        raise ThresholdGridError("The threshold grid must be a list of numbers from 0 to 1, at least one.")
    stuck = np.flatnonzero(np.diff(grid) <= 0)
    if len(stuck):
        first = grid[stuck[0]]
        second = grid[stuck[0] + 1]
        raise ThresholdGridError(
            f"The threshold grid must increase, but {first:g} is followed by {second:g}: "
            "sort the thresholds and leave out repeated ones."
        )


@lru_cache(maxsize=8)
def even_grid(count: int = DEFAULT_THRESHOLDS) -> Grid:
    """Return 2 to 4096 even thresholds from 0 to 1, or raise ThresholdGridError."""
    if not 2 <= count <= MAX_THRESHOLDS:
        raise ThresholdGridError(f"A grid has 2 to {MAX_THRESHOLDS} thresholds, not {count}.")
    return tuple(j / (count - 1) for j in range(count))


def as_grid(thresholds: Sequence[float]) -> Grid:
    """Check thresholds, and prepend 0 if missing; raise ThresholdGridError for invalid ones.

    Counts at threshold 0 are the totals.
    """
    check_grid(thresholds)
    grid = tuple(map(float, thresholds))
    grid = grid if grid[0] == 0 else (0.0, *grid)
    if not 2 <= len(grid) <= MAX_THRESHOLDS:
        raise ThresholdGridError(
            f"A grid has 1 to {MAX_THRESHOLDS - 1} thresholds above 0, not {len(grid) - 1}."
        )
    return grid


def grid_from_json(declared: int | Sequence[float]) -> Grid:
    """Return the grid of a list, or of a number of even thresholds."""
    return even_grid(declared) if isinstance(declared, int) else as_grid(declared)


def grid_to_json(grid: Grid) -> int | list[float]:
    """Return what `grid_from_json` reads."""
    return len(grid) if grid == even_grid(len(grid)) else list(grid)


def bins_of(scores: npt.NDArray[np.float64], grid: Grid) -> npt.NDArray[np.int64]:
    """Return each score's bin, the last threshold that it reaches."""
    return np.searchsorted(np.asarray(grid), scores, side="right") - 1


class Rounding(StrEnum):
    """How clients round a performance value to a step."""

    NEAREST = "nearest"  # the rounding of version 1.0
    RANDOM = "random"  # up or down, so that the mean is the value itself


@dataclass(frozen=True)
class ValueGrid:
    """A declared range of performance values, with `steps` steps on each side of its center.

    Files of version 1.0 name no rounding, and their clients round to the nearest step.
    """

    low: float
    high: float
    steps: int = DEFAULT_STEPS
    rounding: Rounding = Rounding.NEAREST

    def __post_init__(self) -> None:
        refuse(
            RecordDomainError,
            (
                not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high),
                "A range of values has two finite ends, the lower first, not "
                f"{self.low:g} and {self.high:g}.",
            ),
            (
                not 1 <= self.steps <= MAX_STEPS,
                f"Values have 1 to {MAX_STEPS} steps on each side, not {self.steps}.",
            ),
        )
        if self.radius / self.steps < sys.float_info.min:
            raise RecordDomainError(
                f"The range from {self.low:g} to {self.high:g} is too narrow for {self.steps} steps on each "
                "side of its center, as these are below all normal numbers; give values in a larger unit."
            )

    @property
    def center(self) -> float:
        """The middle of the range, step 0."""
        return self.low / 2 + self.high / 2

    @property
    def radius(self) -> float:
        """Half of the range's width."""
        return self.high / 2 - self.low / 2

    def nearest(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
        """Return the nearest steps, -steps to steps."""
        return np.rint(self._exact(values)).astype(np.int64)

    def rounded(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
        """Return values in steps, -steps to steps, rounded as the grid says.

        Random rounding goes up or down, so that the mean is the value itself, up to 2^-53 of a step. Whatever
        the coins are, a value stays in the range, so no client moves a sum further.
        [test: tests/harness/inputs/test_rounding.py]
        """
        if self.rounding is Rounding.NEAREST:
            return self.nearest(values)
        exact = self._exact(values)
        below = np.floor(exact)
        words = np.frombuffer(os.urandom(8 * exact.size), dtype=np.uint64).reshape(exact.shape)
        coins = (words >> np.uint64(11)) / 2.0**53  # coins from 0 to 1 - 2^-53
        return below.astype(np.int64) + (coins < exact - below)

    def to_json(self) -> JsonFields:
        """Return the fields that domains have."""
        fields: dict[str, JsonValue] = {"low": self.low, "high": self.high, "steps": self.steps}
        if self.rounding is not Rounding.NEAREST:
            fields["rounding"] = str(self.rounding)
        return JsonFields(fields)

    def _exact(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return values in steps, cut to the range."""
        return np.clip((values - self.center) / self.radius, -1.0, 1.0) * self.steps


@dataclass(frozen=True)
class VectorGrid:
    """A declaration of clients' vectors: what privacy depends on, which all clients see before they send.

    Attributes:
        coordinates: The length of a vector.
        clip: The largest norm before weighing, above 0.
        reveals: How many sums may be revealed together.
        largest_weight: A bound on weights.
        units: Steps of the grid per clipping norm; 0 for those at which rounding adds at most 4 % to a norm,
            if there is noise for so many.
        reveal: The number of the reveal that a vector is for, from 1 on; 0 for all of them.
        participations: The most reveals in which a client may take part; 0 for all. Its own program keeps to
            that.
    """

    coordinates: int
    clip: float
    reveals: int
    largest_weight: float = 1.0
    units: int = 0
    reveal: int = 0
    participations: int = 0

    def __post_init__(self) -> None:
        refuse(
            RecordDomainError,
            (
                not 1 <= self.reveals <= MOST_REVEALS,
                f"A task of vectors has 1 to {MOST_REVEALS} reveals, not {self.reveals}.",
            ),
            (
                not 0 <= self.reveal <= self.reveals,
                f"The task declares {self.reveals} reveals, and {self.reveal} is none of them: once all are "
                "used, make another task, which is charged by itself.",
            ),
            (
                not 0 <= self.participations <= self.reveals,
                f"A client takes part in 1 to {self.reveals} of {self.reveals} reveals, not "
                f"{self.participations}.",
            ),
            (
                not 0 <= self.units <= MOST_UNITS,
                f"The grid of vectors has 1 to {MOST_UNITS} units per clipping norm, not {self.units}.",
            ),
        )
        try:
            self._rule(1)
        except OptionError as error:
            raise RecordDomainError(str(error)) from None

    @property
    def most_of_a_client(self) -> int:
        """The most reveals of a client, for whose sums together noise is made."""
        return self.participations or self.reveals

    @property
    def rule(self) -> UpdateRule:
        """How a vector becomes integers, and how far a client moves a sum."""
        return self._rule(self.units or units_for(self.coordinates, self.largest_weight))

    def _rule(self, units: int) -> UpdateRule:
        return UpdateRule(
            self.coordinates,
            self.clip,
            self.largest_weight,
            units=units,
            unit=PrivacyUnit.CLIENT,
            rows=PrivacyUnit.CLIENT,
        )

    def to_json(self) -> JsonFields:
        """Return the fields that domains have."""
        fields: dict[str, JsonValue] = {
            "coordinates": self.coordinates,
            "clip": self.clip,
            "reveals": self.reveals,
            "largest_weight": self.largest_weight,
            "units": self.rule.units,
        }
        if self.participations:
            fields["participations"] = self.participations
        if self.reveal:
            fields["reveal"] = self.reveal
        return JsonFields(fields)


@dataclass(frozen=True)
class Cap:
    """The public contribution bound, the same for all clients.

    Attributes:
        slots: The most records that a client contributes.
        weight_one: Whether a client's records share all slots, so that it weighs 1.
    """

    slots: int
    weight_one: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.slots <= MAX_CAP:
            raise RecordDomainError(f"A cap is 1 to {MAX_CAP} records of a client, not {self.slots}.")

    @property
    def scale(self) -> int:
        """Number of slots that make 1 in a count."""
        return self.slots if self.weight_one else 1

    @property
    def described(self) -> str:
        """The bound as manifests state it."""
        if self.weight_one:
            return f"each client's records weigh 1 together, in steps of 1/{self.slots}"
        if self.slots == 1:
            return "cap: one record of a client is counted at most"
        return f"cap: {self.slots} records of a client are counted at most"

    @property
    def name(self) -> str:
        """The bound as users type it."""
        return str(self.to_json())

    def to_json(self) -> int | Literal["weight-one"]:
        """Return what `cap_from_json` reads."""
        return WEIGHT_ONE if self.weight_one else self.slots

    def choose(self, client: Integers, cell: Integers, clients: int) -> Integers:
        """Return the cell in each slot, or -1, shape (slots, clients).

        Computes: for a plain bound, a client's records, or a uniform choice of them if they exceed the slots.
        For weight one, slot j holds record floor((j n + u) / slots) of n records by cell, u uniform below n.
        A record has slots / n of them on average, and a cell's share is off by less than one slot.
        Guarantees: no client fills more than its slots.
        [test: tests/harness/inputs/test_contribution_bounds.py]
        """
        drawn = np.frombuffer(os.urandom(8 * len(client)), dtype=np.uint64)
        order = np.lexsort((cell if self.weight_one else drawn, client))
        counts = np.bincount(client, minlength=clients)
        first = np.cumsum(counts) - counts
        slot = np.arange(self.slots)[:, np.newaxis]
        if self.weight_one:
            start = np.frombuffer(os.urandom(8 * clients), dtype=np.uint64)  # uniform but for n / 2^64
            start = (start % np.maximum(counts, 1).astype(np.uint64)).astype(np.int64)
            place = (slot * counts + start) // self.slots
            filled = np.broadcast_to(counts > 0, (self.slots, clients))
        else:
            place = np.broadcast_to(slot, (self.slots, clients))
            filled = slot < counts
        chosen: Integers = np.full((self.slots, clients), -1, dtype=np.int64)
        chosen[filled] = cell[order][(first + place)[filled]]
        return chosen


def scale_of(cap: Cap | None) -> int:
    """Return `Cap.scale`; 1 without a bound."""
    return cap.scale if cap else 1


def most_of_own_records(max_count: int) -> int:
    """Return the most records of a client where each record is a client's own: 1 if none is declared."""
    return 1 if max_count == DEFAULT_MAX_COUNT else max_count


def caps_to_choose_from(max_count: int) -> tuple[int, ...]:
    """Return the public candidate bounds; the last fits any records."""
    return caps_up_to(min(max_count, MAX_CAP))


def cap_from_json(declared: JsonValue, where: str) -> Cap:
    """Return a parsed contribution bound, or raise RecordDomainError."""
    if declared == WEIGHT_ONE:
        return Cap(WEIGHT_SLOTS, weight_one=True)
    if type(declared) is not int:
        raise RecordDomainError(f"cap in {where} must be a whole number, or {WEIGHT_ONE!r}.")
    return Cap(declared)
