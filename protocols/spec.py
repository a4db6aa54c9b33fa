"""Arguments, queries and revealed values of each protocol, as data."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import chain
from typing import ClassVar, Literal

from fairshares.protocols.accounting.calibration import (
    AboveThreshold,
    LinearQueries,
    each_cell_once,
)
from fairshares.protocols.circuits.coins import design_coins
from fairshares.protocols.circuits.gaussian import JOINT_ARGUMENTS, JointGaussian
from fairshares.protocols.circuits.noise import KEPT_ARGUMENTS, OWN_ARGUMENTS, fair_bits_per_sample

JOINT_LAW = ("epsilon", "delta_bits")  # the last arguments of a program with joint noise


@dataclass(frozen=True)
class InputPath:
    """A path of clients' values to the parties; if authenticated, no active party changes them unnoticed."""

    name: str
    described: str
    authenticated: bool
    portable: bool


SHARES = InputPath("shares", "additive shares", authenticated=False, portable=True)
CLIENTS = InputPath("clients", "authenticated client input", authenticated=True, portable=False)
REPLICATED = InputPath("replicated", "replicated shares", authenticated=True, portable=False)
AT_REST = (SHARES, REPLICATED)  # paths of values that wait for a run
PATHS: dict[str, InputPath] = {path.name: path for path in (SHARES, CLIENTS, REPLICATED)}


@dataclass(frozen=True)
class InputForm:
    """How clients' values enter a program.

    If it `multiplies_client_values` by other secrets, plain additive shares are not safe against an active
    party. If values are `summed_by_party`, each adds up its column before the run. `public` is what the
    execution shows besides the domain, `capped` who enforces the contribution bound where clients can be the
    unit. With `shares_bits`, values are bits, shared by XOR. With `a_value_per_record`, each record is one
    by itself, so that a program takes the number of records.
    """

    name: str
    multiplies_client_values: bool
    summed_by_party: bool
    public: tuple[str, ...]
    path: InputPath = SHARES
    capped: str = ""
    shares_bits: bool = False
    a_value_per_record: bool = False

    def by(self, path: InputPath) -> "InputForm":
        """Return the same form for values that come by `path`."""
        return replace(
            self,
            path=path,
            summed_by_party=self.summed_by_party and path is not CLIENTS,
            shares_bits=self.shares_bits and path is not REPLICATED,
        )

    @property
    def exchangeable(self) -> bool:
        """Whether a party that changes its share of a slot can put a record into an empty one."""
        return self.capped == ENFORCED and not self.path.authenticated


def _of_joint_noise(arguments: Mapping[str, str]) -> int:
    if "shape" in arguments:
        return JointGaussian.of(arguments["shape"]).bits
    return fair_bits_per_sample(design_coins(Fraction(arguments["epsilon"]), int(arguments["delta_bits"])))


def _no_bits(_arguments: Mapping[str, str]) -> int:
    return 0


def cells_of(arguments: Mapping[str, str]) -> int:
    """Return the number of groups times that of labels."""
    return int(arguments["groups"]) * int(arguments["labels"])


@dataclass(frozen=True)
class Sums:
    """Sums of input columns: a linear map that each party can apply to its own shares.

    `values` has, for each noisy value, the columns that it is the sum of; a column that is there twice counts
    twice.
    """

    columns: int
    values: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        for value in self.values:
            for column in value:
                if not 0 <= column < self.columns:
                    raise ValueError(f"a sum names column {column}, and there are {self.columns}")

    def values_of_columns(self) -> list[list[int]]:
        """Return, for each column, the values that it is added to."""
        found: list[list[int]] = [[] for _ in range(self.columns)]
        for value, summed in enumerate(self.values):
            for column in summed:
                found[column].append(value)
        return found


