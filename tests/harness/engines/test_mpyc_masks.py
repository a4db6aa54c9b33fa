"""How many integers a program masks on the embedded engine, and how well each mask hides its integer."""

import subprocess
import sys
from collections.abc import Iterator
from fractions import Fraction

import pytest

from fairshares.harness.engines.execution import PROGRAMS
from fairshares.harness.forecast.operation_counts import usage_of
from fairshares.harness.releases.cap.spec import PI_CAP
from fairshares.harness.releases.confusion.spec import PI_CF
from fairshares.harness.releases.count.spec import PI_COUNT
from fairshares.harness.releases.programs import PROTOCOLS
from fairshares.harness.releases.weights.spec import PI_RW
from fairshares.harness.security_models import get_model
from fairshares.protocols.spec import ProtocolSpec
from tests.support.one_party import OneParty
from tests.support.program_arguments import small_arguments

CASES = [
    *((spec, {}) for spec in PROTOCOLS.values() if spec.portable and not spec.uses_piece),
    *((spec, {"form": "product"}) for spec in (PI_RW, PI_CF)),
    *(
        (PI_COUNT, {"offset": offset, "most": most})
        for offset, most in ((64, 63), (4, 11), (3, 1000), (7, 1))
    ),
    *((PI_CAP, {"queries": queries}) for queries in (1, 19)),
]


@pytest.fixture(scope="module")
def party() -> Iterator[OneParty]:
    with OneParty() as process:
        yield process


@pytest.mark.parametrize(("spec", "other"), CASES, ids=lambda value: getattr(value, "name", str(value)))
def test_what_a_program_declares_to_compare_is_what_is_masked(
    spec: ProtocolSpec, other: dict[str, int | str], party: OneParty
) -> None:
    """Bits, products, sums and openings take no mask that could fail to hide."""
    arguments = small_arguments(spec, **other)
    given = dict(zip(spec.arguments, arguments, strict=True))
    source = PROGRAMS / f"{spec.name}.mpc"
    outcome = party.run(
        source.read_text(), arguments=tuple(arguments), elements=(0,) * 100, integers=(0,) * 1000
    )
    assert "more input" in outcome.message and outcome.printed.startswith("OUT ")  # it ran to its end
    assert outcome.masked == spec.compared(given) == usage_of(source, arguments).compared


BOUND_OF_MASKS = """
import sys
from fairshares.harness.engines.mpyc.party import _load_mpyc
from fairshares.harness.engines.parties.config import Embedded, PartyConfig
bits, threshold, parties = map(int, sys.argv[1:])
engine = Embedded(program="none", arguments=(), threshold=threshold, security_bits=bits)
addresses = tuple(("127.0.0.1", 1111 + party) for party in range(parties))
names = ("",) * parties
mpc = _load_mpyc(PartyConfig(party=2, common_names=names, engine=engine, addresses=addresses), engine)
def show(bound):
    print(bound)
    raise SystemExit
mpc.prfs = show
mpc._np_randoms(mpc.SecInt(64, p=2**127 - 1).field, 1, 1 << mpc.options.sec_param)
"""


@pytest.mark.parametrize(("parties", "bits"), [(3, 61), (5, 59), (6, 59), (7, 57), (16, 49)])
def test_a_mask_hides_what_is_compared_but_for_the_declared_probability(parties: int, bits: int) -> None:
    """All parts of a mask but one are known to those who collude; this one is uniform below a bound.

    With its 64 random bits that hides a number x but for |x| / (2^64 · bound), and programs compare what is
    less than 2^62 apart.
    """
    model = get_model("mpyc", parties)
    shown = subprocess.run(
        [sys.executable, "-c", BOUND_OF_MASKS, str(model.mask_bits), str(model.corruptions), str(parties)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert shown.returncode == 0, shown.stderr
    assert Fraction(2**62, 2**64 * int(shown.stdout)) == Fraction(1, 2**bits)
    assert model.statistical_security_bits == bits
