"""The studies that the repository carries: whole, what the code gives, and what README says of them."""

import csv
import json
from collections import Counter
from typing import Any

import pandas as pd
import pytest
from scipy.stats import binom

from benchmarks.measure.samples import ABOUT, SAMPLES, load_lines
from benchmarks.studies.capping.bounds import claims
from benchmarks.studies.capping.errors import zipf
from benchmarks.studies.capping.study import ERRORS, PRICE, RESULT, SEED, TARGETS, study
from benchmarks.studies.decisions import FOR_ALL, OWN, SHOWN
from benchmarks.studies.gaps.published import table1
from benchmarks.studies.gaps.study import RESULT as GAPS
from benchmarks.studies.outcome import SUMMARY
from benchmarks.studies.training.fairness import CHOICE, SPLITS
from benchmarks.studies.training.people import LOADERS
from benchmarks.studies.training.study import A_DRAW, JOINT, Draw, rows_of, shown_draws, shown_mean
from benchmarks.studies.trust import MODELS, NEEDED, Setting
from benchmarks.studies.utility.curves import METHODS, NOISE_FREE
from benchmarks.studies.utility.study import settings
from fairshares.harness.evaluation.before_after import UNMITIGATED
from fairshares.harness.releases.weights.request import WeightsRequest
from fairshares.harness.releases.weights.statistic import WeightsStatistic
from fairshares.harness.reweighing.formulas import REWEIGHINGS
from fairshares.harness.training.request import TrainRequest
from fairshares.protocols.accounting.rounding import float_up
from tests.conftest import PROJECT

RESULTS = PROJECT / "benchmarks" / "results"
README = "\n".join(path.read_text(encoding="utf-8") for path in sorted(RESULTS.glob("*/README.md")))
CHOICES_SHOWN = ("training alone", "share 0.02", "share 0.1", "share 0.4")
CHOSEN = (PROJECT / "docs" / "decisions" / "others.md").read_text(encoding="utf-8")


