"""Programs of clients' slots open the same known integers in every model, whatever clients send.

Their own text, run with noise bits that the test gives, on shares that the harness turns into parties' bits.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from fairshares.harness.engines.registry import engine_of
from fairshares.harness.inputs.encoding import columns_of
from fairshares.harness.inputs.record_schema import Cap, RecordDomain, RecordKind, ValueGrid
from fairshares.harness.inputs.records import ClientRecords
from fairshares.harness.releases.confusion.spec import PI_CF_SLOTS
from fairshares.harness.releases.gap.spec import PI_GAP_SLOTS
from fairshares.harness.releases.weights.spec import PI_RW_SLOTS
from fairshares.harness.security_models import MODELS, SecurityModel
from fairshares.protocols import reference
from fairshares.protocols.circuits.slots import MOST_LANES, slot_bits, value_bits
from fairshares.protocols.spec import SLOTS, ProtocolSpec
from tests.support.running import model_parameters, opened_less_noise
from tests.support.slots import cells_of_words, changed, counted, shares_of_words

CAP = 4
# Codes of 2 groups and 2 labels take 3 bits, with predictions 4. Words have 64; the rest is not used.
UPLOADS: dict[str, list[int]] = {
    "honest": [1, 2, 2, 4],
    "honest, one record": [3, 0, 0, 0],
    "honest, no record": [0, 0, 0, 0],
    "all ones": [-1, -1, -1, -1],
    "codes of no cell": [5, 6, 7, 7],
    "one cell, in all slots": [4, 4, 4, 4],
    "large values": [2**62 + 1, -(2**40), 8, 16],
    "random": np.random.default_rng(4).integers(-(2**63), 2**63 - 1, CAP).tolist(),
}
STEPS = 5  # 2 bits for one of 3 groups, 4 for v + 5, of which 11 to 15 stand for nothing


def check(
    spec: ProtocolSpec,
    words: npt.ArrayLike,
    truth: Callable[[list[int]], list[int]],
    model: SecurityModel,
    directory: Path,
    *,
    sizes: Sequence[int] = (2, 2),
    flipped: Mapping[int, int] | None = None,
) -> list[int]:
    """Assert that a run opens the truth of what its parties' shares make; return that.

    Args: sizes: groups, then labels or steps; flipped: bits of slots that one server flips in its shares.
    """
    assert engine_of(model).supports(spec, model, spec.input_forms[SLOTS.name]) is None
    shares = shares_of_words(words, model.parties, flipped or {})
    arguments = (model.parties, len(shares[0]), model.slots_per_lane, *sizes, "1/3", 40)
    expected = truth(changed(words, flipped or {}))
    opened = opened_less_noise(spec, arguments, len(expected), model, directory, words=shares)
    assert opened == expected
    return opened


def counts_of(cells: int) -> Callable[[list[int]], list[int]]:
    return lambda words: counted(words, cells)


@pytest.mark.parametrize("model", model_parameters())
def test_whatever_clients_send_each_counts_cap_records_at_most(model: SecurityModel, tmp_path: Path) -> None:
    """All kinds at once, 200 clients: 800 slots, in lanes of 63 and a rest. A server flips bits, too.

    It moves a record to another cell, and puts one into an empty slot: of 40 clients with one of the first
    cell, and of 30 with none.
    """
    others = np.random.default_rng(8).integers(0, 5, (130 - len(UPLOADS), CAP)).tolist()
    flipped = {CAP * len(UPLOADS): 1, CAP * len(UPLOADS) + 1: 7, CAP * (len(UPLOADS) + 1) + 3: 2**63 + 4}
    words = [*UPLOADS.values(), *others, *[[1, 0, 0, 0]] * 40, *[[0, 0, 0, 0]] * 30]
    moved = {**flipped, **{CAP * client: 2 for client in range(130, 200)}}
    counts = check(PI_RW_SLOTS, words, counts_of(4), model, tmp_path, flipped=moved)
    before = counted(changed(words[:130], flipped), 4)
    added = [after - one for after, one in zip(counts, before, strict=True)]
    assert added == [0, 30, 40, 0]  # code 1 is 3 by then, and 0 is 2


def predictions(groups: int, labels: int) -> tuple[list[list[int]], list[int]]:
    """Return what clients with at most `CAP` records send, the last without any, and the oracle's counts."""
    rng, clients = np.random.default_rng(groups), 50
    client = np.repeat(np.arange(clients), rng.integers(0, CAP + 1, clients))
    group, label, prediction = (rng.integers(0, n, len(client)) for n in (groups, labels, labels))
    prediction[group == 0] = label[group == 0]  # so that no two cells can be taken for each other
    names = tuple("abc"[:groups]), tuple("012"[:labels])
    domain = RecordDomain(*names, CAP, kind=RecordKind.PREDICTION, cap=Cap(CAP))
    ids = np.arange(clients + 1).astype(str)
    words = columns_of(ClientRecords(domain, ids, client, group, label, prediction), SLOTS).T.tolist()
    assert words[-1] == [0] * CAP
    return words, reference.confusion(group, label, prediction, groups, labels).ravel().tolist()


