"""The measured runs that the repository carries: they pass, and the report that it carries is of them."""

import re
import shutil
from pathlib import Path

import pytest

from benchmarks.report import html as report
from benchmarks.validation import multiplications
from benchmarks.validation.cells import RESULTS, Measured
from benchmarks.validation.checks import validate
from benchmarks.validation.findings import Explanation, Finding, Status, explanations
from tests.support.command import call

REPORT = RESULTS / "report"


@pytest.fixture(scope="module")
def measured() -> Measured:
    return Measured.read(RESULTS)


@pytest.fixture(scope="module")
def findings(measured: Measured) -> list[Finding]:
    return list(validate(measured).findings)


def test_recorded_runs_pass(findings: list[Finding]) -> None:
    assert [finding for finding in findings if finding.status is Status.FAILED] == []
    assert sum(finding.status is Status.PASSED for finding in findings) > 100
    assert {finding.check.key.split(".")[0] for finding in findings} >= {
        *("whole", "exact", "order", "linear", "constant", "ratio", "gain"),
    }


def test_results_that_break_a_check_fail_the_command(tmp_path: Path) -> None:
    shutil.copytree(RESULTS / "table2", tmp_path / "table2")
    samples = tmp_path / "table2" / "samples.jsonl"
    lines = samples.read_text().splitlines(keepends=True)
    first = next(i for i, line in enumerate(lines) if '"status": "ok"' in line)
    samples.write_text("".join(lines[:first] + lines[first + 1 :]))
    done = call("bench.validate", "--results", "table2", cwd=tmp_path)
    assert done.returncode == 1
    assert "failed whole.table2.repetitions" in done.stdout


def test_every_known_explanation_is_needed(findings: list[Finding]) -> None:
    """Those that explain nothing on record would hide what comes."""
    needed = [finding.check for finding in findings if finding.status is Status.EXPLAINED]

    def used(explanation: Explanation) -> bool:
        return any(explanation.explains(check) for check in needed)

    assert [known.checks for known in explanations() if not used(known)] == []


@pytest.mark.mpspdz("ring")
def test_recorded_report_is_of_the_recorded_runs(measured: Measured, tmp_path: Path) -> None:
    found = validate(measured, programs=multiplications.checks())
    report.write(measured, found, tmp_path)
    recorded, written = (
        re.sub(
            r"data:image/svg\+xml;base64,[\w+/=]+",
            "",
            (directory / "report.html").read_text(encoding="utf-8"),
        )
        for directory in (REPORT, tmp_path)
    )
    assert recorded == written
    assert {path.name for path in REPORT.glob("*.png")} == {path.name for path in tmp_path.glob("*.png")}
    assert (REPORT / "report.html").stat().st_size < 2**21


def test_a_report_is_written_with_the_verdict(tmp_path: Path) -> None:
    done = call("bench.validate", "--results", str(RESULTS / "table2"), "--out", "found", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert {path.name for path in (tmp_path / "found").iterdir()} >= {
        "report.html",
        "table2.png",
    }
