"""The client of `web/`, for the tests of a file."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.web_client import WebClient, web_client


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebClient]:
    """Return the client in TypeScript, or skip where Node or its packages are missing."""
    with web_client(tmp_path_factory.mktemp("web")) as client:
        yield client


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory for the keys of a task."""
    return tmp_path_factory.mktemp("task")
