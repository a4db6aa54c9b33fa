"""The sandbox of a party, left out: what a test does without it shows that the sandbox is what forbids it."""

from pathlib import Path

import pytest

from fairshares.harness.engines.execution import PROJECT
from fairshares.harness.engines.parties import handle

# Python that a party runs first, as `sitecustomize.py`.
OPEN = """
from fairshares.harness.engines.parties import sandbox
sandbox.confine = lambda reach: None
sandbox.signal_only = lambda *processes: None
"""


def leave_out_sandbox(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have parties started without their sandbox, from a project of links that is made in `directory`."""
    place = directory / "project"
    place.mkdir()
    for name in ("benchmarks", "fairshares", "harness", "protocols", "tests", "Programs"):
        (place / name).symlink_to(PROJECT / name)
    (place / "sitecustomize.py").write_text(OPEN)
    monkeypatch.setattr(handle, "PROJECT", place)
