"""The interface of a statistic, and expected errors.

Expected errors follow from the noise's exact variance, to first order in noise over counts.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from itertools import product
from math import prod
from typing import ClassVar, Generic, Protocol, Self, TypeVar

import numpy as np

from fairshares.harness.errors import OptionError, UnsupportedError, named
from fairshares.harness.inputs.record_schema import RecordDomain, RecordKind, scale_of
from fairshares.harness.postprocessing.curves import CurveNoise
from fairshares.harness.releases.files import ResultFile
from fairshares.harness.request.readers import in_module
from fairshares.harness.request.request import Request
from fairshares.harness.security_models import SecurityModel
from fairshares.harness.stated_privacy import StatedPrivacy
from fairshares.protocols.accounting.calibration import (
    LinearQueries,
    NeighboringRelation,
    Neighbors,
    NoisePlan,
    plan_distributed_noise,
    plan_noise,
)
from fairshares.protocols.accounting.rounding import exact_text
from fairshares.protocols.arrays import Floats
from fairshares.protocols.guarantee import Guarantee
from fairshares.protocols.json_values import JsonValue
from fairshares.protocols.noise.added import LargeTableError, Noise, NoiseDistribution, mean_square_error
from fairshares.protocols.spec import ProtocolSpec

# Ratios of counts allow so many times as many clients above a contribution bound as counts do, because losses
# common to all cells cancel in ratios.
# Source: `./inv reproduce capping`, docs/decisions/others.md#0021-choosing-a-cap
RATIOS = 8
FIRST_ORDER = 0.1  # errors above it are only known to be large
_DRAWS = 20_000  # draws of simulated errors
_SEED = 20_220_524  # arbitrary; fixed so that plans are repeatable
OF_RECORDS = (NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_ONE)
OF_CLIENTS = (NeighboringRelation.ZERO_OUT_ONE,)


class Answer(Protocol):
    """The result of a statistic."""

    def files(self, privacy: StatedPrivacy) -> Sequence[ResultFile]:
        """Return the result files, which state this privacy."""


R = TypeVar("R", bound=Answer, covariant=True)

OpenedLines = Mapping[str, tuple[int, ...]]
"""The integers that the parties opened, by the name of their `OUT` line."""

Declared = tuple[ProtocolSpec, dict[str, int | str]]
"""A protocol, and those arguments of its program that its linear map depends on."""


class ExpectedResult(ABC):
    """The errors that a plan expects of a release.

    A release with expected errors of its own kind has a subclass in its folder, and `expected` in its view.
    """

    @property
    def worst(self) -> float | None:
        """The largest relative error, which more records or a larger ε make smaller.

        None if the release keeps to an error of its own, or has none.
        """
        return None

    @property
    def count_rmse(self) -> float | None:
        """The error of a count, by which kinds of noise are compared (RMS); None if no count has one."""
        return None

    @abstractmethod
    def to_json(self) -> dict[str, JsonValue]:
        """Return the field `errors` of a plan's JSON."""


@dataclass(frozen=True)
class ExpectedError(ExpectedResult):
    """Expected errors, as root mean squares over the noise.

    Attributes:
        count: The error of an opened count in records, of a curve at a threshold, or of a group's size in
            clients.
        what: The quantity that `each` has errors of.
        each: The errors of this quantity by group, or by group and label.
        gap: The mean difference between equal groups; None for weights.
        counted: The words after "count" that say what is counted.
    """

    count: float
    what: str
    each: Mapping[str, float]
    gap: float | None = None
    counted: str = "of a group and label"

    @property
    def worst(self) -> float:
        """The largest error."""
        return max(self.each.values())

    @property
    def count_rmse(self) -> float:
        """The error of a count."""
        return self.count

    @property
    def known(self) -> bool:
        """Whether the noise is small enough for these figures."""
        return self.worst <= FIRST_ORDER

    def to_json(self) -> dict[str, JsonValue]:
        return {
            "count_rmse": self.count,
            "of": self.what,
            "rmse": dict(self.each),
            "gap": self.gap,
            "known": self.known,
        }


