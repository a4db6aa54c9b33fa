"""What a run says of itself: every key is there, and no printed bound is better than the exact one."""

import json
import math
import re
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, strategies as st
from msgspec import structs

from fairshares.harness.engines.execution import PROJECT, EngineResult, times_of
from fairshares.harness.errors import ResultFileError
from fairshares.harness.inputs.record_schema import Cap
from fairshares.harness.inputs.rings import FIELD
from fairshares.harness.pipeline import manifest_of_run as report
from fairshares.harness.privacy.manifest import (
    Manifest,
    StatedInputs,
    opened_by,
    read_manifest,
    read_statement,
)
from fairshares.harness.privacy.statement import (
    HONEST_CLIENTS,
    PrivacyStatement,
    bounds_shown,
    together,
)
from fairshares.harness.releases.count.spec import PI_COUNT
from fairshares.harness.releases.gap.spec import PI_GAP
from fairshares.harness.releases.weights.spec import PI_RW
from fairshares.harness.security_models import MODELS, SecurityModel
from fairshares.harness.stated_privacy import StatedLoss
from fairshares.harness.system.documents import as_json
from fairshares.harness.system.result_files import SCHEMA
from fairshares.protocols.accounting.calibration import (
    NeighboringRelation,
    Neighbors,
    NoisePlan,
    each_cell_once,
    plan_distributed_noise,
    plan_noise,
    sums_from_ends,
)
from fairshares.protocols.accounting.exact_privacy import amounts_moved, impossible_mass
from fairshares.protocols.accounting.rounding import digits_up, float_up, interval_shown
from fairshares.protocols.guarantee import Guarantee
from fairshares.protocols.noise.added import NoiseDistribution
from fairshares.protocols.noise.truncated import guarantee
from fairshares.protocols.spec import CLIENTS, PRODUCT, SHARES, SPLIT, InputForm, InputPath
from tests.support.stated import manifest_of, statement_of

DELTA = Fraction(1, 2**40)
EVERY_MODEL = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
EVERY_RELATION = pytest.mark.parametrize("relation", NeighboringRelation)  # of clients with one record

# As interfaces promise; scripts depend on them.
MANIFEST = {
    "schema", "task", "security", "engine", "engine_version", "program_hash", "compile_options", "privacy",
    "mpc_s", "wall_s", "compile_s", "share_s", "rounds", "sent_bytes", "environment",
}  # fmt: skip


def plan(
    epsilon: Fraction, relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE
) -> NoisePlan:
    return plan_noise(each_cell_once(4), Neighbors(relation), epsilon, DELTA)


def stated(
    model: SecurityModel,
    epsilon: Fraction,
    relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE,
    form: InputForm = SPLIT,
    inferred: bool = False,
) -> PrivacyStatement:
    return statement_of(PI_RW, form, model, plan(epsilon, relation), inferred, asked=epsilon)


@EVERY_RELATION
@pytest.mark.parametrize("epsilon", [Fraction(1), Fraction(1, 3), Fraction(1, 10**5), Fraction(20)], ids=str)
def test_printed_bounds_are_above_the_exact_ones(epsilon: Fraction, relation: NeighboringRelation) -> None:
    """As floats and as text, within one float of them; the exact ones are the coins'."""
    chosen = plan(epsilon, relation)
    shown = statement_of(PI_RW, SPLIT, MODELS["mpyc"], chosen, False, asked=epsilon).stated
    units = 2 if relation is NeighboringRelation.REPLACE_ONE else 1
    exact = guarantee(chosen.coins, units)
    again = json.loads(json.dumps(as_json(shown)))
    for name, value in (("epsilon", exact.epsilon), ("delta", exact.delta)):
        assert Fraction(again[f"{name}_exact"]) == value
        assert value <= Fraction(again[name]) <= value * (1 + Fraction(1, 2**52))
    assert shown.epsilon_requested == epsilon >= exact.epsilon and exact.delta <= DELTA


positive = st.fractions(min_value=Fraction(1, 10**30), max_value=40).filter(bool)


