"""Records of a given size: as many as it says, spread evenly, and the same at each call."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.measure.made_up import made_up
from fairshares.harness.inputs.federation_size import FederationSize
from fairshares.harness.inputs.record_schema import RecordKind
from fairshares.harness.inputs.records import ClientRecords

OF_COUNTS = FederationSize(clients=10, records=120, groups=2, labels=3)
OF_SCORES = FederationSize(10, 120, 2, 3, RecordKind.SCORE, thresholds=5)
OF_PREDICTIONS = FederationSize(10, 120, 2, 3, RecordKind.PREDICTION)
OF_VALUES = FederationSize(120, 120, 2, 0, RecordKind.VALUE)
SIZES = [OF_COUNTS, OF_SCORES, OF_PREDICTIONS, OF_VALUES]


def records_of(size: FederationSize) -> list[ClientRecords]:
    """Return a plan's records of a size, and a benchmark's."""
    return [size.even_records(), made_up(size)]


@pytest.mark.parametrize("size", SIZES, ids=lambda size: str(size.detail))
def test_there_are_as_many_as_it_says(size: FederationSize) -> None:
    for records in records_of(size):
        assert records.domain == size.domain
        assert (records.clients, records.sizes.sum()) == (size.clients, 120)
        assert records.sizes.max() - records.sizes.min() == 0
        groups_of_clients = {
            tuple(pair) for pair in zip(records.client.tolist(), records.group.tolist(), strict=True)
        }
        assert len(groups_of_clients) == size.clients, "a client has one group"


@pytest.mark.parametrize("size", [OF_COUNTS, OF_VALUES], ids=lambda size: str(size.detail))
def test_a_plans_are_spread_evenly(size: FederationSize) -> None:
    records = size.even_records()
    assert set(np.bincount(records.group)) == {60}
    if size.labels:
        assert set(np.bincount(records.group * size.labels + records.label)) == {20}


@pytest.mark.parametrize("size", [OF_SCORES, OF_PREDICTIONS, OF_VALUES], ids=lambda size: str(size.detail))
def test_all_details_are_possible_ones_and_several(size: FederationSize) -> None:
    for records in records_of(size):
        assert records.detail is not None
        lowest, highest = 0, size.domain.shape[-1] - 1
        if size.domain.values is not None:
            lowest, highest = -size.domain.values.steps, size.domain.values.steps
        assert lowest <= records.detail.min() < records.detail.max() <= highest


def test_they_are_the_same_at_each_call_and_with_another_cap() -> None:
    capped = replace(OF_COUNTS, cap=4)
    for first, again in zip(records_of(OF_COUNTS), records_of(capped), strict=True):
        for name in ("client", "group", "label"):
            assert np.array_equal(getattr(first, name), getattr(again, name))


@pytest.mark.parametrize(
    "size",
    [
        FederationSize(0, 1, 2, 2),
        FederationSize(1, 0, 2, 2),
        FederationSize(1, 1, 2, -1),
        FederationSize(10**7 + 1, 10**7 + 1, 2, 2),
        FederationSize(10, 10, 2000, 5001),
    ],
)
def test_what_no_machine_holds_is_impossible(size: FederationSize) -> None:
    assert not size.is_possible
    assert OF_COUNTS.is_possible
