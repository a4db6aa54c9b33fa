"""What all tests share: where the project is, and what cannot run here and why."""

from __future__ import annotations

import inspect
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import settings

from harness.engines.mpspdz import MpSpdzEngine
from harness.models import MODELS, get_model

PROJECT = Path(__file__).resolve().parents[1]

# No deadline: the machine is shared, and the first example pays for imports.
settings.register_profile("fairshares", deadline=None)
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


@pytest.fixture(scope="session")
def project() -> Path:
    """Return the project's root."""
    return PROJECT


@pytest.fixture
def in_tmp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Run the test in a directory of its own and return it."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
