"""Operation counts of a program, from execution on counting values, or from MP-SPDZ's compiler."""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from types import SimpleNamespace

from fairshares.harness.engines.base import PROGRAMS, Job
from fairshares.harness.engines.mpspdz.compiler import compile_options, compilers_estimate, find_installation
from fairshares.harness.errors import PlanError
from fairshares.harness.security_models import SecurityModel
from fairshares.protocols.accounting.exact_privacy import Gates, Wire
from fairshares.protocols.circuits.sorting import WORD, MarkerRanks

_ROUNDS_TO_COMPARE = 9


@dataclass
class Counts(Gates):
    """The operations of a program, over all its parties.

    Attributes:
        dabits: Bits turned into integers.
        decomposed: Integers turned into bits, or their bits where each costs.
        products: Multiplications within inner products.
        added: Summed elements of vectors, which take the compiler time.
        steps: Successive operations on integers.
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
        """Return the counts of two programs in turn."""
        return Counts(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))


def counts_of(job: Job, model: SecurityModel) -> Counts:
    """Return the operation counts of a job's program in this model; no data are needed.

    A portable program is executed on counting values, with formulas for comparisons and sorted keys. For
    other programs the compiler's estimate is read.
    Guarantees: where no keys are sorted, the counts equal the compiler's estimate, up to a few rounds.
    [test: tests/harness/forecast/test_operation_counts.py; tests/programs/test_operation_counts.py]
    Raises PlanError without MP-SPDZ's compiler, CompileError if it refuses the program.
    """
    arguments = dict(zip(job.spec.arguments, job.arguments, strict=True))
    split, batch = _parties_that_split(model), job.batch(model)
    counted = job.spec.counts_keys_of
    if counted is not None:  # the same release, but for how counts come about
        used = usage_of(PROGRAMS / f"{counted.name}.mpc", [arguments[name] for name in counted.arguments])
        used = replace(used, inputs=0 if job.replicated else int(arguments["records"]) * model.parties)
        used = used.then(usage_of_keys(arguments, split))
        with_triples = model.name not in ("ring", "rep4-ring")  # whose ANDs need material made in batches
        used.ands += -used.ands % (batch * WORD) if batch and with_triples else 0
    elif job.spec.portable and (
        arguments.get("path", "shares") == "shares" or (job.replicated and job.spec.slot_bits is None)
    ):
        used = usage_of(job.source, job.arguments)
        used = used.then(usage_of_comparisons(used.compared, split))
    else:
        return read_estimate(estimate(job, model), batch)
    if model.virtual_machine is None:  # MPyC's bits are integers, so that an AND is a multiplication
        used = replace(used, ands=used.ands + used.multiplications, multiplications=0)
    rounds = used.depth + used.steps + 3  # two to turn noise into integers, one to open
    rounds += used.inputs > 0 or job.spec.slot_bits is not None
    return replace(used, rounds=rounds, batch=batch or 0)


def _parties_that_split(model: SecurityModel) -> int:
    """Return how many shares of an integer become bits; 2 if a mask's do, 0 in MPyC."""
    if model.virtual_machine is None:
        return 0
    return model.parties if "-Z" in model.compile_options else 2