@given(value=positive)
@example(value=Fraction(1, 3))
@example(value=Fraction(1, 10))
@example(value=Fraction(2**53 + 1, 2**53))
@example(value=Fraction(1, 2**1080))
def test_float_up_is_the_least_float_above(value: Fraction) -> None:
    above = float_up(value)
    assert Fraction(above) >= value > Fraction(math.nextafter(above, -math.inf))


@given(value=positive, digits=st.integers(1, 9))
@example(value=Fraction(9999, 10000), digits=2)
@example(value=Fraction(10**30 + 1, 10**30), digits=4)
@example(value=Fraction(1, 10**7), digits=4)
@example(value=Fraction(99999, 1), digits=4)
@example(value=Fraction(1, 2**40), digits=4)
def test_digits_up_is_above_and_close(value: Fraction, digits: int) -> None:
    shown = digits_up(value, digits)
    assert value <= Fraction(shown) <= value * (1 + Fraction(10, 10**digits))
    assert len(re.sub(r"e.*|[^0-9]", "", shown.lower()).lstrip("0")) <= max(digits, 5)


RESULT = EngineResult(
    model=MODELS["ring"],
    outputs={"counts": (987654321,)},
    engine="mp-spdz",
    engine_version="MP-SPDZ x",
    times=times_of((0.125, 0.25, 0.0625), 0.5, wall_s=3.0),
    rounds=12,
    sent_bytes=(1, 2, 3),
    peak_memory_bytes=(7, 8, 9),
    program_hash="ab" * 32,
    compile_options=("-R", "64"),
)


NOBODY = StatedInputs(clients=0)


def a_manifest(epsilon: Fraction) -> Manifest:
    privacy = stated(MODELS["ring"], epsilon, NeighboringRelation.REPLACE_ONE).stated
    inputs = StatedInputs(clients=1, uploads=1, max_count=1)
    return manifest_of("weights", RESULT, privacy, inputs)


def test_manifest() -> None:
    manifest: dict[str, Any] = as_json(a_manifest(Fraction(1)))
    assert set(manifest) >= MANIFEST and json.loads(json.dumps(manifest, allow_nan=False)) == manifest
    same = {
        "schema": SCHEMA, "task": "weights", "security": "ring", "engine": "mp-spdz", "ledger": None,
        "engine_version": "MP-SPDZ x", "program_hash": "ab" * 32, "compile_options": ["-R", "64"],
        "mpc_s": 0.25, "wall_s": 4.0, "compile_s": 0.5, "share_s": 0.125, "rounds": 12,
        "sent_bytes": [1, 2, 3], "inputs": {"clients": 1, "uploads": 1, "max_count": 1},
    }  # fmt: skip
    assert {name: manifest[name] for name in same} == same
    assert {"time", "python", "platform", "cores"} <= set(manifest["environment"])
    assert "987654321" not in json.dumps(manifest)


@EVERY_MODEL
@pytest.mark.parametrize("path", [SHARES, CLIENTS], ids=["shares", "clients"])
def test_what_an_active_party_can_change_is_said(model: SecurityModel, path: InputPath) -> None:
    privacy = stated(model, Fraction(1), form=PRODUCT.by(path))
    assert privacy.stated.input_path == path.described
    text = " ".join(privacy.in_full())
    sharing = "It can, however, change its share of a client's input unnoticed." in text
    sending = "It cannot change what a client sent unnoticed, but for probability 2^-40." in text
    sound = model.tolerates == "active"
    assert (sharing, sending) == (sound and path is SHARES, sound and path is CLIENTS)
    assert ("MP-SPDZ's check of them is without effect" in text) == (model.active and not sound)


