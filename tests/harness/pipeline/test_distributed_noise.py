"""Who is told of distributed noise: clients that send, hosts that are asked, readers of manifests."""

from fractions import Fraction

import pytest

from harness.cli.commands.send import _sentences
from harness.errors import OptionError, ShareError
from harness.inputs.record_schema import RecordDomain
from harness.pipeline.run import privacy_of
from harness.pipeline.sources import read_terms, terms_of
from harness.privacy.statement import SHIFTED, state_distributed_noise
from harness.releases.registry import statistic_of
from harness.releases.weights import WeightsStatistic
from harness.request.base import Request
from harness.request.releases import request_from_json
from harness.security_models import MODELS
from protocols.noise.added import NoiseDistribution
from protocols.spec import CLIENTS, SLOTS, SPLIT, InputForm
from tests.support.requests import request_of

DOMAIN = RecordDomain(("a", "b"), ("0", "1"))


def release(
    form: InputForm = SPLIT, distribution: NoiseDistribution | None = NoiseDistribution.GAUSSIAN
) -> Request:
    return request_of(MODELS["rep4-ring"], form, Fraction(1), Fraction(1, 2**40), distribution=distribution)


def test_clients_are_told_of_the_distribution_and_of_who_can_shift_the_result() -> None:
    terms = terms_of(release(SPLIT.by(CLIENTS)), DOMAIN)
    read, _ = read_terms(terms, "Terms")
    assert read.own_distribution is NoiseDistribution.GAUSSIAN
    assert any("own (gaussian)" in each and SHIFTED in each for each in _sentences(read))
    with pytest.raises(ShareError, match="names others than are known here"):
        read_terms({**terms, "request": {**terms["request"], "noise": "own-cauchy"}}, "Terms")


def test_terms_of_joint_noise_say_so() -> None:
    terms = terms_of(release(SPLIT.by(CLIENTS), None), DOMAIN)
    assert terms["request"]["noise"] == "joint"
    read, _ = read_terms(terms, "Terms")
    assert read.own_distribution is None and not any(SHIFTED in each for each in _sentences(read))


def test_hosts_are_asked_for_a_distribution_not_for_a_table() -> None:
    asked = release().but(population="people").to_json()
    found = request_from_json(asked)
    assert isinstance(statistic_of(found), WeightsStatistic)
    assert found.own == release().own and found.to_json() == asked
    assert asked.keys() & {"rate", "edge", "parties", "honest"} == set()
    with pytest.raises(OptionError, match="none that this version knows"):
        request_from_json({**asked, "noise": "own-uniform"})
    with pytest.raises(OptionError, match="none that this version knows"):
        request_from_json({**asked, "rate": "1"})


@pytest.mark.parametrize("form", [SPLIT, SPLIT.by(CLIENTS)], ids=["shares", "clients"])
def test_the_statement_says_it_and_what_shares_allow_anyway(form: InputForm) -> None:
    prepared = WeightsStatistic().prepare(release(form), DOMAIN)
    stated = privacy_of(prepared, 0)
    privacy = stated.to_json()
    assert (privacy["noise"], privacy["distribution"], privacy["honest_parties"]) == (
        "distributed",
        "gaussian",
        3,
    )
    alike = "as it can by its shares" if form is SPLIT else "with joint noise it could not"
    assert privacy["shifted"] == f"{SHIFTED}; {alike}"
    full = " ".join(stated.in_full())
    assert "no single party learns anything more, but what its own noise in it tells it, even if" in full
    assert f"counts that of 3 of 4, as the others may tell theirs. Note that {SHIFTED}; {alike}." in full
    assert SHIFTED in stated.in_short()[2]
    assert prepared.plan.own is not None
    assert (
        state_distributed_noise(prepared.plan.own, SLOTS).shifted
        == f"{SHIFTED}; with joint noise it could not"
    )
    joint = privacy_of(WeightsStatistic().prepare(release(form, None), DOMAIN), 0).to_json()
    assert not {"noise", "distribution", "honest_parties", "shifted"} & set(joint)