def usage_of(source: Path, arguments: Sequence[str]) -> Counts:
    """Execute a portable program on counting values; return its counts."""
    usage = Counts()
    names = {
        "program": SimpleNamespace(args=[source.stem, *arguments]),
        "sint": _IntegerType(usage),
        **dict.fromkeys(("sbitvec", "sbits"), _BitType(usage)),
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
    split = parties_that_split > 2
    more = 8 * ((number - 1) // 1000)  # rounds for each further thousand
    return Counts(
        ands=number * {2: 118, 3: 242, 4: 305}[parties_that_split],  # of 64-bit integers
        dabits=number * (1 if split else 65),
        decomposed=number * split,
        steps=_ROUNDS_TO_COMPARE + more + (parties_that_split > 3),
    )


def usage_of_keys(arguments: Mapping[str, str], parties_that_split: int) -> Counts:
    """Return the counts of sorting records' keys among markers, for the arguments of π_ROC.

    The cost of cutting keys into bits is an estimate.  [test: tests/protocols/test_sorting.py]
    """
    cells = int(arguments["groups"]) * int(arguments["labels"]) * int(arguments["bins"])
    ranks = MarkerRanks((_BitType(Counts()), None, None, None, None), int(arguments["records"]), cells)
    pairs, planes, bits = 1 << (ranks.place_bits - 1), 1 + ranks.key_bits, range(ranks.place_bits)
    compared = ranks.place_bits * (ranks.place_bits + 1) // 2
    routed = [max(planes, 1 + bit) + (2 if bit < ranks.key_bits else 0) for bit in bits]
    keys = int(arguments["records"]) + ranks.missing
    cut = keys * ranks.key_bits
    cutting = cut * (1 + parties_that_split)  # an adder takes 2 to 3 ANDs a bit, by its width
    in_turn = compared * (planes + 1) + sum(3 if bit < ranks.key_bits else 1 for bit in bits)
    return Counts(
        ands=(compared * 2 * planes + sum(routed)) * pairs + cutting,
        dabits=ranks.place_bits * WORD * (cells // WORD + 1),
        decomposed=keys if parties_that_split > 2 else cut,
        steps=in_turn + 8,  # to cut
    )


def estimate(job: Job, model: SecurityModel) -> str:
    """Return the compiler's output; PlanError without MP-SPDZ's compiler."""
    installation = find_installation()
    if model.virtual_machine is None or isinstance(installation, str):
        why = installation if isinstance(installation, str) else f"Security model {model.name} cannot run it."
        raise PlanError(f"What {job.spec.name} costs is only known to MP-SPDZ's compiler. {why}")
    return compilers_estimate(job, installation.home, compile_options(job, model))


def read_estimate(text: str, batch: int | None) -> Counts:
    """Read a compiler's output; PlanError without costs."""
    totals = Counter[str]()
    for number, what in re.findall(r"^ *(\d+) (.+)$", text, re.MULTILINE):
        name = re.sub(r"(integer|bit) inputs from player \d+", r"\1 inputs", what)
        edabits = re.fullmatch(r"(?:loose|strict) edabits of length (\d+)", what)
        if edabits or re.fullmatch(r"integer \d-way splits", what):
            name = "decomposed"
        totals[name] += int(number) * (int(edabits[1]) if edabits else 1)
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
        self._usage, self._lanes, self._steps = usage, lanes, steps
        usage.steps = max(usage.steps, steps)

    def __len__(self) -> int:
        return self._lanes

    def get_vector(self, _base: int, size: int) -> "_Integers":
        return _Integers(self._usage, size, self._steps)

    def __getitem__(self, _lane: int) -> "_Integers":
        return self.get_vector(0, 1)

    def sum(self) -> "_Integers":
        self._usage.added += self._lanes
        return self.get_vector(0, 1)

    def __add__(self, other: "_Integers | int") -> "_Integers":
        if isinstance(other, int):
            return self
        return _Integers(self._usage, max(self._lanes, other._lanes), max(self._steps, other._steps))

    __radd__ = __sub__ = __rsub__ = __add__

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

    def __init__(self, usage: Counts) -> None:
        self._usage = usage

    def __call__(self, value: Wire | int) -> _Integers:
        if isinstance(value, int):
            return _Integers(self._usage, 1)
        self._usage.dabits += value.lanes
        return _Integers(self._usage, value.lanes)

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
        self._usage, self._size = usage, size

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
    """Stand for MP-SPDZ's for_range."""

    def of(body: Callable[[int], None]) -> None:
        for turn in range(times):
            body(turn)

    return of


def _do_nothing(*_: "int | str | Wire") -> None:
    """Stand for operations without costs."""
