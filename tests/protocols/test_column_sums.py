"""What parties add up is what a release declares, from which privacy is derived; or its program runs."""

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from fairshares.harness.engines.parties.layouts import RingName, SumsOfColumn
from fairshares.harness.inputs.encoding import columns_of
from fairshares.harness.inputs.rings import FIELD, RING, Ring
from fairshares.harness.releases.count.spec import PI_COUNT
from fairshares.harness.releases.gap.spec import PI_GAP
from fairshares.harness.releases.programs import PROTOCOLS
from fairshares.harness.releases.thresholds.spec import PI_ROC, BlocksOfBins
from fairshares.harness.security_models import MODELS
from fairshares.protocols.accounting.calibration import LinearQueries, each_cell_once, sums_from_ends
from fairshares.protocols.circuits.blocks import block_sizes, block_sums
from fairshares.protocols.mechanisms.count_tree import CountTree
from fairshares.protocols.spec import (
    NO_INPUT,
    SCORED_SPLIT,
    SLOTS,
    ColumnNames,
    ColumnSums,
    EachColumn,
    InputForm,
    ProtocolSpec,
    Sums,
    with_distributed_noise,
    with_noise_made_ahead,
)
from tests.support.oracles import ORACLES, made_up
from tests.support.requests import request_of
from tests.support.rings import to_integers


def cumulative(arguments: Mapping[str, str]) -> LinearQueries:
    """Return how many records of each group are at most at each bin: as many values as columns."""
    groups, bins = int(arguments["groups"]), int(arguments["bins"])
    columns = (tuple(range(g * bins + b, (g + 1) * bins)) for g in range(groups) for b in range(bins))
    return LinearQueries(groups * bins, tuple(columns))


def median(release, *, linear: bool = True, form: InputForm = SCORED_SPLIT) -> ProtocolSpec:
    """Declare π_MEDIAN as a newcomer would: the noisy values are as many as the columns."""
    return ProtocolSpec(
        name="pi_median",
        source="a newcomer's",
        arguments=("parties", "groups", "bins", "epsilon", "delta_bits"),
        input_forms={form.name: form},
        outputs=("counts",),
        revealed=("noisy counts of values at most at each bin, to all parties",),
        release=release,
        linear=linear,
        distributed_noise=True,
    )


@pytest.mark.parametrize("form", [SCORED_SPLIT, SLOTS, NO_INPUT], ids=lambda form: form.name)
@pytest.mark.parametrize(
    "spec",
    [
        lambda form: median(cumulative, form=form),
        lambda form: median(None, form=form),
        lambda form: median(EachColumn(lambda _: 14), linear=False, form=form),
        lambda form: replace(PI_ROC, release=cumulative, input_forms={form.name: form}),
        lambda form: replace(PI_COUNT, distributed_noise=True, input_forms={form.name: form}),
    ],
    ids=["no sums", "no release", "not linear", "a copy", "logarithms"],
)
def test_a_program_without_declared_sums_runs_itself_in_every_noise(spec, form: InputForm) -> None:
    """Otherwise another program would reveal something else in its place."""
    declared = spec(form)
    own, ahead = with_distributed_noise(declared, form), with_noise_made_ahead(declared, form)
    assert own is not None and ahead is not None
    assert own.name == ahead.name == declared.name
    assert own.arguments == (*declared.arguments[:-2], "law", "rate", "edge")
    assert ahead.arguments == (*declared.arguments[:-2], "kept")
    assert own.draws_distributed_noise and ahead.uses_piece


def test_programs_that_are_replaced_declare_sums_of_columns() -> None:
    replaced = [
        (name, program)
        for name, spec in PROTOCOLS.items()
        for form in spec.input_forms.values()
        for program in (with_distributed_noise(spec, form), with_noise_made_ahead(spec, form))
        if program and program.name != name
    ]
    assert {"pi_rw", "pi_cf", "pi_roc", "pi_gap"} <= {name for name, _ in replaced}
    assert all(isinstance(program.release, ColumnSums) for _, program in replaced)
    assert all(program.adds_to_sums for _, program in replaced)


def test_noise_takes_the_place_of_the_last_arguments() -> None:
    with pytest.raises(ValueError, match=r"they have to be epsilon and delta_bits, not bins and epsilon"):
        replace(median(None), arguments=("parties", "delta_bits", "bins", "epsilon"))


REPLACED = {
    name: spec
    for name, spec in PROTOCOLS.items()
    if any(spec.is_replaced_by_sums(form) for form in spec.input_forms.values())
}


def sizes_of(spec: ProtocolSpec) -> dict[str, str]:
    """Return the arguments that a run on the records of the program's oracle has."""
    oracle, model = ORACLES[spec.name], MODELS["mpyc"]
    form = next(form for form in spec.input_forms.values() if form.summed_by_party)
    request = request_of(model, form, Fraction(1))
    prepared = oracle.statistic.prepare(request, made_up(oracle.kind, None).domain)
    return {name: str(value) for name, value in prepared.arguments.items()}


