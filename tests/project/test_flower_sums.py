"""The Flower app whose strategy takes noisy sums: run once for real, where Flower is installed."""

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
APP = PROJECT / "examples" / "flower_sums"


@pytest.fixture
def flower_home(tmp_path: Path) -> Iterator[Path]:
    """Have a directory of Flower's own; in the end stop the server that `flwr run` leaves for later runs."""
    yield tmp_path
    mark = f"FLWR_HOME={tmp_path}".encode()
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended, or is another user's
            if mark in (entry / "environ").read_bytes():
                os.kill(int(entry.name), signal.SIGTERM)


@pytest.mark.skipif(
    find_spec("flwr") is None, reason="Flower has an environment of its own: docs/how-to/flower.md"
)
def test_a_federation_learns_from_noisy_sums(flower_home: Path) -> None:
    """Made-up rows of 50 clients at a large epsilon; guessing is right for half of the rows."""
    environment = {
        **os.environ,
        "FLWR_HOME": str(flower_home),
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "PYTHONPATH": os.pathsep.join([str(PROJECT), str(APP)]),
    }
    flwr = str(Path(sys.executable).with_name("flwr"))
    done = subprocess.run(
        [flwr, "run", str(APP), "--stream", "--run-config", "epsilon=20.0 rounds=5",
         "--federation-config", "num-supernodes=50 client-resources-num-cpus=1"],
        env=environment, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    said = re.search(r"accuracy (0\.\d+) after 5 rounds with 50 clients, ε = 20", done.stdout + done.stderr)
    assert said, done.stdout[-2000:] + done.stderr[-2000:]
    assert float(said[1]) > 0.7
