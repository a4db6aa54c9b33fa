"""The reference set: its figures, beside those that are expected; claims that do not hold are found."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import pytest

from fairshares.harness.errors import OptionError
from fairshares.harness.privacy.audit.figures import ReleaseFigures
from fairshares.harness.privacy.audit.releases import (
    AUDIT_TARGETS,
    audit_command,
    audit_release,
    reference_set,
)
from fairshares.harness.privacy.audit.samplers import Audited, audit_coins
from fairshares.harness.releases.base import OF_RECORDS, TABLE_SIZES, TableTarget
from fairshares.harness.releases.cap.spec import PI_CAP
from fairshares.harness.releases.confusion.spec import PI_CF_SLOTS
from fairshares.harness.releases.count.spec import PI_COUNT
from fairshares.harness.releases.gap.spec import PI_GAP_SLOTS
from fairshares.harness.releases.programs import PROTOCOLS
from fairshares.harness.releases.registry import with_distributed_noise
from fairshares.harness.releases.weights.spec import PI_RW, PI_RW_SLOTS
from fairshares.protocols.accounting.calibration import NeighboringRelation, Neighbors
from fairshares.protocols.accounting.exact_privacy import curve_of_coins
from fairshares.protocols.circuits.coins import design_coins, exp_bounds
from fairshares.protocols.guarantee import Guarantee
from fairshares.protocols.noise.added import NoiseDistribution
from fairshares.protocols.spec import NO_INPUT, ProtocolSpec

ADD, REPLACE, ZERO_OUT = NeighboringRelation
TWO_BY_TWO = {"groups": 2, "labels": 2}
DELTA = Fraction(1, 2**40)


@pytest.fixture(scope="module")
def audits() -> list[Audited]:
    return list(reference_set())


@pytest.fixture(scope="module")
def rows(audits: list[Audited]) -> dict[str, Any]:
    """Return the reference set's values by subject."""
    audit_rows = [row for audited in audits for row in audited.rows()]
    assert len({row["subject"] for row in audit_rows}) == len(audit_rows)
    return {str(row["subject"]): row["value"] for row in audit_rows}


@pytest.mark.parametrize(
    ("subject", "value"),
    [
        ("pi_lap.default.1.epsilon", 0.997002),
        ("pi_lap.default.1.delta", 7.05009e-14),
        ("pi_lap.default.1.mean_square_error", 2.1332),
        ("pi_lap.default.1.ands", 53),
        ("pi_lap.default.1_3.fair_bits", 89),
        ("pi_rw.add_or_remove_one.values_moved", 1),
        ("pi_rw.replace_one.values_moved", 2),
        ("pi_rw.add_or_remove_one.epsilon", 0.997002),
        ("pi_cf.replace_one.values_moved", 2),
        ("pi_cf.zero_out_one.units_moved", 10),
        ("pi_cf_slots.zero_out_one.units_moved", 10),
        ("pi_cf_slots.zero_out_one.values_moved", 8),
        ("pi_cf_slots.zero_out_one.active.units_moved", 20),
        ("pi_roc.add_or_remove_one.values_moved", 3),
        ("pi_roc.replace_one.values_moved", 6),
        ("pi_roc.add_or_remove_one.values", 4316),
        ("pi_count.add_or_remove_one.units_moved", 64),
        ("pi_cap.zero_out_one.epsilon", 0.997314),
        ("pi_rw_slots.zero_out_one.units_moved", 10),
        ("pi_roc_records.zero_out_one.units_moved", 30),
        ("pi_roc_records.zero_out_one.values_moved", 30),
        ("pi_rw_slots.zero_out_one.values_moved", 4),
        ("pi_rw_slots.zero_out_one.active.units_moved", 20),
        ("pi_roc_records.zero_out_one.active.units_moved", 60),
        ("pi_gap_slots.zero_out_one.active.units_moved", 4000),
        ("pi_gap.zero_out_one.units_moved", 2000),
        ("pi_gap_slots.zero_out_one.units_moved", 2000),
        ("pi_gap.replace_one.values_moved", 2),
        ("pi_gap.replace_one.units_moved", 4000),
        ("pi_gap.add_or_remove_one.units_moved", 2000),
        ("ldp.m_r.repaired_1.epsilon", 1.0),
        ("ldp.m_l.k2.epsilon", 1.0),
    ],
)
def test_reference_figures(rows: Mapping[str, Any], subject: str, value: object) -> None:
    expected = pytest.approx(value, rel=1e-4) if isinstance(value, float) else value
    assert rows[subject] == expected


def test_all_that_is_offered_is_claimed_and_holds(audits: list[Audited]) -> None:
    assert len(audits) >= 5
    assert [audited.name for audited in audits if audited.fault or not audited.claimed] == []


