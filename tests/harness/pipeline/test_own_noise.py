"""Who is told of noise of the parties' own: clients that send, hosts that are asked, readers of manifests."""

from __future__ import annotations

from dataclasses import asdict, replace
from fractions import Fraction

import pytest

from harness.cli.commands.send import _sentences
from harness.errors import OptionError, ShareError
from harness.inputs.record_schema import RecordDomain
from harness.pipeline.run import privacy_of, terms_of
from harness.pipeline.terms import asked_of, read_terms
from harness.privacy.statement import SHIFTED, own_noise_fields, privacy_in_short, privacy_statement
from harness.releases.base import Release
from harness.releases.weights import WeightsStatistic
from harness.security_models import MODELS
from protocols.noise.tables import NoiseLaw
from protocols.spec import CLIENTS, SLOTS, SPLIT, InputForm

DOMAIN = RecordDomain(("a", "b"), ("0", "1"))


def release(form: InputForm = SPLIT, law: NoiseLaw | None = NoiseLaw.GAUSSIAN) -> Release:
    return Release(MODELS["rep4-ring"], form, Fraction(1), Fraction(1, 2**40), law=law)


def test_clients_are_told_of_the_law_and_of_who_can_shift_the_result() -> None:
    terms = terms_of("weights", release(SPLIT.by(CLIENTS)), DOMAIN)
    read = read_terms(terms, "Terms")
    assert read.release.law is NoiseLaw.GAUSSIAN
    assert any("own (gaussian)" in each and SHIFTED in each for each in _sentences(read))
    with pytest.raises(ShareError, match="names others than are known here"):
        read_terms({**terms, "law": "cauchy"}, "Terms")


def test_terms_of_joint_noise_name_no_law() -> None:
    terms = terms_of("weights", release(SPLIT.by(CLIENTS), None), DOMAIN)
    assert "law" not in terms
    read = read_terms(terms, "Terms")
    assert read.release.law is None and not any(SHIFTED in each for each in _sentences(read))


def test_hosts_are_asked_for_a_law_not_for_a_table() -> None:
    asked = asked_of(WeightsStatistic(), release(), "people")
    statistic, found = asked.statistic_and_release()
    assert found == replace(release(), relation=found.relation) and isinstance(statistic, WeightsStatistic)
    assert {*asdict(asked)} & {"rate", "edge", "parties", "honest"} == set()
    with pytest.raises(OptionError, match="none that this version knows"):
        replace(asked, law="uniform").statistic_and_release()


@pytest.mark.parametrize("form", [SPLIT, SPLIT.by(CLIENTS)], ids=["shares", "clients"])
def test_the_statement_says_it_and_what_shares_allow_anyway(form: InputForm) -> None:
    prepared = WeightsStatistic().prepare(release(form), DOMAIN)
    privacy = privacy_of(prepared, 0)
    assert (privacy["noise"], privacy["law"], privacy["honest_parties"]) == ("own", "gaussian", 3)
    alike = "as it can by its shares" if form is SPLIT else "with joint noise it could not"
    assert privacy["shifted"] == f"{SHIFTED}; {alike}"
    full = " ".join(privacy_statement(privacy, MODELS["rep4-ring"]))
    assert "no single party learns anything more, but what its own noise in it tells it, even if" in full
    assert f"counts that of 3 of 4, as the others may tell theirs. Note that {SHIFTED}; {alike}." in full
    assert SHIFTED in privacy_in_short(privacy, MODELS["rep4-ring"])[2]
    slots = own_noise_fields(prepared.plan.own, SLOTS) if prepared.plan.own else {}
    assert slots["shifted"] == f"{SHIFTED}; with joint noise it could not"
    joint = privacy_of(WeightsStatistic().prepare(release(form, None), DOMAIN), 0)
    assert not {"noise", "law", "honest_parties", "shifted"} & set(joint)