@pytest.mark.parametrize("model", model_parameters())
def test_confusion_whatever_others_send(model: SecurityModel, tmp_path: Path) -> None:
    """Words of all kinds beside honest ones; a server moves a record, and puts one into an empty slot."""
    words, truth = predictions(2, 2)
    flipped = {CAP * len(words): 0b101, CAP * (len(words) - 1) + 2: 0b0110}
    words += UPLOADS.values()
    counts = check(PI_CF_SLOTS, words, counts_of(8), model, tmp_path, flipped=flipped)
    added = [after - one for after, one in zip(counts, truth, strict=True)]
    assert min(added) >= 0 and sum(added) <= CAP * len(UPLOADS) + 1  # and what is in the filled slot


@pytest.mark.parametrize("model", model_parameters(models=[MODELS["ring"]]))
def test_confusion_of_several_labels(model: SecurityModel, tmp_path: Path) -> None:
    """27 cells: 5 bits."""
    words, truth = predictions(3, 3)
    assert check(PI_CF_SLOTS, words, lambda _: truth, model, tmp_path, sizes=(3, 3)) == truth


def moved(words: Sequence[int]) -> list[int]:
    """Return three groups' sums of distances from both ends, by what a slot's lowest bits mean."""
    cells = cells_of_words(words, 3)
    values = [(word >> slot_bits(3) & ((1 << value_bits(STEPS)) - 1)) - STEPS for word in words]
    there = [(cell, v) for cell, v in zip(cells, values, strict=True) if cell >= 0 and v <= STEPS]
    return reference.sums_from_ends([cell for cell, _ in there], [v for _, v in there], 3, STEPS)


@pytest.mark.parametrize("model", model_parameters())
def test_gaps_whatever_others_send(model: SecurityModel, tmp_path: Path) -> None:
    """60 honest clients, one without a value; every string of 6 bits, and words with more of them.

    Each moves the two sums of one group by the grid's width in all, or none. A server changes its share of
    three slots: another group, another value, and a client that had none.
    """
    rng, client = np.random.default_rng(3), np.arange(60)
    group, value = rng.integers(0, 3, 60), rng.integers(-STEPS, STEPS + 1, 60)
    grid = ValueGrid(0.0, 1.0, STEPS)
    domain = RecordDomain(tuple("abc"), (), 1, kind=RecordKind.VALUE, values=grid, cap=Cap(1))
    records = ClientRecords(domain, np.arange(61).astype(str), client, group, np.zeros_like(group), value)
    honest = columns_of(records, PI_GAP_SLOTS.input_forms[SLOTS.name]).ravel().tolist()
    assert honest[-1] == 0
    assert moved(honest) == reference.sums_from_ends(group.tolist(), value.tolist(), 3, STEPS)
    words = [*honest, *range(64), -1, 2**62 + 1, -(2**40)]
    for word in words:
        sums = np.array(moved([word]))
        assert sums.sum() in (0, 2 * STEPS) and (sums >= 0).all()
    flipped = {58: 0b11, 59: 0b1100, 60: 0b1110}
    assert all(moved([words[at]]) != moved([words[at] ^ mask]) for at, mask in flipped.items())
    check(PI_GAP_SLOTS, words, moved, model, tmp_path, sizes=(3, STEPS), flipped=flipped)


@pytest.mark.parametrize("model", model_parameters(models=[MODELS["ring"]]))
@pytest.mark.parametrize("clients", [20, 79])
def test_other_sizes(model: SecurityModel, clients: int, tmp_path: Path) -> None:
    """15 cells take all codes of 4 bits. Of 316 slots, one more than five lanes, 64 have a lane each.

    One lane beside five would be read in another order: `get_input_from` of `sbitvec`
    (`Compiler/GC/types.py`) takes `inputbvec` for one lane and `inputb` for more, neither of which the
    compiler keeps in order (`GC/instructions.py`, lines 625 and 645; `allocator.py`, lines 703 to 707). Sizes
    1, 2, 1 of inputs 1 2 3 4 give 1, [3, 4], 2. Mend: keep inputs of a party in order across kinds.
    """
    words = np.random.default_rng(7).integers(0, 16, (clients, CAP))
    check(PI_RW_SLOTS, words, counts_of(15), model, tmp_path, sizes=(3, 5))


@pytest.mark.parametrize(
    "model",
    model_parameters(
        models=[MODELS[name] for name in ("ring", "semi2k", "sy-rep-ring", "ps-rep-ring", "rep4-ring")]
    ),
)
def test_slots_that_are_read_in_a_loop_are_counted_once_each(model: SecurityModel, tmp_path: Path) -> None:
    """Two blocks that are alike, one with fewer lanes, and a rest. Of spdz2k it would take minutes."""
    words = np.random.default_rng(3).integers(0, 8, ((63 * (2 * MOST_LANES + 70) + 5) // CAP + 1) * CAP)
    words[: 63 * MOST_LANES] = 1  # so that a block that is left out, or taken twice, shows
    check(PI_RW_SLOTS, words, counts_of(4), model, tmp_path)
