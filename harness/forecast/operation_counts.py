"""Operation counts of a program, from execution on counting values, or from MP-SPDZ's compiler."""

import math
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from types import SimpleNamespace

from fairshares.harness.engines.execution import PROGRAMS, Job
from fairshares.harness.engines.mpspdz.compiler import compile_options, compilers_estimate, find_installation
from fairshares.harness.errors import PlanError
from fairshares.harness.security_models import SecurityModel
from fairshares.protocols.accounting.exact_privacy import Gates, Opened, Wire
from fairshares.protocols.circuits.integers import sum_of_bits
from fairshares.protocols.circuits.sorting import WORD, MarkerRanks
from fairshares.protocols.spec import ProtocolSpec

_ROUNDS_TO_COMPARE = 9
# ANDs to compare 64-bit integers, by how many parts of shares become bits.
_ANDS_TO_COMPARE = {
    2: 118,
    3: 242,
    4: 305,
    5: 427,
    6: 427,
    7: 548,
    8: 611,
    9: 611,
    10: 735,
    11: 860,
    12: 860,
    13: 862,
    14: 1042,
    15: 1042,
    16: 1165,
}
# The most parts that adders make two of in 1, 2, .. rounds, each two thirds of the next, rounded down.
_PARTS_BY_ROUNDS = (3, 4, 6, 9, 13)


@dataclass
class Counts(Gates):
    """The operations of a program, over all its parties.

    Attributes:
        inputs: Integers that parties put in.
        input_bits: Bits that parties put in.
        dabits: Bits turned into integers.
        decomposed: Integers turned into bits; in some models the number of their bits.
        multiplications: Multiplications outside of inner products.
        products: Multiplications within inner products.
        added: Summed elements of vectors, which take the compiler time.
        compared: Comparisons of integers.
        steps: Successive operations on integers.
        rounds: Rounds of messages.
        batch: The material that is prepared at once; 0 if the machine chooses.
    """

    inputs: int = 0
    input_bits: int = 0
    dabits: int = 0
    decomposed: int = 0
    multiplications: int = 0
    products: int = 0
    added: int = 0
    compared: int = 0
    steps: int = 0
    rounds: int = 0
    batch: int = 0

    def then(self, other: "Counts") -> "Counts":
        """Return the counts of this program followed by another one."""
        both = zip(astuple(self), astuple(other), strict=True)
        return Counts(*(mine + others for mine, others in both))


def counts_of(job: Job, model: SecurityModel) -> Counts:
    """Return the operation counts of a job's program in this model; no data are needed.

    A portable program is executed on counting values, with formulas for comparisons and sorted keys. For
    other programs the compiler's estimate is read.
    Guarantees: where no keys are sorted, the counts equal the compiler's estimate, up to a few rounds.
    [test: tests/harness/forecast/test_operation_counts.py; tests/programs/test_operation_counts.py]
    Raises PlanError without MP-SPDZ's compiler, CompileError if it refuses the program.
    """
    arguments = dict(zip(job.spec.arguments, job.arguments, strict=True))
    batch = job.batch(model)
    if job.spec.counts_keys_of is not None:
        used = _usage_with_keys(job, job.spec.counts_keys_of, model)
    elif _is_executed(job, arguments.get("path", "shares")):
        used = usage_of(job.source, job.arguments, model.parties_that_mask)
        used = used.then(usage_of_comparisons(used.compared, _parties_that_split(model)))
    else:
        return read_estimate(estimate(job, model), batch)
    if model.virtual_machine is None:  # MPyC's bits are integers, so that an AND is a multiplication
        used = replace(used, ands=used.ands + used.multiplications, multiplications=0)
    # Two to turn noise into integers, or to split masks and open the noise under them; and one to open.
    rounds = used.depth + used.steps + 3
    if used.inputs > 0 or job.spec.slot_bits is not None:
        rounds += 1
    return replace(used, rounds=rounds, batch=batch or 0)


def _is_executed(job: Job, path: str) -> bool:
    """Return whether a program can be executed on counting values, with inputs by this path."""
    if not job.spec.portable:
        return False
    return path == "shares" or (job.replicated and job.spec.slot_bits is None)


def _usage_with_keys(job: Job, counted: ProtocolSpec, model: SecurityModel) -> Counts:
    """Return the counts of a job that sorts keys; `counted` is the same release on counts in their place."""
    arguments = dict(zip(job.spec.arguments, job.arguments, strict=True))
    source = PROGRAMS / f"{counted.name}.mpc"
    used = usage_of(source, [arguments[name] for name in counted.arguments], model.parties_that_mask)
    inputs = 0
    if not job.replicated:
        inputs = int(arguments["records"]) * model.parties
    of_keys = usage_of_keys(arguments, _parties_that_split(model), model.parties_that_mask)
    used = replace(used, inputs=inputs).then(of_keys)
    batch = job.batch(model)
    if batch and model.prepares_ands:
        whole_batch = batch * WORD
        used.ands = math.ceil(used.ands / whole_batch) * whole_batch
    return used