class ColumnNames:
    """A vector of sums of columns by their numbers, for a circuit that only adds up.

    A circuit that takes `sint` and the columns computes on names as it does on shares, and so says itself
    which columns each of its results is the sum of.
    """

    def __init__(self, sums: Sequence[tuple[int, ...]]) -> None:
        self._sums = tuple(sums)

    @classmethod
    def first(cls, columns: int) -> "ColumnNames":
        """Return the vector of so many columns."""
        return cls([(column,) for column in range(columns)])

    @property
    def sums(self) -> tuple[tuple[int, ...], ...]:
        """For each element the columns that it is the sum of."""
        return self._sums

    def __len__(self) -> int:
        return len(self._sums)

    def get_vector(self, first: int, size: int) -> "ColumnNames":
        """Return `size` elements from number `first` on."""
        return ColumnNames(self._sums[first : first + size])

    def sum(self) -> "ColumnNames":
        """Return the sum of all elements, as a vector of one."""
        return ColumnNames([tuple(chain.from_iterable(self._sums))])

    def __add__(self, other: "ColumnNames | Literal[0]") -> "ColumnNames":
        if not isinstance(other, ColumnNames):
            if other != 0:
                raise TypeError(f"a sum of columns has no place for {other!r}, which is no column")
            return self  # as `sum` begins
        pairs = zip(self._sums, other._sums, strict=True)
        return ColumnNames([mine + others for mine, others in pairs])

    __radd__ = __add__

    @staticmethod
    def concat(parts: "Sequence[ColumnNames]") -> "ColumnNames":
        """Return all parts' elements, one part after another."""
        return ColumnNames([element for part in parts for element in part._sums])


class ColumnSums(ABC):
    """The release of a program whose noisy values are fixed sums of its input columns, plus noise.

    Where parties add up their columns before the run, `pi_sum` or `pi_sum_offline` runs in such a program's
    place: each party then applies `sums` to its columns by itself, so that only the noisy values are input.
    The queries, from which privacy is derived, follow from the same sums.
    [test: tests/protocols/test_column_sums.py, tests/programs/test_every_program.py]
    """

    shared: ClassVar[bool] = False  # as in `LinearQueries`

    @abstractmethod
    def sums(self, arguments: Mapping[str, str], /) -> Sums:
        """Return, for each noisy value, the columns that it is the sum of."""

    def records(self, arguments: Mapping[str, str], /) -> Iterable[Mapping[int, int]] | None:  # noqa: ARG002
        """Return, for each kind of record, what it adds to which columns.

        None, as by default, stands for 1 in any one column.
        """
        return None

    def __call__(self, arguments: Mapping[str, str]) -> LinearQueries:
        """Return the queries: which noisy values one record changes, and by how much."""
        sums = self.sums(arguments)
        by_column, nodes = sums.values_of_columns(), len(sums.values)
        records = self.records(arguments)
        changes = [Counter(values) for values in by_column]
        if records is not None:
            changes = [_changes(record, by_column) for record in records]
        columns = tuple(tuple(change) for change in changes)
        amounts = tuple(tuple(change.values()) for change in changes)
        if all(amount == 1 for of_record in amounts for amount in of_record):
            amounts = ()
        return LinearQueries(nodes, columns, amounts, self.shared)


def _changes(record: Mapping[int, int], by_column: Sequence[Sequence[int]]) -> Counter[int]:
    """Return by how much a record changes each value, from what it adds to columns."""
    change = Counter[int]()
    for column, amount in record.items():
        for value in by_column[column]:
            change[value] += amount
    return change


@dataclass(frozen=True)
class EachColumn(ColumnSums):
    """The release of each column: noisy value i is column i plus noise, and a record adds 1 to one column.

    `columns` maps arguments to the number of columns.
    """

    columns: Callable[[Mapping[str, str]], int]

    def sums(self, arguments: Mapping[str, str], /) -> Sums:
        """Return each column by itself."""
        columns = self.columns(arguments)
        return Sums(columns, ColumnNames.first(columns).sums)


