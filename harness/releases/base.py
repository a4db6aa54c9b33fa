"""What a statistic is: the one class that a new one implements, what it prepares for a run, and its errors.

Errors to expect follow from the noise's exact variance, for records of declared shares, to first order in
noise over counts: where that says a tenth or more, there is too much noise to say more than that. Nothing
here sees a record.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from math import prod
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np

from harness.errors import OptionError, UnsupportedError, named
from harness.inputs.record_schema import RecordDomain, RecordKind, cap_from_json, scale_of
from harness.postprocessing.curves import CurveNoise
from harness.postprocessing.reweighing.formulas import BALANCED, KAMIRAN_CALDERS, LABEL
from harness.request.base import Request
from protocols.accounting.calibration import (
    LinearQueries,
    NeighboringRelation,
    Neighbors,
    NoisePlan,
    plan_distributed_noise,
    plan_noise,
)
from protocols.accounting.rounding import exact_text
from protocols.arrays import Floats
from protocols.guarantee import Guarantee
from protocols.mechanisms.shifted_log import ErrorTarget, ShiftedLog
from protocols.noise.added import Noise, NoiseDistribution, mean_square_error
from protocols.spec import ProtocolSpec

FIRST_ORDER = 0.1  # errors above it are only known to be large
_DRAWS = 20_000  # of the groups' errors, for the gap that they make
_SEED = 20_220_524  # any; fixed, so that a plan can be repeated
OF_CLIENTS = (NeighboringRelation.ZERO_OUT_ONE,)

R = TypeVar("R", covariant=True)

Opened = Mapping[str, tuple[int, ...]]
"""The integers that the parties opened, by the name of their `OUT` line."""

Files = Mapping[str, dict[str, Any]]
"""A run's result files by name, as JSON, the manifest among them."""

Declared = tuple[ProtocolSpec, dict[str, int | str]]
"""A protocol, and those arguments of its program that its linear map depends on."""


def only(opened: Opened) -> tuple[int, ...]:
    """Return the integers of the one line that was opened, whichever program opened it."""
    (values,) = opened.values()
    return values


@dataclass(frozen=True)
class ExpectedError:
    """The errors to expect, as root mean squares over the noise.

    Attributes: count: of an opened count, in records; of score curves, of the records at or above a
    threshold; of performance values, of a group's size in clients; what: what `each` is an error of; each: by
    group, and label where it has one; gap: mean difference between groups that are alike, None for weights.
    """

    count: float
    what: str
    each: Mapping[str, float]
    gap: float | None = None

    @property
    def worst(self) -> float:
        """The largest of these errors."""
        return max(self.each.values())

    @property
    def known(self) -> bool:
        """Whether the noise is small enough for these figures to mean what they say."""
        return self.worst <= FIRST_ORDER

    def records_for(self, records: int, error: float) -> int:
        """Return how many records it takes for the worst error to be this: it falls as records rise."""
        return math.ceil(records * self.worst / error)


@dataclass(frozen=True)
class ExpectedCap:
    """What is known of a cap before it is chosen.

    Attributes: caps: to choose from; above: how many clients may exceed it at most; noise: by how many
    clients noise moves a comparison at most, with probability `contribution_cap.CONFIDENCE`.
    """

    caps: tuple[int, ...]
    above: int
    noise: int


@dataclass(frozen=True)
class ExpectedCount:
    """What to expect of one count. Attributes: error: relative to it, E|estimate - records| / records."""

    records: float
    error: float
    guarantee: Guarantee


@dataclass(frozen=True)
class ExpectedCounts:
    """What to expect of counts with a relative error: each by group and label."""

    each: Mapping[str, ExpectedCount]
    distribution: ShiftedLog
    target: ErrorTarget


def deviation(noise: Noise, domain: RecordDomain) -> float:
    """Return the root mean square of one value's noise, in records, or in clients that weigh 1 in all."""
    return math.sqrt(mean_square_error(noise)) / scale_of(domain.cap)


def by_cell(domain: RecordDomain, values: Floats) -> dict[str, float]:
    """Return the values by the names of their cells. Args: values: shape (groups, labels)."""
    names = [", ".join(pair) for pair in product(domain.groups, domain.labels)]
    return dict(zip(names, values.ravel().tolist(), strict=True))


