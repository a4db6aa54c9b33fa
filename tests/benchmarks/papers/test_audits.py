"""Audits of published mechanisms: their figures, and where the command shows them."""

import math
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from benchmarks.papers import audits as of_papers
from benchmarks.papers.audits import (
    LOCAL_MECHANISMS,
    PROTOCOL_4,
    PUBLISHED_LOCAL_MECHANISMS,
    PUBLISHED_SAMPLERS,
    EmpiricalFigures,
)
from fairshares.harness.cli.commands.audit import audit
from fairshares.harness.cli.options import AuditOptions
from fairshares.harness.errors import OptionError
from fairshares.harness.privacy.audit.releases import OF_LOCAL_MECHANISMS, OF_RELEASES, OF_SAMPLERS
from fairshares.harness.privacy.audit.samplers import Audited


@pytest.fixture(scope="module")
def audits() -> list[Audited]:
    return [published() for published in (*PUBLISHED_SAMPLERS, *PROTOCOL_4, *PUBLISHED_LOCAL_MECHANISMS)]


@pytest.fixture(scope="module")
def rows(audits: list[Audited]) -> dict[str, Any]:
    return {str(row["subject"]): row["value"] for audited in audits for row in audited.rows()}


@pytest.mark.parametrize(
    ("subject", "value"),
    [
        ("pi_lap.published.raw.delta", 0.81738),
        ("pi_lap.published.raw.mp_spdz.delta", 0.82767),
        ("pi_lap.published.rounded.delta", 1.18806e-4),
        ("pi_lap.published.rounded.delta_at_every_epsilon", "2/65535"),
        ("pi_lap.published.raw.largest_noise", 10.3972),
        ("pi_lap.published.raw.epsilon", "inf"),
        ("pi_lap.published.rounded.epsilon", "inf"),
        ("pi_lap.published.raw.epsilon_at_1e-6", "inf"),
        ("pi_lap.published.rounded.epsilon_at_2^-40", "inf"),
        ("pi_lap.published.raw.1_10.delta", 1.0),
        ("pi_roc.published.epsilon", 1001.0),
        ("pi_roc.published.replace_one.epsilon", 2002.0),
        ("pi_roc.published.values_moved", 1001),
        ("ldp.m_r.1_1.epsilon", 1.379885),
        ("ldp.m_l.k1.epsilon", "inf"),
        ("ldp.m_l.k1.epsilon_claimed", 1.0),
        ("ldp.m_l.k1.log_ratio_at_10", 5.5),
    ],
)
def test_published_figures(rows: Mapping[str, Any], subject: str, value: object) -> None:
    expected = pytest.approx(value, rel=1e-4) if isinstance(value, float) else value
    assert rows[subject] == expected


def test_what_is_empirical_says_so(audits: list[Audited]) -> None:
    (empirical,) = [audited for audited in audits if "samples" in audited.parameters]
    assert empirical.parameters["label"] == "empirical" and "probabilistic" in empirical.subject
    found = empirical.figures
    assert isinstance(found, EmpiricalFigures)
    assert Fraction(1, 3) < found.delta_low < found.delta < found.delta_high
    assert found.delta_high < found.delta_low + Fraction(1, 50)
    assert empirical.note is not None
    assert empirical.note.startswith(
        "Empirical: published, raw, default truncation, ε = 1: δ is at least 0.357. "
        "One event tells neighbors apart by 0.363 (0.357 – 0.368, confidence 1 − 10⁻⁹) in 2,097,152 samples "
        "that MP-SPDZ revealed"
    )


def test_prot_4_is_still_487_at_a_small_delta(rows: Mapping[str, Any]) -> None:
    assert math.ceil(rows["pi_roc.published.epsilon_at_1e-6"]) == 487


def test_nothing_published_is_claimed(audits: list[Audited]) -> None:
    assert [audited.name for audited in audits if audited.claimed or audited.fault] == []


def test_the_reference_set_has_ours_and_the_published(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the order of tables, where only samplers are looked at, as releases take long."""
    monkeypatch.setattr(of_papers, "OF_RELEASES", ())
    assert [audited.subject for audited in of_papers.reference_set()] == [
        audited().subject for audited in (*OF_SAMPLERS, *PUBLISHED_SAMPLERS, *PROTOCOL_4, *LOCAL_MECHANISMS)
    ]
    mechanisms = [published().name for published in LOCAL_MECHANISMS]
    assert mechanisms == ["M_R, as published", "M_R, repaired", "M_L, k = 1", "M_L, k = 2"]
    assert [audit in OF_LOCAL_MECHANISMS for audit in LOCAL_MECHANISMS] == [False, True, False, True]
    assert OF_RELEASES


def test_an_installed_package_says_where_published_noise_is(tmp_path: Path) -> None:
    out = tmp_path / "audit"
    with pytest.raises(OptionError, match="in a clone of the project alone"):
        audit(AuditOptions(sampler="published", out=str(out)))
    assert not out.exists()