@EVERY_MODEL
@EVERY_RELATION
def test_statement_of_every_model_and_relation(model: SecurityModel, relation: NeighboringRelation) -> None:
    privacy = stated(model, Fraction(1), relation)
    text = " ".join(privacy.in_full())
    assert all(word in text for word in (*PI_RW.revealed, *privacy.stated.public, f"{model.parties} parties"))
    changed = {
        "add_or_remove_one": "one record of a client added or removed",
        "replace_one": "one record of a client replaced by another",
        "zero_out_one": "all records of a client together, there or not",
    }[relation]
    assert f"for {changed}" in text
    for said in (text, " ".join(privacy.in_short())):
        assert ("malicious" in said) == (model.tolerates == "active")
    fails = model.name in (
        "spdz2k",
        "ps-rep-ring",
        "malicious-shamir",
    )  # a check may; weights compare nothing, so no mask does
    assert ("η = 9.1e-13 is the engine's chance to fail" in text) == fails
    shown = privacy.stated
    assert shown.mpc_statistical_security_bits == (40 if fails else None)
    assert (shown.neighboring_relation, shown.privacy_unit) == (
        relation.value,
        "client" if relation is NeighboringRelation.ZERO_OUT_ONE else "record",
    )
    assert "Taking part is not protected: the number of clients is public" in text
    of_existence = relation is NeighboringRelation.ADD_OR_REMOVE_ONE
    assert ("for whether a record exists. For what it says it is ε = " in text) == of_existence
    assert ("; for what it says, ε = " in " ".join(privacy.in_short())) == of_existence


@pytest.mark.parametrize("epsilon", [Fraction(1), Fraction(1, 3), Fraction(20)], ids=str)
@pytest.mark.parametrize("max_count", [1, 2, 2**31])
def test_what_a_record_says_costs_more_than_whether_it_exists(epsilon: Fraction, max_count: int) -> None:
    """A replaced record moves two counts, however many a client may have."""
    asked = plan(epsilon)
    text = " ".join(
        statement_of(PI_RW, SPLIT, MODELS["ring"], asked, False, asked=epsilon, max_count=max_count).in_full()
    )
    shown = re.search(r"For what it says it is ε = ([0-9.e+-]+) and δ = ([0-9.e+-]+), since", text)
    assert shown is not None
    two_counts = guarantee(asked.coins, 2)
    for exact, value in zip((two_counts.epsilon, two_counts.delta), shown.groups(), strict=True):
        assert exact <= Fraction(value) <= exact * (1 + Fraction(1, 1000))
    replaced = plan(epsilon, NeighboringRelation.REPLACE_ONE)
    statement = statement_of(
        PI_RW, SPLIT, MODELS["ring"], replaced, False, asked=epsilon, max_count=max_count
    )
    assert "exists" not in " ".join(statement.in_full())


@pytest.mark.parametrize("epsilon", [Fraction(1), Fraction(4), Fraction(20)], ids=str)
def test_what_a_replaced_value_costs(epsilon: Fraction) -> None:
    """Two sums move by as much as one does if a client comes or goes."""
    relation = NeighboringRelation.ADD_OR_REMOVE_ONE
    asked = plan_noise(sums_from_ends(2, 10), Neighbors(relation), epsilon, DELTA)
    privacy = statement_of(
        PI_GAP, PI_GAP.input_forms["split"], MODELS["ring"], asked, False, asked=epsilon, max_count=1
    )
    statement = privacy.stated
    moved = amounts_moved(sums_from_ends(2, 10), Neighbors(NeighboringRelation.REPLACE_ONE))
    uncovered = max(impossible_mass(asked.coins, move) for move in moved)
    assert isinstance(statement.if_replaced, StatedLoss)
    stated = statement.if_replaced.guarantee.delta
    assert uncovered <= stated == 2 * asked.exact.delta <= uncovered * 5
    assert digits_up(stated, 4) in " ".join(privacy.in_full())
    one = manifest_of("gap", RESULT, statement, NOBODY)
    both = report.combined_manifest("gap", {"one": one, "other": one})
    assert isinstance(both.privacy.if_replaced, StatedLoss)
    assert both.privacy.if_replaced.guarantee.delta == 2 * stated