def _parties_that_split(model: SecurityModel) -> int:
    """Return how many shares of an integer become bits: 2 if it is a mask's shares, 0 in MPyC."""
    if model.virtual_machine is None:
        return 0
    if "-Z" in model.compile_options:  # MP-SPDZ's option that splits shares
        return model.parties
    return 2


def usage_of(source: Path, arguments: Sequence[str], parties_that_mask: int = 0) -> Counts:
    """Execute a portable program on counting values; return its counts.

    `parties_that_mask` is as in `SecurityModel`.
    """
    usage = Counts()
    bits = _BitType(usage)
    names = {
        "program": SimpleNamespace(args=[source.stem, *arguments]),
        "sint": _IntegerType(usage, parties_that_mask),
        "sbitvec": bits,
        "sbits": bits,
        "for_range": _in_turn,
        "break_point": _do_nothing,
        "check_point": _do_nothing,
        "print_ln": _do_nothing,
        "cint": _do_nothing,
    }
    exec(compile(source.read_text(encoding="utf-8"), source, "exec"), names)
    return usage


def usage_of_comparisons(number: int, parties_that_split: int) -> Counts:
    """Return the counts of comparing integers with 0, as in the estimate of MP-SPDZ's compiler.

    `parties_that_split` is as in `_parties_that_split`.  [test: tests/programs/test_operation_counts.py]
    """
    if not number:
        return Counts()
    if not parties_that_split:
        return Counts(gates=10, steps=_ROUNDS_TO_COMPARE, decomposed=number)  # messages of MPyC
    steps = _ROUNDS_TO_COMPARE + 8 * ((number - 1) // 1000)  # 8 rounds for each further thousand
    if parties_that_split > 2:
        steps += bisect_left(_PARTS_BY_ROUNDS, parties_that_split)
    ands = number * _ANDS_TO_COMPARE[parties_that_split]
    if parties_that_split > 2:
        return Counts(ands=ands, dabits=number, decomposed=number, steps=steps)
    return Counts(ands=ands, dabits=65 * number, steps=steps)


def usage_of_keys(
    arguments: Mapping[str, str], parties_that_split: int, parties_that_mask: int = 0
) -> Counts:
    """Return the counts of sorting records' keys among markers, for the arguments of π_ROC.

    The cost of cutting keys into bits is an estimate.  [test: tests/protocols/test_sorting.py]
    """
    records = int(arguments["records"])
    cells = int(arguments["groups"]) * int(arguments["labels"]) * int(arguments["bins"])
    ranks = MarkerRanks((_BitType(Counts()), None, None, None, None), records, cells)
    pairs = 1 << (ranks.place_bits - 1)
    planes = 1 + ranks.key_bits
    # Sorting takes stages of comparisons of all pairs.
    compared = ranks.place_bits * (ranks.place_bits + 1) // 2
    ands = compared * 2 * planes
    steps = compared * (planes + 1)
    # Routing the ranks back takes a stage for each bit of a place.
    for bit in range(ranks.place_bits):
        ands += max(planes, 1 + bit)
        steps += 1
        if bit < ranks.key_bits:
            ands += 2
            steps += 2
    # Cutting keys into bits takes an adder of 2 to 3 ANDs a bit, by its width.
    keys = records + ranks.missing
    key_bits = keys * ranks.key_bits
    cutting = key_bits * (1 + parties_that_split)
    # The places of markers are turned into integers.
    turned = Counts()
    place = Wire(turned, WORD * (cells // WORD + 1))
    sum_of_bits(
        [(place, 1 << bit) for bit in range(ranks.place_bits)], _IntegerType(turned, parties_that_mask)
    )
    return Counts(
        ands=ands * pairs + cutting + turned.ands,
        dabits=turned.dabits,
        decomposed=(keys if parties_that_split > 2 else key_bits) + turned.decomposed,
        steps=steps + 8 + turned.depth,  # 8 to cut
    )


def estimate(job: Job, model: SecurityModel) -> str:
    """Return the compiler's output; PlanError without MP-SPDZ's compiler."""
    installation = find_installation()
    unknown = f"What {job.spec.name} costs is only known to MP-SPDZ's compiler."
    if isinstance(installation, str):  # why there is none
        raise PlanError(f"{unknown} {installation}")
    if model.virtual_machine is None:
        raise PlanError(f"{unknown} Security model {model.name} cannot run it.")
    return compilers_estimate(job, installation.home, compile_options(job, model))


def read_estimate(text: str, batch: int | None) -> Counts:
    """Read a compiler's output; PlanError without costs."""
    totals = Counter[str]()
    for number, what in re.findall(r"^ *(\d+) (.+)$", text, re.MULTILINE):
        edabits = re.fullmatch(r"(?:loose|strict) edabits of length (\d+)", what)
        if edabits:
            totals["decomposed"] += int(number) * int(edabits[1])
        elif re.fullmatch(r"integer \d-way splits", what):
            totals["decomposed"] += int(number)
        else:
            name = re.sub(r"(integer|bit) inputs from player \d+", r"\1 inputs", what)
            totals[name] += int(number)
    if "virtual machine rounds" not in totals:
        raise PlanError(
            "MP-SPDZ's compiler printed no estimate of what the program costs; is it another version?"
        )
    simple = totals["integer simple multiplications"]
    return Counts(
        rounds=totals["virtual machine rounds"],
        inputs=totals["integer inputs"],
        input_bits=totals["bit inputs"],
        ands=totals["bit triples"],
        dabits=totals["integer dabits"],
        decomposed=totals["decomposed"],
        multiplications=simple,
        products=totals["integer triples"] - simple,
        batch=batch or 0,
    )


class _Integers:
    """A secret vector that counts multiplications."""

    def __init__(self, usage: Counts, lanes: int, steps: int = 0) -> None:
        self._usage = usage
        self._lanes = lanes
        self._steps = steps
        usage.steps = max(usage.steps, steps)

    def __len__(self) -> int:
        return self._lanes

    def get_vector(self, _base: int, size: int) -> "_Integers":
        return _Integers(self._usage, size, self._steps)

    def __getitem__(self, _lane: int) -> "_Integers":
        return self.get_vector(0, 1)

    def split_to_n_summands(self, bits: int, parties: int) -> list[list[Wire]]:
        self._usage.decomposed += self._lanes
        columns: list[list[Wire]] = []
        for _ in range(bits):
            columns.append([Wire(self._usage, self._lanes) for _ in range(parties)])
        return columns

    def sum(self) -> "_Integers":
        self._usage.added += self._lanes
        return self.get_vector(0, 1)

    def __add__(self, other: "_Integers | int") -> "_Integers":
        if isinstance(other, int):
            return self
        return _Integers(self._usage, max(self._lanes, other._lanes), max(self._steps, other._steps))

    __radd__ = __add__
    __sub__ = __add__
    __rsub__ = __add__

    def __mul__(self, other: "_Integers | int") -> "_Integers":
        if isinstance(other, int):
            return self
        lanes = max(self._lanes, other._lanes)
        self._usage.gates += 1
        self._usage.multiplications += lanes
        return _Integers(self._usage, lanes, max(self._steps, other._steps) + 1)

    __rmul__ = __mul__

    def __gt__(self, _bound: int) -> "_Integers":
        self._usage.compared += self._lanes
        return self

    __ge__ = __gt__

    def reveal(self) -> None:
        """Cost nothing here: every program opens once."""


class _IntegerType:
    """Stands for MP-SPDZ's sint."""

    def __init__(self, usage: Counts, parties_that_mask: int) -> None:
        self._usage = usage
        self.parties_that_mask = parties_that_mask

    def __call__(self, value: Wire | Opened | int) -> _Integers:
        if isinstance(value, int | Opened):
            return _Integers(self._usage, 1)
        self._usage.dabits += value.lanes
        return _Integers(self._usage, value.lanes)

    def get_random(self, *, size: int) -> _Integers:
        return _Integers(self._usage, size)

    def get_input_from(self, _party: int, *, binary: bool, size: int) -> _Integers:
        assert binary
        self._usage.inputs += size
        return _Integers(self._usage, size)

    def read_from_file(self, _start: int, *, size: int) -> tuple[None, tuple[_Integers]]:
        return None, (_Integers(self._usage, size),)

    def write_to_file(self, _shares: _Integers) -> None:
        pass

    def concat(self, parts: Sequence[_Integers]) -> _Integers:
        return _Integers(self._usage, sum(map(len, parts)), max(part._steps for part in parts))

    def dot_product(self, x: _Integers, y: _Integers) -> _Integers:
        self._usage.products += len(x)
        return _Integers(self._usage, 1, max(x._steps, y._steps) + 1)


class _BitType:
    """Stands for MP-SPDZ's sbitvec and sbits."""

    def __init__(self, usage: Counts, size: int = 0) -> None:
        self._usage = usage
        self._size = size

    def get_type(self, size: int) -> "_BitType":
        return _BitType(self._usage, size)

    def get_input_from(self, _party: int, *, size: int) -> SimpleNamespace:
        self._usage.input_bits += self._size * size
        return SimpleNamespace(v=[Wire(self._usage, size) for _ in range(self._size)])

    def malloc(self, _words: int) -> int:
        return 0

    def load_mem(self, _address: object) -> Wire:
        return Wire(self._usage, self._size)


def _in_turn(times: int) -> Callable[[Callable[[int], None]], None]:
    """Stand for MP-SPDZ's for_range, a decorator that runs the function below it at once."""

    def run(body: Callable[[int], None]) -> None:
        for turn in range(times):
            body(turn)

    return run


def _do_nothing(*_: "int | str | Wire") -> None:
    """Stand for operations without costs."""
