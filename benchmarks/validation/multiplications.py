"""Multiplications that the protocols imply, and checks that MP-SPDZ's compiler counts as many."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

from benchmarks.papers import privfairfl
from benchmarks.validation.findings import Check
from fairshares.harness.engines.execution import PROGRAMS, VALUES_ELSEWHERE, PrivateJob
from fairshares.harness.engines.mpspdz.compiler import (
    Installation,
    compile_options,
    compilers_estimate,
    counted,
    find_installation,
)
from fairshares.harness.releases.confusion.spec import PI_CF
from fairshares.harness.releases.programs import PROTOCOLS
from fairshares.harness.releases.thresholds.spec import PI_ROC
from fairshares.harness.releases.weights.spec import PI_RW
from fairshares.harness.security_models import get_model
from fairshares.protocols.circuits.coins import design_coins
from fairshares.protocols.mechanisms.count_tree import CountTree
from fairshares.protocols.spec import ProtocolSpec

PRODUCTS = "integer triples"  # the compiler's name of products
ANDS = "bit triples"
_MODEL = get_model("ring")  # the program is the same in all models
_GROUPS = 2  # the number of groups in the paper
_LABELS = 2
_BLOCKS = "1.14.196"  # the blocks of π_ROC
_NOISE: Mapping[str, object] = {"epsilon": 1, "delta_bits": 40}
UNITS = {PRODUCTS: "products", ANDS: "ANDs"}


@dataclass(frozen=True)
class Implied:
    """The number of an operation that a protocol implies."""

    key: str
    spec: ProtocolSpec
    arguments: Mapping[str, object]
    what: str  # PRODUCTS or ANDS
    number: int
    why: str


def implied() -> list[Implied]:
    """Return the numbers that follow from the protocols at the paper's sizes.

    Source: PrivFairFL, Protocol 2, lines 5-8; Protocol 3, lines 4-7.
    """
    cells = _GROUPS * _LABELS
    grid = privfairfl().thresholds
    shapes = privfairfl().shapes
    records = shapes["ads"].records
    split = {"form": "split", "path": "shares", "clients": 0, "parts": 0, **_NOISE}
    third = {"epsilon": "1/3", "delta_bits": 42}
    tree = {"bins": grid, "blocks": _BLOCKS, **third}
    nodes = cells * CountTree(grid, tuple(map(int, _BLOCKS.split(".")))).nodes
    products_of_clients = [
        Implied(
            f"pi_rw.product.{shape.name}",
            PI_RW,
            {**split, "form": "product", "clients": shape.clients},
            PRODUCTS,
            (_GROUPS - 1) * _LABELS * shape.clients,
            f"one for each of {shape.clients} clients and {_LABELS} labels",
        )
        for shape in shapes.values()
    ]
    others = [
        Implied("pi_rw.split", PI_RW, split, PRODUCTS, 0, "none: parties add up"),
        Implied("pi_rw.noise", PI_RW, split, ANDS, cells * _ands(_NOISE), f"the noise of {cells} counts"),
        Implied(
            "pi_cf.product.ads",
            PI_CF,
            {"form": "product", "records": records, **_NOISE},
            PRODUCTS,
            4 * records,
            f"tp, ys, ps and tps of each of {records:,} records",
        ),
        Implied("pi_roc.default", PI_ROC, tree, PRODUCTS, 0, "none: clients count, parties add up"),
        Implied("pi_roc.noise", PI_ROC, tree, ANDS, nodes * _ands(third), f"the noise of {nodes:,} counts"),
    ]
    return products_of_clients + others


def checks(
    count: Callable[[ProtocolSpec, Mapping[str, object]], Mapping[str, int]] | None = None,
) -> Iterator[Check]:
    """Yield a check of each implied number.

    Args:
        count: Counts a program's operations; None for MP-SPDZ's compiler.
    """
    installation = find_installation()
    missing = installation if count is None and isinstance(installation, str) else ""
    for stated in implied():
        key = f"exact.{UNITS[stated.what].replace(' ', '_')}.{stated.key}"
        says = f"{stated.number:,} {UNITS[stated.what]}: {stated.why}"
        if missing:
            yield Check(key, says, unjudged=missing)
        else:
            number = (count or _by_compiler)(stated.spec, stated.arguments).get(stated.what, 0)
            yield Check(key, says, number, stated.number, stated.number, f"the compiler counts {number:,}")


def _by_compiler(spec: ProtocolSpec, arguments: Mapping[str, object]) -> Mapping[str, int]:
    named = {"parties": _MODEL.parties, "groups": _GROUPS, "labels": _LABELS, **arguments}
    return _count(spec.name, tuple(str(named[name]) for name in spec.arguments))


@cache  # π_RW and π_ROC have programs of which two numbers are checked
def _count(name: str, arguments: tuple[str, ...]) -> Mapping[str, int]:
    installation = find_installation()
    job = PrivateJob(PROTOCOLS[name], PROGRAMS / f"{name}.mpc", arguments, VALUES_ELSEWHERE)
    assert isinstance(installation, Installation)
    return counted(compilers_estimate(job, installation.home, compile_options(job, _MODEL)))


def _ands(noise: Mapping[str, object]) -> int:
    """Return the ANDs of a sample of the default noise: L - 1 for each coin of L bits."""
    epsilon = Fraction(str(noise["epsilon"]))
    delta_bits = int(str(noise["delta_bits"]))
    return sum(coin.bits - 1 for coin in design_coins(epsilon, delta_bits))
