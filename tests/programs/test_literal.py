"""The literal protocols reveal what their oracle says, and run on no shares of anybody's."""

from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from benchmarks.errors import ExperimentError
from benchmarks.literal import TOGETHER, literal_job
from benchmarks.literal.protocols import SPECS, SPECS_IN_VECTORS, literal_source
from benchmarks.measure.cell import HERE
from benchmarks.measure.samples import Level
from benchmarks.suites import Grid, Planned, Suite
from fairshares.harness.engines.execution import Conditions, PrivateJob, ValueFiles
from fairshares.harness.engines.registry import engine_of
from fairshares.harness.errors import CompileError, UnsupportedError
from fairshares.harness.inputs.rings import RING
from fairshares.harness.security_models import MODELS, SecurityModel, get_model
from fairshares.protocols.circuits.literal import AT_ONCE, MADE_UP, ONE_BY_ONE
from tests.support.fixed_point import ONE, laplace, quotients
from tests.support.running import QUICKEST, Inputs, model_parameters, run, xor_shares

MP_SPDZ = pytest.mark.parametrize(
    "model", model_parameters(models=[model for model in MODELS.values() if model.ring is RING])
)
RECORDS, CLIENTS, THRESHOLDS, EPSILON = 40, 9, 3, "2"
EACH_FORM = (ONE_BY_ONE, AT_ONCE)
UNROLLED = "pi_roc_unrolled"  # a program of benchmarks alone, which no cell knows as a form


def revealed(
    protocol: str,
    arguments: tuple[object, ...],
    draws: list[int],
    model: SecurityModel,
    work: Path,
    *,
    with_edabits: bool = False,
) -> list[int]:
    """Run a literal program with u as the parties' draws; return all integers that it reveals.

    Args:
        protocol: The protocol, the form with its thresholds in vectors, or `UNROLLED`.
        arguments: The program's.
        draws: u of each sample.
        model: Whose parties run it.
        work: A directory that is not there yet.
        with_edabits: Whether spdz2k, too, makes edaBits, as benchmarks have it.
    """
    bits = np.array([[u >> i & 1 for u in draws] for i in range(16)], dtype=bool)
    given = xor_shares(bits, model.parties, np.random.default_rng(3)) if draws else None
    # Of few records; edaBits are made by the thousand, which takes spdz2k minutes.
    if protocol == TOGETHER:
        spec = SPECS_IN_VECTORS["pi_roc"]
    elif protocol == UNROLLED:
        arguments_of_it = ("data", "parties", "records", "thresholds", "epsilon")
        spec = replace(SPECS["pi_roc"], name=UNROLLED, arguments=arguments_of_it)
    else:
        spec = SPECS[protocol]
    spec = replace(spec, uses_edabits=with_edabits or model.name != "spdz2k")
    result = run(spec, literal_source(spec), arguments, Inputs(given_bits=given), model=model, work=work)
    return [value for values in result.outputs.values() for value in values]


def drawn(number: int) -> np.ndarray:
    return np.arange(1, number + 1) * 2654435769 % 2**32


def some_draws(number: int) -> list[int]:
    return np.random.default_rng(number).integers(-(2**15) + 300, 2**15 - 300, number).tolist()


@MP_SPDZ
def test_noise_is_what_the_draws_make_it(model: SecurityModel, tmp_path: Path) -> None:
    draws = [-(2**15), 1 - 2**15, -20_000, -1, 0, 1, 12_345, 2**15 - 1]
    for epsilon in ("1", "1/3"):
        noise = revealed("pi_lap", (model.parties, len(draws), epsilon), draws, model, tmp_path / epsilon[-1])
        assert [u for u, x in zip(draws, noise, strict=True) if x not in laplace(u, epsilon)] == []
    assert max(len(laplace(u, "1")) for u in draws) < 20  # so that little else would pass


@MP_SPDZ
def test_confusion_counts_are_exact(model: SecurityModel, tmp_path: Path) -> None:
    label, predicted, group = (drawn(RECORDS) >> 31 - i & 1 for i in range(3))
    cells = [(1, 1), (0, 1), (1, 0), (0, 0)]  # TP, FP, FN, TN
    truth = [int(((label == y) & (predicted == p) & (group == s)).sum()) for s in (1, 0) for y, p in cells]
    assert min(truth) > 0
    for form in EACH_FORM:
        arguments = (MADE_UP, form, model.parties, RECORDS)
        assert revealed("pi_cf", arguments, [], model, tmp_path / form) == truth


