"""The numbers of multiplications that the protocols imply, and checks of them that can fail."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from benchmarks.validation import multiplications
from benchmarks.validation.findings import Status, judge
from benchmarks.validation.multiplications import ANDS, COMPARISONS, PRODUCTS, checks, implied
from protocols.spec import PI_ROC_PUBLISHED, ProtocolSpec

KEYS = {each.key: each for each in implied()}


def test_numbers_are_the_protocols() -> None:
    """By hand: two products per client; four per record, and per record and threshold."""
    numbers = {key: each.number for key, each in KEYS.items()}
    assert numbers["pi_rw.product.ads"] == 2 * 109
    assert numbers["pi_rw.product.ml-1m"] == 2 * 75
    assert numbers["pi_cf.product.ads"] == 4 * 26_160
    assert numbers["pi_roc.published.ads"] == 26_160 * (4 * 1001 + 1)
    assert numbers["pi_roc.comparisons.ads"] == 26_160 * 1001
    assert numbers["pi_rw.split"] == numbers["pi_roc.default"] == 0
    assert numbers["pi_rw.noise"] == 4 * 53
    assert numbers["pi_roc.noise"] == 4316 * 81


def right(spec: ProtocolSpec, arguments: Mapping[str, object]) -> dict[str, int]:
    """Count what the protocol implies, and a thousand ANDs for each threshold."""
    found = {each.what: each.number for each in implied() if (each.spec, each.arguments) == (spec, arguments)}
    if spec is PI_ROC_PUBLISHED:
        found[ANDS] = 1000 * int(str(arguments["bins"]))
    return found


def test_right_counts_pass() -> None:
    assert {finding.status for finding in judge(checks(right), ())} == {Status.PASSED}


@pytest.mark.parametrize("what", [PRODUCTS, COMPARISONS, ANDS])
@pytest.mark.parametrize("more", [-1, 1])
def test_one_more_or_less_fails(what: str, more: int) -> None:
    def wrong(spec: ProtocolSpec, arguments: Mapping[str, object]) -> dict[str, int]:
        found = right(spec, arguments)
        return {**found, what: found.get(what, 0) + more}

    failed = {f.check.key for f in judge(checks(wrong), ()) if f.status is Status.FAILED}
    expected = {
        f"exact.{multiplications.UNITS[what]}.{key}" for key, each in KEYS.items() if each.what == what
    }
    assert failed - {"exact.ANDs.pi_roc.each_threshold"} == expected
    assert ("exact.ANDs.pi_roc.each_threshold" in failed) == (what == ANDS)


def test_without_mp_spdz_nothing_is_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multiplications, "find_installation", lambda: "MP-SPDZ was not found.")
    findings = judge(checks(), ())
    assert {(f.status, f.reason) for f in findings} == {(Status.NOT_JUDGED, "MP-SPDZ was not found.")}