def recorded(study: str, name: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((RESULTS / study / name).read_text(encoding="utf-8"))
    return document


def recorded_rows(study: str, name: str) -> list[dict[str, str]]:
    with (RESULTS / study / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def capping() -> dict[str, Any]:
    return recorded("reproduce-capping", RESULT)


@pytest.fixture(scope="module")
def gaps() -> dict[str, Any]:
    return recorded("reproduce-gaps", GAPS)


def test_capping_is_whole(capping: dict[str, Any]) -> None:
    populations = {population["name"]: population for population in capping["populations"]}
    chosen_by = [name for name, population in populations.items() if not population["held_out"]]
    assert len(chosen_by) == 7 and len(populations) == 7 + 8 + 1
    files = {path.name for path in (RESULTS / "reproduce-capping").iterdir()}
    figures = {name for name in files if name.startswith(("errors-", "curves-"))}
    assert len(figures) == 2 * len(chosen_by)
    assert files - figures - {"README.md"} == {ABOUT, RESULT, ERRORS, PRICE, TARGETS}
    assert capping["claims"] == claims()


def test_a_population_computed_again_is_the_same(capping: dict[str, Any]) -> None:
    population = zipf(1000, 2.0, SEED)
    again, name = study([population]), population.name
    recorded = [row for row in capping["choices"] if row["population"] == name]
    for row, now in zip(recorded, again.json["choices"], strict=True):
        for key, value in now.items():
            assert row[key] == (value if isinstance(value, str) else pytest.approx(value, rel=1e-3)), key
    errors = [row for row in recorded_rows("reproduce-capping", ERRORS) if row["population"] == name]
    for computed, then in zip(pd.DataFrame(again.tables[ERRORS]).to_dict("records"), errors, strict=True):
        for key in ("epsilon", "models", "quantity"):
            assert computed[key] == then[key]
        for key in ("cap", "noise", "bias", "total"):
            assert computed[key] == pytest.approx(float(then[key] or "nan"), rel=1e-3, nan_ok=True)


def rows_of_caps(capping: dict[str, Any]) -> list[str]:
    """Return README's rows of MovieLens and of 10,000 synthetic clients at epsilon 1, passive models."""
    shown = ("Zipf 2, 10,000 clients", "MovieLens 100K", "MovieLens 1M")
    return [
        f"| {row['population']} | {row['quantity']} | {row['best_cap']:,} | {row['rule_cap']:,}, "
        f"{row['rule_regret']:.2f} | {row['pi_cap_5']:,} … {row['pi_cap_95']:,}, {row['pi_cap_regret']:.2f} "
        f"| {row['histogram_regret']:.2f} |"
        for row in capping["choices"]
        if (row["epsilon"], row["models"]) == ("1", "passive") and row["population"] in shown
    ]


def test_readme_has_the_table_of_caps(capping: dict[str, Any]) -> None:
    rows = "\n".join(rows_of_caps(capping))
    assert rows in README, rows


def epsilon(value: float | None) -> str:
    return "none" if value is None else f"{value:.4g}"


def rows_of_table1(gaps: dict[str, Any]) -> list[str]:
    """Return README's rows: the cells with 10^7 clients."""
    return [
        f"| {cell['mechanism']} | {cell['alpha']:g} | {cell['published']} | {epsilon(cell['true_epsilon'])} "
        f"| {cell['repaired']:.3g} | {cell['tight']:.3g} |"
        for cell in gaps["table1"]
        if cell["clients"] == 10**7 and cell["published"]
    ]


def rows_of_table2(gaps: dict[str, Any]) -> list[str]:
    return [
        f"| {cell['mechanism']} | {cell['epsilon']} | {cell['published']['alpha']} "
        f"| {epsilon(cell['true_epsilon'])} | {cell['repaired_alpha']:.4f} | {cell['published']['error']} "
        f"| {(cell['coded'] or cell['errors'])['mean']:.2g} | {cell['repaired']['mean']:.2g} |"
        for cell in gaps["table2"]
    ]


def test_table1_of_gaps_on_record_is_that_of_today(gaps: dict[str, Any]) -> None:
    for cell, row in zip(table1(), gaps["table1"], strict=True):
        exact = None if cell["true_epsilon"] is None else float_up(cell["true_epsilon"])
        assert (cell["mechanism"], cell["clients"], cell["published"], exact) == (
            row["mechanism"],
            row["clients"],
            row["published"],
            row["true_epsilon"],
        )
        assert row["reproduced"] == (
            None if cell["reproduced"] is None else pytest.approx(cell["reproduced"], 1e-4)
        )


def test_readme_has_the_tables_of_gaps(gaps: dict[str, Any]) -> None:
    for rows in (rows_of_table1(gaps), rows_of_table2(gaps)):
        assert len(rows) in (5, 8) and "\n".join(rows) in README


def test_what_readme_says_of_gaps_is_reproduced(gaps: dict[str, Any]) -> None:
    assert all(row["agrees"] for row in gaps["table1"] + gaps["table2"] + gaps["activity"])
    assert (len(gaps["table1"]), len(gaps["table2"]), len(gaps["activity"])) == (30, 8, 12)
    assert [claim["agrees"] for claim in gaps["claims"]] == [False, False, False, True, True, False, True]
    published, _ = gaps["figure4"]
    assert published["empirical"][-1] == pytest.approx(published["theory"], abs=0.002)


def test_the_default_weighting_narrowed_the_gap_on_all_data_sets() -> None:
    fell = {
        (row["data"], row["model"]): float(row["lower"])
        for row in recorded_rows("weightings", SUMMARY)
        if row["metric"] == "demographic_parity_difference" and row["model"] != UNMITIGATED
    }
    rows = recorded("weightings", ABOUT)["rows"]
    default = WeightsRequest.declared["reweighing"].default
    assert {"loanapp", *LOADERS, "MovieLens 100K"} == {*rows} and {model for _, model in fell} == {
        *REWEIGHINGS
    }
    assert [fell[data, default] for data in rows] == [20] * len(rows)
    assert WeightsStatistic().reweighing == default == TrainRequest.declared["reweighing"].default


def test_tables_of_decisions_are_the_results() -> None:
    """On the page of roles and in the study's README: mean ± standard deviation over the splits."""
    figures = {(row["model"], row["metric"]): row for row in recorded_rows("decisions", SUMMARY)}
    assert recorded("decisions", ABOUT)["splits"] == 20
    pages = [PROJECT / "docs" / "tutorials" / "roles.md", RESULTS / "decisions" / "README.md"]
    for model in (UNMITIGATED, OWN, *FOR_ALL.values()):
        cells = []
        for metric in SHOWN:
            row = figures[model, metric]
            cells.append(f"{float(row['mean']):.3f} ± {float(row['std']):.3f}")
        line = f"| {' | '.join([model, *cells])} |"
        for page in pages:
            assert line in page.read_text(encoding="utf-8"), line


def test_the_table_of_weightings_is_the_results() -> None:
    published = {
        (row["data"], row["metric"], row["model"]): row for row in recorded_rows("weightings", SUMMARY)
    }
    text = (RESULTS / "weightings" / "README.md").read_text(encoding="utf-8")
    lines = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if "|" in line
    ]
    (_, _, *models), _, *rows = lines
    data = ""
    for of, figure, *cells in rows:
        data = of or data
        for model, cell in zip(models, cells, strict=True):
            row = published[data, figure.replace(" ", "_"), model]
            lower = f" ({float(row['lower']):.0f})" if row["lower"] else ""
            assert cell == f"{float(row['mean']):.3f}{lower}", (data, figure, model)
    assert len(rows) == 3 * 5


def test_intervals_hold_and_are_near_the_errors() -> None:
    """200 of each: fewer than 167 hold with probability 10^-9 if 95 % do, by the binomial distribution."""
    rows = recorded_rows("intervals", SUMMARY)
    assert len(rows) == 3 * 4 * 8
    for row in rows:
        assert 200 * float(row["held"]) > binom.ppf(1e-9, 200, 0.95)
        in_noise = float(row["epsilon"]) * int(row["size"])
        assert in_noise < 100 or 0.97 < float(row["ratio"]) < 1.2, row
        assert in_noise < 300 or row["of"] != "gap" or float(row["ratio"]) <= 1.15, row


SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")


def test_the_table_of_trust_is_the_results() -> None:
    lines = README[README.index("| ε | model | its ε |") :].splitlines()[2:]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[: lines.index("")]]
    rows = iter(recorded_rows("trust", NEEDED))
    assert len(cells) == len(Setting().epsilons) * len(MODELS)
    for epsilon, model, exact, *numbers in cells:
        for proven, simulated in zip(numbers[::2], numbers[1::2], strict=True):
            row = next(rows)
            assert (row["model"], float(row["epsilon"])) == (model, float(epsilon))
            assert float(exact) == pytest.approx(float(row["epsilon_exact"]), rel=1e-3)
            for shown, column in ((proven, "clients_proven"), (simulated, "clients_simulated")):
                number = float(shown.replace(",", "").translate(SUPERSCRIPTS).replace("·10", "e"))
                assert number == pytest.approx(int(row[column]), rel=0.005)