@dataclass(frozen=True)
class BoundedRelease:
    """A release that a contribution bound is to be chosen for.

    Attributes:
        domain: The groups and labels.
        spends: The guarantee that the release will have.
        neighbors: The neighbors that its noise will be for.
        thresholds: The number of thresholds, if records have scores.
    """

    domain: RecordDomain
    spends: Guarantee
    neighbors: Neighbors
    thresholds: int

    @property
    def epsilon_of_a_record(self) -> Fraction:
        """The ε of a single record of a client: half, if another record may replace it."""
        if self.neighbors.malleable_slots:
            return self.spends.epsilon / 2
        return self.spends.epsilon

    @property
    def cells(self) -> int:
        """The number of groups times the number of labels."""
        return len(self.domain.groups) * len(self.domain.labels)


def deviation(noise: Noise, domain: RecordDomain) -> float:
    """Return a value's noise (RMS), in records, or in clients that weigh 1."""
    return math.sqrt(mean_square_error(noise)) / scale_of(domain.cap)


def by_cell(domain: RecordDomain, values: Floats) -> dict[str, float]:
    """Return values of shape (groups, labels) by cell."""
    names = map(", ".join, product(domain.groups, domain.labels))
    return dict(zip(names, values.ravel().tolist(), strict=True))


def rate_errors(sizes: Floats, labels: int) -> Floats:
    """Return errors of rates of 1 / labels, shape (k, m), for a variance of 1 in each count."""
    p = 1 / labels
    return np.asarray(math.sqrt((1 - p) ** 2 + (labels - 1) * p**2) / sizes)


def curve_errors(noise: CurveNoise, sizes: Floats) -> Floats:
    """Return the errors of true and false positive rates over all thresholds, shape (k, 2).

    Rates are taken to fall evenly along the thresholds.
    [test: tests/harness/releases/test_expected_errors.py]
    """
    above = noise.linear[:-1]
    total = noise.linear[-1:]
    rates = 1 - np.arange(len(above)) / len(above)
    rows = above - rates[:, np.newaxis] * total
    spread = math.sqrt(float(mean_square_error(noise.node)) * float((rows**2).sum(axis=1).mean()))
    return np.asarray(spread / sizes)


def mean_errors(sizes: Floats, steps: int) -> Floats:
    """Return errors of means at the range's ends, as shares of it, for a variance of 1."""
    return np.asarray(math.sqrt(2) / (2 * steps * sizes))


def expected_gap(errors: Floats) -> float:
    """Return the mean largest difference between two equal groups, in the worse of their rates.

    Computes: simulates independent Gaussian errors, shape (k, rates).
    [test: tests/harness/releases/test_expected_errors.py]
    """
    drawn = np.random.default_rng(_SEED).standard_normal((_DRAWS, *errors.shape)) * errors
    return float(np.ptp(drawn, axis=1).max(axis=-1).mean())


@dataclass(frozen=True)
class PreparedRelease(Generic[R]):
    """A release of one domain, prepared once per run.

    Attributes:
        statistic: The statistic that is released.
        release: The release that was asked for.
        domain: The groups, labels and grid of the records.
        arguments: The program's arguments, by name.
        plan: The noise, and the privacy that it gives.
    """

    statistic: "Statistic[R]"
    release: Request
    domain: RecordDomain
    arguments: Mapping[str, object]
    plan: NoisePlan

    def read(self, opened: OpenedLines, clients: int) -> R:
        """Return the result that these opened integers of so many clients stand for.

        See `Statistic.read_opened`.
        """
        return self.statistic.read_opened(self, opened, clients)

    @property
    def spec(self) -> ProtocolSpec:
        """The statistic's protocol."""
        return self.statistic.spec

    @property
    def program(self) -> ProtocolSpec:
        """The protocol as it runs with the release's noise."""
        return self.release.program_of(self.spec)


