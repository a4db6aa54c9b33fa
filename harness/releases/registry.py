"""All statistics that can be released, by the names of their commands; commands and plans follow."""

from __future__ import annotations

from typing import Any

from harness.releases.base import Statistic
from harness.releases.confusion import ConfusionStatistic
from harness.releases.contribution_cap import CapStatistic
from harness.releases.counts import CountStatistic
from harness.releases.gaps import GapStatistic
from harness.releases.score_curves import ThresholdsStatistic
from harness.releases.weights import WeightsStatistic

STATISTICS: dict[str, type[Statistic[Any]]] = {
    statistic.name: statistic
    for statistic in (
        WeightsStatistic,
        ConfusionStatistic,
        ThresholdsStatistic,
        GapStatistic,
        CountStatistic,
        CapStatistic,
    )
}