@pytest.mark.parametrize("ring", [RING, FIELD], ids=lambda ring: ring.name)
@pytest.mark.parametrize("spec", REPLACED.values(), ids=REPLACED)
def test_what_parties_add_up_is_what_a_record_changes(spec: ProtocolSpec, ring: Ring) -> None:
    """One record of each kind, through a party's sums, moves the values that the queries name."""
    assert isinstance(spec.release, ColumnSums)
    sizes = sizes_of(spec)
    sums, queries = spec.release.sums(sizes), spec.release(sizes)
    records = spec.release.records(sizes)
    names: dict[Ring, RingName] = {RING: "ring64", FIELD: "field127"}
    if records is None:
        records = [{column: 1} for column in range(sums.columns)]
    for cell, record in enumerate(records):
        column = np.zeros(sums.columns, dtype=np.int64)
        for at, amount in record.items():
            column[at] = amount
        shares = ring.to_bytes(ring.encode(column))
        entry = SumsOfColumn(ring=names[ring], values=sums.columns, sums=sums.values, noise=None)
        summed = entry.with_noise(shares, np.zeros(queries.nodes, dtype=np.int64))
        expected = [queries.record(cell).get(node, 0) for node in range(queries.nodes)]
        assert to_integers(ring, ring.from_bytes(summed)) == expected


@pytest.mark.parametrize("spec", REPLACED.values(), ids=REPLACED)
def test_what_parties_add_up_is_what_the_oracle_counts(spec: ProtocolSpec) -> None:
    """A fault of a circuit that only adds up shows here, in a second and without an engine."""
    assert isinstance(spec.release, ColumnSums)
    oracle = ORACLES[spec.name]
    form = next(form for form in spec.input_forms.values() if form.summed_by_party)
    records, sizes = made_up(oracle.kind, None), sizes_of(spec)
    column = columns_of(records, form).sum(axis=1).tolist()
    summed = [sum(column[at] for at in value) for value in spec.release.sums(sizes).values]
    assert summed == oracle.opened(records, sizes, [0] * len(summed))


@pytest.mark.parametrize("sizes", [(1,), (1, 3), (1, 2, 6)])
def test_blocks_are_those_of_a_count_tree(sizes: tuple[int, ...]) -> None:
    """Two independent descriptions of blocks: the circuit's own, on names of columns, and the mechanism's."""
    named = {"groups": "2", "labels": "2", "bins": "7", "blocks": ".".join(map(str, sizes))}
    assert PI_ROC.release is not None
    assert PI_ROC.release(named) == CountTree(7, sizes).release(4)


def test_distances_and_columns_are_those_of_the_accounting() -> None:
    assert PI_GAP.release is not None
    assert PI_GAP.release({"groups": "3", "steps": "5"}) == sums_from_ends(3, 5)
    assert EachColumn(lambda _: 6)({}) == each_cell_once(6)


def test_a_record_of_several_scores_changes_the_values_of_all_of_them() -> None:
    """Of 3 labels a record has 3 scores, each in a histogram of its own: with its label, or any other."""
    named = {"groups": "6", "labels": "2", "bins": "4", "blocks": "1.2", "score_columns": "3"}
    queries = BlocksOfBins()(named)
    tree = CountTree(4, (1, 2)).release(12)
    assert queries.cells == 2 * 3 * 4 and not queries.amounts
    for cell, (group, label, score) in enumerate(np.ndindex(2, 3, 4)):
        histograms = [(column * 2 + group) * 2 + (label == column) for column in range(3)]
        nodes = {node for at in histograms for node in tree.columns[at * 4 + score]}
        assert set(queries.columns[cell]) == nodes and len(nodes) == 6


def test_a_circuit_on_names_says_what_it_adds_up() -> None:
    names = ColumnNames.first(7)
    assert len(names) == 7
    summed = block_sums(ColumnNames, names, 1, 7, block_sizes("1.3"))
    assert summed.sums == (*((column,) for column in range(7)), (0,), (1, 2, 3), (4, 5, 6))
    assert (names.get_vector(0, 2) + names.get_vector(5, 2)).sums == ((0, 5), (1, 6))
    assert (0 + names.get_vector(4, 1)).sums == ((4,),)  # as `sum` begins
    with pytest.raises(TypeError, match="has no place for 1, which is no column"):
        _ = names + 1  # type: ignore[operator]


def test_amounts_are_how_often_a_column_is_added() -> None:
    class Twice(ColumnSums):
        def sums(self, _arguments: Mapping[str, str], /) -> Sums:
            return Sums(2, ((0, 0, 1), (1,)))

    class Several(Twice):
        def records(self, _arguments: Mapping[str, str], /) -> list[dict[int, int]]:
            return [{0: 3, 1: 2}]

    assert Twice()({}) == LinearQueries(2, ((0,), (0, 1)), ((2,), (1, 1)))
    assert Several()({}) == LinearQueries(2, ((0, 1),), ((8, 2),))
    with pytest.raises(ValueError, match="a sum names column 2, and there are 2"):
        Sums(2, ((0, 2),))
