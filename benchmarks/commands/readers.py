"""A reader of options of benchmarks, beside those of `fairshares.harness.request.readers`."""

from collections.abc import Callable
from typing import TypeVar

from fairshares.harness.request.fields import GivenValue, ReaderOfSeveral
from fairshares.harness.request.readers import parse_names

T = TypeVar("T")


class Separated(ReaderOfSeveral[list[T]]):
    """A reader of values separated by commas, or in a list.

    Args:
        parse: The reader of one value.
    """

    def __init__(self, parse: Callable[[str, str], T]) -> None:
        super().__init__(self._read_each)
        self._parse = parse

    def _read_each(self, given: GivenValue, option: str) -> list[T]:
        return [self._parse(name, option) for name in parse_names(given, option)]
