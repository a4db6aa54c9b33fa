"""What a statistic is: the one class that a new one implements, and what it prepares for a run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from math import prod
from typing import Any, ClassVar, Generic, TypeVar

from harness.errors import OptionError, UnsupportedError
from harness.inputs.encoding import is_per_record
from harness.inputs.record_schema import RecordDomain, RecordKind
from harness.releases.expected_errors import ExpectedCap, ExpectedCounts, ExpectedError, Floats
from harness.security_models import Model
from protocols.accounting.calibration import (
    NeighboringRelation,
    Neighbors,
    NoisePlan,
    PrivacyUnit,
    default_relation,
    plan_noise,
    plan_nominal_noise,
    plan_own_noise,
)
from protocols.accounting.queries import LinearQueries
from protocols.accounting.rounding import exact_text
from protocols.noise.tables import NoiseLaw
from protocols.spec import REPLICATED, InputForm, ProtocolSpec, with_own_noise

JOINT, OWN = "joint", "own"  # noise that the parties make together, or that each draws for itself
WITH_OWN_NOISE = ("weights", "confusion", "thresholds", "gap")

R = TypeVar("R", covariant=True)

Opened = Mapping[str, tuple[int, ...]]
"""The integers that the parties opened, by the name of their `OUT` line."""


def only(opened: Opened) -> tuple[int, ...]:
    """Return the integers of the one line that was opened, whichever program opened it."""
    (values,) = opened.values()
    return values


@dataclass(frozen=True)
class Release:
    """What the user chose to release, of whom, and how much of it may be known.

    Attributes: epsilon, delta: its totals; relation: None for the domain's default; unit: whose records are
    protected together; law: that each party draws noise of its own by, None: the parties make noise jointly,
    which is Laplace's.
    """

    model: Model
    form: InputForm
    epsilon: Fraction
    delta: Fraction
    relation: NeighboringRelation | None = None
    unit: PrivacyUnit = PrivacyUnit.RECORD
    law: NoiseLaw | None = None

    def program_of(self, spec: ProtocolSpec) -> ProtocolSpec:
        """Return a protocol as it runs with this noise, and its clients' values by their path.

        Raises: OptionError: it has no place for the noise.
        """
        if self.law is not None and self.form.path is REPLICATED:
            raise OptionError(
                f"Replicated shares take joint noise only: a party's own (--noise {OWN}) is what it could "
                "shift a result by; leave it out, or use --input-path shares."
            )
        found = spec if self.law is None else with_own_noise(spec, self.form)
        if found is None:
            raise no_place(spec)
        return found.by(self.form.path)

    @property
    def malleable_slots(self) -> bool:
        """Whether a party may move clients' records between cells, so that noise is for exchanged ones."""
        of_clients = self.unit is PrivacyUnit.CLIENT
        return of_clients and self.form.exchangeable and self.model.tolerates == "active"

    @property
    def own(self) -> tuple[NoiseLaw, int, int] | None:
        """Of noise of the parties' own: its law, how many they are, and how many of them may be corrupt."""
        return (self.law, self.model.parties, self.model.corruptions) if self.law else None

    def relation_in(self, domain: RecordDomain) -> NeighboringRelation:
        """Return the relation that was chosen, or the default. Raises: OptionError: as `relation_for`."""
        return relation_for(domain, self.form, self.relation, self.unit)

    def neighbors_in(self, domain: RecordDomain) -> Neighbors:
        """Return whom its noise is made for. Raises: OptionError: as `relation_in`."""
        return Neighbors(self.relation_in(domain), domain.max_records_per_unit, self.malleable_slots)


def relation_for(
    domain: RecordDomain, form: InputForm, chosen: NeighboringRelation | None, unit: PrivacyUnit
) -> NeighboringRelation:
    """Return the relation that was chosen, or the default for this domain, input form and unit.

    Raises: OptionError: it protects how many records there are, which the input form shows; or one record
    and all records of a client are confused.
    """
    sizes = domain.kind is RecordKind.SIZE
    if domain.cap or sizes or unit is PrivacyUnit.CLIENT or chosen is NeighboringRelation.ZERO_OUT_ONE:
        return _of_clients(domain, form, chosen, unit)
    if not is_per_record(domain, form.name):
        return chosen or default_relation(domain.max_count)
    if chosen is NeighboringRelation.ADD_OR_REMOVE_ONE:
        raise OptionError(
            f"Input form {form.name} shows how many records there are, so it cannot protect whether "
            "one exists: use --neighboring-relation replace_one, or --input-form split."
        )
    return NeighboringRelation.REPLACE_ONE


