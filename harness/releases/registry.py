"""All statistics, by the names of their requests."""

from collections.abc import Iterator, Mapping
from typing import Any

from harness.releases.base import Statistic
from harness.request.base import Request
from harness.request.readers import in_module
from harness.request.releases import REQUESTS


class _Statistics(Mapping[str, type[Statistic[Any]]]):
    """Loads each statistic when it is asked for."""

    def __getitem__(self, task: str) -> type[Statistic[Any]]:
        statistic: type[Statistic[Any]] = in_module(f"harness.releases.{REQUESTS[task].statistic}")()
        return statistic

    def __iter__(self) -> Iterator[str]:
        return iter(REQUESTS)

    def __len__(self) -> int:
        return len(REQUESTS)


STATISTICS: Mapping[str, type[Statistic[Any]]] = _Statistics()


def statistic_of(request: Request) -> Statistic[Any]:
    """Return the statistic of a request, or raise OptionError."""
    return STATISTICS[request.task].of(request)