def tables(text: str) -> list[list[list[str]]]:
    """Return the cells of a Markdown text's tables by records and groups, without their heads."""
    parsed: list[list[list[str]]] = [[]]
    for line in text.splitlines():
        if line.startswith("|"):
            parsed[-1].append([cell.strip() for cell in line.strip("|").split("|")])
        elif parsed[-1]:
            parsed.append([])
    return [table[2:] for table in parsed if table and table[0][:2] == ["records", "groups"]]


@pytest.mark.parametrize(("table", "measure"), [(0, "tpr_rmse"), (1, "gap_whole")])
def test_tables_of_utility_are_the_results(table: int, measure: str) -> None:
    at_one = [row for row in recorded_rows("utility", SUMMARY) if row["epsilon"] in ("1.0", "")]
    rows_of_one = len(METHODS) + 1
    of_settings = [at_one[first : first + rows_of_one] for first in range(0, len(at_one), rows_of_one)]
    written = tables(README)[table]
    assert len(written) == len(of_settings) == len(settings(quick=False))
    for cells, rows in zip(written, of_settings, strict=True):
        assert cells[:2] == [
            cells[0] if "loan" in cells[0] else f"{int(rows[0]['records']):,}",
            rows[0]["groups"],
        ]
        medians = {row["method"]: f"{float(row[f'{measure}_median']):.2g}" for row in rows}
        assert cells[2:] == [medians[method] for method in (*METHODS, NOISE_FREE)]


