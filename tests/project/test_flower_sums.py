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
@pytest.mark.timeout(7200)  # of a test that hangs, on a machine that is busy, too
@pytest.mark.parametrize(("clients", "rounds"), [(50, 5), (1000, 2)])
def test_a_federation_learns_from_noisy_sums(clients: int, rounds: int, tmp_path: Path) -> None:
    """Made-up rows of simulated clients at a large epsilon; guessing is right for half of the rows."""
    flwr = str(Path(sys.executable).with_name("flwr"))
    with flower_home(tmp_path) as environment:
        done = subprocess.run(
            [flwr, "run", str(APP), "--stream", "--run-config", f"epsilon=20.0 rounds={rounds}",
             "--federation-config", f"num-supernodes={clients} client-resources-num-cpus=1"],
            env={**environment, "PYTHONPATH": os.pathsep.join([str(PROJECT), str(APP)])},
            capture_output=True, text=True, timeout=7000, check=False,
        )  # fmt: skip
    result = rf"accuracy (0\.\d+) after {rounds} rounds with {clients} clients, ε = 20"
    said = re.search(result, done.stdout + done.stderr)
    assert said, done.stdout[-2000:] + done.stderr[-2000:]
    assert float(said[1]) > 0.7
