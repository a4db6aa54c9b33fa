"""What commands print, and where: the answer, privacy in three lines, JSON alone, plans, pages."""

import json
import os
import re
import signal
from pathlib import Path
from typing import Any, NoReturn

import pytest

from fairshares.harness.cli.terminal import INTERRUPTED
from fairshares.harness.errors import BudgetError, LedgerError, PopulationError, UsedUploadsError
from fairshares.harness.inputs.record_schema import RecordDomain, RecordKind, ValueGrid
from fairshares.harness.privacy.ledger.charge import NOTHING_SPENT
from fairshares.harness.privacy.ledger.entries import Ledger
from fairshares.harness.releases.base import statistic_class, statistic_of
from fairshares.harness.releases.registry import RELEASES, REQUESTS
from fairshares.harness.security_models import MODELS
from fairshares.protocols.accounting.calibration import PrivacyUnit
from tests.harness.cli.test_plan import UNMEASURED
from tests.harness.views.test_html import Page
from tests.support.command import CODES, call, files_below, refused, succeed
from tests.support.requests import request_of
from tests.support.running import QUICKEST

WEIGHTS = ("weights", "--records", "records.csv", "--security", QUICKEST, "--out", "results")


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "records.csv").write_text("client_id,group,label\nc0,a,0\nc1,b,1\n")
    return tmp_path


def test_the_answer_is_first_and_privacy_three_lines(here: Path) -> None:
    done = call(*WEIGHTS, "--epsilon", "0.20", cwd=here)
    table, _, told = done.stdout.partition("\n\n")
    assert done.returncode == 0 and table.startswith("┏") and "noisy count" in table
    privacy = told.splitlines()[:3]
    assert [line.partition(":")[0] for line in privacy] == ["Revealed", "Guarantee", "Trust"]
    assert privacy[1] == (
        "Guarantee: ε = 0.1999 (0.2 asked), δ = 9.031e-13, one record added or removed; for what it says, "
        "ε = 0.3998, δ = 1.807e-12."
    )
    full = call(*WEIGHTS[:-1], "again", "--epsilon", "0.20", "--verbose", cwd=here).stdout
    assert (
        "(ε = 0.2 was requested; exact values" in full
        and "Cost: " in full
        and "no single party learns" in full
    )


def test_quiet_leaves_the_answer(here: Path) -> None:
    done = call(*WEIGHTS[:3], "--epsilon", "1", "--quiet", "--out", "results", cwd=here)  # no model either
    assert done.returncode == 0 and done.stderr == ""
    assert done.stdout.startswith("┏") and not any(
        word in done.stdout for word in ("Revealed", "Guarantee", "Trust", "ledger", "Results", "Cost")
    )
    done = call(*WEIGHTS, "--epsilon", "1", "--quiet", cwd=here)  # the directory is there already
    assert done.returncode in CODES and done.stdout == "" and done.stderr.startswith("Error: ")


def test_json_is_alone(here: Path) -> None:
    done = call(*WEIGHTS[:3], "--epsilon", "1", "--json", "--out", "[b]results", cwd=here)
    assert json.loads(done.stdout) == json.loads((here / "[b]results" / "weights.json").read_text())
    model, results = map(json.loads, done.stderr.splitlines())
    assert model["announcement"].startswith("Security model: ") and results == {
        "announcement": "Results: [b]results"
    }
    for wrong in (
        ("--out", "[b]results"),
        ("--out", "other", "--labels", "0"),
        ("--out", "x", "--epsilom=2"),
    ):
        done = call(*WEIGHTS[:5], "--epsilon", "1", "--json", *wrong, cwd=here)
        (line,) = done.stderr.splitlines()
        assert done.returncode in CODES and done.stdout == "" and list(json.loads(line)) == ["error"]
    assert call(*WEIGHTS, "--epsilon", "1", "--json", "--quiet", cwd=here).stderr == ""
    for wrong in (("weights", "--epsilom=2"), ("aggregate", "--party", "0")):  # of which one prints no JSON
        said = call("--json", *wrong, cwd=here).stderr
        assert list(json.loads(said)) == ["error"] and ("prints no JSON" in said) == (wrong[0] == "aggregate")


