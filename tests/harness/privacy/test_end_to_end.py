"""Theorem 7: noise and engine in one sentence; the worst engines, by enumeration, and what is printed."""

import re
from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any

import pytest

from fairshares.harness.engines.execution import EngineResult
from fairshares.harness.pipeline.manifest_of_run import combined_manifest
from fairshares.harness.privacy.manifest import StatedInputs
from fairshares.harness.privacy.statement import end_to_end
from fairshares.harness.releases.count.spec import PI_COUNT
from fairshares.harness.releases.weights.spec import PI_RW
from fairshares.harness.security_models import MODELS, SecurityModel
from fairshares.harness.stated_privacy import StatedPrivacy
from fairshares.protocols.accounting.calibration import (
    NeighboringRelation,
    Neighbors,
    each_cell_once,
    plan_noise,
)
from fairshares.protocols.circuits.clients import CHECKS
from fairshares.protocols.circuits.coins import exp_bounds
from fairshares.protocols.guarantee import Guarantee
from fairshares.protocols.spec import CLIENTS, SHARES, SPLIT, InputPath, ProtocolSpec
from tests.support.stated import manifest_of, statement_of

EVERY_MODEL = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
Distribution = tuple[Fraction, ...]
SHOWN = re.compile(
    r"ε = ([0-9.e+-]+) holds with δ′ = .* ≤ ([0-9.e+-]+) \+ .* η = ([0-9.e+-]+) is the engine's"
)


def excess(one: Distribution, other: Distribution, ratio: Fraction) -> Fraction:
    """Return the least delta, one way, at e^epsilon = ratio."""
    return sum((max(Fraction(0), p - ratio * q) for p, q in zip(one, other, strict=True)), Fraction(0))


def spoiled(distribution: Distribution, eta: Fraction) -> list[Distribution]:
    """Return all distributions that differ from this one in one move of mass eta, to another value."""
    distributions = [distribution]
    for source, target in product(range(len(distribution)), repeat=2):
        if source != target and distribution[source] >= eta:
            changed = list(distribution)
            changed[source], changed[target] = changed[source] - eta, changed[target] + eta
            distributions.append(tuple(changed))
    return distributions


@pytest.mark.parametrize("eta", [Fraction(1, 10), Fraction(1, 100)])
@pytest.mark.parametrize("delta", [Fraction(0), Fraction(1, 50)])
def test_no_engine_exceeds_the_joint_bound_and_one_meets_it(eta: Fraction, delta: Fraction) -> None:
    """What both parties of a pair of neighbors see is eta from ideal: the factor 1 + e^epsilon is needed."""
    ratio, rest = Fraction(3), 1 - delta
    one = (delta, rest * ratio / (1 + ratio), rest / (1 + ratio), Fraction(0))
    other = (Fraction(0), rest / (1 + ratio), rest * ratio / (1 + ratio), delta)
    assert excess(one, other, ratio) == delta == excess(other, one, ratio)
    worst = max(excess(p, q, ratio) for p in spoiled(one, eta) for q in spoiled(other, eta))
    assert worst == delta + (1 + ratio) * eta


def privacy(
    model: SecurityModel, epsilon: Fraction, path: InputPath = SHARES, spec: ProtocolSpec = PI_RW
) -> StatedPrivacy:
    exact = Guarantee(epsilon, Fraction(1, 10**12))
    neighbors = Neighbors(NeighboringRelation.ADD_OR_REMOVE_ONE)
    plan = replace(plan_noise(each_cell_once(4), neighbors, Fraction(1), Fraction(1, 2**40)), exact=exact)
    return statement_of(spec, SPLIT.by(path), model, plan, False, asked=epsilon, compared=6).stated


@EVERY_MODEL
@pytest.mark.parametrize("path", [SHARES, CLIENTS], ids=["shares", "clients"])
@pytest.mark.parametrize("epsilon", [Fraction(1, 1000), Fraction(997, 1000), Fraction(20), Fraction(200)])
def test_the_sentence_is_rounded_up_and_close(model: SecurityModel, path: Any, epsilon: Fraction) -> None:
    text = privacy(model, epsilon, path).end_to_end
    shown = SHOWN.search(text)
    assert shown is not None and f"one of {model.parties} parties" in text and text.count(". ") == 0
    of_checks = dict.fromkeys(("spdz2k", "ps-rep-ring", "malicious-shamir"), 40)
    bits = {"shamir": 124, "mpyc": 58, **of_checks}.get(model.name)
    eta = Fraction(1, 2**bits) if bits else Fraction(0)
    if path is CLIENTS and model.tolerates == "active":  # whether a client notices is chance, too
        eta += Fraction(1, 2**CHECKS)
    exponential = exp_bounds(epsilon)[1] if epsilon <= 64 else Fraction(2) ** 300
    total = min(Fraction(1), Fraction(1, 10**12) + (1 + exponential) * eta)
    for exact, value in zip((epsilon, total, eta), shown.groups(), strict=True):
        assert exact <= Fraction(value) <= exact * (1 + Fraction(1, 10))
    assert ("may deviate" in text) is (model.tolerates == "active")
    assert text.endswith(f"breaking {model.cryptography}.")


def test_what_it_assumes_of_clients_is_in_it() -> None:
    model = MODELS["mpyc"]
    said = [privacy(model, Fraction(1), spec=spec).end_to_end for spec in (PI_RW, PI_COUNT)]
    assert ["that share true counts" in text for text in said] == [False, True]


def test_of_several_runs_all_that_may_fail_adds_up() -> None:
    """The sentence of both is made from both; that of the last run alone would say too little."""
    for name, failures in (("spdz2k", 2), ("rep4-ring", 1)):
        one = privacy(MODELS[name], Fraction(1), CLIENTS)
        result = EngineResult(
            model=MODELS[name], outputs={}, engine="mp-spdz", engine_version="rigged", program_hash=""
        )
        run = manifest_of("weights", result, one, StatedInputs(clients=1))
        both = combined_manifest("both", {"first": run, "second": run}).privacy.end_to_end
        shown = SHOWN.search(both)
        assert shown is not None and shown[1] == "2"
        assert (
            Fraction(2 * failures, 2**40)
            <= Fraction(shown[3])
            <= Fraction(2 * failures, 2**40) * Fraction(11, 10)
        )


def test_it_says_how_many_parties_are_controlled() -> None:
    sentences = {}
    for corruptions in (1, 2):
        model = replace(MODELS["rep4-ring"], corruptions=corruptions)
        sentences[corruptions] = end_to_end(
            model, Guarantee(Fraction(1), Fraction(0)), 40, input_path=SHARES.described, assumes=False
        )
    assert "against whoever controls one of 4 parties, which may deviate, any other" in sentences[1]
    assert "against whoever controls up to 2 of 4 parties, each of which may deviate, any" in sentences[2]
