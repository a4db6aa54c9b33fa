"""Arguments, queries and revealed values of each protocol, as data."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import chain, product

from protocols.accounting.calibration import (
    AboveThreshold,
    LinearQueries,
    each_cell_once,
    logarithms,
    sums_from_ends,
)
from protocols.circuits.coins import design_coins
from protocols.circuits.gaussian import JOINT_ARGUMENTS, JointGaussian
from protocols.circuits.noise import KEPT_ARGUMENTS, OWN_ARGUMENTS, fair_bits_per_sample
from protocols.circuits.slots import slot_bits, value_bits
from protocols.mechanisms.count_tree import CountTree
from protocols.mechanisms.shifted_log import ShiftedLog


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
    unit. With `shares_bits`, values are bits, shared by XOR.
    """

    name: str
    multiplies_client_values: bool
    summed_by_party: bool
    public: tuple[str, ...]
    path: InputPath = SHARES
    capped: str = ""
    shares_bits: bool = False

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


def _cells(arguments: Mapping[str, str]) -> int:
    return int(arguments["groups"]) * int(arguments["labels"])


class ColumnSums(ABC):
    """The release of a program whose noisy values are fixed sums of its input columns, plus noise.

    Where parties add up their columns before the run, `pi_sum` or `pi_sum_offline` may run in such a
    program's place: each party then applies `blocks` to its columns by itself. The queries, from which
    privacy is derived, and the sums, which are computed, are one declaration, so they cannot disagree.
    [test: tests/protocols/test_column_sums.py]
    """

    @abstractmethod
    def __call__(self, arguments: Mapping[str, str]) -> LinearQueries:
        """Return the queries: which noisy values one record changes, and by how much."""

    def blocks(self, _arguments: Mapping[str, str], /) -> tuple[int, str]:
        """Return the bins of each histogram, and the bins per block of each level of sums.

        By default each column is a noisy value, in the same order.
        """
        return 1, "1"


@dataclass(frozen=True)
class EachColumn(ColumnSums):
    """The release of each column: noisy value i is column i plus noise, and a record adds 1 to one column.

    `columns` maps arguments to the number of columns.
    """

    columns: Callable[[Mapping[str, str]], int]

    def __call__(self, arguments: Mapping[str, str]) -> LinearQueries:
        """Return one query for each column."""
        return each_cell_once(self.columns(arguments))


@dataclass(frozen=True)
class EachDistance(ColumnSums):
    """The release of each group's two columns: clients' distances from either end of the range."""

    def __call__(self, arguments: Mapping[str, str]) -> LinearQueries:
        """Return two queries for each group."""
        return sums_from_ends(int(arguments["groups"]), int(arguments["steps"]))


@dataclass(frozen=True)
class BlocksOfBins(ColumnSums):
    """The release of counts of blocks of neighboring bins, as `protocols.circuits.blocks` adds them up."""

    def __call__(self, arguments: Mapping[str, str]) -> LinearQueries:
        """Return the queries of trees, of `score_columns` sets of groups if records have several scores.

        Listed are records with all scores in one bin; others move as many nodes.
        """
        sizes, bins = tuple(map(int, arguments["blocks"].split("."))), int(arguments["bins"])
        one = CountTree(bins, sizes).release(_cells(arguments))
        sets = int(arguments.get("score_columns", 1))
        if sets == 1:
            return one
        groups, columns = int(arguments["groups"]) // sets, range(sets)
        records = product(range(groups), columns, range(bins))
        cells = (
            [((c * groups + g) * 2 + (label == c)) * bins + b for c in columns] for g, label, b in records
        )
        return replace(one, columns=tuple(tuple(chain(*(one.columns[i] for i in of))) for of in cells))

    def blocks(self, arguments: Mapping[str, str], /) -> tuple[int, str]:
        """Return the bins of each histogram, and the bins per block of each level."""
        return int(arguments["bins"]), arguments["blocks"]


