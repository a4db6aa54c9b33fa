"""What a run takes and refuses, whom and from what it makes noise for, and who is told of it."""

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairshares.harness.errors import OptionError, ShareError, UnsupportedError
from fairshares.harness.inputs.record_schema import Cap, RecordDomain, RecordKind, ValueGrid
from fairshares.harness.inputs.records import ClientRecords
from fairshares.harness.online.session import MAX_CONNECTIONS, ClientInputs, Upload
from fairshares.harness.pipeline.planning import event_of
from fairshares.harness.pipeline.run import RunSettings, run_release
from fairshares.harness.pipeline.sources import (
    MAX_SENT,
    InvitedSource,
    PartyInputs,
    RecordsSource,
    Source,
    check_sent,
    read_terms,
    terms_of,
)
from fairshares.harness.privacy.ledger.accountants import NoiseEvent
from fairshares.harness.privacy.manifest import StatedInputs
from fairshares.harness.privacy.statement import SHIFTED, state_privacy
from fairshares.harness.privacy.stock import Piece
from fairshares.harness.releases.base import Statistic, statistic_of
from fairshares.harness.releases.gap.spec import PI_GAP_SLOTS
from fairshares.harness.releases.gap.statistic import GapStatistic
from fairshares.harness.releases.registry import request_from_json
from fairshares.harness.releases.thresholds.spec import PI_ROC, PI_ROC_RECORDS
from fairshares.harness.releases.thresholds.statistic import CurvesStatistic
from fairshares.harness.releases.weights.spec import PI_RW, PI_RW_SLOTS
from fairshares.harness.releases.weights.statistic import WeightsStatistic
from fairshares.harness.request.request import Randomness, Request
from fairshares.harness.security_models import MODELS, SecurityModel, get_model
from fairshares.harness.system.documents import as_json
from fairshares.harness.views.sending import terms as told_terms
from fairshares.protocols.accounting.calibration import (
    NeighboringRelation,
    Neighbors,
    PrivacyUnit,
    each_cell_once,
    plan_noise,
    sums_from_ends,
)
from fairshares.protocols.noise.added import NoiseDistribution
from fairshares.protocols.spec import CLIENTS, KEYS, PRODUCT, SCORED_SPLIT, SLOTS, SPLIT, InputForm
from tests.support.requests import request_of
from tests.support.sharing import context
from tests.support.stated import statement_of

pytestmark = pytest.mark.usefixtures("in_shell")


def test_a_protocol_without_a_declared_release_does_not_run(tmp_path: Path) -> None:
    statistic = WeightsStatistic()
    object.__setattr__(statistic, "spec", replace(PI_RW, release=None, distributed_noise=False))
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
    settings = request_of(get_model("mpyc"), SPLIT, Fraction(1), Fraction(1, 2**40), relation=asked)
    domain = RecordDomain(("a", "b"), ("0", "1"), max_count=most)
    assert WeightsStatistic().prepare(settings, domain).plan.relation == relation


TABLE = RecordDomain(("a", "b"), ("0", "1"), cap=Cap(3))
SCORED = replace(TABLE, kind=RecordKind.SCORE, thresholds=tuple(i / 100 for i in range(101)))
VALUED = RecordDomain(("a", "b"), (), 1, kind=RecordKind.VALUE, values=ValueGrid(0.0, 1.0, 10), cap=Cap(1))
WITHSTAND = ("spdz2k", "ps-rep-ring", "rep4-ring", "malicious-shamir")  # an active party
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
    malleable_slots = form is SLOTS and model.name in WITHSTAND
    zero_out = NeighboringRelation.ZERO_OUT_ONE
    assert plan == plan_noise(
        each_cell_once(4), Neighbors(zero_out, 3, malleable_slots), Fraction(20), Fraction(1, 2**40)
    )
    assert plan.changed == (6 if malleable_slots else 3) and plan.exact.epsilon <= 20
    stated = statement_of(spec, form, model, plan, False, asked=Fraction(20), cap=TABLE.cap)
    privacy = as_json(stated.stated)
    assert privacy["neighboring_relation"] == zero_out
    said = "The noise is for replaced records, twice that for left-out ones, as a party can move a record"
    assert any(sentence.startswith(said) for sentence in stated.in_full()) == malleable_slots
    assert ("noise_for" in privacy) == malleable_slots


