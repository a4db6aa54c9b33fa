"""The Flower app whose strategy takes noisy sums: run once for real, where Flower is installed."""

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.conftest import PROJECT
from tests.support.flower_processes import NEEDED, flower_home

APP = PROJECT / "examples" / "flower_sums"


@pytest.mark.skipif(find_spec("flwr") is None, reason=NEEDED)
def test_a_federation_learns_from_noisy_sums(tmp_path: Path) -> None:
    """Made-up rows of 50 clients at a large epsilon; guessing is right for half of the rows."""
    flwr = str(Path(sys.executable).with_name("flwr"))
    with flower_home(tmp_path) as environment:
        done = subprocess.run(
            [flwr, "run", str(APP), "--stream", "--run-config", "epsilon=20.0 rounds=5",
             "--federation-config", "num-supernodes=50 client-resources-num-cpus=1"],
            env={**environment, "PYTHONPATH": os.pathsep.join([str(PROJECT), str(APP)])},
            capture_output=True, text=True, timeout=600, check=False,
        )  # fmt: skip
    said = re.search(r"accuracy (0\.\d+) after 5 rounds with 50 clients, ε = 20", done.stdout + done.stderr)
    assert said, done.stdout[-2000:] + done.stderr[-2000:]
    assert float(said[1]) > 0.7
