"""What one record moves in a release, against counting all values of all small data sets."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np
import pytest
from hypothesis import given, strategies as st

from benchmarks.papers.published_baselines import protocol_4
from fairshares.harness.releases.confusion.spec import PI_CF
from fairshares.harness.releases.thresholds.spec import PI_ROC
from fairshares.harness.releases.weights.spec import PI_RW
from fairshares.protocols import reference
from fairshares.protocols.accounting.calibration import (
    LinearQueries,
    NeighboringRelation,
    Neighbors,
    nodes_changed,
)
from fairshares.protocols.accounting.exact_privacy import values_moved
from fairshares.protocols.spec import ProtocolSpec, declared_release

ADD, REPLACE, _ = NeighboringRelation
Record = TypeVar("Record")


def neighbours(
    records: Sequence[Record], relation: NeighboringRelation, size: int
) -> Iterator[tuple[tuple[Record, ...], tuple[Record, ...]]]:
    """Yield all pairs of neighbouring data sets of up to `size` records."""
    for n in range(size + 1):
        for dataset in itertools.combinations_with_replacement(records, n):
            for record in records:
                if relation is not REPLACE:
                    yield dataset, (*dataset, record)  # of a client without any other
                elif dataset:
                    yield dataset, (*dataset[1:], record)


def furthest(
    values: Callable[[tuple[Record, ...]], Sequence[int]],
    records: Sequence[Record],
    relation: NeighboringRelation,
    size: int = 2,
) -> int:
    """Return the largest L1 distance between what neighbours' releases would be without noise."""
    return max(
        sum(abs(a - b) for a, b in zip(values(one), values(other), strict=True))
        for one, other in neighbours(records, relation, size)
    )


@st.composite
def releases(draw: st.DrawFn) -> LinearQueries:
    nodes = draw(st.integers(1, 5))
    column = st.lists(st.integers(0, nodes - 1), unique=True).map(tuple)
    return LinearQueries(nodes, tuple(draw(st.lists(column, min_size=1, max_size=4))))


@given(releases(), st.sampled_from(NeighboringRelation))
def test_values_moved_is_the_largest_distance(release: LinearQueries, relation: NeighboringRelation) -> None:
    def values(dataset: tuple[int, ...]) -> list[int]:
        return [sum(node in release.columns[cell] for cell in dataset) for node in range(release.nodes)]

    moved = values_moved(release, Neighbors(relation))
    assert moved == furthest(values, range(release.cells), relation)
    assert moved <= nodes_changed(release, Neighbors(relation))


THRESHOLDS = (0.0, 0.5, 1.0)


def counts(groups: int, dataset: tuple[tuple[int, int], ...]) -> list[int]:
    group, label = np.array(dataset, dtype=np.int64).reshape(-1, 2).T
    return list(map(int, reference.counts(group, label, groups, 2).ravel()))


def confusion(dataset: tuple[tuple[int, int, int], ...]) -> list[int]:
    group, label, predicted = np.array(dataset, dtype=np.int64).reshape(-1, 3).T
    return list(map(int, reference.confusion(group, label, predicted, 2, 2).ravel()))


def blocks(dataset: tuple[tuple[int, int, int], ...]) -> list[int]:
    """Count records per (group, label) and block: single bins, then {0} and {1, 2}."""
    return [
        sum(record[:2] == table and record[2] in block for record in dataset)
        for level in ([{0}, {1}, {2}], [{0}, {1, 2}])
        for table in itertools.product((0, 1), repeat=2)
        for block in level
    ]


def confusion_at_every_threshold(dataset: tuple[tuple[int, int, float], ...]) -> list[int]:
    """Return TP, FN, FP and TN per group and threshold, by counting; a record: group, label, score."""
    return [
        sum(record[:2] == (group, label) and (record[2] >= t) == positive for record in dataset)
        for group in (0, 1)
        for label in (1, 0)
        for positive in (True, False)
        for t in THRESHOLDS
    ]


def declared(spec: ProtocolSpec, **arguments: str) -> LinearQueries:
    return declared_release(spec, {"groups": "2", "labels": "2", **arguments})


@pytest.mark.parametrize(
    ("release", "values", "of_a_record", "moved"),
    [
        (declared(PI_RW, groups="1"), partial(counts, 1), (range(1), (0, 1)), (1, 2)),
        (declared(PI_RW, groups="3"), partial(counts, 3), (range(3), (0, 1)), (1, 2)),
        (declared(PI_CF), confusion, ((0, 1), (0, 1), (0, 1)), (1, 2)),
        (declared(PI_ROC, bins="3", blocks="1.2"), blocks, ((0, 1), (0, 1), range(3)), (2, 4)),
        (protocol_4(2, 3), confusion_at_every_threshold, ((0, 1), (0, 1), (0.0, 0.3, 0.7, 1.0)), (3, 6)),
    ],
)
def test_a_protocol_moves_what_its_oracle_counts(
    release: LinearQueries,
    values: Callable[[tuple[Any, ...]], list[int]],
    of_a_record: tuple[Sequence[float], ...],
    moved: tuple[int, int],
) -> None:
    """The clear-text oracle counts; the map that the spec or the paper declares says the same."""
    records = list(itertools.product(*of_a_record))
    assert release.nodes == len(values(()))
    for relation, expected in zip((ADD, REPLACE), moved, strict=True):
        assert values_moved(release, Neighbors(relation)) == furthest(values, records, relation) == expected