@pytest.mark.parametrize("started", [False, True])
def test_an_interrupt_says_what_was_spent(started: bool, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While clients share nothing is spent; once parties were let start all is, also when they ended."""
    step = "run.state_privacy" if started else "sources.share_and_add_up"
    where = f"fairshares.harness.pipeline.{step}"

    def interrupted(*_: object, **__: object) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(where, interrupted)
    ignored = signal.signal(signal.SIGINT, signal.default_int_handler)  # as where these tests run unattended
    try:
        done = call(*WEIGHTS, "--epsilon", "1", "--population", "p", "--ledger", "l.sqlite", cwd=here)
    finally:
        signal.signal(signal.SIGINT, ignored)
    assert done.returncode == 130 and not (here / "results").exists()
    *_, said, spent = done.stderr.splitlines()
    assert said == INTERRUPTED
    assert spent == (
        "Spent: ε = 0.9971 and δ = 7.051e-14 by weights, as its parties may have started; "
        f"charged to population 'p' in {here / 'l.sqlite'}."
        if started
        else NOTHING_SPENT
    )


@pytest.mark.parametrize("error", [BudgetError, PopulationError, UsedUploadsError, LedgerError])
def test_a_run_that_the_ledger_refuses_at_last_has_spent_nothing(
    error: type[Exception], here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when another run took what was left, after this one was checked."""

    def charge(*_: object) -> NoReturn:
        raise error("It is refused.")

    monkeypatch.setattr(Ledger, "charge", charge)
    done = call(*WEIGHTS, "--epsilon", "1", "--population", "p", "--ledger", "l.sqlite", cwd=here)
    assert done.returncode in CODES and not (here / "results").exists()
    assert "It is refused." in done.stderr and "Spent" not in done.stderr


@pytest.mark.parametrize(
    "run",
    [
        WEIGHTS,
        ("weights", "--cap", "auto", "--privacy-unit", "client", "--max-count", "4", *WEIGHTS[1:]),
        ("confusion", *WEIGHTS[1:]),
        ("thresholds", *WEIGHTS[1:]),
        ("thresholds", "--positive-label", "approved", *WEIGHTS[1:]),
        ("confusion", "--positive-label", "a", *WEIGHTS[1:]),
        ("count", *WEIGHTS[1:]),
        ("gap", *WEIGHTS[1:], "--groups", "a,b", "--range", "0,1"),
        ("cap", "--release-epsilon", "1", "--max-count", "4", *WEIGHTS[1:]),
    ],
)
def test_what_the_budget_does_not_cover_is_refused_before_anything_is_read(
    run: tuple[str, ...], here: Path
) -> None:
    """There are no records to be read, which is said where the budget covers the run."""
    (here / "records.csv").unlink()
    counted = ("--epsilon", "1", "--population", "p", "--ledger", "l.sqlite", "--budget")
    assert "has ε = 0.1 left of its budget of 0.1" in refused(*run, *counted, "0.1", cwd=here)
    assert "Cannot read records.csv" in refused(*run, *counted, "1", cwd=here)
    (here / "results").mkdir()
    assert "results exists already" in refused(*run, *counted, "1", cwd=here)


@pytest.mark.parametrize("task", REQUESTS)
def test_what_a_run_spends_does_not_depend_on_groups_and_labels(task: str) -> None:
    """So a budget can be asked before the records say which there are."""
    kind, more = statistic_class(task).kind, {"release_epsilon": "1"} if task == "cap" else {}
    request = RELEASES[task](epsilon="1", records="r.csv", **more).call.request
    protect = request.protect
    spent = set()
    for groups, labels in ((2, 2), (40, 2), *([(5, 7)] * (task != "thresholds"))):
        names, others = tuple(f"g{i}" for i in range(groups)), tuple(f"l{i}" for i in range(labels))
        if kind is RecordKind.VALUE:
            domain = RecordDomain(names, (), 1, kind=kind, values=ValueGrid(0, 1, 1000))
        else:
            domain = RecordDomain(names, others, 100).with_kind(kind)
        unit = PrivacyUnit.CLIENT if task == "cap" else PrivacyUnit.RECORD
        spec = next(iter(REQUESTS[task].specs().values()))
        form = next(iter(spec.input_forms.values()))
        release = request_of(MODELS["ring"], form, protect.epsilon, protect.delta, unit=unit)
        spent.add(statistic_of(request).prepare(release, domain).plan.exact)
    assert len(spent) == 1


def test_plans_every_model_without_mp_spdz(tmp_path: Path) -> None:
    asked = "weights --plan 109,26160,network=wan --groups a:0.7,b:0.3 --epsilon 1 --json"
    plan = json.loads(succeed(*asked.split(), cwd=tmp_path, environment={"MP_SPDZ_HOME": "none"}))
    assert [model["security"] for model in plan["models"] if model["available"]] == ["mpyc"]
    without_costs = {model["security"] for model in plan["models"] if model["mpc_s"] is None}
    assert without_costs == UNMEASURED
    assert all(model["mpc_s"] > 0 for model in plan["models"] if model["security"] not in without_costs)
    assert plan["network"] == {"name": "wan", "rtt_s": 0.04, "bandwidth_bits_per_s": 1e8}
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("task", "declared", "named"),
    [
        (
            "weights",
            {"groups": ["a", "b", "c"], "labels": ["0", "1"], "max_count": 5},
            ["--labels", "0,1", "--max-count", "5"],
        ),
        (
            "gap",
            {"groups": ["a", "b", "c"], "values": {"low": 0, "high": 1, "steps": 100}},
            ["--steps", "100"],
        ),
    ],
)
def test_a_domain_file_says_who_there_is(
    task: str, declared: dict[str, Any], named: list[str], tmp_path: Path
) -> None:
    (tmp_path / "domain.json").write_text(json.dumps(declared))
    asked = (task, "--plan", "300", "--epsilon", "1", "--security", "mpyc", "--json")
    by_file = json.loads(call(*asked, "--domain", "domain.json", cwd=tmp_path).stdout)
    by_name = json.loads(call(*asked, "--groups", "a,b,c", *named, cwd=tmp_path).stdout)
    assert {**by_file, "models": 0} == {**by_name, "models": 0} and len(by_file["models"]) == 1


