"""`--plot`: a page with pictures beside the results, of the numbers that the terminal shows."""

import re
from pathlib import Path

import pytest

from tests.harness.views.test_html import Page
from tests.support.command import call, files_below, succeed
from tests.support.running import QUICKEST

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
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
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
def test_a_run_writes_its_page_beside_its_results(task: str, here: Path) -> None:
    options, pictures = RUNS[task]
    out = f"{task}-results"
    given = options.replace("results", out).split()
    said = ("--records", "records.csv", "--epsilon", "4", "--security", QUICKEST, "--plot")
    done = call(task, *said, *given, cwd=here)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == f"Results: {out}/report.html"
    page = page_of(here / out, pictures)
    check_says(page, done.stdout)
    everything = " ".join(page.texts)
    assert "Guarantee: " in everything and "no single party learns anything more" in everything
    assert (here / out / f"{task}.json").exists()


@pytest.mark.parametrize("task", ["weights", "count", "cap"])
def test_a_plan(task: str, here: Path) -> None:
    of_cap = ["--plan", "9000", "--groups", "2", "--release-epsilon", "1"]
    given = of_cap if task == "cap" else ["--plan", "9000,9000", "--groups", "a:0.7,b:0.3"]
    said = succeed(task, *given, "--epsilon", "1", "--plot", cwd=here)
    directory = (here / said.splitlines()[-1].removeprefix("Results: ")).parent
    errors = set() if task == "cap" else {"errors"}
    check_says(page_of(directory, {"seconds", "privacy", *errors}), said)


def test_a_ledger(here: Path) -> None:
    counted = ("--population", "loans", "--budget", "9", "--ledger", "l.sqlite")
    said = ("--records", "records.csv", "--epsilon", "1", "--security", QUICKEST, *counted)
    assert call("weights", *said, "--out", "charged", cwd=here).returncode == 0
    done = call("ledger", "--ledger", "l.sqlite", "--plot", cwd=here)
    directory = (here / done.stdout.splitlines()[-1].removeprefix("Results: ")).parent
    assert any("Population 'loans' has spent" in text for text in page_of(directory, {"spent"}).texts)


def test_a_page_that_does_not_fit_leaves_the_results(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("harness.cli.report.write_page", full)
    said = ("--records", "records.csv", "--epsilon", "4", "--security", QUICKEST, "--plot")
    done = call("weights", *said, "--out", "full", cwd=here)
    assert done.returncode == 1 and "noisy count" in done.stdout
    assert "Cannot write the report into full: No space left on device; the results are there." in done.stderr
    assert files_below(here / "full") == {"weights.json", "manifest.json"}
