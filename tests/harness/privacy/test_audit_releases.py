"""What one record moves in a release, against counting all values of all small data sets."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from math import prod
from typing import TypeVar

import numpy as np
import pytest
from hypothesis import given, strategies as st

from protocols import reference
from protocols.accounting.calibration import (
    LinearQueries,
    NeighboringRelation,
    Neighbors,
    each_cell_once,
    nodes_changed,
)
from protocols.accounting.exact_privacy import composed, curve_of_coins, values_moved
from protocols.circuits.coins import Coin, edge_mass, worst_ratio
from protocols.noise.truncated import probability_mass
from protocols.published_baselines import protocol_4
from protocols.spec import PI_CF, PI_ROC, PI_RW, ProtocolSpec, declared_release

ADD, REPLACE, ZERO_OUT = NeighboringRelation
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


@pytest.mark.parametrize(("groups", "labels"), [(1, 2), (2, 2), (3, 2)])
@pytest.mark.parametrize(("relation", "moved"), [(ADD, 1), (REPLACE, 2)])
def test_pi_rw_moves_what_its_counts_do(
    groups: int, labels: int, relation: NeighboringRelation, moved: int
) -> None:
    """The clear-text oracle counts; the spec's declared map says the same."""

    def values(dataset: tuple[tuple[int, int], ...]) -> list[int]:
        group, label = np.array(dataset, dtype=np.int64).reshape(-1, 2).T
        return list(map(int, reference.counts(group, label, groups, labels).ravel()))

    records = list(itertools.product(range(groups), range(labels)))
    release = declared_release(PI_RW, {"groups": str(groups), "labels": str(labels)})
    assert values_moved(release, Neighbors(relation)) == furthest(values, records, relation) == moved


THRESHOLDS = (0.0, 0.5, 1.0)


def confusion_at_every_threshold(dataset: tuple[tuple[int, int, float], ...]) -> list[int]:
    """Return TP, FN, FP and TN per group and threshold, by counting; a record: group, label, score."""
    return [
        sum(record[:2] == (group, label) and (record[2] >= t) == positive for record in dataset)
        for group in (0, 1)
        for label in (1, 0)
        for positive in (True, False)
        for t in THRESHOLDS
    ]


@pytest.mark.parametrize(("relation", "moved"), [(ADD, 3), (REPLACE, 6)])
def test_protocol_4_moves_a_value_at_every_threshold(relation: NeighboringRelation, moved: int) -> None:
    records = list(itertools.product((0, 1), (0, 1), (0.0, 0.3, 0.7, 1.0)))
    release = protocol_4(groups=2, thresholds=len(THRESHOLDS))
    assert release.nodes == len(confusion_at_every_threshold(()))
    assert (
        values_moved(release, Neighbors(relation))
        == furthest(confusion_at_every_threshold, records, relation)
        == moved
    )


def test_columns_of_protocol_4_are_what_single_records_count_in() -> None:
    records = list(itertools.product((0, 1), (1, 0), (0.0, 0.7, 1.0)))  # a score passes 1, 2, 3 thresholds
    counted = [confusion_at_every_threshold((record,)) for record in records]
    columns = protocol_4(groups=2, thresholds=len(THRESHOLDS)).columns
    assert [set(column) for column in columns] == [{n for n, c in enumerate(row) if c} for row in counted]


@pytest.mark.parametrize(("relation", "moved"), [(ADD, 1001), (REPLACE, 2002)])
def test_protocol_4_at_the_papers_thresholds(relation: NeighboringRelation, moved: int) -> None:
    """So Laplace noise of scale 1/epsilon on each count gives exactly 1001 epsilon, or 2002 epsilon."""
    assert values_moved(protocol_4(groups=2, thresholds=1001), Neighbors(relation)) == moved


def test_replacing_in_a_single_cell_moves_nothing() -> None:
    assert values_moved(each_cell_once(1), Neighbors(REPLACE)) == 0


