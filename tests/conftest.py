"""What all tests share: where the project is, and what cannot run here and why."""

from __future__ import annotations

import gc
import inspect
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from _pytest.unraisableexception import collect_unraisable
from hypothesis import HealthCheck, settings

from harness.engines.mpspdz.engine import MpSpdzEngine
from harness.security_models import MODELS, get_model

PROJECT = Path(__file__).resolve().parents[1]

# No limits on time: the machine is shared, and the first example pays for imports. No database: what one
# run of the tests found is nothing that the next one depends on.
settings.register_profile(
    "fairshares", deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("fairshares")

COLLECTED = pytest.StashKey[Counter[tuple[Path, str]]]()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Count what was collected, before -k and -m take tests away; skip what MP-SPDZ is missing for."""
    collected = config.stash[COLLECTED] = Counter()
    for item in items:
        if isinstance(item, pytest.Function):
            # An inherited test counts where it is written and where it is collected.
            written = Path(inspect.getfile(inspect.unwrap(item.function)))
            collected.update((file, item.originalname) for file in {item.path, written})
    for item in items:
        for marker in item.iter_markers("mpspdz"):
            reason = _missing(marker.args)
            if reason is not None:
                item.add_marker(pytest.mark.skip(reason=reason))


def _missing(models: tuple[str, ...]) -> str | None:
    """Return the engine's own reason why one of the models cannot run here, or None."""
    engine = MpSpdzEngine()
    for name in models or [model.name for model in MODELS.values() if model.engine == engine.name]:
        reason = engine.availability(get_model(name))
        if reason is not None:
            return reason
    return None


class Opened:
    """Whether sockets or processes were opened since one last asked."""

    def __init__(self) -> None:
        self._some = False
        sys.addaudithook(self._hear)

    def _hear(self, event: str, _arguments: tuple[Any, ...]) -> None:
        if event in ("socket.__new__", "subprocess.Popen"):
            self._some = True

    def ask(self) -> bool:
        some, self._some = self._some, False
        return some


OPENED = Opened()  # an audit hook stays for good


def pytest_collection_finish() -> None:
    """Have the collector look no more at what is there for good: it takes a thirtieth of the time then."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Fail the test that leaves a socket or process open, not the one in which the collector meets it."""
    yield
    if OPENED.ask():
        gc.collect()
        collect_unraisable(item.config)


@pytest.fixture(scope="session")
def project() -> Path:
    """Return the project's root."""
    return PROJECT


@pytest.fixture
def in_tmp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Run the test in a directory of its own and return it."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
