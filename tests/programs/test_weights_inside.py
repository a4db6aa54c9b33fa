"""Weights that are divided inside are the same in every model of MP-SPDZ, as many bits as the oracle says."""

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from harness.security_models import MODELS, SecurityModel
from protocols.circuits.weights import layout
from tests.support import exact_weights
from tests.support.running import TEST_PROGRAMS, Inputs, model_parameters, program_spec, run

MP_SPDZ = [model for model in MODELS.values() if model.virtual_machine]
SPEC = replace(program_spec("weights_inside", "weights"), uses_edabits=False)
NOISE_BITS = 6


@dataclass(frozen=True)
class Case:
    """Noisy counts per group and label, the declared most records of all clients, and the scheme."""

    noisy: tuple[tuple[int, ...], ...]
    most_records: int
    reweighing: str


CASES = {
    "balanced": Case(((-14, 437), (309, 1055)), 2000, "balanced"),
    "label-three-labels": Case(((0, 12, 700), (1, -3, 650)), 2000, "label"),
    "kamiran-calders": Case(((1, 43), (30, 97)), 200, "kamiran-calders"),
}
LARGEST = Case(((0, 2**31), (1, 2**37)), 109 * 2**31, "balanced")


def check(case: Case, model: SecurityModel, work: Path) -> None:
    """Run the program on these counts, and compare with the oracle."""
    groups, labels = len(case.noisy), len(case.noisy[0])
    chosen = layout(groups, labels, case.reweighing, case.most_records, NOISE_BITS)
    table = exact_weights.opened_weights(
        [[*row] for row in case.noisy], case.reweighing, chosen.fraction_bits
    )
    expected = table[0] if case.reweighing == "label" else [weight for row in table for weight in row]
    arguments = (model.parties, groups, labels, case.reweighing, case.most_records, NOISE_BITS)
    inputs = Inputs(values=[count for row in case.noisy for count in row])
    result = run(SPEC, TEST_PROGRAMS / f"{SPEC.name}.mpc", arguments, inputs, model, work / "run")
    assert list(result.outputs["weights"]) == expected


@pytest.mark.parametrize("case", [pytest.param(case, id=name) for name, case in CASES.items()])
@pytest.mark.parametrize("model", model_parameters(models=MP_SPDZ))
def test_opens_the_oracles_weights(model: SecurityModel, case: Case, tmp_path: Path) -> None:
    check(case, model, tmp_path)


@pytest.mark.mpspdz("ring")
def test_largest_counts(tmp_path: Path) -> None:
    check(LARGEST, MODELS["ring"], tmp_path)
