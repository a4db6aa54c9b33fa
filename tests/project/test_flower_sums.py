"""The Flower app whose strategy takes noisy sums: run once for real, where Flower is installed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="Flower has an environment of its own: docs/how-to/frameworks.md")

PROJECT = Path(__file__).resolve().parents[2]
APP = PROJECT / "examples" / "flower_sums"


def test_a_federation_learns_from_noisy_sums(tmp_path: Path) -> None:
    """Made-up rows of 50 clients at a large epsilon; guessing is right for half of the rows."""
    environment = {
        **os.environ,
        "FLWR_HOME": str(tmp_path),
        "PYTHONPATH": os.pathsep.join([str(PROJECT), str(APP)]),
    }
    flwr = str(Path(sys.executable).with_name("flwr"))
    done = subprocess.run(
        [flwr, "run", str(APP), "--stream", "--run-config", "epsilon=20.0 rounds=5",
         "--federation-config", "num-supernodes=50 client-resources-num-cpus=1"],
        env=environment, capture_output=True, text=True, timeout=280, check=False,
    )  # fmt: skip
    said = re.search(r"accuracy (0\.\d+) after 5 rounds with 50 clients, ε = 20", done.stdout + done.stderr)
    assert said, done.stdout[-2000:] + done.stderr[-2000:]
    assert float(said[1]) > 0.7