@dataclass(frozen=True)
class ProtocolSpec:
    """One protocol, independent of any engine: the program `Programs/Source/<name>.mpc`.

    `release` maps arguments by name to the queries that are answered with noise, from which every guarantee
    is derived. `slot_bits`, `fair_bits` and `compared` map them to a slot's bits, a party's fair bits per
    sample, and the number of compared integers, each of whose masks in a field fails with a small
    probability. `portable` programs keep to the embedded engine's subset. A `linear` one only adds, apart
    from products of its input form, so that a shifted share only shifts the result; active models run others
    on bits alone. A program that `makes_piece` keeps noise for one that `uses_piece`. One
    that `counts_keys_of` another protocol sorts records' keys, and then goes on as that one's program does.
    One with `records_at_once` computes on all records in one vector, by which its batches are sized.
    [test: tests/harness/engines/test_mpyc_masks.py]

    With `distributed_noise`, parties may add noise of their own (`--noise distributed`), or noise made ahead
    (`--offline`); with `noise_made_ahead` the latter alone. The program then runs with other last arguments.
    Where parties add up their columns before the run, and the `release` of a linear program is a
    `ColumnSums`, a program that `adds_to_sums` runs in its place instead, which is faster.
    [test: tests/programs/test_every_program.py]
    """

    name: str
    source: str
    arguments: tuple[str, ...]
    input_forms: Mapping[str, InputForm]
    outputs: tuple[str, ...]
    revealed: tuple[str, ...]
    release: Callable[[Mapping[str, str]], LinearQueries | AboveThreshold] | None = None
    portable: bool = True
    input_paths: tuple[InputPath, ...] = (SHARES,)
    uses_edabits: bool = True
    linear: bool = True
    slot_bits: Callable[[Mapping[str, str]], int] | None = None
    fair_bits: Callable[[Mapping[str, str]], int] = _of_joint_noise
    compared: Callable[[Mapping[str, str]], int] = lambda _: 0
    distributed_noise: bool = False
    noise_made_ahead: bool = False
    adds_to_sums: bool = False
    counts_keys_of: "ProtocolSpec | None" = None
    records_at_once: bool = False
    makes_piece: bool = False
    uses_piece: bool = False
    made_up: bool = False

    def __post_init__(self) -> None:
        law = self.arguments[-len(JOINT_LAW) :]
        if (self.distributed_noise or self.noise_made_ahead) and law not in (JOINT_LAW, JOINT_ARGUMENTS):
            raise ValueError(
                f"{self.name} offers other noise than joint noise, which takes the place of its last "
                f"arguments: they have to be {' and '.join(JOINT_LAW)}, not {' and '.join(law)}."
            )

    @property
    def can_take_noise_made_ahead(self) -> bool:
        """Whether joint noise that was made before may take the place of the program's own."""
        return self.distributed_noise or self.noise_made_ahead

    def is_replaced_by_sums(self, form: InputForm) -> bool:
        """Return whether, with other than joint noise, parties add up the declared sums of columns."""
        return form.summed_by_party and self.linear and isinstance(self.release, ColumnSums)

    @property
    def draws_distributed_noise(self) -> bool:
        """Whether its arguments ask for distributed noise."""
        return self.arguments[-len(OWN_ARGUMENTS) :] == OWN_ARGUMENTS

    def by(self, path: InputPath) -> "ProtocolSpec":
        """Return the protocol for values that come by `path`."""
        known = path is not REPLICATED or "path" in self.arguments
        return self if known else replace(self, arguments=("path", *self.arguments))


def declared_release(spec: ProtocolSpec, arguments: Mapping[str, str]) -> LinearQueries:
    """Return a protocol's linear queries, or raise ValueError."""
    release = spec.release(arguments) if spec.release else None
    if not isinstance(release, LinearQueries):
        raise ValueError(f"{spec.name} declares no linear map, so nothing says what one record changes in it")
    return release


HONEST = "each client itself; nobody checks"
ENFORCED = "the form of what it sends, whatever that is"

RECORDS_OF_UPLOADS = "number of records of each upload"
_PUBLIC = ("groups and labels", "number of clients", "number of uploads")
SPLIT = InputForm("split", False, True, _PUBLIC, capped=HONEST)
PRODUCT = InputForm("product", True, False, _PUBLIC)
PRODUCT_PER_RECORD = replace(PRODUCT, public=(*_PUBLIC, RECORDS_OF_UPLOADS))
SCORED_SPLIT = replace(SPLIT, public=(*_PUBLIC, "thresholds"))
# A key enters as its bits, which are bits whatever a party adds to its share. That moves a record to another
# cell, or out of all, and the key of none into a cell.
KEYS = InputForm(
    "keys",
    False,
    False,
    (*_PUBLIC, RECORDS_OF_UPLOADS, "thresholds"),
    capped=ENFORCED,
    a_value_per_record=True,
)
# A slot is bits, which are bits whatever a party does to its share: that changes its record, or fills it.
SLOTS = InputForm("slots", False, False, _PUBLIC, capped=ENFORCED, shares_bits=True)
VALUED_SPLIT = replace(
    SPLIT, public=("groups", "range and grid of values", "number of clients", "number of uploads")
)
NO_INPUT = InputForm("none", False, False, ())
INPUT_FORMS = {form.name: form for form in (SPLIT, PRODUCT, KEYS, SLOTS)}  # of clients' shares