@dataclass(frozen=True)
class ProtocolSpec:
    """One protocol, independent of any engine: the program `Programs/Source/<name>.mpc`.

    `release` maps arguments by name to the queries that are answered with noise, from which every guarantee
    is derived. `slot_bits`, `fair_bits` and `compared` map them to a slot's bits, a party's fair bits per
    sample, and the number of compared integers, each of whose masks in a field fails with a small
    probability. `portable` programs keep to the embedded engine's subset. A `linear` one only adds, apart
    from products of its input form, so that a shifted share only shifts the result; active models run others
    on bits alone. A program that `makes_piece` keeps noise for one that `uses_piece`.
    [test: tests/harness/engines/test_mpyc_masks.py]

    With `distributed_noise`, parties may add noise of their own (`--noise distributed`), or noise made ahead
    (`--offline`). Where they also add up their columns before the run, another program then runs in this
    one's place. So such a spec declares its release as `ColumnSums`, and is linear; any other is refused
    with a ValueError, as the other program would reveal something else.
    [test: tests/protocols/test_column_sums.py]
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
    makes_piece: bool = False
    uses_piece: bool = False
    made_up: bool = False

    def __post_init__(self) -> None:
        replaced = self.distributed_noise and any(form.summed_by_party for form in self.input_forms.values())
        if replaced and not (self.linear and isinstance(self.release, ColumnSums)):
            raise ValueError(
                f"{self.name} says distributed_noise=True, but pi_sum, which then runs in its place, knows "
                "only sums of columns: declare its `release` as `ColumnSums` (such as `EachColumn`) of a "
                "linear program, or leave distributed_noise out."
            )

    @property
    def adds_to_sums(self) -> bool:
        """Whether noise, or zeros, is added to columns before input."""
        return self.name in (PI_SUM.name, PI_SUM_OFFLINE.name)

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
KEYS = InputForm("keys", False, False, (*_PUBLIC, RECORDS_OF_UPLOADS, "thresholds"), capped=ENFORCED)
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

PI_RW = ProtocolSpec(
    name="pi_rw",
    source="PrivFairFL (Pentyala et al. 2022), Protocol 2",
    arguments=(
        "form",
        "path",
        "parties",
        "clients",
        "parts",
        "groups",
        "labels",
        "epsilon",
        "delta_bits",
    ),
    input_forms={form.name: form for form in (SPLIT, PRODUCT)},
    input_paths=(SHARES, CLIENTS, REPLICATED),
    outputs=("counts",),
    revealed=("noisy count of records per (group, label), to all parties",),
    release=EachColumn(_cells),
    distributed_noise=True,
)

PI_RW_SLOTS = replace(
    PI_RW,
    name="pi_rw_slots",
    arguments=("parties", "slots", "per_lane", "groups", "labels", "epsilon", "delta_bits"),
    input_forms={SLOTS.name: SLOTS},
    input_paths=AT_REST,
    slot_bits=lambda arguments: slot_bits(_cells(arguments)),
)

PI_CF = ProtocolSpec(
    name="pi_cf",
    source="PrivFairFL (Pentyala et al. 2022), Protocol 3",
    arguments=("form", "parties", "records", "groups", "labels", "epsilon", "delta_bits"),
    input_forms={form.name: form for form in (SPLIT, PRODUCT_PER_RECORD)},
    input_paths=AT_REST,
    outputs=("counts",),
    revealed=("noisy count of records per (group, label, predicted label), to all parties",),
    release=EachColumn(lambda arguments: int(arguments["groups"]) * int(arguments["labels"]) ** 2),
    distributed_noise=True,
)

PI_CF_SLOTS = replace(
    PI_CF,
    name="pi_cf_slots",
    arguments=PI_RW_SLOTS.arguments,
    input_forms=PI_RW_SLOTS.input_forms,
    slot_bits=lambda arguments: slot_bits(int(arguments["groups"]) * int(arguments["labels"]) ** 2),
)

PI_ROC = ProtocolSpec(
    name="pi_roc",
    source="PrivFairFL (Pentyala et al. 2022), Protocol 4",
    arguments=("parties", "groups", "labels", "bins", "blocks", "epsilon", "delta_bits"),
    input_forms={SCORED_SPLIT.name: SCORED_SPLIT},
    input_paths=AT_REST,
    outputs=("nodes",),
    revealed=("noisy counts of records per (group, label, block of neighboring score bins), to all parties",),
    release=BlocksOfBins(),
    distributed_noise=True,
)

PI_ROC_RECORDS = replace(
    PI_ROC,
    name="pi_roc_records",
    arguments=("parties", "records", "groups", "labels", "bins", "blocks", "epsilon", "delta_bits"),
    input_forms={KEYS.name: KEYS},
    portable=False,  # loops, and memory of secret bits
)

PI_GAP = ProtocolSpec(
    name="pi_gap",
    source="the performance gap of Juarez and Korolova 2022, computed by parties instead of local noise",
    arguments=("parties", "groups", "epsilon", "delta_bits"),
    input_forms={VALUED_SPLIT.name: VALUED_SPLIT},
    input_paths=AT_REST,
    outputs=("sums",),
    revealed=(
        "noisy sums, per group, of clients' distances from the lower and from the upper end, to all parties",
    ),
    release=EachDistance(),
    distributed_noise=True,
)


def _distribution(arguments: Mapping[str, str]) -> ShiftedLog:
    return ShiftedLog(int(arguments["offset"]), int(arguments["most"]))


PI_GAP_SLOTS = replace(
    PI_GAP,
    name="pi_gap_slots",
    arguments=("parties", "slots", "per_lane", "groups", "steps", "epsilon", "delta_bits"),
    input_forms={SLOTS.name: replace(SLOTS, public=VALUED_SPLIT.public)},
    slot_bits=lambda arguments: slot_bits(int(arguments["groups"])) + value_bits(int(arguments["steps"])),
)

PI_COUNT = ProtocolSpec(
    name="pi_count",
    source="the open problem of Pujol and Desfontaines; shifted logarithm, Finley et al. 2024",
    arguments=("parties", "groups", "labels", "offset", "most", "epsilon", "delta_bits"),
    input_forms={SPLIT.name: replace(SPLIT, capped="")},
    input_paths=AT_REST,
    outputs=("logarithms",),
    revealed=("noisy logarithm of the number of records per (group, label), to all parties",),
    release=lambda arguments: logarithms(_cells(arguments), _distribution(arguments).first_step),
    uses_edabits=False,
    linear=False,
    compared=lambda arguments: _cells(arguments) * _distribution(arguments).lines_above_first,
)

PI_CAP = ProtocolSpec(
    name="pi_cap",
    source="AboveThreshold (Dwork and Roth 2014) for the cap of Amin et al. 2019",
    arguments=("parties", "slots", "per_lane", "queries", "above", "epsilon", "delta_bits"),
    input_forms={
        SLOTS.name: replace(
            SLOTS,
            public=("caps to choose from", "how many clients may exceed the cap", *_PUBLIC[1:]),
        )
    },
    outputs=("index",),
    revealed=("which cap was chosen, to all parties",),
    release=lambda arguments: AboveThreshold(int(arguments["queries"])),
    uses_edabits=False,
    linear=False,
    slot_bits=lambda arguments: slot_bits(int(arguments["queries"])),
    compared=lambda arguments: int(arguments["queries"]),
    input_paths=AT_REST,
)

PI_SUM = ProtocolSpec(
    name="pi_sum",
    source="distributed noise (Dwork et al. 2006), each party's by a table of its distribution",
    arguments=("parties", "nodes", *OWN_ARGUMENTS),
    input_forms={NO_INPUT.name: NO_INPUT},
    outputs=("sums",),
    revealed=("the sums of what the parties input, to all parties",),
    release=lambda arguments: each_cell_once(int(arguments["nodes"])),
    fair_bits=lambda _: 0,
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


def with_distributed_noise(spec: ProtocolSpec, form: InputForm) -> ProtocolSpec | None:
    """Return the protocol with distributed noise, or None if it has no place for it."""
    if not spec.distributed_noise:
        return None
    if form.summed_by_party:
        return replace(PI_SUM, input_forms=spec.input_forms, revealed=spec.revealed, release=spec.release)
    return replace(spec, arguments=(*spec.arguments[:-2], *OWN_ARGUMENTS), fair_bits=lambda _: 0)


def with_noise_made_ahead(spec: ProtocolSpec, form: InputForm) -> ProtocolSpec | None:
    """Return the protocol with joint noise made before, or None if it has no place for it.

    Replicated shares lie in the same file as noise, so they exclude it.
    """
    if not (spec.distributed_noise or spec.name == PI_COUNT.name) or form.path is REPLICATED:
        return None
    if not (spec.linear and form.summed_by_party):
        return replace(spec, arguments=(*spec.arguments[:-2], *KEPT_ARGUMENTS), uses_piece=True)
    return replace(PI_SUM_OFFLINE, input_forms=spec.input_forms, revealed=spec.revealed, release=spec.release)


PROTOCOLS: dict[str, ProtocolSpec] = {
    spec.name: spec
    for spec in (
        *(PI_LAP, PI_RW, PI_RW_SLOTS, PI_CF, PI_CF_SLOTS),
        *(PI_ROC, PI_ROC_RECORDS, PI_GAP, PI_GAP_SLOTS, PI_COUNT, PI_CAP, PI_SUM, PI_ROUNDS),
        *(PI_PREPROCESS, PI_SUM_OFFLINE),
    )
}
