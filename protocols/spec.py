"""Arguments, queries and revealed values of each protocol, as data."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import ClassVar, Literal

from fairshares.protocols.accounting.calibration import (
    AboveThreshold,
    LinearQueries,
    each_cell_once,
)
from fairshares.protocols.circuits.gaussian import JOINT_ARGUMENTS, JointGaussian
from fairshares.protocols.circuits.noise import (
    KEPT_ARGUMENTS,
    OWN_ARGUMENTS,
    coins_of_arguments,
    fair_bits_per_sample,
)

JOINT_LAW = ("epsilon", "delta_bits")  # the last arguments of a program with joint noise


@dataclass(frozen=True)
class InputPath:
    """A path on which clients' values come to the parties.

    Attributes:
        name: The name in requests and manifests.
        described: The path in words.
        authenticated: Whether no active party changes a value without being noticed.
        portable: Whether the path works with the embedded engine, too.
    """

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

    Attributes:
        name: The name in requests and manifests.
        multiplies_client_values: Whether the program multiplies clients' values by other secrets. Plain
            additive shares are then not safe against an active party.
        summed_by_party: Whether each party adds up the clients' shares of each column before the run.
        public: The public facts that an execution shows besides the domain.
        path: The path on which values come to the parties.
        capped: Who enforces the contribution bound, if clients can be the unit; else None.
        shares_bits: Whether values are bits, shared by XOR.
        a_value_per_record: Whether each record is a value by itself, so that a program takes the number of
            records.
    """

    name: str
    multiplies_client_values: bool
    summed_by_party: bool
    public: tuple[str, ...]
    path: InputPath = SHARES
    capped: str | None = None
    shares_bits: bool = False
    a_value_per_record: bool = False

    def by(self, path: InputPath) -> "InputForm":
        """Return the same form for values that come by another path.

        Args:
            path: The path.
        Returns:
            The form.
        """
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
    return fair_bits_per_sample(coins_of_arguments(arguments["epsilon"], arguments["delta_bits"]))


def _no_bits(_arguments: Mapping[str, str]) -> int:
    return 0


def cells_of(arguments: Mapping[str, str]) -> int:
    """Return the number of groups times the number of labels.

    Args:
        arguments: A program's arguments by name, with `groups` and `labels`.
    Returns:
        The number of cells.
    """
    return int(arguments["groups"]) * int(arguments["labels"])


@dataclass(frozen=True)
class Sums:
    """Sums of input columns: a linear map that each party can apply to its own shares.

    Attributes:
        columns: The number of input columns.
        values: For each noisy value, the columns that it is the sum of. A column that is listed twice counts
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

    Args:
        sums: For each element the columns that it is the sum of.
    """

    def __init__(self, sums: Sequence[tuple[int, ...]]) -> None:
        self._sums = tuple(sums)

    @classmethod
    def first(cls, columns: int) -> "ColumnNames":
        """Return the vector of the first columns, each by itself.

        Args:
            columns: How many columns.
        Returns:
            The vector, of which element i is column i.
        """
        return cls([(column,) for column in range(columns)])

    @property
    def sums(self) -> tuple[tuple[int, ...], ...]:
        """For each element the columns that it is the sum of."""
        return self._sums

    def __len__(self) -> int:
        return len(self._sums)

    def get_vector(self, first: int, size: int) -> "ColumnNames":
        """Return some elements that follow each other.

        Args:
            first: The number of the first element, from 0 on.
            size: How many elements.
        Returns:
            A vector of these elements.
        """
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
        """Return all parts' elements, one part after another.

        Args:
            parts: The vectors.
        Returns:
            One vector.
        """
        return ColumnNames([element for part in parts for element in part._sums])