PI_LAP = ProtocolSpec(
    name="pi_lap",
    source="PrivFairFL (Pentyala et al. 2022), Protocol 1; sampler replaced, see docs/decisions",
    arguments=("parties", "samples", "epsilon", "delta_bits"),
    input_forms={NO_INPUT.name: NO_INPUT},
    outputs=("noise",),
    revealed=("the samples, to all parties",),
    release=lambda arguments: each_cell_once(int(arguments["samples"])),
)


PI_SUM = ProtocolSpec(
    name="pi_sum",
    source="distributed noise (Dwork et al. 2006), each party's by a table of its distribution",
    arguments=("parties", "nodes", *OWN_ARGUMENTS),
    input_forms={NO_INPUT.name: NO_INPUT},
    outputs=("sums",),
    revealed=("the sums of what the parties input, to all parties",),
    release=lambda arguments: each_cell_once(int(arguments["nodes"])),
    fair_bits=_no_bits,
    adds_to_sums=True,
)

PI_PREPROCESS = ProtocolSpec(
    name="pi_preprocess",
    source="PrivFairFL (Pentyala et al. 2022), Appendix D: noise before there are inputs",
    arguments=("parties", "nodes", "epsilon", "delta_bits"),
    input_forms={NO_INPUT.name: NO_INPUT},
    outputs=("made",),
    revealed=("nothing",),
    release=lambda arguments: each_cell_once(int(arguments["nodes"])),
    makes_piece=True,
)

PI_PREPROCESS_ROUNDS = replace(PI_PREPROCESS, arguments=("parties", "nodes", *JOINT_ARGUMENTS))

PI_SUM_OFFLINE = replace(
    PI_SUM,
    name="pi_sum_offline",
    source="PrivFairFL (Pentyala et al. 2022), Appendix D: noise that was made before",
    arguments=("parties", "nodes"),
    uses_piece=True,
)

PI_ROUNDS = ProtocolSpec(
    name="pi_rounds",
    source="secure aggregation with distributed noise (Dwork et al. 2006), round by round",
    arguments=("parties", "rounds", "coordinates", *JOINT_ARGUMENTS),
    input_forms={NO_INPUT.name: NO_INPUT},
    outputs=("sums",),
    revealed=("in each round the noisy sum of the clients' vectors, to all parties",),
    release=lambda arguments: each_cell_once(int(arguments["coordinates"])),
    uses_edabits=False,
    distributed_noise=True,
)


def _adding_to_sums(program: ProtocolSpec, spec: ProtocolSpec) -> ProtocolSpec:
    """Return the program that runs in another's place where parties add up the declared sums."""
    return replace(program, input_forms=spec.input_forms, revealed=spec.revealed, release=spec.release)


def _with_law(spec: ProtocolSpec, law: tuple[str, ...]) -> ProtocolSpec:
    """Return a program with other noise, by its last arguments. No noise may take the place of that."""
    arguments = (*spec.arguments[: -len(JOINT_LAW)], *law)
    return replace(spec, arguments=arguments, distributed_noise=False, noise_made_ahead=False)


def with_distributed_noise(spec: ProtocolSpec, form: InputForm) -> ProtocolSpec | None:
    """Return the protocol with distributed noise, or None if it has no place for it."""
    if not spec.distributed_noise:
        return None
    if spec.is_replaced_by_sums(form):
        return _adding_to_sums(PI_SUM, spec)
    return replace(_with_law(spec, OWN_ARGUMENTS), fair_bits=_no_bits)


def with_noise_made_ahead(spec: ProtocolSpec, form: InputForm) -> ProtocolSpec | None:
    """Return the protocol with joint noise made before, or None if it has no place for it.

    Replicated shares lie in the same file as noise, so they exclude it.
    """
    if not spec.can_take_noise_made_ahead or form.path is REPLICATED:
        return None
    if spec.is_replaced_by_sums(form):
        return _adding_to_sums(PI_SUM_OFFLINE, spec)
    return replace(_with_law(spec, KEPT_ARGUMENTS), uses_piece=True)


OF_NO_RELEASE = (PI_LAP, PI_SUM, PI_ROUNDS, PI_PREPROCESS, PI_SUM_OFFLINE)
"""Programs that no release has for its own; `fairshares.harness.releases.programs` has all."""