def _of_clients(
    domain: RecordDomain, form: InputForm, chosen: NeighboringRelation | None, unit: PrivacyUnit
) -> NeighboringRelation:
    if unit is PrivacyUnit.RECORD:
        raise OptionError(
            "A cap, and --neighboring-relation zero_out_one, are for all records of a client together: "
            "say --privacy-unit client."
        )
    if not domain.cap and domain.kind is not RecordKind.SIZE:
        raise OptionError(
            "--privacy-unit client needs to know how much of a client counts: --cap 10, for example, or "
            "--cap weight-one; ./inv cap chooses a cap."
        )
    if not form.capped:
        raise OptionError(
            f"Input form {form.name} keeps no client to a cap; leave out --input-form, or --privacy-unit."
        )
    if chosen not in (None, NeighboringRelation.ZERO_OUT_ONE):
        raise OptionError(
            f"--privacy-unit client is under zero_out_one, not {chosen}; leave out --neighboring-relation."
        )
    return NeighboringRelation.ZERO_OUT_ONE


def no_place(spec: ProtocolSpec) -> OptionError:
    """Return the error for noise of the parties' own in a protocol that has no place for it."""
    return OptionError(
        f"{spec.name} has no place for noise of the parties' own (--noise {OWN}); leave it out, or choose a "
        f"release that adds noise to sums: {', '.join(WITH_OWN_NOISE)}."
    )


@dataclass(frozen=True)
class PreparedRelease(Generic[R]):
    """A release of one domain, worked out once per run.

    Attributes: arguments: of the program, by name, that follow from the domain; plan: its noise; read: turns
    what was opened of so many clients into the result, and raises OutputError, without a value, where it
    cannot be what this protocol opens.
    """

    spec: ProtocolSpec
    release: Release
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
    def by_clients(self) -> AuditTarget:
        """The same where clients are the unit."""
        return replace(self, relations=OF_CLIENTS)

    @property
    def in_active_models(self) -> AuditTarget:
        """The same of clients whose slots a party can change."""
        return replace(self, relations=OF_CLIENTS, malleable_slots=True)


def table_of(spec: ProtocolSpec) -> AuditTarget:
    """Return what is audited of a protocol that opens a count per group and label."""
    sizes = {"groups": 2, "labels": 2}
    return AuditTarget(sizes, lambda chosen: prod(chosen.values()), lambda chosen, *_: (spec, {**chosen}))


class Statistic(ABC, Generic[R]):
    """What can be released: a protocol, its size for a domain, and what follows from what it opens.

    Attributes: name: of its command, as manifests say it; kind: what a record has to hold besides its group
    and label; specs: its protocols by variant, the default first; slots: its protocol where clients are the
    unit, None if it has none of its own; online: whether clients can send to it while the parties run;
    audited: what `./inv audit --release` checks, by the names that it knows.
    """

    name: ClassVar[str]
    kind: ClassVar[RecordKind] = RecordKind.NONE
    specs: ClassVar[Mapping[str, ProtocolSpec]]
    slots: ClassVar[ProtocolSpec | None] = None
    online: ClassVar[bool] = False
    audited: ClassVar[Mapping[str, AuditTarget]]
    spec: ProtocolSpec

    @abstractmethod
    def prepare(self, release: Release, domain: RecordDomain) -> PreparedRelease[R]:
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
    def input_forms(cls) -> dict[str, InputForm]:
        """Return all forms in which clients may share for it, by name."""
        every = [*cls.specs.values(), *([cls.slots] if cls.slots else [])]
        return {name: form for spec in every for name, form in spec.input_forms.items()}


def plan_release(
    spec: ProtocolSpec,
    arguments: Mapping[str, object],
    release: Release,
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
            f"No noise fits --epsilon {exact_text(epsilon)} and --delta {float(delta):.3g}: {error}."
        ) from None