def weight_errors(counts: Floats, reweighing: str) -> Floats:
    """Return the relative errors of weights, for noise of variance 1 in each count.

    Computes: the logarithms of a weight's counts, differentiated by all counts: balanced N / C(s, y), label
    N / C(y), Kamiran-Calders C(s) C(y) / (N C(s, y)).
    Args: counts: shape (k, m). Returns: of the same shape.
    [test: tests/harness/releases/test_expected_errors.py]
    """
    groups, labels = counts.shape
    everything = np.ones((groups, labels) * 2) / counts.sum()
    same_group = np.eye(groups)[:, np.newaxis, :, np.newaxis] + np.zeros((1, labels, 1, labels))
    same_label = np.eye(labels)[np.newaxis, :, np.newaxis, :] + np.zeros((groups, 1, groups, 1))
    same_cell = same_group * same_label / counts[:, :, np.newaxis, np.newaxis]
    of_group = same_group / counts.sum(axis=1)[:, np.newaxis, np.newaxis, np.newaxis]
    of_label = same_label / counts.sum(axis=0)[np.newaxis, :, np.newaxis, np.newaxis]
    changes = {
        BALANCED: everything - same_cell,
        LABEL: everything - of_label,
        KAMIRAN_CALDERS: of_group + of_label - everything - same_cell,
    }
    return np.asarray(np.sqrt((changes[reweighing] ** 2).sum(axis=(2, 3))))


def rate_errors(sizes: Floats, labels: int) -> Floats:
    """Return the errors of the rates of predictions, for noise of variance 1 in each count.

    Computes: a rate p is a count over its row's sum; all predictions are as frequent.
    Args: sizes: records of each group and label, shape (k, m). Returns: of the same shape.
    """
    p = 1 / labels
    return np.asarray(math.sqrt((1 - p) ** 2 + (labels - 1) * p**2) / sizes)


def curve_errors(noise: CurveNoise, sizes: Floats) -> Floats:
    """Return the errors of true and false positive rates, over all thresholds.

    Computes: a rate p is a count over the total, both linear in the nodes' noise; p falls evenly along the
    thresholds. Making curves monotone afterwards only brings them nearer.
    Args: sizes: records of each group and label, shape (k, 2). Returns: of the same shape.
    [test: tests/harness/releases/test_expected_errors.py]
    """
    above, total = noise.linear[:-1], noise.linear[-1:]
    rates = 1 - np.arange(len(above)) / len(above)
    rows = above - rates[:, np.newaxis] * total
    spread = math.sqrt(float(mean_square_error(noise.node)) * float((rows**2).sum(axis=1).mean()))
    return np.asarray(spread / sizes)


def mean_errors(sizes: Floats, steps: int) -> Floats:
    """Return the errors of groups' mean values, as shares of the range, for noise of variance 1.

    Computes: a mean is a sum over `steps` times a size; it is furthest off at an end of the range.
    Args: sizes: in clients, of any shape, which is the errors'; steps: on either side of the range's centre.
    """
    return np.asarray(math.sqrt(2) / (2 * steps * sizes))


def expected_gap(errors: Floats) -> float:
    """Return the mean largest difference between two groups that are alike, in the worse of their rates.

    Computes: Gaussian errors that are independent, by simulation with a fixed seed.
    Args: errors: shape (k, rates).  [test: tests/harness/releases/test_expected_errors.py]
    """
    drawn = np.random.default_rng(_SEED).standard_normal((_DRAWS, *errors.shape)) * errors
    return float(np.ptp(drawn, axis=1).max(axis=-1).mean())


@dataclass(frozen=True)
class PreparedRelease(Generic[R]):
    """A release of one domain, worked out once per run.

    Attributes: arguments: of the program, by name, that follow from the domain; plan: its noise; read: turns
    what was opened of so many clients into the result, and raises OutputError, without a value, where it
    cannot be what this protocol opens.
    """

    spec: ProtocolSpec
    release: Request
    domain: RecordDomain
    arguments: Mapping[str, object]
    plan: NoisePlan
    read: Callable[[Opened, int], R]

    @property
    def program(self) -> ProtocolSpec:
        """The protocol as it runs with the release's noise."""
        return self.release.program_of(self.spec)


@dataclass(frozen=True)
class AuditTarget:
    """What a command opens, for an audit, which takes its guarantee from the program's linear map again.

    Attributes: sizes: the options that say how large, with their defaults; cells: how many cells records
    fall into then; declared: from sizes, neighbours, epsilon and delta to the protocol and its arguments,
    of distributed noise from its distribution, too; relations: those under which a command makes it;
    malleable_slots: as for `Neighbors`.
    """

    sizes: Mapping[str, int]
    cells: Callable[[Mapping[str, int]], int]
    declared: Callable[[Mapping[str, int], Neighbors, Fraction, Fraction, NoiseDistribution | None], Declared]
    relations: tuple[NeighboringRelation, ...] = tuple(NeighboringRelation)
    malleable_slots: bool = False

    @property
    def counts_records(self) -> bool:
        """Whether what it opens of a client is counts of records, which a cap bounds."""
        return bool(self.sizes) and "steps" not in self.sizes

    @property
    def by_clients(self) -> "AuditTarget":
        """The same where clients are the unit."""
        return replace(self, relations=OF_CLIENTS)

    @property
    def in_active_models(self) -> "AuditTarget":
        """The same of clients whose slots a party can change."""
        return replace(self, relations=OF_CLIENTS, malleable_slots=True)


