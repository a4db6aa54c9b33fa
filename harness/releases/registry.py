"""All statistics that can be released, by the names of their requests."""

from collections.abc import Iterator, Mapping
from typing import Any

from harness.releases.base import Statistic
from harness.request.base import Request
from harness.request.readers import in_module
from harness.request.releases import REQUESTS


class _Statistics(Mapping[str, type[Statistic[Any]]]):
    """Each is loaded when it is asked for: a command should not pay for the others."""

    def __getitem__(self, task: str) -> type[Statistic[Any]]:
        statistic: type[Statistic[Any]] = in_module(f"harness.releases.{REQUESTS[task].statistic}")()
        return statistic

    def __iter__(self) -> Iterator[str]:
        return iter(REQUESTS)

    def __len__(self) -> int:
        return len(REQUESTS)


STATISTICS: Mapping[str, type[Statistic[Any]]] = _Statistics()


def statistic_of(request: Request) -> Statistic[Any]:
    """Return what a request releases. Raises: OptionError: its fields do not go together."""
    return STATISTICS[request.task].of(request)
