"""Programs open the same integers from replicated shares, and nothing else where a party changes one."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from fairshares.harness.engines import engine
from fairshares.harness.engines.execution import parse_outputs
from fairshares.harness.errors import OutputError, PartyFailedError
from fairshares.harness.inputs.rings import RING
from fairshares.harness.releases.count.spec import PI_COUNT
from fairshares.harness.releases.weights.spec import PI_RW, PI_RW_SLOTS
from fairshares.harness.security_models import MODELS, SecurityModel
from fairshares.protocols import reference
from fairshares.protocols.spec import REPLICATED, ProtocolSpec
from tests.support.running import (
    Inputs,
    copy_of_program,
    fair_bits,
    make_job,
    model_parameters,
    opened_less_noise,
    run_job,
    xor_shares,
)
from tests.support.slots import counted

ABLE = [model for model in MODELS.values() if model.replicated]
DISTRIBUTION = ("1/3", 40)
COUNTS = [3, 0, 2**40, 1]
GROUPS, LABELS = 2, 2


def product_columns(cells: Sequence[int]) -> list[int]:
    """Return, of clients with a record in these cells each, their indicators and label counts."""
    groups, labels = np.divmod(np.array(cells), LABELS)
    return np.concatenate([groups == 0, labels == 0, labels == 1]).astype(np.int64).tolist()


def codes(slots: int) -> list[int]:
    """Return slots of clients that share whatever integers they like."""
    return np.random.default_rng(slots).integers(-(2**63), 2**63 - 1, slots).tolist()


OF_PRODUCT = [0, 1, 1, 3, 2, 3, 3]
SUMS = (PI_RW, ("split", "replicated", "{}", 0, 0, GROUPS, LABELS, *DISTRIBUTION), COUNTS, COUNTS)
CASES: dict[str, tuple[ProtocolSpec, tuple[object, ...], list[int], list[int]]] = {
    "sums": SUMS,
    "products": (
        PI_RW,
        ("product", "replicated", "{}", 7, 0, GROUPS, LABELS, *DISTRIBUTION),
        product_columns(OF_PRODUCT),
        [OF_PRODUCT.count(cell) for cell in range(4)],
    ),
    # 130 slots are in lanes of 63 with one left over.
    **{
        f"{slots} slots": (
            PI_RW_SLOTS.by(REPLICATED),
            ("replicated", "{}", slots, 63, GROUPS, LABELS, *DISTRIBUTION),
            codes(slots),
            counted(codes(slots), GROUPS * LABELS),
        )
        for slots in (1, 130)
    },
    "logarithms": (
        PI_COUNT.by(REPLICATED),
        ("replicated", "{}", GROUPS, LABELS, 20, 1000, *DISTRIBUTION),
        [0, 7, 950, 31],
        [reference.shifted_log(count, 20, 1000) for count in (0, 7, 950, 31)],
    ),
}


def laid_out(arguments: Sequence[object], model: SecurityModel) -> list[object]:
    return [model.parties if argument == "{}" else argument for argument in arguments]


@pytest.mark.parametrize("model", model_parameters(models=ABLE))
@pytest.mark.parametrize("case", CASES)
def test_opens_the_oracles_integers(case: str, model: SecurityModel, tmp_path: Path) -> None:
    spec, arguments, values, truth = CASES[case]
    opened = opened_less_noise(spec, laid_out(arguments, model), len(truth), model, tmp_path, values=values)
    assert opened == truth


CHANGED = [
    pytest.param(model, party, marks=pytest.mark.mpspdz(model.name), id=f"{model.name}-{party}")
    for model in ABLE
    for party in range(model.parties)
]


@pytest.mark.parametrize("case", ["sums", "products", "130 slots", "logarithms"])
@pytest.mark.parametrize(("model", "party"), CHANGED)
def test_a_share_changed_at_a_party_ends_the_run(
    case: str, model: SecurityModel, party: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the comparison: any one of a party's shares, in one value, by 1.

    The run ends before anything is opened, or the party itself opens something else than all others, who open
    what is right.
    """
    opened: list[tuple[str, ...]] = []

    def noted(logs: Sequence[Sequence[str]], names: Sequence[str]) -> dict[str, tuple[int, ...]]:
        opened[:] = [tuple(line for line in log if line.startswith("OUT ")) for log in logs]
        return parse_outputs(logs, names)

    monkeypatch.setattr(engine, "parse_outputs", noted)
    spec, arguments, values, truth = CASES[case]
    bits, noise = fair_bits(*DISTRIBUTION, len(truth))
    right = f"OUT {spec.outputs[0]} {[count + x for count, x in zip(truth, noise, strict=True)]}"
    program, given = (
        copy_of_program(spec.name, tmp_path),
        xor_shares(bits, model.parties, np.random.default_rng(1)),
    )
    inputs = Inputs(given_bits=given, values=values)
    for number in range(model.parties - 1):
        opened.clear()
        job = make_job(
            spec, program, laid_out(arguments, model), inputs, model=model, work=tmp_path / str(number)
        )
        path = job.values_of(party)
        assert path is not None
        words = RING.from_bytes(path.read_bytes()).copy()
        words[number * len(values) + len(values) // 2] += np.uint64(1)
        path.write_bytes(RING.to_bytes(words))
        with pytest.raises((PartyFailedError, OutputError)):
            run_job(job, model, tmp_path / f"run-{number}")
        assert all(lines == (right,) for i, lines in enumerate(opened) if i != party)
