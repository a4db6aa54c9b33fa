"""What a statistic is: the one class that a new one implements, and what it prepares for a run."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from math import prod
from typing import Any, ClassVar, Generic, Self, TypeVar

from harness.errors import OptionError, UnsupportedError, named
from harness.inputs.record_schema import RecordDomain, RecordKind
from harness.releases.expected_errors import ExpectedCap, ExpectedCounts, ExpectedError, Floats
from harness.request.base import Request
from protocols.accounting.calibration import (
    NeighboringRelation,
    Neighbors,
    NoisePlan,
    plan_noise,
    plan_nominal_noise,
    plan_own_noise,
)
from protocols.accounting.queries import LinearQueries
from protocols.accounting.rounding import exact_text
from protocols.noise.tables import NoiseLaw
from protocols.spec import ProtocolSpec

R = TypeVar("R", covariant=True)

Opened = Mapping[str, tuple[int, ...]]
"""The integers that the parties opened, by the name of their `OUT` line."""


def only(opened: Opened) -> tuple[int, ...]:
    """Return the integers of the one line that was opened, whichever program opened it."""
    (values,) = opened.values()
    return values


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


Declared = tuple[ProtocolSpec, dict[str, int | str]]
"""A protocol, and those arguments of its program that its linear map depends on."""

OF_CLIENTS = (NeighboringRelation.ZERO_OUT_ONE,)


@dataclass(frozen=True)
class AuditTarget:
    """What a command opens, for an audit, which takes its guarantee from the program's linear map again.

    Attributes: sizes: the options that say how large, with their defaults; cells: how many cells records
    fall into then; declared: from sizes, neighbours, epsilon and delta to the protocol and its arguments,
    of own noise from its law, too; relations: those under which a command makes it;
    malleable_slots: as for `Neighbors`.
    """

    sizes: Mapping[str, int]
    cells: Callable[[Mapping[str, int]], int]
    declared: Callable[[Mapping[str, int], Neighbors, Fraction, Fraction, NoiseLaw | None], Declared]
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


def plan_release(
    spec: ProtocolSpec,
    arguments: Mapping[str, object],
    release: Request,
    domain: RecordDomain,
    epsilon: Fraction | None = None,
    *,
    per_value: bool = False,
) -> NoisePlan:
    """Choose the noise from the linear map that the protocol declares.

    Args: epsilon: that noise is made for, where less than the release's will do; per_value: epsilon and delta
    are each opened value's, as published, and what is spent is their sum.
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
        if per_value:
            assert isinstance(queries, LinearQueries)
            return plan_nominal_noise(queries, neighbors, epsilon, release.delta)
        asked = (queries, neighbors, epsilon, release.delta)
        if release.own is None:
            plan = plan_noise(*asked)
        else:
            assert isinstance(queries, LinearQueries)  # as `program_of` found
            plan = plan_own_noise(*asked, *release.own)
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
