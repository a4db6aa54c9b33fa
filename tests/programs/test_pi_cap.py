"""π_CAP opens the same known index in every model, whatever clients send, and whichever way noise falls.

Its own text, run with noise that the test gives, on shares that the harness turns into parties' bits.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from msgspec import UNSET, UnsetType

from fairshares.harness.engines.registry import engine_of
from fairshares.harness.inputs.record_schema import RecordDomain
from fairshares.harness.inputs.records import ClientRecords
from fairshares.harness.pipeline.run import RunSettings, run_release
from fairshares.harness.pipeline.sources import SharesSource
from fairshares.harness.releases.cap.spec import PI_CAP
from fairshares.harness.releases.cap.statistic import CapStatistic, CapTarget, sizes_alone
from fairshares.harness.security_models import MODELS, SecurityModel
from fairshares.protocols import reference
from fairshares.protocols.accounting.calibration import PrivacyUnit
from fairshares.protocols.circuits.coins import design_coins
from fairshares.protocols.guarantee import Guarantee
from fairshares.protocols.spec import SLOTS
from tests.support.misbehaving import MISBEHAVIOURS, copy_under_another_name, misbehave
from tests.support.requests import request_of
from tests.support.running import model_parameters, noise_of, opened_with
from tests.support.sharing import share, share_all
from tests.support.slots import cells_of_words, changed, shares_of_words

EPSILON, DELTA_BITS = "1/4", 45
COINS = design_coins(Fraction(EPSILON), DELTA_BITS)
CAPS = (1, 2, 3, 4, 6, 8)  # 5 of them are asked for: codes have 3 bits, of which 6 and 7 are left over
QUERIES = len(CAPS) - 1

# What a client's word may be, of which the lowest three bits are used.
WORDS: dict[str, int] = {
    "no record": 0,
    "exceeds two": 2,
    "exceeds all but the last": 5,
    "all ones": -1,
    "a code of no cap": 6,
    "a large value": 2**62 + 8 + 3,
    **{
        f"random {k}": int(w) for k, w in enumerate(np.random.default_rng(4).integers(-(2**63), 2**63 - 1, 9))
    },
}


@dataclass(frozen=True)
class Case:
    """What clients send, the noise on the bound and on each count, and the bits that a server flips."""

    words: Sequence[int]
    noise: Sequence[int]
    above: int = 2
    flipped: dict[int, int] = field(default_factory=dict)

    def sizes(self) -> list[int]:
        """Return how many records the parties take each client to have, if no cap tells more."""
        return [CAPS[cell + 1] for cell in cells_of_words(changed(self.words, self.flipped), QUERIES)]


def bits_of(noise: Sequence[int]) -> npt.NDArray[np.bool_]:
    """Return fair bits that make this noise: a coin shows 1 for all bits 0, and 0 for all bits 1."""
    lanes = []
    for x in noise:
        size = -1 - x if x < 0 else x
        shown = [not size >> i & 1 for i in range(len(COINS))]
        lanes.append(
            [x < 0, *(bit for coin, bit in zip(COINS, shown, strict=True) for _ in range(coin.bits))]
        )
    return np.array(lanes, dtype=bool).T


def opened(case: Case, model: SecurityModel, directory: Path) -> list[int]:
    """Return what a run opens."""
    bits = bits_of(case.noise)
    assert noise_of(COINS, bits) == list(case.noise)
    size = (len(case.words), model.slots_per_lane, QUERIES, case.above)
    arguments = (model.parties, *size, EPSILON, DELTA_BITS)
    words = shares_of_words(case.words, model.parties, case.flipped)
    return opened_with(bits, PI_CAP, arguments, model, directory, words=words)


def expected(case: Case) -> int:
    return reference.first_below(case.sizes(), CAPS, case.above, case.noise)


# Clients that exceed so many caps: of 70, more than 9, 7, 5, 3 and 1 exceed the first, second ... cap.
PLAIN = [0] * 60 + [1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
CASES = {
    "without noise": (Case(PLAIN, [0] * 6), 4),
    "none below": (Case(PLAIN, [-120, 0, 0, 0, 0, 0]), 5),
    "the first below": (Case(PLAIN, [3, -5, 0, 0, 0, 0]), 0),
    "a tie with the bound": (Case(PLAIN, [1, 0, 0, -3, 0, 0]), 2),
    "one more than the bound": (Case(PLAIN, [1, 0, 0, -2, -1, 0]), 3),
    "later ones are above again": (Case(PLAIN, [0, 0, -6, 7, 0, 90]), 1),
    "nobody has any record": (Case([0] * 70, [-3, 0, 1, -1, -2, -7]), 2),
    "large noise": (Case(PLAIN, [-128, *[127] * 4, -128]), 4),
}


@pytest.mark.parametrize("model", model_parameters(models=[MODELS["ring"]]))
@pytest.mark.parametrize(("case", "index"), CASES.values(), ids=CASES)
def test_index(case: Case, index: int, model: SecurityModel, tmp_path: Path) -> None:
    assert expected(case) == index
    assert opened(case, model, tmp_path) == [index]


@pytest.mark.parametrize(("more", "index"), [(0, 2), (1, 5)])
@pytest.mark.parametrize("model", model_parameters())
def test_whatever_clients_send_each_exceeds_one_number_of_caps(
    model: SecurityModel, more: int, index: int, tmp_path: Path
) -> None:
    """All kinds at once, 80 clients, in lanes of 63 and a rest; a server flips bits, too. A tie decides."""
    assert engine_of(model).supports(PI_CAP, model, PI_CAP.input_forms[SLOTS.name]) is None
    honest = np.random.default_rng(8).integers(0, 6, 80 - len(WORDS)).tolist()
    flipped = {0: 5, 1: 7, 79: 2**63 + 4}
    case = Case([*WORDS.values(), *honest], [0] * 6, flipped=flipped)
    exceeding = [sum(size > cap for size in case.sizes()) for cap in CAPS]
    noise = [-7, 0, exceeding[0] - exceeding[1], -8 + more, 120, 120]
    last = Case(case.words, noise, exceeding[2] - 1, flipped)
    assert expected(last) == index
    assert opened(last, model, tmp_path) == [index]


DELTA = Fraction(1, 2**40)
DOMAIN = RecordDomain(("a", "b"), ("0", "1"), 60)
STATISTIC = CapStatistic(
    CapTarget("counts", Guarantee(Fraction(1, 2), DELTA), counts=4)
)  # 7 clients may exceed the cap


def records(sizes: Sequence[int]) -> ClientRecords:
    client = np.repeat(np.arange(len(sizes)), sizes)
    zeros = np.zeros(len(client), dtype=np.int64)
    return sizes_alone(ClientRecords(DOMAIN, np.arange(len(sizes)).astype(str), client, zeros, zeros))


HONEST = [0] * 5 + [1] * 5 + [3] * 10 + [4] * 10 + [6] * 10  # 10 have more than 4 records, nobody over 6


@pytest.mark.parametrize("model", model_parameters())
def test_uploads_that_are_not_sound_are_out_at_every_party(model: SecurityModel, tmp_path: Path) -> None:
    """All ways to misbehave, by a client each, towards one party or, every other one, all; and a copy."""
    shares, form = tmp_path / "shares", PI_CAP.input_forms[SLOTS.name]
    for sizes in (HONEST[:20], HONEST[20:], [50] * 5):
        honest, *_ = share_all(records(sizes), form, model, shares)
    for i, what in enumerate(MISBEHAVIOURS.values()):
        bad = share(records([50]), form, model, shares)
        alike, party = what.at_all and i % 2, i % model.parties
        misbehave(what.change, shares, bad, range(model.parties) if alike else range(party, party + 1))
    copy_under_another_name(shares, honest, 1)
    request = request_of(model, form, Fraction(20), DELTA, unit=PrivacyUnit.CLIENT)  # noise decides nothing
    source, settings = SharesSource(shares), RunSettings(request)
    run = run_release(STATISTIC, source, settings, tmp_path / "out", lambda step: None)
    inputs = run.manifest.inputs
    assert (inputs.clients, inputs.uploads) == (45, 45)
    assert not isinstance(inputs.excluded_because, UnsetType)
    assert inputs.excluded_uploads == len(MISBEHAVIOURS) == sum(inputs.excluded_because.values())
    assert (run.found.above, run.found.cap) == (7, 6)  # 5 have more, and the others would be too many
    privacy = run.manifest.privacy
    assert (privacy.privacy_unit, privacy.neighboring_relation) == ("client", "zero_out_one")
    assert privacy.exact.epsilon <= 20 and privacy.revealed == list(PI_CAP.revealed)
    assert privacy.cap is UNSET and privacy.noise_for is UNSET