@MP_SPDZ
def test_weights_are_of_noisy_counts(model: SecurityModel, tmp_path: Path) -> None:
    group, positive = drawn(CLIENTS) >> 31, (drawn(CLIENTS) >> 8) % (RECORDS // CLIENTS + 1)
    local = (RECORDS // CLIENTS - positive, positive)
    counts = [int(of_label[group == s].sum()) for s in (1, 0) for of_label in local]
    draws = [9_000, -7_000, 4_000, 11_000]
    noisy = [[count * ONE + x for x in laplace(u, EPSILON)] for count, u in zip(counts, draws, strict=True)]
    for form in EACH_FORM:
        arguments = (MADE_UP, form, model.parties, CLIENTS, RECORDS, EPSILON)
        weights = revealed("pi_rw", arguments, draws, model, tmp_path / form)
        for i, weight in enumerate(weights):
            others = {sum(rest) for rest in product(*noisy[:i], *noisy[i + 1 :])}
            assert any(weight in quotients(c + rest, 4 * c) for c in noisy[i] for rest in others), (form, i)


@MP_SPDZ
def test_curves_are_of_noisy_counts_at_each_threshold(model: SecurityModel, tmp_path: Path) -> None:
    """In one model by all forms, in the others by two: the compiler unrolls them before a machine runs."""
    draws = some_draws(8 * THRESHOLDS)
    forms = [AT_ONCE, 2]  # a number is that of thresholds in a vector
    if model.name == "ring":
        forms = [*EACH_FORM, 1, 2, THRESHOLDS]
    for form in forms:
        arguments = (MADE_UP, form, model.parties, RECORDS, THRESHOLDS, EPSILON)
        protocol = "pi_roc" if form in EACH_FORM else TOGETHER
        check_curves(revealed(protocol, arguments, draws, model, tmp_path / str(form)), draws, RECORDS)


@pytest.mark.mpspdz(QUICKEST)
def test_curves_of_instances_that_the_compiler_puts_side_by_side_are_the_same(tmp_path: Path) -> None:
    """In loops of more records than fit into the compiler's budget, and of the rest."""
    model = get_model(QUICKEST)
    draws = some_draws(8 * THRESHOLDS)
    arguments = (MADE_UP, model.parties, RECORDS, THRESHOLDS, EPSILON)
    values = revealed(UNROLLED, arguments, draws, model, tmp_path / "run")
    check_curves(values, draws, RECORDS)


@pytest.mark.parametrize("model", model_parameters(models=[MODELS["semi2k"]]))
def test_curves_in_vectors_are_those_with_all_options_of_benchmarks(
    model: SecurityModel, tmp_path: Path
) -> None:
    """Of two parties, by edaBits: two thresholds in a vector, and the last one in a vector of its own."""
    draws = some_draws(8 * THRESHOLDS)
    arguments = (MADE_UP, 2, model.parties, 8 * RECORDS, THRESHOLDS, EPSILON)
    values = revealed(TOGETHER, arguments, draws, model, tmp_path / "run", with_edabits=True)
    check_curves(values, draws, 8 * RECORDS)


def check_curves(values: list[int], draws: list[int], records: int) -> None:
    """Check that curves are the rates of the records' noisy counts at each threshold.

    Args:
        values: All revealed integers: for each group FPR, TPR and thresholds.
        draws: u of each sample of noise: of each threshold, of each group's TP, FP, FN and TN.
        records: The number of records.
    """
    label, group = drawn(records) >> 31 & 1, drawn(records) >> 30 & 1
    score = (drawn(records) >> 8) % (ONE + 1)
    curves = np.array(values).reshape(2, 3, THRESHOLDS)
    assert curves[:, 2].tolist() == [[0, ONE // 2, ONE]] * 2
    for j, s in product(range(THRESHOLDS), (0, 1)):
        positive = score >= ONE * j // (THRESHOLDS - 1)
        of_group = group == 1 - s
        noise = [laplace(u, EPSILON) for u in draws[8 * j + 4 * s :][:4]]
        counts = [
            {int((of_group & (label == y) & (positive == p)).sum()) * ONE + x for x in noise[cell]}
            for cell, (y, p) in enumerate([(1, 1), (0, 1), (1, 0), (0, 0)])
        ]
        for row, (hit, missed) in enumerate([(1, 3), (0, 2)]):  # FPR, TPR
            pairs = product(counts[hit], counts[missed])
            assert any(curves[s, row, j] in quotients(a, a + b) for a, b in pairs), (j, s, row)


CELL: dict[str, Level] = {
    "protocol": "pi_roc",
    "variant": "literal-at-once",
    "security": "ring",
    "epsilon": "1",
}
CELL |= {"records": 10, "thresholds": 2, "network": "none"}


@pytest.mark.parametrize("protocol", SPECS)
def test_shares_are_refused(protocol: str) -> None:
    job = literal_job(CELL | {"protocol": protocol, "clients": 1, "samples": 1}, get_model("ring"))
    with pytest.raises(
        UnsupportedError, match=r"protects nobody: it makes its records up and takes no shares"
    ):
        PrivateJob(job.spec, job.source, job.arguments, ValueFiles((Path("party-0.values"),) * 3))


@pytest.mark.mpspdz(QUICKEST)
@pytest.mark.parametrize("protocol", ["pi_rw", "pi_cf", "pi_roc"])
def test_a_program_refuses_other_data_than_its_own(protocol: str, tmp_path: Path) -> None:
    model = get_model(QUICKEST)
    job = literal_job(CELL | {"protocol": protocol, "clients": 1}, model)
    given = replace(job, arguments=("shares", *job.arguments[1:]))
    with pytest.raises(
        CompileError, match=r"takes no shares, so its first argument must be made-up, not sha"
    ):
        engine_of(model).run(given, model, Conditions(tmp_path / "run", 60.0, lambda _: None))


def test_a_model_that_cannot_run_them_says_so() -> None:
    for protocol in SPECS:
        cell = {**CELL, "security": "mpyc", "protocol": protocol, "clients": 1, "samples": 1}
        assert HERE.why_not(Planned(cell, 1, 60.0)) == (
            f"{protocol}_literal uses features that only MP-SPDZ has; choose one of its models."
        )


@pytest.mark.parametrize(
    "strange", [{"input_path": "shares"}, {"noise": "distributed"}, {"cap": 3}, {"groups": 3}]
)
def test_a_cell_refuses_values_of_clients(strange: dict[str, Level]) -> None:
    with pytest.raises(ExperimentError, match=rf"takes no shares .*leave out {next(iter(strange))}"):
        Suite("some", "Some", [Grid({**CELL, **strange})])
