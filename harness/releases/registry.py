"""All statistics that can be released, by the names of their requests."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

from harness.releases.base import Statistic
from harness.request.base import Request

_PLACES = {
    "weights": "weights:WeightsStatistic",
    "confusion": "confusion:ConfusionStatistic",
    "thresholds": "score_curves:ThresholdsStatistic",
    "gap": "gaps:GapStatistic",
    "count": "counts:CountStatistic",
    "cap": "contribution_cap:CapStatistic",
}


class _Statistics(Mapping[str, type[Statistic[Any]]]):
    """Each is loaded when it is asked for: a command should not pay for the others."""

    def __getitem__(self, task: str) -> type[Statistic[Any]]:
        module, _, name = _PLACES[task].partition(":")
        statistic: type[Statistic[Any]] = getattr(import_module(f"harness.releases.{module}"), name)
        return statistic

    def __iter__(self) -> Iterator[str]:
        return iter(_PLACES)

    def __len__(self) -> int:
        return len(_PLACES)


STATISTICS: Mapping[str, type[Statistic[Any]]] = _Statistics()


def statistic_of(request: Request) -> Statistic[Any]:
    """Return what a request releases. Raises: OptionError: its fields do not go together."""
    return STATISTICS[request.task].of(request)