@pytest.mark.parametrize(
    ("name", "relation"),
    [(name, relation) for name in AUDIT_TARGETS for relation in AUDIT_TARGETS[name].relations],
)
def test_each_release_is_audited_and_keeps_to_its_budget(name: str, relation: NeighboringRelation) -> None:
    epsilon = Fraction(1, 2)
    audited = audit_command(name, {}, relation, epsilon=epsilon, delta=DELTA)
    assert audited.fault is None
    found = audited.figures
    assert isinstance(found, ReleaseFigures) and found.relation is relation
    assert epsilon * Fraction(9, 10) < found.epsilon <= epsilon
    assert found.delta is not None and found.delta <= DELTA


def test_cells_are_what_records_are_counted_by() -> None:
    """Other sizes are a release's own numbers, such as the first bin that counts."""
    target = TableTarget(spec=PI_RW, sizes=TABLE_SIZES)
    assert target.cells({"groups": 3, "labels": 2}) == 6
    assert target.cells({"groups": 3, "labels": 2, "bins": 5, "first_bin": 2}) == 30
    assert target.cells({"groups": 3, "labels": 2, "thresholds": 7}) == 42


def test_every_protocol_that_noises_records_is_in_the_reference_set(rows: Mapping[str, Any]) -> None:
    """Those without an input open noise alone: their samplers are audited instead."""
    of_records = {target.spec.name for target in AUDIT_TARGETS.values() if target.relations == OF_RECORDS}
    assert PI_COUNT.name in of_records and not {PI_RW.name, PI_CAP.name, PI_GAP_SLOTS.name} & of_records
    for spec in PROTOCOLS.values():
        if NO_INPUT.name not in spec.input_forms:
            audited = {r for r in NeighboringRelation if f"{spec.name}.{r}.epsilon" in rows}
            assert ZERO_OUT in audited or spec.name in of_records
            assert {ADD, REPLACE} <= audited or spec in (PI_RW_SLOTS, PI_CF_SLOTS, PI_GAP_SLOTS, PI_CAP)
            changeable = any(form.exchangeable for form in spec.input_forms.values())
            dearer = changeable and spec is not PI_CAP  # an index costs the same
            assert (f"{spec.name}.{ZERO_OUT}.active.epsilon" in rows) == dearer
    own = [name for name in rows if ".own." in name and name.endswith(".epsilon")]
    assert len(own) == (len(with_distributed_noise()) - 1) * len(
        NoiseDistribution
    )  # all but gaps, which are too wide


def test_a_claim_is_a_fault_from_the_first_bit_that_it_is_too_good() -> None:
    """What the coins' own distribution has at this epsilon is no fault; a part in 10^12 less of it is one."""
    coins, epsilon = design_coins(Fraction(1), 40), Fraction(1, 2)
    exact = curve_of_coins(coins).delta(exp_bounds(epsilon)[0])
    less = exact * (1 - Fraction(1, 10**12))
    audits = [
        audit_coins(coins, claim, claim) for claim in (Guarantee(epsilon, exact), Guarantee(epsilon, less))
    ]
    assert audits[0].fault is None
    assert audits[1].fault is not None and "its δ at ε = 0.5 is" in audits[1].fault


def test_a_budget_that_forgets_a_move_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """Composition that charges a replaced record for one value; the columns say two."""
    monkeypatch.setattr("fairshares.protocols.accounting.calibration.nodes_changed", lambda *_, **__: 1)
    audited = audit_release(
        "weights", PI_RW, TWO_BY_TWO, Neighbors(REPLACE), epsilon=Fraction(1), delta=DELTA
    )
    assert audited.fault is not None and "a record moves 2 values" in audited.fault
    assert isinstance(audited.figures, ReleaseFigures)
    assert float(audited.figures.epsilon) == pytest.approx(1.994, rel=1e-3)


def test_release_without_a_declared_map() -> None:
    silent = ProtocolSpec("pi_silent", "", (), {}, ("x",), ("x",))
    with pytest.raises(OptionError, match="pi_silent declares no linear map"):
        audit_release("silent", silent, {}, Neighbors(ADD), epsilon=Fraction(1), delta=DELTA)


def test_release_with_too_many_cells_to_list() -> None:
    with pytest.raises(OptionError, match="here 4000000; at most 1000000"):
        audit_command(
            "thresholds", {"groups": 2000, "thresholds": 1000}, ADD, epsilon=Fraction(1), delta=DELTA
        )
    with pytest.raises(OptionError, match="here 2000000; at most 1000000"):
        audit_command("confusion", {"labels": 1000}, ADD, epsilon=Fraction(1), delta=DELTA)
