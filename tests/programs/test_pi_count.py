"""π_COUNT opens the same known integers in every passive model: its own text, with given bits.

And what it opens where a client shares no count: in a ring what is charged still holds, in a field nothing.
"""

from pathlib import Path
from typing import Any

import pytest

from fairshares.harness.engines.registry import engine_of
from fairshares.harness.inputs.rings import FIELD
from fairshares.harness.privacy.statement import assumes_honest_clients
from fairshares.harness.releases.count.spec import PI_COUNT
from fairshares.harness.releases.weights.spec import PI_RW
from fairshares.harness.security_models import MODELS, SecurityModel
from fairshares.protocols import reference
from fairshares.protocols.mechanisms.shifted_log import ShiftedLog
from fairshares.protocols.spec import SPLIT
from tests.support.running import model_parameters, opened_less_noise

OFFSET, MOST = 20, 1000
PASSIVE = [model for model in MODELS.values() if not model.active]


def opened(cells: int, model: SecurityModel, directory: Path, **fed: Any) -> list[int]:
    """Return what a run on so many counts opens, less the noise that its bits make."""
    arguments = (model.parties, cells // 2, 2, OFFSET, MOST, "1/4000", 40)
    return opened_less_noise(PI_COUNT, arguments, cells, model, directory, **fed)


@pytest.mark.parametrize("model", model_parameters(models=PASSIVE))
def test_opens_the_oracles_integers(model: SecurityModel, tmp_path: Path) -> None:
    """An empty cell, the ends of every straight line, and a count above the largest."""
    assert engine_of(model).supports(PI_COUNT, model, SPLIT) is None
    counts = [0, 1, 11, 12, 43, 44, 107, 108, 235, 236, 491, 492, 1000, 3000]
    truth = [reference.shifted_log(count, OFFSET, MOST) for count in counts]
    assert opened(len(counts), model, tmp_path, values=counts) == truth


@pytest.mark.parametrize("model", model_parameters(models=[MODELS["ring"], MODELS["semi2k"]]))
def test_whatever_is_shared_modulo_2_64_no_step_is_above_the_first(
    model: SecurityModel, tmp_path: Path
) -> None:
    """One more record next to where signs turn: of the sum, and of the sum less each power of 2."""
    end = 2**63 - OFFSET
    before = [end - 1, end - 2, *(end + (1 << i) - 1 - 2**64 for i in range(5, 10)), -1 - OFFSET]
    counts = [count if count < 2**63 else count - 2**64 for one in before for count in (one, one + 1)]
    logarithms = opened(len(counts), model, tmp_path, values=counts)
    steps = [(after - one) % 2**64 for one, after in zip(logarithms[::2], logarithms[1::2], strict=True)]
    assert steps[:2] == [2, 2] and max(steps) == ShiftedLog(OFFSET, MOST).first_step


@pytest.mark.parametrize("model", model_parameters(models=[MODELS["mpyc"]]))
def test_in_a_field_one_client_can_have_exact_counts_opened(model: SecurityModel, tmp_path: Path) -> None:
    """Show why a run's statement says that it assumes honest clients.

    What this one shares brings what is opened back to small numbers, modulo p, where the slope is steep.
    """
    lie, steepness = (385699449 << 64) + 7848329220644072907 - OFFSET, -23913365836
    honest = [0, 1, 2, 500]
    shares = [tmp_path / f"party-{i}.values" for i in range(model.parties)]
    for i, path in enumerate(shares):
        sums = [(lie + count) % FIELD.modulus if i == 0 else 0 for count in honest]
        path.write_bytes(b"".join(value.to_bytes(FIELD.value_bytes, "little") for value in sums))
    values = opened(len(honest), model, tmp_path, files=shares)
    assert [round((value - values[0]) / steepness) for value in values] == honest
    assert assumes_honest_clients(PI_COUNT, SPLIT, model)
    assert not assumes_honest_clients(PI_COUNT, SPLIT, MODELS["ring"])
    assert not assumes_honest_clients(PI_RW, SPLIT, model)