@pytest.mark.parametrize("epsilon", [Fraction(1), Fraction(1, 3), Fraction(1, 10**7), Fraction(20)], ids=str)
def test_the_statement_never_promises_too_much(epsilon: Fraction) -> None:
    privacy = stated(MODELS["ring"], epsilon)
    text = " ".join(privacy.in_full())
    shown = re.search(r"ε = ([0-9.e+-]+) and δ = ([0-9.e+-]+),", text)
    assert shown is not None
    for name, value in zip(("epsilon", "delta"), shown.groups(), strict=True):
        exact = Fraction(getattr(privacy.stated, f"{name}_exact"))
        assert exact <= Fraction(value) <= exact * (1 + Fraction(1, 1000))


def test_what_people_are_shown_is_rounded_up_everywhere() -> None:
    assert bounds_shown(Guarantee(Fraction(397238, 100000), Fraction(1, 3))) == (
        "3.973",
        "0.3334",
    )
    nearest = re.compile(r"{[^{}]*(epsilon|delta)[^{}]*:[^{}]*[efg]}")
    harness = PROJECT / "harness"
    shows = [*(harness / "views").rglob("*.py"), harness / "privacy" / "statement.py"]
    assert len(shows) > 16
    assert [(path.name, rounded[0]) for path in shows for rounded in nearest.finditer(path.read_text())] == []


@given(st.floats(-1e6, 1e6), st.floats(0, 1e3), st.integers(0, 4))
def test_intervals_are_shown_with_all_that_they_hold(low: float, width: float, decimals: int) -> None:
    """Up to floats' own rounding, at the twelfth decimal; and no wider than they have to be."""
    shown = interval_shown(low, low + width, decimals).replace(",", "").split(" – ")
    least, most = map(float, shown)
    assert least <= low + 1e-12 and most >= low + width - 1e-12 - abs(low) * 1e-15
    assert max(low - least, most - (low + width)) < 10**-decimals + 1e-9


def test_intervals_as_they_are_shown() -> None:
    assert interval_shown(0.1236, 0.3, 3) == "0.123 – 0.300"
    assert interval_shown(1 - 0.9, 0.1 + 0.2, 1) == "0.1 – 0.3"  # 0.09999999999999998, 0.30000000000000004
    assert interval_shown(-1e-5, -1e-5, 3) == "-0.001 – 0.000"
    assert interval_shown(1234.5, math.inf, 0) == "1,234 – inf"


@EVERY_MODEL
def test_what_a_run_assumes_of_clients_is_said(model: SecurityModel) -> None:
    chosen = plan(Fraction(1))
    for spec, assumed in ((PI_COUNT, model.ring is FIELD), (PI_RW, False)):
        statement = statement_of(spec, SPLIT, model, chosen, False, asked=Fraction(1))
        text = " ".join(statement.in_full())
        assert (HONEST_CLIENTS in text) is ("assumed" in as_json(statement.stated)) is assumed


@EVERY_MODEL
def test_masks_fail_one_by_one_and_checks_once_a_run(model: SecurityModel) -> None:
    """Who passes a check by chance has passed the first one; of masks each may be the one that fails."""
    for compared, bits in ((0, None), (1, 61), (2, 60), (3, 59), (4, 59), (5, 58), (400 * 19, 48)):
        statement = statement_of(
            PI_COUNT, SPLIT, model, plan(Fraction(1)), False, asked=Fraction(1), compared=compared
        )
        of_shamir = None if bits is None else bits + 66  # its masks have 127 bits, and those of MPyC 61
        of_checks = dict.fromkeys(("spdz2k", "ps-rep-ring", "malicious-shamir"), 40)
        expected = {"mpyc": bits, "shamir": of_shamir, **of_checks}.get(model.name)
        assert statement.stated.mpc_statistical_security_bits == model.security_bits(compared) == expected
        failing = digits_up(Fraction(1, 2**expected), 2) if expected else "0"
        assert f"where η = {failing} is the engine's chance to fail" in statement.in_full()[-1]
        if bits:  # no more than their sum, and the next power of 2 would be less
            assert Fraction(1, 2 ** (bits + 1)) < compared * Fraction(1, 2**61) <= Fraction(1, 2**bits)


