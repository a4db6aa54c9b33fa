"""What the pipeline refuses before anything is shared, and whom, from what, it makes noise for."""

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from harness.errors import UnsupportedError
from harness.inputs.record_schema import Cap, RecordDomain, RecordKind, ValueGrid
from harness.inputs.records import ClientRecords
from harness.pipeline.run import RunSettings, run_release
from harness.pipeline.sources import RecordsSource
from harness.privacy.statement import state_privacy
from harness.releases.confusion import ConfusionStatistic
from harness.releases.gaps import GapStatistic
from harness.releases.score_curves import CurvesStatistic
from harness.releases.weights import WeightsStatistic
from harness.request.base import Request
from harness.security_models import MODELS, SecurityModel, get_model
from protocols.accounting.calibration import (
    NeighboringRelation,
    Neighbors,
    PrivacyUnit,
    each_cell_once,
    plan_noise,
    sums_from_ends,
)
from protocols.spec import (
    CLIENTS,
    KEYS,
    PI_CF,
    PI_CF_SLOTS,
    PI_GAP_SLOTS,
    PI_ROC,
    PI_ROC_RECORDS,
    PI_RW,
    PI_RW_SLOTS,
    SCORED_SPLIT,
    SLOTS,
    SPLIT,
    InputForm,
)
from tests.support.requests import request_of


def test_a_protocol_without_a_declared_release_does_not_run(tmp_path: Path) -> None:
    statistic = WeightsStatistic()
    object.__setattr__(statistic, "spec", replace(PI_RW, release=None))
    one = np.zeros(1, dtype=np.int64)
    records = ClientRecords(RecordDomain(("a", "b"), ("0", "1")), np.array(["c"]), one, one, one)
    release = request_of(get_model("mpyc"), SPLIT, Fraction(1), Fraction(1, 2**40))
    source, settings = RecordsSource(records), RunSettings(release)
    with pytest.raises(UnsupportedError, match="no guarantee can be stated"):
        run_release(statistic, source, settings, tmp_path / "out", lambda step: None)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("most", "chosen", "relation"),
    [(1, None, "replace_one"), (1, "add_or_remove_one", "add_or_remove_one"), (2, None, "add_or_remove_one")],
)
def test_one_record_each_is_protected_in_what_it_says_unless_the_user_says_otherwise(
    most: int, chosen: str | None, relation: str
) -> None:
    asked = None if chosen is None else NeighboringRelation(chosen)
    settings = request_of(get_model("mpyc"), SPLIT, Fraction(1), Fraction(1, 2**40), asked)
    domain = RecordDomain(("a", "b"), ("0", "1"), max_count=most)
    assert WeightsStatistic().prepare(settings, domain).plan.relation == relation


TABLE = RecordDomain(("a", "b"), ("0", "1"), cap=Cap(3))
PREDICTED = replace(TABLE, kind=RecordKind.PREDICTION)
SCORED = replace(TABLE, kind=RecordKind.SCORE, thresholds=tuple(i / 100 for i in range(101)))
VALUED = RecordDomain(("a", "b"), (), 1, kind=RecordKind.VALUE, values=ValueGrid(0.0, 1.0, 10), cap=Cap(1))
EVERY_MODEL = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)


def of_clients(model: SecurityModel, form: InputForm) -> Request:
    return request_of(model, form, Fraction(20), Fraction(1, 2**40), unit=PrivacyUnit.CLIENT)