class ColumnSums(ABC):
    """The release of a program whose noisy values are fixed sums of its input columns, plus noise.

    Where parties add up their columns before the run, `pi_sum` or `pi_sum_offline` runs in such a program's
    place: each party then applies `sums` to its columns by itself, so that only the noisy values are input.
    The queries, from which privacy is derived, follow from the same sums.
    [test: tests/protocols/test_column_sums.py, tests/programs/test_every_program.py]
    """

    shared: ClassVar[bool] = False  # the same as in `LinearQueries`

    @abstractmethod
    def sums(self, arguments: Mapping[str, str], /) -> Sums:
        """Return the columns that each noisy value is the sum of.

        Args:
            arguments: The program's arguments by name.
        Returns:
            The sums, by which each party can add up its own shares.
        """

    def records(self, arguments: Mapping[str, str], /) -> Iterable[Mapping[int, int]] | None:  # noqa: ARG002
        """Return, for each kind of record, what it adds to which columns.

        Args:
            arguments: The program's arguments by name.
        Returns:
            For each kind the amount by column. None, as by default, stands for 1 in any one column.
        """
        return None

    def __call__(self, arguments: Mapping[str, str]) -> LinearQueries:
        """Return the queries: which noisy values one record changes, and by how much."""
        sums = self.sums(arguments)
        by_column = sums.values_of_columns()
        records = self.records(arguments)
        if records is None:
            changes = [Counter(values) for values in by_column]
        else:
            changes = [_changes(record, by_column) for record in records]
        columns = tuple(tuple(change) for change in changes)
        amounts = tuple(tuple(change.values()) for change in changes)
        if all(amount == 1 for record_amounts in amounts for amount in record_amounts):
            amounts = ()  # stands for amounts of 1
        return LinearQueries(len(sums.values), columns, amounts, self.shared)


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

    Attributes:
        columns: A function from a program's arguments by name to the number of columns.
    """

    columns: Callable[[Mapping[str, str]], int]

    def sums(self, arguments: Mapping[str, str], /) -> Sums:
        """Return each column by itself.

        Args:
            arguments: The program's arguments by name.
        Returns:
            As many sums as columns.
        """
        columns = self.columns(arguments)
        return Sums(columns, ColumnNames.first(columns).sums)


@dataclass(frozen=True)
class ProtocolSpec:
    """One protocol, independent of any engine: the program `Programs/Source/<name>.mpc`.

    Attributes:
        name: The program's name.
        source: Where the protocol comes from.
        arguments: The names of the program's arguments, in order.
        input_forms: The forms in which it takes clients' values, by name.
        outputs: The names of its output lines.
        revealed: What it reveals, and to whom.
        release: A function of the arguments by name: the queries that are answered with noise, from which
            every guarantee is derived.
        portable: Whether the program keeps to the embedded engine's subset.
        input_paths: The paths on which it takes clients' values.
        uses_edabits: Whether its comparisons use MP-SPDZ's edaBits.
        linear: Whether it only adds, apart from products of its input form, so that a shifted share only
            shifts the result. Active models run other programs on bits alone.
        slot_bits: A function of the arguments: the bits of a slot.
        fair_bits: A function of the arguments: the fair bits that a party draws for a sample.
        compared: A function of the arguments: how many integers are compared, or turned into bits. In a field
            each is opened under a mask, which fails with a small probability.
            [test: tests/harness/engines/test_mpyc_masks.py, tests/harness/pipeline/test_manifest.py]
        distributed_noise: Whether parties may add noise of their own (`--noise distributed`), or noise made
            ahead (`--offline`). The program then runs with other last arguments. Where parties add up their
            columns before the run, and the `release` of a linear program is a `ColumnSums`, a program that
            `adds_to_sums` runs in its place instead, which is faster.
            [test: tests/programs/test_every_program.py]
        noise_made_ahead: Whether parties may add noise made ahead, and no noise of their own.
        adds_to_sums: Whether it only adds noise to the sums that the parties input.
        counts_keys_of: The protocol whose program this program runs after it has sorted records' keys.
        records_at_once: Whether it computes on all records in one vector, by which its batches are sized.
        makes_piece: Whether it keeps noise for a program that `uses_piece`.
        uses_piece: Whether it takes noise that another program kept.
        made_up: Whether it runs on made-up inputs only.
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
        """Return whether, with other than joint noise, parties add up the declared sums of columns.

        Args:
            form: How clients' values enter the program.
        Returns:
            True if a program that `adds_to_sums` runs in this program's place.
        """
        return form.summed_by_party and self.linear and isinstance(self.release, ColumnSums)

    @property
    def draws_distributed_noise(self) -> bool:
        """Whether its arguments ask for distributed noise."""
        return self.arguments[-len(OWN_ARGUMENTS) :] == OWN_ARGUMENTS

    def by(self, path: InputPath) -> "ProtocolSpec":
        """Return the protocol for values that come by another path.

        Args:
            path: The path.
        Returns:
            The protocol, whose forms all have this path.
        """
        if path is not REPLICATED or "path" in self.arguments:
            return self
        return replace(self, arguments=("path", *self.arguments))


