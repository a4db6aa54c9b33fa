"""How much of what a program uses: from the noise circuit itself, or from MP-SPDZ's compiler."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from harness.engines.base import Job
from harness.engines.bytecode import compilers_estimate
from harness.engines.mpspdz import compile_options, find_installation
from harness.errors import PlanError
from harness.models import Model
from protocols.circuits.coins import Coin, design_coins
from protocols.circuits.noise import fair_bits_per_sample, two_sided_geometric
from protocols.circuits.sorting import WORD, MarkerRanks
from protocols.spec import PI_CF, PI_GAP, PI_LAP, PI_ROC, PI_ROC_RECORDS, PI_RW, PRODUCT

_ROUNDS_AROUND = 3  # of the virtual machine: two to turn noise into integers, and opening
_COST = re.compile(r"^ *(\d+) (.+)$", re.MULTILINE)
_PER_PARTY = re.compile(r"(integer|bit) inputs from player \d+")
_SPLIT = re.compile(r"integer \d-way splits")
_EDABITS = re.compile(r"(?:loose|strict) edabits of length (\d+)")


@dataclass(frozen=True)
class Counts:
    """What a program uses, over all its parties.

    Attributes: rounds: of the virtual machine, one after the other; gates: ANDs on vectors, whatever their
    length; inputs, input_bits: integers and bits that parties feed in; ands: of single bits; dabits: bits
    turned into integers; decomposed: integers turned into bits, by bits where each costs; multiplications:
    of integers; products: those within inner products; lanes: noisy values.
    """

    rounds: int
    gates: int
    inputs: int
    input_bits: int
    ands: int
    dabits: int
    decomposed: int
    multiplications: int
    products: int
    lanes: int


def counts_of(job: Job, model: Model) -> Counts:
    """Return what a job's program uses in this model; no data are needed.

    Computes: noise from its circuit, whose gates are counted as they are made, and what clients sent, which
    is only added up or multiplied. Programs that do more are compiled, and the compiler's estimate is read.
    Guarantees: where nothing is compiled, the compiler's estimate all the same.
    [test: tests/unit/test_plan_counts.py; tests/matrix/test_plan_counts.py]
    Raises: PlanError: it takes MP-SPDZ's compiler, which is not here; CompileError: that refuses the program.
    """
    arguments = dict(zip(job.spec.arguments, job.arguments, strict=True))
    fed = _fed(job.spec.name, arguments)
    if fed is None or arguments.get("path", "shares") != "shares":
        return _compiled(job, model, arguments)
    coins = design_coins(Fraction(arguments["epsilon"]), int(arguments["delta_bits"]))
    wires, depth = _noise_circuit(coins)
    lanes = max(lanes for _, lanes in job.fair_bits)
    return Counts(
        rounds=depth + _ROUNDS_AROUND + (fed.values > 0) + fed.rounds,
        gates=wires,
        inputs=fed.values * model.parties,
        input_bits=fair_bits_per_sample(coins) * lanes * model.parties,
        ands=wires * lanes,
        dabits=(len(coins) + 1) * lanes,
        decomposed=0,
        multiplications=fed.multiplications,
        products=fed.products,
        lanes=lanes,
    )


@dataclass(frozen=True)
class _Fed:
    """What a program does with clients' values. Attributes: values: of each party."""

    values: int
    multiplications: int = 0
    products: int = 0
    rounds: int = 0


def _fed(program: str, arguments: Mapping[str, str]) -> _Fed | None:
    """Return what a program does before it adds noise; None if this is not known without compiling it."""

    def number(name: str) -> int:
        return int(arguments[name])

    if program == PI_LAP.name:
        return _Fed(0)
    if program == PI_GAP.name:
        return _Fed(2 * number("groups"))
    if program == PI_ROC.name:
        return _Fed(number("groups") * number("labels") * number("bins"))
    if program not in (PI_RW.name, PI_CF.name):
        return None
    groups, labels = number("groups"), number("labels")
    product = arguments["form"] == PRODUCT.name
    if program == PI_RW.name:
        if not product:
            return _Fed(groups * labels)
        clients = number("clients")
        inner = (groups - 1) * labels * clients
        return _Fed((groups - 1 + labels) * clients, products=inner, rounds=1)
    if not product:
        return _Fed(groups * labels**2)
    records, others = number("records"), labels - 1
    inner = (groups - 1) * (labels**2 - 1) * records
    return _Fed((groups - 1 + 2 * others) * records, others**2 * records, inner, rounds=2)