def test_replacing_between_cells_that_share_a_node() -> None:
    """Both columns hold node 0: it stays, whichever of the two cells a record is in."""
    shared = LinearQueries(3, ((0, 1), (0, 2)))
    assert (values_moved(shared, Neighbors(ADD)), values_moved(shared, Neighbors(REPLACE))) == (2, 2)


def test_a_protocol_that_declares_no_map_is_refused() -> None:
    silent = ProtocolSpec("pi_silent", "nowhere", (), {}, ("x",), ("x",))
    with pytest.raises(ValueError, match="pi_silent declares no linear map"):
        declared_release(silent, {})


@pytest.mark.parametrize(("relation", "moved"), [(ADD, 1), (REPLACE, 2)])
def test_pi_cf_moves_what_its_confusion_matrices_do(relation: NeighboringRelation, moved: int) -> None:
    cells = list(itertools.product((0, 1), (0, 1), (0, 1)))  # group, label, predicted label
    release = declared_release(PI_CF, {"groups": "2", "labels": "2"})
    assert release.nodes == len(cells)
    assert values_moved(release, Neighbors(relation)) == moved

    def values(dataset: tuple[tuple[int, int, int], ...]) -> list[int]:
        group, label, predicted = np.array(dataset, dtype=np.int64).reshape(-1, 3).T
        return list(map(int, reference.confusion(group, label, predicted, 2, 2).ravel()))

    assert furthest(values, cells, relation) == moved


@pytest.mark.parametrize(("relation", "moved"), [(ADD, 2), (REPLACE, 4)])
def test_pi_roc_moves_a_block_on_every_level(relation: NeighboringRelation, moved: int) -> None:
    arguments = {"groups": "2", "labels": "2", "bins": "3", "blocks": "1.2"}

    def values(dataset: tuple[tuple[int, int, int], ...]) -> list[int]:
        """Count records per (group, label) and block: single bins, then {0} and {1, 2}."""
        tables = list(itertools.product((0, 1), repeat=2))
        return [
            sum(record[:2] == table and record[2] in block for record in dataset)
            for blocks in ([{0}, {1}, {2}], [{0}, {1, 2}])
            for table in tables
            for block in blocks
        ]

    records = list(itertools.product((0, 1), (0, 1), range(3)))
    release = declared_release(PI_ROC, arguments)
    assert release.nodes == len(values(()))
    assert values_moved(release, Neighbors(relation)) == furthest(values, records, relation) == moved


TINY = (Coin(1, 2), Coin(1, 3))


@pytest.mark.parametrize("relation", NeighboringRelation)
@pytest.mark.parametrize(
    "release", [each_cell_once(2), LinearQueries(3, ((0, 2), (1, 2)))], ids=["cells", "tree"]
)
def test_composed_guarantee_holds_for_the_joint_distribution(
    release: LinearQueries, relation: NeighboringRelation
) -> None:
    """Every outcome of every pair of neighbours, against epsilon and delta as composed."""
    mass = probability_mass(TINY)
    joint = [
        (outcome, prod((mass[x] for x in outcome), start=Fraction(1)))
        for outcome in itertools.product(mass, repeat=release.nodes)
    ]
    distribution = dict(joint)

    def values(dataset: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(sum(node in release.columns[c] for c in dataset) for node in range(release.nodes))

    moved = values_moved(release, Neighbors(relation))
    ratio, delta = worst_ratio(TINY) ** moved, edge_mass(TINY) * moved
    differences = {
        tuple(a - b for a, b in zip(values(to), values(of), strict=True))
        for one, other in neighbours(range(release.cells), relation, size=2)
        for of, to in ((one, other), (other, one))
    }
    worst = max(
        sum(
            (
                max(p - ratio * distribution.get(_minus(outcome, by), Fraction(0)), Fraction(0))
                for outcome, p in joint
            )
        )
        for by in differences
    )
    assert 0 < worst <= delta
    assert worst == composed([curve_of_coins(TINY)] * moved).delta(ratio)


def _minus(outcome: tuple[int, ...], by: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(x - d for x, d in zip(outcome, by, strict=True))