@EVERY_MODEL
@pytest.mark.parametrize("form", [SLOTS, SPLIT, SPLIT.by(CLIENTS)], ids=["slots", "split", "sent"])
def test_noise_is_for_exchanged_records_where_a_party_can_change_slots(
    model: SecurityModel, form: InputForm
) -> None:
    """Not in passive models, `sy-rep-ring` among them; not where a share that is changed shifts a count."""
    spec, settings = PI_RW_SLOTS if form is SLOTS else PI_RW, of_clients(model, form)
    plan = WeightsStatistic(spec=spec).prepare(settings, TABLE).plan
    malleable_slots = form is SLOTS and model.name in ("spdz2k", "ps-rep-ring", "rep4-ring")
    zero_out = NeighboringRelation.ZERO_OUT_ONE
    assert plan == plan_noise(
        each_cell_once(4), Neighbors(zero_out, 3, malleable_slots), Fraction(20), Fraction(1, 2**40)
    )
    assert plan.changed == (6 if malleable_slots else 3) and plan.exact.epsilon <= 20
    stated = state_privacy(spec, form, model, plan, False, TABLE.cap)
    privacy = stated.to_json()
    assert privacy["neighboring_relation"] == zero_out
    said = "The noise is for replaced records, twice that for left-out ones, as a party can move a record"
    assert any(sentence.startswith(said) for sentence in stated.in_full()) == malleable_slots
    assert ("noise_for" in privacy) == malleable_slots


@EVERY_MODEL
@pytest.mark.parametrize("form", [SLOTS, SPLIT], ids=["slots", "split"])
def test_confusion_matrices_of_clients_likewise(model: SecurityModel, form: InputForm) -> None:
    spec, settings = PI_CF_SLOTS if form is SLOTS else PI_CF, of_clients(model, form)
    plan = ConfusionStatistic(spec).prepare(settings, PREDICTED).plan
    malleable_slots = form is SLOTS and model.name in ("spdz2k", "ps-rep-ring", "rep4-ring")
    zero_out = NeighboringRelation.ZERO_OUT_ONE
    assert plan == plan_noise(
        each_cell_once(8), Neighbors(zero_out, 3, malleable_slots), Fraction(20), Fraction(1, 2**40)
    )
    privacy = state_privacy(spec, form, model, plan, False, PREDICTED.cap).to_json()
    assert (privacy["cap"], privacy["cap_kept_by"]) == (3, form.capped)
    assert ("noise_for" in privacy) == malleable_slots


@EVERY_MODEL
def test_gaps_and_curves_of_clients_likewise(model: SecurityModel) -> None:
    active, zero_out = model.name in ("spdz2k", "ps-rep-ring", "rep4-ring"), NeighboringRelation.ZERO_OUT_ONE
    slots = PI_GAP_SLOTS.input_forms["slots"]
    plan = GapStatistic(PI_GAP_SLOTS).prepare(of_clients(model, slots), VALUED).plan
    assert plan.changed == (40 if active else 20) and plan.neighbors.malleable_slots == active
    assert (
        plan.exact
        == plan_noise(
            sums_from_ends(2, 10),
            Neighbors(zero_out, malleable_slots=active),
            Fraction(20),
            Fraction(1, 2**40),
        ).exact
    )

    for form, spec in ((KEYS, PI_ROC_RECORDS), (SCORED_SPLIT, PI_ROC)):
        prepared = CurvesStatistic(spec=spec).prepare(of_clients(model, form), SCORED)
        malleable_slots, plan = active and form is KEYS, prepared.plan
        # Fewer levels, as each takes twice as much.
        assert prepared.arguments["blocks"] == ("1.16" if malleable_slots else "1.7.42")
        assert (plan.changed, plan.neighbors.malleable_slots) == (
            (6 if malleable_slots else 3) * (2 if malleable_slots else 3),
            malleable_slots,
        )


def test_one_record_is_protected_as_before_where_a_party_can_change_its_key() -> None:
    """A replaced record changes two counts on each level anyway."""
    for model in MODELS.values():
        settings = request_of(model, KEYS, Fraction(1), Fraction(1, 2**40))
        scored = replace(SCORED, cap=None)
        statistic = CurvesStatistic(flat=True, spec=PI_ROC_RECORDS)
        plan = statistic.prepare(settings, scored).plan
        assert (plan.relation, plan.changed) == (NeighboringRelation.REPLACE_ONE, 2)
        assert not plan.neighbors.malleable_slots