class _Wire:
    """A bit of the circuit that knows how many ANDs are before it; all wires of a circuit share a tally."""

    def __init__(self, tally: list[int], depth: int = 0) -> None:
        self.tally, self.depth = tally, depth

    def __and__(self, other: _Wire) -> _Wire:
        self.tally[0] += 1
        return _Wire(self.tally, max(self.depth, other.depth) + 1)

    def __xor__(self, other: _Wire) -> _Wire:
        return _Wire(self.tally, max(self.depth, other.depth))

    def __invert__(self) -> _Wire:
        return self


@lru_cache(maxsize=64)
def _noise_circuit(coins: tuple[Coin, ...]) -> tuple[int, int]:
    """Return how many ANDs a sample takes, and how many of them one after the other."""
    tally = [0]
    made = two_sided_geometric(coins, [_Wire(tally) for _ in range(fair_bits_per_sample(coins))])
    return tally[0], max(wire.depth for wire in made)


def _compiled(job: Job, model: Model, arguments: Mapping[str, str]) -> Counts:
    counts = read_estimate(estimate(job, model), max((lanes for _, lanes in job.fair_bits), default=0))
    return _without_skipped(counts, arguments) if job.spec is PI_ROC_RECORDS else counts


def estimate(job: Job, model: Model) -> str:
    """Return what MP-SPDZ's compiler says of a program. Raises: PlanError: it is not here; CompileError."""
    found = find_installation()
    if model.virtual_machine is None or isinstance(found, str):
        why = found if isinstance(found, str) else f"Model {model.name} cannot run it."
        raise PlanError(f"What {job.spec.name} costs is only known to MP-SPDZ's compiler. {why}")
    return compilers_estimate(job, found.home, compile_options(job.spec, model))


def read_estimate(text: str, lanes: int) -> Counts:
    """Read what MP-SPDZ's compiler prints of a program. Raises: PlanError: it prints no cost."""
    totals: dict[str, int] = {}
    bits = 0
    for number, what in _COST.findall(text):
        count = int(number)
        if edabits := _EDABITS.fullmatch(what):
            bits += count * int(edabits[1])
        elif _SPLIT.fullmatch(what):
            bits += count
        else:
            name = _PER_PARTY.sub(r"\1 inputs", what)
            totals[name] = totals.get(name, 0) + count
    if "virtual machine rounds" not in totals:
        raise PlanError(
            "MP-SPDZ's compiler printed no estimate of what the program costs; is it another version?"
        )
    simple = totals.get("integer simple multiplications", 0)
    return Counts(
        rounds=totals["virtual machine rounds"],
        gates=0,
        inputs=totals.get("integer inputs", 0),
        input_bits=totals.get("bit inputs", 0),
        ands=totals.get("bit triples", 0),
        dabits=totals.get("integer dabits", 0),
        decomposed=bits,
        multiplications=simple,
        products=totals.get("integer triples", 0) - simple,
        lanes=lanes,
    )


class _AnyWidth:
    @staticmethod
    def get_type(_lanes: int) -> None:
        """Stand for MP-SPDZ's type of secret bits, none of which are made."""


def _without_skipped(counts: Counts, arguments: Mapping[str, str]) -> Counts:
    """Take off the comparisons of the sorting network that are in the loops' body but not made.

    Computes: a merge of 2^p places compares in p turns of its loop; the compiler counts all of them.
    """
    cells = int(arguments["groups"]) * int(arguments["labels"]) * int(arguments["bins"])
    ranks = MarkerRanks((_AnyWidth, None, None, None, None), int(arguments["records"]), cells)
    places, words = ranks.place_bits, ranks.place_bits - (WORD.bit_length() - 1)
    skipped = words * words + (places - words) * 2 * words - places * (places + 1) // 2
    planes = 1 + ranks.key_bits
    fewer = {"ands": 2 * planes * skipped << (places - 1), "rounds": (planes + 1) * skipped}
    return Counts(**{name: value - fewer.get(name, 0) for name, value in vars(counts).items()})
