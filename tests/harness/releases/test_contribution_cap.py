"""From records to what π_CAP counts, what the cap is for, and how much of a client its choice gives away."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from fairshares.harness.errors import OptionError, OutputError
from fairshares.harness.inputs.encoding import columns_of, count_columns
from fairshares.harness.inputs.record_schema import (
    RecordDomain,
    RecordKind,
    caps_to_choose_from,
)
from fairshares.harness.inputs.records import ClientRecords
from fairshares.harness.pipeline.jobs import make_job
from fairshares.harness.pipeline.sources import PartyInputs
from fairshares.harness.privacy.audit.releases import audit_command
from fairshares.harness.releases.cap.request import CapRequest
from fairshares.harness.releases.cap.spec import PI_CAP
from fairshares.harness.releases.cap.statistic import (
    CapStatistic,
    CapTarget,
    comparison_noise,
)
from fairshares.harness.request.request import Protect, Request
from fairshares.harness.security_models import MODELS, SecurityModel
from fairshares.protocols.accounting.calibration import (
    AboveThreshold,
    NeighboringRelation,
    Neighbors,
    PrivacyUnit,
    guarantee_of_first_below,
    plan_noise,
)
from fairshares.protocols.circuits.noise import coins_of_arguments, fair_bits_per_sample
from fairshares.protocols.guarantee import Guarantee
from fairshares.protocols.mechanisms.above_threshold import (
    allowed_above,
    clients_above,
)
from fairshares.protocols.noise.truncated import probability_mass
from fairshares.protocols.spec import SLOTS
from tests.support.requests import request_of
from tests.support.stated import only_file

pytestmark = pytest.mark.usefixtures("in_shell")

ADD, REPLACE, ZERO_OUT = NeighboringRelation
DELTA = Fraction(1, 2**40)
DOMAIN = RecordDomain(("a", "b"), ("0", "1"), 50, kind=RecordKind.SIZE)
WEIGHTS = CapTarget("weights", Guarantee(Fraction(1), DELTA))
STATISTIC = CapStatistic(WEIGHTS)


def records(sizes: list[int], domain: RecordDomain = DOMAIN) -> ClientRecords:
    client = np.repeat(np.arange(len(sizes)), sizes)
    zeros = np.zeros(len(client), dtype=np.int64)
    return ClientRecords(domain, np.arange(len(sizes)).astype(str), client, zeros, zeros)


def settings(model: SecurityModel = MODELS["ring"], epsilon: Fraction = Fraction(1)) -> Request:
    return request_of(model, PI_CAP.input_forms[SLOTS.name], epsilon, DELTA, unit=PrivacyUnit.CLIENT)


def test_a_client_sends_how_many_caps_it_exceeds_in_one_slot() -> None:
    sizes = [0, 1, 2, 3, 6, 7, 49, 50]
    (codes,) = columns_of(records(sizes), SLOTS)
    caps = caps_to_choose_from(50)
    assert codes.tolist() == [sum(size > cap for cap in caps[:-1]) for size in sizes]
    assert codes.max() == len(caps) - 1 and count_columns(DOMAIN, SLOTS.name) == 1
    above = [int((codes > i).sum()) for i in range(len(caps) - 1)]
    assert above == clients_above(sizes, caps)[:-1].tolist()


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_what_is_compiled_is_what_is_accounted_for(model: SecurityModel) -> None:
    """In active models, too: flipped bits leave all counts moving the same way."""
    prepared = STATISTIC.prepare(settings(model), DOMAIN)
    plan = prepared.plan
    job = make_job(prepared, PartyInputs(DOMAIN, 9, 9, 9))
    told = dict(zip(PI_CAP.arguments, job.arguments, strict=True))
    queries = len(caps_to_choose_from(50)) - 1
    assert (told["queries"], told["above"], told["slots"]) == (str(queries), "31", "9")
    assert coins_of_arguments(told["epsilon"], told["delta_bits"]) == plan.coins
    assert {lanes for _, lanes in job.fair_bits} == {queries + 1}
    assert sum(width for width, _ in job.fair_bits) == fair_bits_per_sample(plan.coins)
    assert not plan.neighbors.malleable_slots and plan.queries is None
    assert (plan.unit, plan.relation) == (PrivacyUnit.CLIENT, ZERO_OUT)


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1, 3), Fraction(1), Fraction(4)])
@pytest.mark.parametrize("queries", [1, 20])
def test_plan_keeps_to_epsilon_and_delta(epsilon: Fraction, queries: int) -> None:
    plan = plan_noise(AboveThreshold(queries), Neighbors(ZERO_OUT), epsilon, DELTA)
    assert plan.exact == guarantee_of_first_below(plan.coins, queries)
    assert epsilon * Fraction(95, 100) < plan.exact.epsilon <= epsilon and plan.exact.delta <= DELTA
    assert (plan.nodes, plan.changed) == (queries + 1, 2)


@pytest.mark.parametrize("relation", [ADD, REPLACE])
def test_an_index_protects_clients_only(relation: NeighboringRelation) -> None:
    with pytest.raises(ValueError, match=f"of clients, not under {relation}"):
        plan_noise(AboveThreshold(3), Neighbors(relation), Fraction(1), DELTA)
    with pytest.raises(OptionError, match="say --privacy-unit client"):
        STATISTIC.prepare(settings().but(Protect.privacy_unit, PrivacyUnit.RECORD), DOMAIN)
    with pytest.raises(OptionError, match=f"under zero_out_one, not {relation}"):
        STATISTIC.prepare(settings().but(Protect.neighboring_relation, relation), DOMAIN)


def test_the_audit_finds_a_ratio_or_an_atom_that_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    assert audit_command("cap", {}, ZERO_OUT, epsilon=Fraction(1), delta=DELTA).fault is None
    for forgotten in (Guarantee(Fraction(1, 4), Fraction(0)), Guarantee(Fraction(0), DELTA / 40)):

        def too_good(coins, queries, less=forgotten):
            guarantee = guarantee_of_first_below(coins, queries)
            return Guarantee(guarantee.epsilon - less.epsilon, guarantee.delta - less.delta)

        monkeypatch.setattr("fairshares.protocols.accounting.calibration.guarantee_of_first_below", too_good)
        fault = audit_command("cap", {}, ZERO_OUT, epsilon=Fraction(1), delta=DELTA).fault
        assert fault is not None and "an index of 19 counts" in fault


@pytest.mark.parametrize("opened", [(), (-1,), (12,), (0, 0)])
def test_what_is_no_index_is_refused(opened: tuple[int, ...]) -> None:
    prepared = STATISTIC.prepare(settings(), DOMAIN)
    with pytest.raises(OutputError, match="something else than the place of a cap"):
        prepared.read({"index": opened}, 9)


def test_an_index_is_a_cap() -> None:
    prepared = STATISTIC.prepare(settings(), DOMAIN)
    caps = caps_to_choose_from(50)
    assert len(caps) == 12
    for index in (0, 11):
        choice = prepared.read({"index": (index,)}, 9)
        expected = {"cap": caps[index], "caps": list(caps), "allowed_above": 31, "noise": choice.noise}
        assert only_file(choice) == expected


def test_the_noise_that_is_shown_holds_95_percent_of_comparisons_and_one_client_less_does_not() -> None:
    plan = plan_noise(AboveThreshold(3), Neighbors(ZERO_OUT), Fraction(1), Fraction(1, 2**9))
    bound, mass = comparison_noise(plan), probability_mass(plan.coins)
    one = np.array([float(mass[x]) for x in sorted(mass)])
    both = np.convolve(one, one[::-1])  # of a difference, from -(len - 1) to len - 1
    far = np.abs(np.arange(both.size) - (one.size - 1))
    assert both[far <= bound].sum() >= 0.95 > both[far <= bound - 1].sum()


def test_counts_take_the_papers_rule_and_ratios_eight_times_as_many() -> None:
    third = Guarantee(Fraction(1, 3), DELTA)
    assert replace(WEIGHTS, task="counts", spends=third).allowed_above(DOMAIN) == 2  # one sum
    counts = replace(WEIGHTS, task="counts", counts=4)
    assert counts.allowed_above(DOMAIN) == allowed_above(Fraction(1), 4) == 3
    assert replace(counts, spends=third).allowed_above(DOMAIN) == 11
    assert replace(counts, malleable_slots=True).allowed_above(DOMAIN) == 7  # twice the noise
    assert WEIGHTS.allowed_above(DOMAIN) == allowed_above(Fraction(1, 8), 4) == 31
    rates = replace(WEIGHTS, task="confusion")
    assert rates.allowed_above(DOMAIN) == allowed_above(Fraction(1, 8), 8) == 63
    assert replace(rates, malleable_slots=True).allowed_above(DOMAIN) == 127


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_curves_of_records_have_noise_for_exchanged_ones_in_active_models(
    model: SecurityModel,
) -> None:
    release = settings(model)
    texts = {"epsilon": "1", "release": "thresholds", "release_epsilon": "1", "thresholds": "101"}
    histogram, records = (
        CapStatistic.for_request(CapRequest(**texts, variant=variant)).allowed_above(release, DOMAIN)
        for variant in ("histogram", "records")
    )
    times = 2 if model.tolerates == "active" else 1
    assert records + 1 == pytest.approx(times * (histogram + 1), rel=0.03)