def test_training_is_what_its_samples_say_and_readme_says_so() -> None:
    runs = load_lines(RESULTS / "reproduce-training" / SAMPLES, Draw, A_DRAW)
    seeds = Counter((run.data, run.way) for run in runs if run.epsilon == 1)
    assert seeds == {
        **{(data, "joint"): 100 for data in ("wagepan", "VerbAgg", "RandHIE", "MovieLens 100K")},
        **{
            (data, way): 20
            for data in ("wagepan", "VerbAgg", "MovieLens 100K")
            for way in ("paper", "paper, one microbatch")
        },
    }
    rows = rows_of(runs)
    for row, kept in zip(rows, recorded_rows("reproduce-training", SUMMARY), strict=True):
        assert (row["data"], row["scheme"]) == (kept["data"], kept["scheme"])
        assert float(kept["accuracy"]) == pytest.approx(row["accuracy"], rel=1e-4)
        if row["epsilon"] == 1 and (row["way"] == "joint" or row["data"] == "MovieLens 100K"):
            for said in (shown_mean(row, "accuracy", percent=True), shown_mean(row, "odds")):
                assert said in README


def test_the_tables_of_fairness_while_training_are_the_results() -> None:
    runs = load_lines(RESULTS / "fairness-while-training" / SAMPLES, Draw, A_DRAW)
    seeds = recorded("fairness-while-training", ABOUT)["seeds"]
    assert Counter((run.data, run.way) for run in runs) == {
        **dict.fromkeys([(name, JOINT) for name in ("wagepan", "MovieLens 100K", "RandHIE")], seeds),
        ("wagepan", CHOICE): 2 * len(SPLITS),
    }
    lines = (CHOSEN + README).splitlines()
    for row, kept in zip(rows_of(runs), recorded_rows("fairness-while-training", SUMMARY), strict=True):
        assert (row["data"], row["way"], row["scheme"]) == (kept["data"], kept["way"], kept["scheme"])
        assert float(kept["odds"]) == pytest.approx(row["odds"], rel=1e-4)
        accuracy, odds = shown_mean(row, "accuracy", percent=True), shown_mean(row, "odds")
        rates = [row[name] for name in row if name.startswith("selected") and f"{name}, half" in row]
        selected = " / ".join(f"{100 * rate:.0f}" for rate in rates)
        if row["way"] == CHOICE and row["scheme"] not in CHOICES_SHOWN:
            continue
        told = f" | {odds} |" if row["way"] == CHOICE else f" | {accuracy}; {odds}; {selected} |"
        assert any(line.startswith(f"| {row['scheme']} |") and told in line for line in lines), told


def test_the_table_of_the_pipeline_in_flower_is_the_draws() -> None:
    """Beside the study's draws of the same seeds, which have the same clients and the same split."""
    in_flower = load_lines(RESULTS / "flower-privfairfl" / SAMPLES, Draw, A_DRAW)
    settings = recorded("flower-privfairfl", ABOUT)["settings"]
    assert [(draw.data, draw.epsilon, draw.seed) for draw in in_flower] == [
        ("MovieLens 100K", settings["epsilon"], seed) for seed in range(settings["seeds"])
    ]
    without = [
        draw
        for draw in load_lines(RESULTS / "reproduce-training" / SAMPLES, Draw, A_DRAW)
        if (draw.data, draw.way, draw.epsilon) == ("MovieLens 100K", "paper", settings["epsilon"])
        and draw.seed < settings["seeds"]
    ]
    for one, other in zip(in_flower, without, strict=True):
        assert one.models["CL"]["constant"] == other.models["CL"]["constant"]
    for name in in_flower[0].models:
        assert f"| {name} | {shown_draws(in_flower, name)} | {shown_draws(without, name)} |" in README