def test_releases_on_the_same_people_add_up() -> None:
    first_part, second_part = a_manifest(Fraction(1)), a_manifest(Fraction(2))
    second_part = with_privacy(second_part, revealed=["something else"])
    parts = {"first": first_part, "second": second_part}
    total = report.combined_manifest("both", parts)
    shown = as_json(total)
    assert set(shown) >= MANIFEST
    assert set(as_json(total.privacy)) == set(as_json(first_part.privacy))
    for name in ("epsilon", "delta"):
        exact = sum(Fraction(getattr(part.privacy, f"{name}_exact")) for part in parts.values())
        assert Fraction(getattr(total.privacy, f"{name}_exact")) == exact
        assert exact <= Fraction(getattr(total.privacy, name))
    assert total.privacy.epsilon_requested == 3
    assert total.privacy.revealed == [*PI_RW.revealed, "something else"]
    assert (total.mpc_s, total.sent_bytes, total.peak_memory_bytes) == (0.5, [2, 4, 6], [7, 8, 9])
    assert total.party_mpc_s == [0.25, 0.5, 0.125]
    assert total.task == "both" and total.parts == parts
    asked = Guarantee(Fraction(9, 4), Fraction(1, 2**30))
    bounded = report.combined_manifest("both", parts, asked).privacy
    for name, most in (("epsilon", asked.epsilon), ("delta", asked.delta)):
        expected = Fraction(getattr(first_part.privacy, f"{name}_exact")) + most
        assert Fraction(getattr(bounded, f"{name}_exact")) == expected <= Fraction(getattr(bounded, name))
    for first, second, bits in (
        *((None, None, None), (40, 40, 39), (61, 48, 47), (48, 48, 47), (None, 48, 48), (40, None, 40)),
        (60, 61, 59),
    ):
        parts = {
            "first": with_privacy(first_part, mpc_statistical_security_bits=first),
            "second": with_privacy(second_part, mpc_statistical_security_bits=second),
        }
        assert report.combined_manifest("all", parts).privacy.mpc_statistical_security_bits == bits
    parts["second"] = structs.replace(second_part, rounds=None)
    assert report.combined_manifest("both", parts).rounds is None


def with_privacy(manifest: Manifest, **changed: Any) -> Manifest:
    return structs.replace(manifest, privacy=structs.replace(manifest.privacy, **changed))


@EVERY_MODEL
@EVERY_RELATION
def test_a_manifest_says_all_that_was_stated(
    model: SecurityModel, relation: NeighboringRelation, tmp_path: Path
) -> None:
    """What is read back is the value itself, of one release and of two together."""
    zero_out = relation is NeighboringRelation.ZERO_OUT_ONE
    cap = Cap(3) if zero_out else None
    own = plan_distributed_noise(
        each_cell_once(4), Neighbors(relation), Fraction(1), DELTA, NoiseDistribution.LAPLACE, 3, 1
    )
    for noise, most in ((plan(Fraction(1), relation), 1), (own, 2)):
        one = statement_of(
            PI_COUNT,
            SPLIT.by(CLIENTS),
            model,
            noise,
            True,
            asked=Fraction(1),
            cap=cap,
            max_count=most,
            compared=3,
        )
        made = manifest_of("count", replace(RESULT, model=model), one.stated, NOBODY)
        (tmp_path / "manifest.json").write_text(json.dumps(as_json(made)))
        again = read_manifest(tmp_path)
        assert again == made and read_statement(opened_by(again)) == one
        both = report.combined_manifest("both", {"first": made, "second": made})
        assert read_statement(both).restated == both.privacy == together([one, one]).stated
        assert read_statement(both).releases == 2


def test_an_offline_time_below_0_is_read(tmp_path: Path) -> None:
    """As version 1.0 wrote it, from two clocks of MP-SPDZ."""
    made = structs.replace(a_manifest(Fraction(1)), offline_s=-2.1e-05)
    (tmp_path / "manifest.json").write_text(json.dumps(as_json(made)))
    assert read_manifest(tmp_path) == made


def test_samples_of_noise_are_no_result_to_read(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text('{"task": "noise", "inputs": {"samples": 3}}')
    with pytest.raises(ResultFileError, match="is the result of 'noise'; what can be read is that"):
        read_manifest(tmp_path)
