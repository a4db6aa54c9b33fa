"""What a client contributes: never more than its slots, of its own records, chosen fairly."""

from collections import Counter
from itertools import combinations
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, strategies as st

from fairshares.harness.errors import OptionError, RecordDomainError
from fairshares.harness.inputs.encoding import columns_of, count_columns
from fairshares.harness.inputs.record_schema import (
    MAX_CAP,
    WEIGHT_ONE,
    WEIGHT_SLOTS,
    Cap,
    cap_from_json,
    domain_from_json,
)
from fairshares.harness.inputs.records import ClientRecords
from fairshares.harness.request.readers import parse_cap
from fairshares.protocols.json_values import JsonValue
from fairshares.protocols.spec import KEYS, SLOTS, SPLIT

records = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 5)), max_size=40)  # of 5 clients, 6 cells


def choose(cap: Cap, records_of: list[tuple[int, int]]) -> list[list[int]]:
    """Return what is in each client's slots."""
    client, cell = np.array(records_of, dtype=np.int64).reshape(-1, 2).T
    return cap.choose(client, cell, 5).T.tolist()


@given(records, st.integers(1, 12))
def test_a_cap_takes_as_many_records_as_there_are_or_slots(found: list[tuple[int, int]], slots: int) -> None:
    for k, cells in enumerate(choose(Cap(slots), found)):
        own = Counter(cell for client, cell in found if client == k)
        kept = Counter(cell for cell in cells if cell >= 0)
        assert len(cells) == slots and kept.total() == min(slots, own.total())
        assert kept <= own


@given(records, st.integers(1, 12))
def test_weight_one_shares_a_clients_slots_out_among_its_records(
    found: list[tuple[int, int]], slots: int
) -> None:
    for k, cells in enumerate(choose(Cap(slots, weight_one=True), found)):
        own = Counter(cell for client, cell in found if client == k)
        if not own:
            assert cells == [-1] * slots
            continue
        kept = Counter(cells)
        assert kept.total() == slots and set(kept) <= set(own)
        assert all(abs(kept[cell] - slots * own[cell] / own.total()) < 1 for cell in own)


@pytest.mark.parametrize("slots", [1, 2, 3, 7, 60])
def test_weight_one_is_unbiased_exactly(slots: int) -> None:
    """Over all starts, each as likely, three records of cells 0, 1 and 1 hold a third of the slots each."""
    client, cell, slots_held = np.zeros(3, dtype=np.int64), np.array([0, 1, 1]), Counter[int]()
    for start in range(3):
        drawn = (np.arange(3).astype("<u8").tobytes(), np.uint64(start + 3).tobytes())
        with patch("fairshares.harness.inputs.record_schema.os.urandom", side_effect=drawn):
            slots_held += Counter(Cap(slots, weight_one=True).choose(client, cell, 1)[:, 0].tolist())
    assert slots_held == {0: slots, 1: 2 * slots}


def test_every_choice_of_records_is_as_likely() -> None:
    """6 choices of 2 of 4, 20,000 clients: one off by 0.03 has probability below 12 exp(-36) (Hoeffding)."""
    clients = 20_000
    client, cell = np.repeat(np.arange(clients), 4), np.tile(np.arange(4), clients)
    chosen = Cap(2).choose(client, cell, clients)
    seen = Counter(tuple(sorted(pair)) for pair in chosen.T.tolist())
    assert set(seen) == set(combinations(range(4), 2))
    assert all(abs(count / clients - 1 / 6) < 0.03 for count in seen.values())


@pytest.mark.parametrize("cap", [Cap(1), Cap(MAX_CAP), Cap(WEIGHT_SLOTS, weight_one=True)])
def test_caps_in_json_and_as_options(cap: Cap) -> None:
    assert cap_from_json(cap.to_json(), "the domain") == cap == parse_cap(str(cap.to_json()))
    assert cap.scale == (WEIGHT_SLOTS if cap.weight_one else 1)


@pytest.mark.parametrize("text", ["0", "-1", str(MAX_CAP + 1), "1.5", "ten", ""])
def test_other_caps_are_refused(text: str) -> None:
    with pytest.raises(OptionError, match=f"1 to {MAX_CAP}, or {WEIGHT_ONE}"):
        parse_cap(text)


@pytest.mark.parametrize("found", [0, MAX_CAP + 1, 1.5, True, None, "ten", [10]])
def test_other_caps_in_json_are_refused(found: JsonValue) -> None:
    with pytest.raises(RecordDomainError, match="cap"):
        cap_from_json(found, "the domain")


def test_a_performance_value_is_one() -> None:
    domain: dict[str, JsonValue] = {"groups": ["a", "b"], "values": {"low": 0, "high": 1}}
    assert domain_from_json({**domain, "cap": 1}, "the domain").cap == Cap(1)
    with pytest.raises(RecordDomainError, match="its cap is 1"):
        domain_from_json({**domain, "cap": 2}, "the domain")


@pytest.mark.parametrize("cap", [1, 3, WEIGHT_ONE])
def test_every_form_shares_the_same_contribution(cap: int | str) -> None:
    """Counts, keys and codes of slots; all records of a client are of one cell, so that chance has no say."""
    domain = domain_from_json({"groups": ["a", "b"], "labels": ["0", "1"], "cap": cap}, "the domain")
    assert domain.to_json()["cap"] == cap and domain.cap is not None
    group, none = np.array([0, 0, 1, 1, 1, 1]), np.zeros(6, dtype=np.int64)
    client = np.array([0, 0, 1, 1, 1, 1])
    records = ClientRecords(domain, np.array(["x", "y", "z"], dtype=object), client, group, none)
    full = domain.cap.slots if domain.cap.weight_one else min(2, domain.cap.slots)
    more = domain.cap.slots if domain.cap.weight_one else min(4, domain.cap.slots)
    counts = [[full, 0, 0], [0, 0, 0], [0, more, 0], [0, 0, 0]]
    assert columns_of(records, SPLIT).tolist() == counts
    for form, first, nothing in ((KEYS, 0, 4), (SLOTS, 1, 0)):
        table = columns_of(records, form)
        assert table.shape == (domain.cap.slots, 3) == (count_columns(domain, form.name), 3)
        assert [[(row == cell + first).sum() for row in table.T] for cell in range(4)] == counts
        assert ((table == nothing).sum(axis=0) == domain.cap.slots - np.sum(counts, axis=0)).all()
    assert domain.max_contribution == domain.cap.slots
