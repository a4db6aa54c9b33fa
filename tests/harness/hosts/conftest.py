"""Hosts that are set up, and what ends with a test."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.coordinators import make_hosts


@pytest.fixture
def hosts(tmp_path: Path) -> list[Path]:
    return make_hosts(tmp_path)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as made:
        yield made