def declared_release(spec: ProtocolSpec, arguments: Mapping[str, str]) -> LinearQueries:
    """Return a protocol's linear queries.

    Args:
        spec: The protocol.
        arguments: The program's arguments by name.
    Returns:
        The queries, from which sensitivity and privacy follow.
    Raises:
        ValueError: The protocol answers no linear queries with noise.
    """
    release = None
    if spec.release is not None:
        release = spec.release(arguments)
    if not isinstance(release, LinearQueries):
        raise ValueError(f"{spec.name} declares no linear map, so nothing says what one record changes in it")
    return release


HONEST = "each client itself; nobody checks"
ENFORCED = "the form of what it sends, whatever that is"

RECORDS_OF_UPLOADS = "number of records of each upload"
_PUBLIC = ("groups and labels", "number of clients", "number of uploads")
SPLIT = InputForm(
    name="split",
    multiplies_client_values=False,
    summed_by_party=True,
    public=_PUBLIC,
    capped=HONEST,
)
PRODUCT = InputForm(
    name="product",
    multiplies_client_values=True,
    summed_by_party=False,
    public=_PUBLIC,
)
PRODUCT_PER_RECORD = replace(PRODUCT, public=(*_PUBLIC, RECORDS_OF_UPLOADS))
SCORED_SPLIT = replace(SPLIT, public=(*_PUBLIC, "thresholds"))
# A key enters as its bits, which are bits whatever a party adds to its share. Such a change moves a record to
# another cell, or out of all cells; and it moves the key of no record into a cell.
KEYS = InputForm(
    name="keys",
    multiplies_client_values=False,
    summed_by_party=False,
    public=(*_PUBLIC, RECORDS_OF_UPLOADS, "thresholds"),
    capped=ENFORCED,
    a_value_per_record=True,
)
# A slot is bits, which are bits whatever a party does to its share. Such a change alters the slot's record,
# or fills an empty slot.
SLOTS = InputForm(
    name="slots",
    multiplies_client_values=False,
    summed_by_party=False,
    public=_PUBLIC,
    capped=ENFORCED,
    shares_bits=True,
)
VALUED_SPLIT = replace(
    SPLIT, public=("groups", "range and grid of values", "number of clients", "number of uploads")
)
NO_INPUT = InputForm(
    name="none",
    multiplies_client_values=False,
    summed_by_party=False,
    public=(),
)
INPUT_FORMS = {form.name: form for form in (SPLIT, PRODUCT, KEYS, SLOTS)}  # the forms of clients' shares

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
    """Return a program that takes other noise by its last arguments, which no further noise may replace."""
    arguments = (*spec.arguments[: -len(JOINT_LAW)], *law)
    return replace(spec, arguments=arguments, distributed_noise=False, noise_made_ahead=False)


def with_distributed_noise(spec: ProtocolSpec, form: InputForm) -> ProtocolSpec | None:
    """Return the protocol with distributed noise.

    Args:
        spec: The protocol.
        form: How clients' values enter the program.
    Returns:
        The protocol, of the same program or of one that adds to sums; None if it has no place for such noise.
    """
    if not spec.distributed_noise:
        return None
    if spec.is_replaced_by_sums(form):
        return _adding_to_sums(PI_SUM, spec)
    return replace(_with_law(spec, OWN_ARGUMENTS), fair_bits=_no_bits)


def with_noise_made_ahead(spec: ProtocolSpec, form: InputForm) -> ProtocolSpec | None:
    """Return the protocol with joint noise that was made before.

    Replicated shares lie in the same file as noise, so they exclude it.

    Args:
        spec: The protocol.
        form: How clients' values enter the program.
    Returns:
        The protocol, of the same program or of one that adds to sums; None if it has no place for such noise.
    """
    if not spec.can_take_noise_made_ahead or form.path is REPLICATED:
        return None
    if spec.is_replaced_by_sums(form):
        return _adding_to_sums(PI_SUM_OFFLINE, spec)
    return replace(_with_law(spec, KEPT_ARGUMENTS), uses_piece=True)


OF_NO_RELEASE = (PI_LAP, PI_SUM, PI_ROUNDS, PI_PREPROCESS, PI_SUM_OFFLINE)
"""Programs that no release has for its own; `fairshares.harness.releases.programs` has all."""
