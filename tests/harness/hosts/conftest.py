"""Hosts that are set up, and what ends with a test."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.coordinators import make_hosts
from tests.support.planted import check_logs_below


@pytest.fixture(autouse=True)
def nothing_secret_in_logs(tmp_path: Path) -> Iterator[None]:
    """Look into the logs and ledgers of whatever hosts a test has made, whatever they answered and met."""
    yield
    check_logs_below(tmp_path)


@pytest.fixture
def hosts(tmp_path: Path) -> list[Path]:
    return make_hosts(tmp_path)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as made:
        yield made
