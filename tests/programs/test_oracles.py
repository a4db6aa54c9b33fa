"""Programs open their oracle's integers in every model: their own text, run with bits that the test gives.

What clients share bit by bit: test_pi_rw_slots.py, test_pi_cap.py; of replicated shares: test_replicated.py;
every program in every noise: test_every_program.py.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from fairshares.harness.engines.registry import engine_of
from fairshares.harness.inputs.encoding import columns_of
from fairshares.harness.inputs.record_schema import RecordDomain, RecordKind, ValueGrid, bins_of, even_grid
from fairshares.harness.inputs.records import ClientRecords
from fairshares.harness.releases.confusion.spec import PI_CF
from fairshares.harness.releases.gap.spec import PI_GAP
from fairshares.harness.releases.thresholds.spec import PI_ROC
from fairshares.harness.releases.weights.spec import PI_RW
from fairshares.harness.security_models import SecurityModel
from fairshares.protocols import reference
from fairshares.protocols.spec import (
    CLIENTS,
    PI_LAP,
    PRODUCT,
    PRODUCT_PER_RECORD,
    SCORED_SPLIT,
    SPLIT,
    VALUED_SPLIT,
    InputForm,
    ProtocolSpec,
)
from tests.support.running import model_parameters, opened_less_noise


@dataclass(frozen=True)
class Case:
    """A program, what reaches its parties, what it opens without noise, and its arguments by name."""

    spec: ProtocolSpec
    inputs: dict[str, Any]
    truth: npt.ArrayLike
    arguments: dict[str, object] = field(default_factory=dict)


def sums(columns: npt.NDArray[np.int64], form: InputForm) -> dict[str, Any]:
    """Return the values that parties hold shares of."""
    return {"values": (columns.sum(axis=1) if form.summed_by_party else columns.ravel()).tolist()}


def counts(form: InputForm, groups: int = 2, labels: int = 2, times: int = 1) -> Case:
    """Return a case of clients in one group each, in group 1 of three nobody. Args: times: of each record."""
    clients = 4
    client, group, label = np.array([(0, 0, 0), (0, 0, 1), (0, 0, 1), (1, groups - 1, 0), (3, 0, 1)]).T
    domain = RecordDomain(tuple("abc"[:groups]), tuple("01"[:labels]), 4)
    columns = columns_of(ClientRecords(domain, np.arange(clients).astype(str), client, group, label), form)
    columns[0 if form.name == SPLIT.name else groups - 1 :] *= times
    by_clients = form.path is CLIENTS
    return Case(
        PI_RW,
        {"sent": [columns[:, 0], columns[:, 1:].T.ravel()]} if by_clients else sums(columns, form),
        reference.counts(group, label, groups, labels) * times,
        {
            "path": form.path.name,
            "clients": 0 if form.summed_by_party else clients,
            "parts": clients if by_clients else 0,
            "groups": groups,
            "labels": labels,
        },
    )


def confusion(form: InputForm, groups: int, labels: int) -> Case:
    rng = np.random.default_rng(groups)
    client, group, label, prediction = (rng.integers(0, n, 60) for n in (5, groups, labels, labels))
    label[label == 1] = 0  # nobody has it
    domain = RecordDomain(tuple("abc"[:groups]), tuple("0123"[:labels]), kind=RecordKind.PREDICTION)
    records = ClientRecords(domain, np.arange(5).astype(str), client, group, label, prediction)
    return Case(
        PI_CF,
        sums(columns_of(records, form), form),
        reference.confusion(group, label, prediction, groups, labels),
        {"records": 0 if form is SPLIT else 60, "groups": groups, "labels": labels},
    )


def gaps(form: InputForm) -> Case:
    """Return a case with a mean below the center, and a group that nobody is in."""
    rng, steps, client = np.random.default_rng(7), 100, np.arange(40)
    group = rng.integers(0, 2, 40)
    value = np.where(group == 0, rng.integers(-steps, 1, 40), rng.integers(-steps, steps + 1, 40))
    domain = RecordDomain(("a", "b", "c"), (), 1, kind=RecordKind.VALUE, values=ValueGrid(0.0, 1.0, steps))
    records = ClientRecords(domain, client.astype(str), client, group, np.zeros_like(group), value)
    truth = reference.sums_from_ends(group.tolist(), value.tolist(), 3, steps)
    assert truth[0] < truth[1] and truth[4:] == [0, 0]
    return Case(PI_GAP, sums(columns_of(records, form), form), truth, {"groups": 3})


def curves(
    form: InputForm, groups: int, labels: int, bins: int, sizes: tuple[int, ...], *, records: int
) -> Case:
    """Return a case of random scores, and some at both ends of bins. Args: sizes: bins per block by level."""
    rng, pairs, grid = np.random.default_rng(records), groups * labels, even_grid(bins)
    pair = rng.integers(0, pairs - 1, records)  # nobody has the last one
    score = np.concatenate([[0.0, 1.0, grid[1], grid[-2]], rng.random(records - 4) ** 2])
    table = np.bincount(pair * bins + bins_of(score, grid), minlength=pairs * bins)
    return Case(
        PI_ROC,
        {"values": table.tolist()},
        reference.block_counts(pair, score.tolist(), pairs, grid, sizes),
        {"groups": groups, "labels": labels, "bins": bins, "blocks": ".".join(map(str, sizes))},
    )


CASES: dict[str, tuple[Callable[[InputForm], Case], tuple[InputForm, ...]]] = {
    "counts": (counts, (SPLIT, PRODUCT, PRODUCT.by(CLIENTS), SPLIT.by(CLIENTS))),
    "largest counts": (
        partial(counts, groups=3, times=2**31),
        (SPLIT, PRODUCT, PRODUCT.by(CLIENTS)),
    ),
    "confusion": (partial(confusion, groups=2, labels=2), (SPLIT, PRODUCT_PER_RECORD)),
    "confusion, 3 by 4": (partial(confusion, groups=3, labels=4), (SPLIT, PRODUCT_PER_RECORD)),
    "gaps": (gaps, (VALUED_SPLIT,)),
    "three levels": (
        partial(curves, groups=2, labels=2, bins=11, sizes=(1, 3, 6), records=60),
        (SCORED_SPLIT,),
    ),
    "whole blocks": (
        partial(curves, groups=3, labels=2, bins=12, sizes=(1, 4), records=90),
        (SCORED_SPLIT,),
    ),
    "flat": (partial(curves, groups=2, labels=3, bins=7, sizes=(1,), records=50), (SCORED_SPLIT,)),
}


@pytest.mark.parametrize(
    ("make", "form", "model"),
    [
        pytest.param(make, *chosen.values, id=f"{name}-{chosen.id}", marks=chosen.marks)
        for name, (make, forms) in CASES.items()
        for chosen in model_parameters(*forms)
    ],
)
def test_what_is_opened_less_noise_is_the_oracles(
    make: Callable[[InputForm], Case], form: InputForm, model: SecurityModel, tmp_path: Path
) -> None:
    case = make(form)
    assert engine_of(model).supports(case.spec, model, form) is None
    given = {"form": form.name, "parties": model.parties, "epsilon": "1/3", "delta_bits": 40}
    arguments = [{**given, **case.arguments}[name] for name in case.spec.arguments]
    truth = np.ravel(case.truth).tolist()
    assert opened_less_noise(case.spec, arguments, len(truth), model, tmp_path, **case.inputs) == truth


@pytest.mark.parametrize("model", model_parameters())
def test_noise_is_what_its_bits_make(model: SecurityModel, tmp_path: Path) -> None:
    """More bits a lane than one input takes; more lanes than a word has bits, where bits are in words."""
    lanes = 70 if model.virtual_machine else 20
    arguments = (model.parties, lanes, "1/3", 40)
    assert opened_less_noise(PI_LAP, arguments, lanes, model, tmp_path) == [0] * lanes