def table_of(spec: ProtocolSpec) -> AuditTarget:
    """Return what is audited of a protocol that opens a count per group and label."""
    sizes = {"groups": 2, "labels": 2}
    return AuditTarget(sizes, lambda chosen: prod(chosen.values()), lambda chosen, *_: (spec, {**chosen}))


class Statistic(ABC, Generic[R]):
    """What can be released: a protocol, its size for a domain, and what follows from what it opens.

    Attributes: name: of its request, as manifests say it; kind: what a record has to hold besides its group
    and label; audited: what `./inv audit --release` checks, by the names that it knows.
    """

    name: ClassVar[str]
    kind: ClassVar[RecordKind] = RecordKind.NONE
    audited: ClassVar[Mapping[str, AuditTarget]]
    spec: ProtocolSpec

    @classmethod
    def of(cls, request: Any) -> Self:
        """Return the statistic that a request is of. Raises: OptionError: its fields do not go together."""
        return cls(spec=request.spec)  # type: ignore[call-arg]

    @abstractmethod
    def prepare(self, release: Request, domain: RecordDomain) -> PreparedRelease[R]:
        """Work out the program's arguments, the noise, and how to read what is opened.

        Raises: RecordDomainError: the protocol is not for such records; OptionError: no noise fits.
        """

    @abstractmethod
    def expected_error(
        self, prepared: PreparedRelease[Any], sizes: Floats
    ) -> ExpectedError | ExpectedCap | ExpectedCounts:
        """Return how far off what is released would be.

        Args: sizes: how many records each group and label would have, shape (groups, labels); of
        performance values, how many clients each group, shape (groups, 1).
        Raises: OptionError: the release is not for such sizes.
        """

    def files(self, found: Any) -> Mapping[str, Mapping[str, Any]]:
        """Return the result files by name, as JSON, without the fields that all files have."""
        return {f"{self.name}.json": found.to_json()}

    @classmethod
    def read_files(cls, files: Files) -> Any:
        """Return what a run found, from its files: weights and the like, to the last bit.

        Raises: what parsing raises, whatever the files hold instead.
        """
        raise NotImplementedError


def domain_of(fields: Mapping[str, Any], kind: RecordKind = RecordKind.NONE) -> RecordDomain:
    """Return the domain that a result file is of, but for the most records of a client."""
    cap = fields["privacy"].get("cap")
    stated_cap = None if cap is None else cap_from_json(cap, "manifest.json")
    return RecordDomain(tuple(fields["groups"]), tuple(fields["labels"]), kind=kind, cap=stated_cap)


def floats(values: Any) -> Floats:
    """Return an array, NaN where JSON has null."""
    return np.array(values, dtype=np.float64)


def rates_from_json(
    cells: Sequence[Mapping[str, Any]], shape: tuple[int, ...], names: Sequence[str]
) -> tuple[dict[str, Floats], dict[str, Floats]]:
    """Return the cells' estimates and intervals, by the rates' names. Args: shape: of the estimates."""
    estimates = {name: floats([cell[name]["estimate"] for cell in cells]).reshape(shape) for name in names}
    ends = {name: floats([cell[name]["interval"] for cell in cells]).reshape(*shape, 2) for name in names}
    return estimates, ends


def plan_release(
    spec: ProtocolSpec,
    arguments: Mapping[str, object],
    release: Request,
    domain: RecordDomain,
    epsilon: Fraction | None = None,
) -> NoisePlan:
    """Choose the noise from the linear map that the protocol declares.

    Args: epsilon: that noise is made for, where less than the release's will do.
    Raises: UnsupportedError: it declares none; OptionError: no noise fits the budget, or the protocol has no
    place for it.
    """
    release.program_of(spec)
    if spec.release is None:
        raise UnsupportedError(
            f"{spec.name} does not declare what a record changes in what it reveals, so no guarantee can be "
            "stated; add `release` to its ProtocolSpec."
        )
    with fitting(release.epsilon, release.delta):
        queries = spec.release({name: str(value) for name, value in arguments.items()})
        neighbors, epsilon = release.neighbors_in(domain), release.epsilon if epsilon is None else epsilon
        terms = (queries, neighbors, epsilon, release.delta)
        if release.own is None:
            plan = plan_noise(*terms)
        else:
            assert isinstance(queries, LinearQueries)  # as `program_of` found
            plan = plan_distributed_noise(*terms, *release.own)
        return replace(plan, requested_epsilon=release.epsilon)  # of which less may do


@contextmanager
def fitting(epsilon: Fraction, delta: Fraction) -> Iterator[None]:
    """Turn a ValueError, by which noise says that it fits no budget, into an OptionError."""
    try:
        yield
    except ValueError as error:
        raise OptionError(
            f"No noise fits {named('epsilon', exact_text(epsilon))} and "
            f"{named('delta', f'{float(delta):.3g}')}: "
            f"{error}."
        ) from None
