"""The first lines of the quickstart: what its own splits say, also where a method widened a gap."""

from fractions import Fraction
from unittest.mock import Mock

import pandas as pd
import pytest

from fairshares.harness.evaluation.before_after import UNMITIGATED
from fairshares.harness.evaluation.metrics import METRICS
from fairshares.harness.privacy.manifest import Manifest
from fairshares.harness.releases.thresholds.statistic import Thresholds
from fairshares.harness.releases.weights.statistic import Weights
from fairshares.harness.views.quickstart import Quickstart, answer
from fairshares.protocols.guarantee import Guarantee

SPLITS = 20
PARITY = "demographic_parity_difference"
ODDS = "equalized_odds_difference"


def study(**gaps: dict[str, list[float]]) -> Quickstart:
    """Return a study in which all metrics are 0.5, but for these, by model and split."""
    models = {UNMITIGATED: {}, **gaps}
    rows = []
    for model, own in models.items():
        for split in range(SPLITS):
            figures = {metric: own[metric][split] if metric in own else 0.5 for metric in METRICS}
            rows.append({"split": split, "model": model, **figures})
    manifest = Mock(Manifest)
    manifest.privacy.exact = Guarantee(Fraction(4), Fraction(1, 2**40))
    return Quickstart(
        Mock(Weights), Mock(Thresholds), manifest, pd.DataFrame(rows), 100, 50, SPLITS, fallbacks=0
    )


def test_a_method_that_widens_a_gap_is_named_in_the_first_lines() -> None:
    wider = [0.6] * 12 + [0.45] * 8
    found = answer(study(balanced={PARITY: wider}, thresholds={PARITY: [0.4] * SPLITS, ODDS: [0.7] * SPLITS}))
    assert found[0].startswith("Fairest: thresholds. The groups' approval rates differ by 0.400 on average")
    assert found[1:3] == [
        "Wider with balanced weights: demographic parity difference from 0.500 to 0.540 (12 of 20 splits).",
        "Wider with thresholds: equalized odds difference from 0.500 to 0.700 (20 of 20 splits).",
    ]


@pytest.mark.parametrize(
    "gap",
    [
        [0.9] * 10 + [0.45] * 10,  # in half of the splits
        [0.51] * 12 + [0.3] * 8,  # narrower on average
        [0.5] * SPLITS,
    ],
)
def test_a_gap_is_wider_on_average_and_in_most_splits(gap: list[float]) -> None:
    assert not any("Wider" in line for line in answer(study(thresholds={PARITY: gap})))


def test_no_method_is_the_fairest_where_all_widen_the_gap() -> None:
    found = answer(study(balanced={PARITY: [0.7] * SPLITS}, thresholds={PARITY: [0.6] * SPLITS}))
    assert found[0].startswith("Fairest: the unmitigated model. Of the methods, thresholds. ")
    assert "They came closer in 0 of 20 splits." in found[0]
