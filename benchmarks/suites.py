"""Experiments as data: files in `experiments/`, whose fields `benchmarks/README.md` explains."""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from statistics import median
from typing import Annotated

from msgspec import Meta, ValidationError, convert

from benchmarks.errors import ExperimentError
from benchmarks.factors import FACTORS, MACHINE, OF_MACHINES, PROGRAM, REQUEST_OF, check_known
from benchmarks.literal import FORMS, TOGETHER, literal_of
from benchmarks.literal.protocols import SPECS
from benchmarks.measure.machines import MachineSetting, machine_kind
from benchmarks.measure.samples import CONFIDENCE, Cell, Level, cell_key, interval_of_median, model_name
from fairshares.harness.errors import OptionError
from fairshares.harness.releases.programs import PROTOCOLS
from fairshares.harness.request.request import DISTRIBUTED
from fairshares.harness.security_models import get_model
from fairshares.harness.system.documents import Refusal, as_type, read_toml
from fairshares.protocols.spec import PI_LAP, PI_ROUNDS, PRODUCT, ProtocolSpec

OURS = Path(__file__).with_name("experiments")
EXPERIMENT = "experiment.toml"  # the experiment as it ran
PROGRAMS = "programs"  # the directory of programs and circuits
INPUTS = "inputs"  # the directory of directories of programs' inputs
THREADS = "{threads}"  # the level of the factor `threads`, in a program's arguments
PARTIES = "{parties}"  # the number of parties, in a program's arguments

Repetitions = Annotated[int, Meta(ge=1, le=1000)]
Seconds = Annotated[float, Meta(gt=0)]
# A level of a factor, or a table with levels of several factors that go together.
LevelOrTable = str | int | float | dict[str, str | int | float]
# The levels of a factor in an experiment: one, or several.
Varied = str | int | float | list[LevelOrTable]

_OF_RUNS = ("variant", "security", "epsilon", "network")
_OF_RECORDS = ("input_path", "clients", "records", "groups", "labels")
# The factors that a cell of a protocol has to have.
_NEEDED: dict[str, tuple[str, ...]] = dict.fromkeys(REQUEST_OF, _OF_RUNS + _OF_RECORDS)
_NEEDED["pi_roc"] += ("thresholds",)
_NEEDED[PI_LAP.name] = (*_OF_RUNS, "samples")
_NEEDED[PI_ROUNDS.name] = (*_OF_RUNS, "coordinates", "rounds")
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,59}")


@dataclass(frozen=True)
class Exclusion:
    """Cells that are not run, by their levels, and why."""

    where: dict[str, str | int | float | list[str | int | float]]
    reason: str

    def covers(self, cell: Mapping[str, Level]) -> bool:
        """Return whether a cell is among these."""
        for factor, levels in self.where.items():
            listed = levels if isinstance(levels, list) else [levels]
            if cell.get(factor) not in listed:
                return False
        return True


@dataclass(frozen=True)
class Until:
    """A cell has run often enough once its median's interval is narrow, or after `most` repetitions.

    `width` is the interval's, as a share of the median.
    """

    width: Annotated[float, Meta(gt=0)]
    most: Repetitions
    confidence: Annotated[float, Meta(gt=0, lt=1)] = CONFIDENCE

    def enough(self, values: Sequence[float]) -> bool:
        """Return whether these times are enough."""
        interval = interval_of_median(values, self.confidence)
        if len(values) >= self.most:
            return True
        return interval is not None and interval[1] - interval[0] <= self.width * median(values)


@dataclass(frozen=True)
class Planned:
    """A cell of a suite."""

    cell: Mapping[str, Level]
    repetitions: int
    timeout_s: float
    excluded: str | None = None  # why it is not run
    until: Until | None = None

    @property
    def key(self) -> Cell:
        """The cell as a key."""
        return cell_key(self.cell)


@dataclass(frozen=True)
class Grid:
    """All combinations of factors' levels. Other fields replace the suite's."""

    factors: dict[str, Varied] = field(default_factory=dict)
    repetitions: Repetitions | None = None
    timeout_s: Seconds | None = None


