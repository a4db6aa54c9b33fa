"""The Flower app whose strategy takes noisy sums: run once for real, where Flower is installed."""

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.conftest import PROJECT
from tests.support.flower_processes import NEEDED, last_lines, simulation

APP = PROJECT / "examples" / "flower_sums"


@pytest.mark.skipif(find_spec("flwr") is None, reason=NEEDED)
@pytest.mark.timeout(7200)  # of a test that hangs, on a machine that is busy, too
@pytest.mark.parametrize(("clients", "rounds"), [(50, 5), (1000, 2)])
def test_a_federation_learns_from_noisy_sums(clients: int, rounds: int, tmp_path: Path) -> None:
    """Made-up rows of simulated clients at a large epsilon; guessing is right for half of the rows."""
    with simulation(tmp_path, clients, [APP]) as made:
        text = made.output(APP, epsilon=20.0, rounds=rounds)
        said = re.search(rf"accuracy (0\.\d+) after {rounds} rounds with {clients} clients, ε = 20", text)
        assert said, last_lines(made)
    assert float(said[1]) > 0.7
