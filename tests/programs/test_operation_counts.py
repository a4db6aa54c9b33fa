"""What plans count without compiling is what MP-SPDZ's compiler says of the same programs."""

import pytest

from benchmarks.measure.cell import job_of, model_of
from fairshares.harness.forecast import operation_counts as counts
from fairshares.harness.forecast.operation_counts import counts_of, read_estimate
from fairshares.harness.security_models import MODELS

CELLS: dict[str, dict[str, str | int]] = {
    "pi_lap": {"protocol": "pi_lap", "variant": "default", "samples": 70, "epsilon": "0.05"},
    "pi_rw by product": {"protocol": "pi_rw", "variant": "product", "epsilon": "1"},
    "pi_cf": {"protocol": "pi_cf", "variant": "default", "epsilon": "10"},
    "pi_rw by slots": {"protocol": "pi_rw", "variant": "slots", "epsilon": "1", "clients": 40, "cap": 10},
    "pi_cf by slots": {"protocol": "pi_cf", "variant": "slots", "epsilon": "1", "clients": 40, "cap": 10},
    "pi_gap by slots": {"protocol": "pi_gap", "variant": "slots", "epsilon": "1", "clients": 40, "cap": 1},
    "pi_roc": {"protocol": "pi_roc", "variant": "default", "thresholds": 21, "epsilon": "1"},
}
SIZE: dict[str, str | int] = {
    "clients": 7,
    "records": 9,
    "groups": 3,
    "labels": 2,
    "input_path": "shares",
    "network": "none",
}
INSIDE = dict.fromkeys(("gates", "depth", "added", "compared", "steps"), 0)  # what the compiler does not say


@pytest.mark.mpspdz("ps-rep-ring", "rep4-ring")
@pytest.mark.parametrize("name", ["pi_rw by product", "pi_cf", "pi_roc"])
@pytest.mark.parametrize("model", ["ps-rep-ring", "rep4-ring"])
def test_counts_of_replicated_shares_are_the_compilers(model: str, name: str) -> None:
    cell = {**SIZE, **CELLS[name], "input_path": "replicated", "security": model}
    job, chosen = job_of(cell), MODELS[model]
    compiled, counted = read_estimate(counts.estimate(job, chosen), job.batch(chosen)), counts_of(job, chosen)
    assert counted.inputs == 0 and {**vars(counted), **INSIDE} == vars(compiled)


CAP: dict[str, str | int] = {"protocol": "pi_cap", "variant": "default", "epsilon": "1"}
COUNT: dict[str, str | int] = {"protocol": "pi_count", "variant": "default", "epsilon": "1"}
COMPARING: dict[str, dict[str, str | int]] = {
    "one question": {**CAP, "records": 14},  # 2 records of each client, so caps 1 and 2
    "19 questions": {**CAP, "records": 7000},
    "shares split by three": {**CAP, "records": 140, "security": "ring"},
    "shares split by four": {**CAP, "records": 140, "security": "rep4-ring"},
    "several slots in a lane": {**CAP, "records": 3000, "clients": 300, "epsilon": "20", "security": "ring"},
    "logarithms": COUNT,
    "more than a thousand comparisons": {**COUNT, "security": "ring", "groups": 13, "labels": 7},
}
# Bits become integers under masks of three parties or more, whose shares are split.
MASKED: dict[str, dict[str, str | int]] = {
    "curves under masks": {**CELLS["pi_roc"], "parties": 5},
    "slots under masks": {**CELLS["pi_rw by slots"], "parties": 3},
    "logarithms under masks": {**COUNT, "parties": 3},
    "questions under masks": {**CAP, "records": 140, "parties": 5},
}


@pytest.mark.mpspdz("semi2k", "ring", "rep4-ring")
@pytest.mark.parametrize(
    "cell",
    [*CELLS.values(), *COMPARING.values(), *MASKED.values()],
    ids=[*CELLS, *COMPARING, *MASKED],
)
def test_counts_are_the_compilers(cell: dict[str, str | int]) -> None:
    """But for rounds of slots with those of noise, which the compiler may merge: of ANDs, and of bits."""
    cell = {**SIZE, "security": "semi2k", **cell}
    job, model = job_of(cell), model_of(cell)
    compiled, counted = read_estimate(counts.estimate(job, model), job.batch(model)), counts_of(job, model)
    assert abs(counted.rounds - compiled.rounds) <= 2 * (cell["protocol"] == "pi_cap") + ("cap" in cell)
    assert {**vars(counted), **INSIDE, "rounds": compiled.rounds} == vars(compiled)


@pytest.mark.mpspdz("semi2k")
@pytest.mark.parametrize("parties", [5, 6, 7, 9, 11, 13, 14, 16])
def test_a_comparison_is_counted_by_the_number_of_parties(parties: int) -> None:
    cell = {**SIZE, **CAP, "security": "semi2k", "records": 14, "parties": parties}
    job, model = job_of(cell), model_of(cell)
    compiled, counted = read_estimate(counts.estimate(job, model), job.batch(model)), counts_of(job, model)
    assert (counted.ands, counted.dabits) == (compiled.ands, compiled.dabits)
    assert abs(counted.rounds - compiled.rounds) <= 2