@dataclass(frozen=True)
class Suite:
    """An experiment, whose fields benchmarks/README.md explains."""

    name: str
    title: str
    grid: list[Grid]
    quick: list[Grid] = field(default_factory=list)
    factors: dict[str, Varied] = field(default_factory=dict)
    repetitions: Repetitions = 3
    timeout_s: Seconds = 120.0
    excluded: list[Exclusion] = field(default_factory=list)
    until: Until | None = None
    warm_up: bool = True
    seed: int | None = None
    hosts: str = ""

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ExperimentError(
                f"name must be a word of small letters, digits, - and _; got {self.name[:80]!r}."
            )
        whole = self.plan()
        self.plan(quick=True)  # checks its cells
        for number, exclusion in enumerate(self.excluded, 1):
            place = f"[[excluded]] {number}"
            for factor in exclusion.where:
                check_known(place, "factor", factor, FACTORS)
            if not any(exclusion.covers(planned.cell) for planned in whole):
                raise ExperimentError(f"{place} covers no cell; leave it out, or correct its levels.")

    def plan(
        self,
        *,
        quick: bool = False,
        models: Sequence[str] = (),
        repetitions: int | None = None,
        timeout_s: float | None = None,
    ) -> list[Planned]:
        """Return all cells, in an order in which the last factor's levels change first.

        Args:
            quick: Whether the quick grids are planned in place of the others.
            models: The models of the cells; all if empty.
            repetitions: The number of runs of each cell; None for what the experiment says.
            timeout_s: The time limit of each run in seconds; None for what the experiment says.

        Raises:
            ExperimentError: A cell makes no sense, or two grids share it.
        """
        plan: dict[Cell, Planned] = {}
        name = "quick" if quick else "grid"
        for number, grid in enumerate(self.quick if quick else self.grid, 1):
            place = f"[[{name}]] {number}"
            for cell in _cells({**self.factors, **grid.factors}):
                _check_cell(place, cell)
                reasons = [exclusion.reason for exclusion in self.excluded if exclusion.covers(cell)]
                planned = Planned(
                    cell,
                    repetitions=repetitions or grid.repetitions or self.repetitions,
                    timeout_s=timeout_s or grid.timeout_s or self.timeout_s,
                    excluded=reasons[0] if reasons else None,
                    until=None if repetitions else self.until,
                )
                if planned.key in plan:
                    raise ExperimentError(f"{place} has a cell that is there already: {cell}.")
                if not models or model_name(cell) in models:
                    plan[planned.key] = planned
        return list(plan.values())


def read_experiment(path: Path) -> Suite:
    """Return the experiment in a file.

    Raises:
        ExperimentError: The file is no experiment. The message says where.
    """
    refusal = Refusal(
        ExperimentError, str(path), "an experiment", "benchmarks/README.md says what one may say"
    )
    return as_type(Suite, read_toml(path, refusal), refusal)


UNITS = "units"  # the suite whose results plans predict from
SUITES = ("table2", "scale", "noise", "network", "clients", UNITS)


def _cells(factors: Mapping[str, Varied]) -> Iterator[dict[str, Level]]:
    """Yield all combinations of levels."""
    axes = []  # the levels of each factor, each with the factors that go together
    for name, levels in factors.items():
        if levels == []:
            raise ExperimentError(f"Factor {name} has no level; name one, or leave it out.")
        axis = []
        for level in levels if isinstance(levels, list) else [levels]:
            if isinstance(level, dict):
                axis.append(level)
            else:
                axis.append({name: level})
        axes.append(axis)
    for combination in product(*axes):
        cell: dict[str, Level] = {}
        for levels_together in combination:
            cell |= levels_together
        yield cell


def _check_cell(place: str, cell: Mapping[str, Level]) -> None:
    """Raise ExperimentError for a cell that makes no sense, whose message begins with `place`."""
    for factor, level in cell.items():
        check_known(place, "factor", factor, FACTORS)
        FACTORS[factor].check(place, factor, level)
    if "parties" in cell and "security" in cell:
        try:
            get_model(str(cell["security"]), int(cell["parties"]))
        except OptionError as error:
            raise ExperimentError(f"{place}: parties: {error}") from None
    if PROGRAM not in cell and "protocol" in cell:
        check_known(place, "variant", str(cell.get("variant", "default")), _variants(str(cell["protocol"])))
        _check_literal(place, cell)
        if cell.get("noise") == DISTRIBUTED and not spec_of(cell).distributed_noise:
            raise ExperimentError(
                f"{place}: {spec_of(cell).name} has no place for distributed noise; leave out noise."
            )
    missing = [factor for factor in _needed_by(cell) if factor not in cell]
    if missing:
        raise ExperimentError(f"{place} has a cell without {', '.join(missing)}; add it to its factors.")
    _check_machine(place, cell)