@dataclass(frozen=True, kw_only=True)
class AuditTarget(ABC):
    """A command's release, whose guarantee an audit derives anew from the program's linear map.

    Attributes:
        spec: The protocol of the release.
        sizes: The default sizes, by name.
        relations: The neighboring relations under which it is released.
        counts_records: Whether it counts a client's records.
        malleable_slots: Whether a party can change clients' slots.
    """

    spec: ProtocolSpec
    sizes: Mapping[str, int]
    relations: tuple[NeighboringRelation, ...] = tuple(NeighboringRelation)
    counts_records: bool = True
    malleable_slots: bool = False

    @abstractmethod
    def cells(self, sizes: Mapping[str, int]) -> int:
        """Return the number of records' cells, of these sizes."""

    def arguments(self, sizes: Mapping[str, int]) -> dict[str, int | str]:
        """Return the program's arguments on which its linear map depends, of these sizes."""
        return {**sizes}

    def declared(
        self,
        sizes: Mapping[str, int],
        neighbors: Neighbors,  # noqa: ARG002
        epsilon: Fraction,  # noqa: ARG002
        delta: Fraction,  # noqa: ARG002
        distribution: NoiseDistribution | None,  # noqa: ARG002
    ) -> Declared:
        """Return the protocol and its arguments, which may depend on the noise, too.

        Args:
            sizes: The sizes, by name.
            neighbors: The neighbors that the noise is for.
            epsilon: The release's ε.
            delta: The release's δ.
            distribution: The distribution of distributed noise; None for joint noise.
        """
        return self.spec, self.arguments(sizes)

    @property
    def by_clients(self) -> "AuditTarget":
        """The target with clients as the unit."""
        return replace(self, relations=OF_CLIENTS)

    @property
    def in_active_models(self) -> "AuditTarget":
        """The target with clients whose slots a party can change."""
        return replace(self, relations=OF_CLIENTS, malleable_slots=True)


TABLE_SIZES: Mapping[str, int] = {"groups": 2, "labels": 2}


class TableTarget(AuditTarget):
    """The target of a protocol that counts per group and label, or per group, label and bin of scores."""

    def cells(self, sizes: Mapping[str, int]) -> int:
        return prod(sizes.get(name, 1) for name in ("groups", "labels", "thresholds", "bins"))


def table_of(spec: ProtocolSpec) -> TableTarget:
    """Return the target of a protocol that counts per group and label."""
    return TableTarget(spec=spec, sizes=TABLE_SIZES)


class Statistic(ABC, Generic[R]):
    """A statistic: its protocol, how its result follows from opened integers, and its targets of audits."""

    name: ClassVar[str]
    kind: ClassVar[RecordKind] = RecordKind.NONE
    audited: ClassVar[Mapping[str, AuditTarget]]
    file_types: ClassVar[tuple[type[ResultFile], ...]] = ()
    # The file with which later results go on. A run's guarantee covers them, so it is read more strictly.
    gone_on_with: ClassVar[type[ResultFile] | None] = None
    spec: ProtocolSpec

    @classmethod
    def for_request(cls, request: Request) -> Self:
        """Return the statistic that a request asks for."""
        return cls(**{field.name: getattr(request, field.name) for field in fields(cls)})  # type: ignore[arg-type]

    @classmethod
    def is_as_written(cls, files: Sequence[ResultFile], privacy: StatedPrivacy) -> bool:  # noqa: ARG003
        """Return whether the file of `gone_on_with` is as a run with this privacy would write its values.

        True without that file, for whose absence `read_files` has an error. It may raise what reading values
        does that no run writes.
        """
        return True

    @abstractmethod
    def prepare(self, release: Request, domain: RecordDomain) -> PreparedRelease[R]:
        """Work out the program's arguments and the noise.

        Raises:
            RecordDomainError: The statistic cannot be computed of this domain.
            OptionError: No noise fits the guarantee that was asked for.
        """

    @abstractmethod
    def read_opened(self, prepared: PreparedRelease[R], opened: OpenedLines, clients: int) -> R:
        """Turn the integers that the parties opened into the result.

        Args:
            prepared: The prepared release, which `prepare` returned.
            opened: The opened integers, by the name of an output of the program.
            clients: The number of clients, which bounds the possible values.

        Raises:
            OutputError: The program cannot open these integers.
        """

    @abstractmethod
    def expected_error(self, prepared: PreparedRelease[Answer], sizes: Floats) -> ExpectedResult:
        """Return the expected errors.

        Args:
            prepared: The prepared release.
            sizes: The numbers of records, shape (groups, labels); of performance values, the numbers of
                clients per group.

        Raises:
            OptionError: The release does not allow these sizes.
        """

    @classmethod
    def domain_of_task(
        cls,
        domain: RecordDomain,
        most: Guarantee,  # noqa: ARG003
        model: SecurityModel,  # noqa: ARG003
    ) -> RecordDomain:
        """Return the domain of a new task, with whatever its maker leaves to this statistic.

        Args:
            domain: The domain that the maker declares.
            most: The most that all runs on an upload may spend.
            model: The task's security model.
        """
        return domain

    @classmethod
    def clients_above_cap(cls, release: BoundedRelease) -> int:  # noqa: ARG003
        """Return how many clients should exceed the contribution bound, so that this statistic errs least.

        Raises:
            OptionError: The statistic takes no contribution bound.
        """
        raise OptionError(f"The release {cls.name} takes no {named('cap')}: there is none to choose.")

    def layout(self, prepared: PreparedRelease[Answer]) -> str:  # noqa: ARG002
        """Return how the noisy values are laid out for this noise, if plans are to compare kinds of noise."""
        return ""

    def errors_elsewhere(self, prepared: PreparedRelease[Answer]) -> Mapping[str, float]:  # noqa: ARG002
        """Return, for plans, the errors of a count by mechanisms that are not built here, by name."""
        return {}

    @classmethod
    def read_files(cls, files: Sequence[ResultFile]) -> R:
        """Return the result in a run's files, to the last bit, except for the noise's distribution.

        Raises:
            ResultFileError: A file is missing.
            FairSharesError, ArithmeticError, LookupError, TypeError or ValueError: The files hold no result.
        """
        raise NotImplementedError


