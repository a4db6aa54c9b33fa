"""How much of what a program uses: from the circuits themselves, or from MP-SPDZ's compiler."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction

from harness.engines.base import Job
from harness.engines.mpspdz.compiler import compile_options, compilers_estimate
from harness.engines.mpspdz.discovery import find_installation
from harness.errors import PlanError
from harness.forecast.circuits import Tally, comparisons_tally, keys_tally, noise_tally, slots_tally
from harness.security_models import Model
from protocols.circuits.coins import design_coins
from protocols.circuits.logarithm import scale_bits
from protocols.circuits.noise import fair_bits_per_sample
from protocols.circuits.sorting import WORD
from protocols.spec import PI_CAP, PI_CF, PI_COUNT, PI_GAP, PI_LAP, PI_ROC, PI_ROC_RECORDS, PI_RW, PRODUCT

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
    of integers; products: those within inner products; batch: how much of these is prepared at once, None
    for the machine's own choice.
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
    batch: int | None


def counts_of(job: Job, model: Model) -> Counts:
    """Return what a job's program uses in this model; no data are needed.

    Computes: noise from its circuit, whose gates are counted as they are made, and what clients sent: added
    up or multiplied, slots counted by their circuit, keys sorted, which takes whole batches, as the machine
    does not foresee what its loops use. Programs that do more are compiled, and the estimate is read.
    Guarantees: where nothing is compiled or sorted, the compiler's estimate all the same.
    [test: tests/harness/forecast/test_tally.py; tests/programs/test_tally.py]
    Raises: PlanError: it takes MP-SPDZ's compiler, which is not here; CompileError: that refuses the program.
    """
    arguments = dict(zip(job.spec.arguments, job.arguments, strict=True))
    fed = _fed(job, model, arguments)
    if fed is None or arguments.get("path", "shares") != "shares":
        return read_estimate(estimate(job, model), job.batch(model))
    coins = design_coins(Fraction(arguments["epsilon"]), int(arguments["delta_bits"]))
    noise, lanes = noise_tally(coins), max(lanes for _, lanes in job.fair_bits)
    ands, batch = noise.ands * lanes + fed.bits.ands, job.batch(model)
    if batch and job.spec is PI_ROC_RECORDS:
        ands += -ands % (batch * WORD)
    multiplied = fed.multiplications
    if model.virtual_machine is None:  # MPyC's bits are integers, so that an AND is a multiplication
        ands, multiplied = ands + multiplied, 0
    return Counts(
        rounds=max(noise.depth, fed.bits.depth) + _ROUNDS_AROUND + (fed.values > 0) + fed.rounds,
        gates=noise.gates + fed.bits.gates,
        inputs=fed.values * model.parties,
        input_bits=(fair_bits_per_sample(coins) * lanes + fed.bits.input_bits) * model.parties,
        ands=ands,
        dabits=noise.dabits * lanes + fed.bits.dabits,
        decomposed=fed.decomposed,
        multiplications=multiplied,
        products=fed.products,
        batch=batch,
    )


@dataclass(frozen=True)
class _Fed:
    """What a program does with clients' values. Attributes: values: of each party; bits: of slots or keys."""

    values: int
    multiplications: int = 0
    products: int = 0
    rounds: int = 0
    decomposed: int = 0
    bits: Tally = field(default_factory=Tally)


def _fed(job: Job, model: Model, arguments: Mapping[str, str]) -> _Fed | None:
    """Return what a program does before it adds noise; None if this is not known without compiling it."""
    program = job.spec.name

    def number(name: str) -> int:
        return int(arguments[name])

    if program == PI_CAP.name:
        return _first_below(model, arguments)
    if program == PI_COUNT.name:
        return _logarithms(model, arguments)
    if job.spec.slot_bits:
        return _Fed(0, rounds=1, bits=slots_tally(job.spec, arguments))
    if job.spec is PI_ROC_RECORDS:
        return _sorted(model, arguments)
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


def _parties_that_split(model: Model) -> int:
    """Return how many shares of an integer become bits; 2 where a mask's do, 0 in MPyC."""
    if model.virtual_machine is None:
        return 0
    return model.parties if "-Z" in model.compile_options else 2


def _first_below(model: Model, arguments: Mapping[str, str]) -> _Fed:
    """Return what choosing a cap takes: counts of slots are compared, and the answers multiplied."""
    queries = int(arguments["queries"])
    compared, decomposed = comparisons_tally(queries, _parties_that_split(model))
    distances = [1 << i for i in range((queries - 1).bit_length())]  # of values that are multiplied
    return _Fed(
        0,
        multiplications=sum(queries - distance for distance in distances),
        rounds=compared.depth + len(distances),
        decomposed=decomposed,
        bits=slots_tally(PI_CAP, arguments).then(_gates_alone(compared, len(distances))),
    )


def _logarithms(model: Model, arguments: Mapping[str, str]) -> _Fed:
    """Return what logarithms take: each count is compared with powers of 2, and multiplied by its slope."""
    cells = int(arguments["groups"]) * int(arguments["labels"])
    offset, most = int(arguments["offset"]), int(arguments["most"])
    powers = scale_bits(offset, most) - offset.bit_length()
    compared, decomposed = comparisons_tally(powers * cells, _parties_that_split(model))
    multiplications = cells if powers else 0
    bits = _gates_alone(compared, 1 if powers else 0)
    return _Fed(cells, multiplications, rounds=compared.depth, decomposed=decomposed, bits=bits)


def _gates_alone(compared: Tally, products: int) -> Tally:
    """Return what comparisons use, and so many products of vectors, but for depth: they come after."""
    return replace(compared, gates=compared.gates + products, depth=0)


def _sorted(model: Model, arguments: Mapping[str, str]) -> _Fed:
    """Return what sorting keys takes: their bits come from shares that are split, or from masks, by bits."""
    parties = _parties_that_split(model)
    split = parties > 2
    tally, bits = keys_tally(arguments, parties)
    cells = int(arguments["groups"]) * int(arguments["labels"]) * int(arguments["bins"])
    records = int(arguments["records"])
    decomposed = bits // cells.bit_length() if split else bits
    return _Fed(records, rounds=tally.depth, decomposed=decomposed, bits=replace(tally, depth=0))


def estimate(job: Job, model: Model) -> str:
    """Return what MP-SPDZ's compiler says of a program. Raises: PlanError: it is not here; CompileError."""
    found = find_installation()
    if model.virtual_machine is None or isinstance(found, str):
        why = found if isinstance(found, str) else f"Model {model.name} cannot run it."
        raise PlanError(f"What {job.spec.name} costs is only known to MP-SPDZ's compiler. {why}")
    return compilers_estimate(job, found.home, compile_options(job.spec, model))


def read_estimate(text: str, batch: int | None) -> Counts:
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
        batch=batch,
    )