def _check_machine(place: str, cell: Mapping[str, Level]) -> None:
    """Raise ExperimentError for options of a machine that make no sense on any."""
    of_machine = [factor for factor in (MACHINE, *OF_MACHINES, "run_options") if factor in cell]
    if of_machine and (MACHINE not in cell or PROGRAM not in cell):
        raise ExperimentError(
            f"{place}: {of_machine[0]} is for a program of your own on a machine of MP-SPDZ; add "
            f"{PROGRAM if PROGRAM not in cell else MACHINE}, or leave it out."
        )
    if MACHINE in cell and "security" in cell:
        raise ExperimentError(
            f"{place}: a program runs in a model of ours or on a machine of MP-SPDZ; leave out security or "
            f"{MACHINE}."
        )
    if "threads" in cell and THREADS not in str(cell.get("arguments", "")):
        raise ExperimentError(
            f"{place}: a program takes its number of threads as an argument; have {THREADS} in arguments, "
            "or leave out threads."
        )
    try:
        machine_of(cell)
    except ValidationError as error:
        raise ExperimentError(f"{place}: {error}.") from None


def machine_of(cell: Mapping[str, Level]) -> MachineSetting | None:
    """Return the machine on which a cell's program runs, with its options; None for a model of ours.

    Raises ValidationError for a number beyond its bounds.
    """
    if MACHINE not in cell:
        return None
    name = str(cell[MACHINE])
    told: dict[str, Level | list[str]] = {
        "parties": cell.get("parties", machine_kind(name).fewest),
        **{factor: cell[factor] for factor in OF_MACHINES if factor in cell},
        "machine": name,
        "compile_options": shlex.split(str(cell.get("compile_options", ""))),
        "run_options": shlex.split(str(cell.get("run_options", ""))),
    }
    return convert(told, MachineSetting)


def _needed_by(cell: Mapping[str, Level]) -> Sequence[str]:
    """Return the factors that a cell of its kind has to have."""
    literal = literal_of(cell)
    if literal:
        needed = ["security", "network"]
        # The number of parties is the model's usual one, unless a cell says another.
        optional = (*OF_MACHINES, "parties")
        needed += [name for name in literal.arguments if name in FACTORS and name not in optional]
        return needed
    if PROGRAM in cell:
        return [PROGRAM, MACHINE if MACHINE in cell else "security"]
    return _NEEDED.get(str(cell.get("protocol")), ("protocol",))


def _check_literal(place: str, cell: Mapping[str, Level]) -> None:
    strange = [name for name in ("input_path", "noise", "cap") if name in cell]
    strange += [name for name in ("groups", "labels") if cell.get(name, 2) != 2]
    if literal_of(cell) and strange:
        raise ExperimentError(
            f"{place}: variant {cell['variant']} protects nobody, so it takes no shares and makes up records "
            f"of two groups and labels; leave out {', '.join(strange)}."
        )


def _variants(protocol: str) -> Sequence[str]:
    if protocol == PI_LAP.name:
        return ["default", next(iter(FORMS))]
    if protocol == PI_ROUNDS.name:
        return ["default"]
    request = REQUEST_OF[protocol]
    (_, usual_spec), *others = request.specs().items()
    variants = ["default"]
    if PRODUCT.name in usual_spec.input_forms:
        variants.append(PRODUCT.name)
    if request.slots:
        variants.append("slots")
    variants += [name for name, _ in others]
    if protocol in SPECS:
        variants += FORMS
    if protocol == "pi_roc":
        variants.append(TOGETHER)
    return variants


def spec_of(cell: Mapping[str, Level]) -> ProtocolSpec:
    """Return the protocol of a cell's variant."""
    literal = literal_of(cell)
    if literal:
        return literal
    usual = PROTOCOLS[str(cell["protocol"])]
    request = REQUEST_OF.get(str(cell["protocol"]))
    if request is None:
        return usual
    names = {**request.protocols, "slots": request.slots}
    return PROTOCOLS.get(names.get(str(cell.get("variant")), ""), usual)