NUMBER = re.compile(r"\d[\d,]*\.?\d*(?:e-?\d+)?")
RUNS = {
    "weights": ("--out results", {"weights", "privacy"}),
    "confusion": ("--out results", {"matrices", "rates", "privacy"}),
    "thresholds": ("--tolerance 1 --groups a,b --labels 0,1 --out results", {"roc", "rates", "privacy"}),
    "gap": ("--groups a,b --range 0,1 --out results", {"gaps", "means", "privacy"}),
    "count": ("--error-to 1000 --out results", {"counts", "privacy"}),
    "cap": ("--release-epsilon 1 --max-count 5 --out results", {"privacy"}),
}


@pytest.fixture(scope="module")
def of_all_kinds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("here")
    rows = [f"c{i},{'ab'[i % 2]},{i // 2 % 2},{0.2 + 0.6 * (i // 2 % 2)}" for i in range(200)]
    head = "client_id,group,label,score,prediction,value\n"
    full = [f"{row},{row.split(',')[2]},{row.split(',')[3]}" for row in rows]
    (directory / "records.csv").write_text(head + "\n".join(full))
    return directory


def page_of(directory: Path, pictures: set[str]) -> Page:
    """Read a report; check that its pictures are beside it, each in the page, with something said on top."""
    text = (directory / "report.html").read_text(encoding="utf-8")
    page = Page(text)
    assert page.open == [] and page.tags.count("img") == len(pictures)
    assert {path.stem for path in directory.glob("*.png")} == pictures
    assert not [name for name in files_below(directory) if name.startswith(".")]
    top, _, _ = text.partition("<table>")
    assert 1 <= top.split('class="note findings">')[1].split("</div>")[0].count("<p>") <= 4
    return page


def check_says(page: Page, printed: str) -> None:
    """Check that a page has all numbers of the tables on the terminal, as they are rounded there."""
    cells = " ".join(line for line in printed.splitlines() if "│" in line)
    assert (shown := set(NUMBER.findall(cells))) and shown <= set(NUMBER.findall(" ".join(page.texts)))


@pytest.mark.parametrize("task", RUNS)
def test_a_run_writes_its_page_beside_its_results(task: str, of_all_kinds: Path) -> None:
    options, pictures = RUNS[task]
    out = f"{task}-results"
    given = options.replace("results", out).split()
    said = ("--records", "records.csv", "--epsilon", "4", "--security", QUICKEST, "--plot")
    printed = succeed(task, *said, *given, cwd=of_all_kinds)
    assert printed.splitlines()[-1] == f"Results: {out}/report.html"
    page = page_of(of_all_kinds / out, pictures)
    check_says(page, printed)
    everything = " ".join(page.texts)
    assert "Guarantee: " in everything and "no single party learns anything more" in everything
    assert (of_all_kinds / out / f"{task}.json").exists()


@pytest.mark.parametrize("task", ["weights", "count", "cap"])
def test_a_plan(task: str, of_all_kinds: Path) -> None:
    of_cap = ["--plan", "9000", "--groups", "2", "--release-epsilon", "1"]
    given = of_cap if task == "cap" else ["--plan", "9000,9000", "--groups", "a:0.7,b:0.3"]
    said = succeed(task, *given, "--epsilon", "1", "--plot", cwd=of_all_kinds)
    directory = (of_all_kinds / said.splitlines()[-1].removeprefix("Results: ")).parent
    errors = set() if task == "cap" else {"errors"}
    check_says(page_of(directory, {"seconds", "privacy", *errors}), said)


def test_a_page_that_does_not_fit_leaves_the_results(
    of_all_kinds: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("fairshares.harness.cli.report.write_page", full)
    said = ("--records", "records.csv", "--epsilon", "4", "--security", QUICKEST, "--plot")
    done = call("weights", *said, "--out", "full", cwd=of_all_kinds)
    assert done.returncode in CODES and "noisy count" in done.stdout
    assert "Cannot write the report into full: No space left on device; the results are there." in done.stderr
    assert files_below(of_all_kinds / "full") == {"weights.json", "manifest.json"}