@EVERY_MODEL
def test_gaps_and_curves_of_clients_likewise(model: SecurityModel) -> None:
    active, zero_out = model.name in WITHSTAND, NeighboringRelation.ZERO_OUT_ONE
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
        # Another tree, as each level takes twice as much.
        blocks = "1.16" if malleable_slots else "1"
        assert prepared.arguments["blocks"] == blocks
        assert (plan.changed, plan.neighbors.malleable_slots) == (
            (6 if malleable_slots else 3) * len(blocks.split(".")),
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


DOMAIN = RecordDomain(("a", "b"), ("0", "1"))


def release(
    form: InputForm = SPLIT, distribution: NoiseDistribution | None = NoiseDistribution.GAUSSIAN
) -> Request:
    return request_of(MODELS["rep4-ring"], form, Fraction(1), Fraction(1, 2**40), distribution=distribution)


@pytest.mark.parametrize("distribution", [None, *NoiseDistribution])
def test_a_ledger_has_the_noise_of_values_that_move_by_one_alone(
    distribution: NoiseDistribution | None,
) -> None:
    """How many one record or client moves; none of gaps, nor of clients that have several records."""

    def values(statistic: Statistic[Any], domain: RecordDomain, unit: PrivacyUnit) -> int | None:
        terms = get_model("mpyc"), SPLIT, Fraction(1, 2), Fraction(1, 2**20)
        prepared = statistic.prepare(request_of(*terms, unit=unit, distribution=distribution), domain)
        noise = event_of(prepared, statistic.name, Path("out")).noise
        assert noise is None or isinstance(noise, NoiseEvent)
        return None if noise is None else noise.values

    one, several = replace(TABLE, max_count=1, cap=None), replace(TABLE, cap=None)
    assert [values(WeightsStatistic(), of, PrivacyUnit.RECORD) for of in (one, several)] == [2, 1]
    assert values(GapStatistic(), replace(VALUED, cap=None), PrivacyUnit.RECORD) is None
    capped = [replace(TABLE, cap=Cap(slots)) for slots in (1, 2)]
    assert [values(WeightsStatistic(), of, PrivacyUnit.CLIENT) for of in capped] == [1, None]


def test_clients_are_told_of_the_distribution_and_of_who_can_shift_the_result() -> None:
    terms: dict[str, Any] = terms_of(release(SPLIT.by(CLIENTS)), DOMAIN)
    read = read_terms(terms, "Terms").request
    assert read.randomness.distribution is NoiseDistribution.GAUSSIAN
    assert any("own (gaussian)" in sentence and SHIFTED in sentence for sentence in told_terms(read))
    with pytest.raises(ShareError, match="names others than are known here"):
        read_terms({**terms, "request": {**terms["request"], "noise": "own-cauchy"}}, "Terms")
    joint = read_terms(terms_of(release(SPLIT.by(CLIENTS), None), DOMAIN), "Terms").request
    assert joint.randomness.distribution is None and not any(
        SHIFTED in sentence for sentence in told_terms(joint)
    )


def test_clients_are_told_of_all_attempts_to_make_the_noise(tmp_path: Path) -> None:
    asked = release(SPLIT.by(CLIENTS), None).but(Randomness.offline, True)
    source, run = InvitedSource(DOMAIN, tmp_path, 2), context(asked, tmp_path)
    sending = source.deliver(run, source.describe(run), Piece("piece", (), 2)).values
    assert isinstance(sending, ClientInputs)
    read = read_terms(sending.terms, "Terms")
    said = " ".join(told_terms(read.request, read.attempts))
    assert "made before the run" in said and "begun 2 times" in said and "fail counts 3 times" in said
    with pytest.raises(ShareError, match="does not say how often making its noise was begun"):
        read_terms({**sending.terms, "attempts": 0}, "Terms")


TERMS = terms_of(release(SPLIT.by(CLIENTS), None), DOMAIN)


def with_request(**changes: object) -> dict[str, Any]:
    """Return the terms of a run with other texts of its request; None leaves one out."""
    told: dict[str, Any] = {**TERMS}
    changed = {**told["request"], **changes}
    told["request"] = {name: text for name, text in changed.items() if text is not None}
    return told


@pytest.mark.parametrize(
    ("terms", "fault"),
    [
        (None, "expected `object`, got `null`"),
        ([TERMS], "expected `object`, got `array`"),
        ({}, "missing required field `request`"),
        ({**TERMS, "note": "x"}, "an unknown key 'note'"),
        ({**TERMS, "attempts": -1}, "expected `int` >= 0 at `attempts`"),
        ({**TERMS, "attempts": 1 << 63}, "expected `int`"),
        ({**TERMS, "attempts": True}, "expected `int`, got `bool` at `attempts`"),
        ({**TERMS, "attempts": 0.0}, "expected `int`, got `float` at `attempts`"),
        ({**TERMS, "attempts": "0"}, "expected `int`, got `str` at `attempts`"),
        ({**TERMS, "attempts": 1}, "does not say how often making its noise was begun"),
        ({**TERMS, "request": "weights"}, "expected `object`, got `str` at `request`"),
        ({**TERMS, "domain": None}, "expected `object`, got `null` at `domain`"),
        (with_request(delta=""), "expected `str` of length >= 1 at `request[...]`"),
        (with_request(epsilon=1), "expected `str`, got `int` at `request[...]`"),
        (with_request(delta=None), "leaves out what a client is to agree with"),
        (with_request(security=None), "leaves out what a client is to agree with"),
        (with_request(neighboring_relation=None), "leaves out what a client is to agree with"),
        (with_request(input_path="shares"), "for a run to which no client sends"),
        (with_request(epsilon=None), "names others than are known here"),
        (with_request(task="weight"), "names others than are known here"),
        (with_request(security="rings"), "names others than are known here"),
        (with_request(noise="distributed", offline="True"), "names others than are known here"),
    ],
)
def test_terms_that_cannot_be_are_refused(terms: Any, fault: str) -> None:
    assert read_terms(TERMS, "Terms").attempts == 0
    with pytest.raises(ShareError) as refused:
        read_terms(terms, "Terms")
    assert fault in str(refused.value)
    assert str(refused.value).startswith("Terms is not for a run that this version can describe: ")


def test_hosts_are_asked_for_a_distribution_not_for_a_table() -> None:
    asked = release().but(Request.population, "people").to_json()
    request = request_from_json(asked)
    assert isinstance(statistic_of(request), WeightsStatistic)
    assert request.own == release().own and request.to_json() == asked
    assert asked.keys() & {"rate", "edge", "parties", "honest"} == set()
    for more in ({"noise": "own-uniform"}, {"rate": "1"}):
        with pytest.raises(OptionError, match="none that this version knows"):
            request_from_json({**asked, **more})


@pytest.mark.parametrize("form", [SPLIT, SPLIT.by(CLIENTS)], ids=["shares", "clients"])
def test_the_statement_says_it_and_what_shares_allow_anyway(form: InputForm) -> None:
    prepared = WeightsStatistic().prepare(release(form), DOMAIN)
    stated = state_privacy(prepared, 0)
    privacy = as_json(stated.stated)
    assert (privacy["noise"], privacy["distribution"], privacy["honest_parties"]) == (
        "distributed",
        "gaussian",
        3,
    )
    alike = "as it can by its shares" if form is SPLIT else "with joint noise it could not"
    assert privacy["shifted"] == f"{SHIFTED}; {alike}"
    assert f"{SHIFTED}; {alike}." in " ".join(stated.in_full()) and SHIFTED in stated.in_short()[2]
    joint = as_json(state_privacy(WeightsStatistic().prepare(release(form, None), DOMAIN), 0).stated)
    assert not {"noise", "distribution", "honest_parties", "shifted"} & set(joint)


UP_TO_10 = RecordDomain(("a", "b"), ("0", "1"), 10)


EPSILON, DELTA = Fraction(1), Fraction(1, 2**40)


def delivered(source: Source, release: Request, scratch: Path) -> PartyInputs:
    run = context(release, scratch)
    return source.deliver(run, source.describe(run), None)


def records(clients: int) -> ClientRecords:
    """Return a record of each client, of group a and label 1."""
    numbers = np.arange(clients)
    return ClientRecords(
        UP_TO_10, numbers.astype(str), numbers, np.zeros_like(numbers), np.ones_like(numbers)
    )


@pytest.mark.parametrize(
    ("clients", "uploads"), [(1, 1), (MAX_CONNECTIONS, MAX_CONNECTIONS), (MAX_CONNECTIONS + 1, 1)]
)
def test_clients_have_a_connection_each_unless_there_are_many(
    tmp_path: Path, clients: int, uploads: int
) -> None:
    form = PRODUCT.by(CLIENTS)
    fed = delivered(
        RecordsSource(records(clients)), request_of(MODELS["spdz2k"], form, EPSILON, DELTA), tmp_path
    )
    assert isinstance(fed.values, ClientInputs)
    assert [upload.values for upload in fed.values.uploads] == [3 * clients // uploads] * uploads
    assert fed.values.parts == uploads
    assert fed.public(form) == StatedInputs(clients=clients, uploads=uploads, max_count=10)


def test_invited_clients_send_as_many_values_as_the_domain_has(tmp_path: Path) -> None:
    release = request_of(MODELS["ring"], SPLIT.by(CLIENTS), EPSILON, DELTA)
    fed = delivered(InvitedSource(UP_TO_10, tmp_path / "invitations", 3), release, tmp_path)
    assert isinstance(fed.values, ClientInputs)
    assert [upload.values for upload in fed.values.uploads] == [4, 4, 4]
    assert fed.rows == fed.clients == fed.uploads == 3


def test_too_many_values_are_refused_before_noise_is_taken(tmp_path: Path) -> None:
    release = request_of(MODELS["ring"], SPLIT.by(CLIENTS), EPSILON, DELTA)
    invited = InvitedSource(UP_TO_10, tmp_path / "invitations", MAX_SENT)
    with pytest.raises(ShareError, match="values to the parties"):
        invited.describe(context(release, tmp_path))


def test_a_run_takes_so_many_values() -> None:
    check_sent(MAX_SENT)
    with pytest.raises(ShareError, match=r"262145 values .* use --input-path shares"):
        check_sent(MAX_SENT + 1)


@pytest.mark.parametrize(("sizes", "parts"), [([6, 3, 9], 6), ([5], 1), ([4, 4], 2), ([3, 4], 7)])
def test_parts_are_as_few_as_uploads_allow(sizes: list[int], parts: int) -> None:
    uploads = tuple(Upload(size, "") for size in sizes)
    assert ClientInputs(uploads, {}).parts == parts
