"""π_RW of clients' slots opens the same known integers in every model, whatever clients send.

Its own text, run with noise bits that the test gives, on shares that the harness turns into parties' bits.
"""

from pathlib import Path

import numpy as np
import pytest

from harness.engines.registry import engine_of
from harness.security_models import MODELS, SecurityModel
from protocols.circuits.slots import MOST_LANES, cell_of_code
from protocols.spec import PI_RW_SLOTS, SLOTS
from tests.support.running import model_parameters
from tests.support.slots import CAP, UPLOADS, Case, opened


@pytest.mark.parametrize("model", model_parameters())
def test_whatever_clients_send_each_counts_cap_records_at_most(model: SecurityModel, tmp_path: Path) -> None:
    """All kinds at once, 200 clients: 800 slots, in lanes of 63 and a rest. A server flips bits, too.

    It moves a record to another cell, and puts one into an empty slot: of 40 clients with one of the first
    cell, and of 30 with none.
    """
    assert engine_of(model).supports(PI_RW_SLOTS, model, SLOTS) is None
    rng = np.random.default_rng(8)
    others = rng.integers(0, 5, (130 - len(UPLOADS), CAP)).tolist()
    flipped = {(len(UPLOADS), 0): 1, (len(UPLOADS), 1): 7, (len(UPLOADS) + 1, 3): 2**63 + 4}
    honest = Case([*UPLOADS.values(), *others], flipped=flipped)
    words = [*honest.words, *[[1, 0, 0, 0]] * 40, *[[0, 0, 0, 0]] * 30]
    moved = Case(words, flipped={**flipped, **{(client, 0): 2 for client in range(130, 200)}})
    counts = opened(moved, model, tmp_path)
    assert counts == moved.counts()
    added = [after - before for after, before in zip(counts, honest.counts(), strict=True)]
    assert added == [0, 30, 40, 0]  # code 1 is 3 by then, and 0 is 2


@pytest.mark.parametrize("model", model_parameters(models=[MODELS["ring"]]))
@pytest.mark.parametrize("clients", [20, 79])
def test_other_sizes(model: SecurityModel, clients: int, tmp_path: Path) -> None:
    """15 cells take all codes of 4 bits. Of 316 slots, one more than five lanes, 64 have a lane each.

    One lane beside five would be read in another order: `get_input_from` of `sbitvec`
    (`Compiler/GC/types.py`) takes `inputbvec` for one lane and `inputb` for more, neither of which the
    compiler keeps in order (`GC/instructions.py`, lines 625 and 645; `allocator.py`, lines 703 to 707). Sizes
    1, 2, 1 of inputs 1 2 3 4 give 1, [3, 4], 2. Mend: keep inputs of a party in order across kinds.
    """
    case = Case(np.random.default_rng(7).integers(0, 16, (clients, CAP)).tolist(), groups=3, labels=5)
    assert opened(case, model, tmp_path) == case.counts()


@pytest.mark.parametrize("bad", UPLOADS)
def test_a_clients_contribution_is_bounded_whatever_it_sends(bad: str) -> None:
    """By the oracle that runs are held to: honest clients' counts stay, and CAP are added at most."""
    honest = Case([UPLOADS["honest"]] * 3)
    more = Case([*honest.words, UPLOADS[bad]])
    added = [after - before for after, before in zip(more.counts(), honest.counts(), strict=True)]
    assert min(added) >= 0 and sum(added) <= CAP


@pytest.mark.parametrize("bits", range(1, 8))
@pytest.mark.parametrize("slot", range(CAP))
def test_a_server_that_flips_bits_moves_one_record(slot: int, bits: int) -> None:
    words = [UPLOADS["honest"]] * 2
    before, after = Case(words).counts(), Case(words, flipped={(1, slot): bits}).counts()
    moved = [a - b for a, b in zip(after, before, strict=True)]
    assert max(map(abs, moved)) <= 1 and sum(map(abs, moved)) <= 2


def test_two_counts_tell_whether_a_record_is_there_whose_slot_a_server_flips() -> None:
    """Not one, as without: so noise for records that are there or not would be too little."""
    there, gone = (Case([[code, 0, 0, 0]], flipped={(0, 0): 2}).counts() for code in (1, 0))
    assert [a - b for a, b in zip(there, gone, strict=True)] == [0, -1, 1, 0]


@pytest.mark.parametrize(
    "model",
    model_parameters(
        models=[MODELS[name] for name in ("ring", "semi2k", "sy-rep-ring", "ps-rep-ring", "rep4-ring")]
    ),
)
def test_slots_that_are_read_in_a_loop_are_counted_once_each(model: SecurityModel, tmp_path: Path) -> None:
    """Two blocks that are alike, one with fewer lanes, and a rest. Of spdz2k it would take minutes."""
    slots = 63 * (2 * MOST_LANES + 70) + 5
    words = np.random.default_rng(3).integers(0, 8, (slots // CAP + 1) * CAP)
    words[: 63 * MOST_LANES] = 1  # so that a block that is left out, or taken twice, shows
    found = opened(Case(words.reshape(-1, CAP).tolist()), model, tmp_path)
    codes = np.bincount(words, minlength=8)
    assert found == [
        sum(n for code, n in enumerate(codes) if cell_of_code(code, 4) == cell) for cell in range(4)
    ]