def statistic_class(task: str) -> type[Statistic[Answer]]:
    """Import a task's statistic, whose dependencies take long to load."""
    found: type[Statistic[Answer]] = in_module(f"fairshares.harness.releases.{task}.statistic:STATISTIC")()
    return found


def kind_of(task: str) -> RecordKind:
    """Return the kind of records that a task's statistic is of."""
    return statistic_class(task).kind


def statistic_of(request: Request) -> Statistic[Answer]:
    """Return the statistic that a request asks for."""
    return statistic_class(request.task).for_request(request)


def plan_release(
    spec: ProtocolSpec,
    arguments: Mapping[str, object],
    release: Request,
    domain: RecordDomain,
    epsilon: Fraction | None = None,
) -> NoisePlan:
    """Choose the noise from the protocol's linear map.

    Args:
        spec: The protocol.
        arguments: The program's arguments, by name.
        release: The request.
        domain: The groups, labels and grid of the records.
        epsilon: The ε of the noise, if it is less than the request's.

    Raises:
        UnsupportedError: The protocol declares no map.
        OptionError: No noise fits the budget, or the protocol cannot add this kind.
    """
    release.program_of(spec)
    if spec.release is None:
        raise UnsupportedError(
            f"{spec.name} does not declare what a record changes in what it reveals, so no guarantee can be "
            "stated; add `release` to its ProtocolSpec."
        )
    with fitting(release.protect.epsilon, release.protect.delta):
        queries = spec.release({name: str(value) for name, value in arguments.items()})
        neighbors = release.neighbors_in(domain)
        delta = release.protect.delta
        if epsilon is None:
            epsilon = release.protect.epsilon
        own = release.own
        if own is None:
            return plan_noise(queries, neighbors, epsilon, delta, release.randomness.family)
        assert isinstance(queries, LinearQueries)  # as `program_of` found
        try:
            return plan_distributed_noise(
                queries,
                neighbors,
                epsilon,
                delta,
                own.distribution,
                parties=own.parties,
                tolerated=own.tolerated,
            )
        except LargeTableError as error:
            raise LargeTableError(error.edge, release.needs_smaller_table) from None


@contextmanager
def fitting(epsilon: Fraction, delta: Fraction) -> Iterator[None]:
    """Turn a ValueError of noise that fits no budget into an OptionError."""
    try:
        yield
    except ValueError as error:
        epsilon_named = named("epsilon", exact_text(epsilon))
        delta_named = named("delta", f"{float(delta):.3g}")
        raise OptionError(f"No noise fits {epsilon_named} and {delta_named}: {error}.") from None
