"""Plans against commands: what is compared can be planned and run, and is read off what they print."""

import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks.studies import plans
from benchmarks.studies.plans import CASES, Case, study, write_records
from fairshares.harness.inputs.records import read_records
from fairshares.harness.releases.base import statistic_class
from fairshares.harness.releases.registry import RELEASES
from tests.support.command import call

PLANNED = {"wall_s": 3.0, "start_s": 1.0, "read_s": 0.5, "share_s": 0.5, "compile_s": 0.0, "mpc_s": 1.0}
PLANNED |= {"design_s": 0.0, "derive_s": 0.0}


def texts(words: str) -> dict[str, str]:
    given = shlex.split(words)
    return {
        name.removeprefix("--").replace("-", "_"): text
        for name, text in zip(given[::2], given[1::2], strict=True)
    }


@pytest.mark.parametrize("case", [case for case in CASES if not case.of_values], ids=lambda case: case.title)
def test_a_case_is_a_command_with_a_plan(case: Case, tmp_path: Path) -> None:
    options = {**texts(case.options), "epsilon": "1"}
    RELEASES[case.task](**options, records="records.csv")
    RELEASES[case.task](**options, records="records.csv", plan="file")
    small = Case(case.task, case.options, 12, 60, case.groups, case.labels)
    write_records(small, tmp_path / "records.csv")
    records = read_records(tmp_path / "records.csv", None, kind=statistic_class(case.task).kind)
    assert (records.clients, records.count.sum()) == (12, 60)
    assert records.domain.shape[:2] == (case.groups, case.labels)


def test_ratios_are_planned_over_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    seconds = iter([4.0, 2.0, 2.5, 9.0])

    def played(arguments: Sequence[str], _scratch: Path) -> tuple[float, float, str]:
        asked.append("plan" if "--plan" in arguments else arguments[0])
        if "--plan" in arguments:
            return 1.0, 1.0, json.dumps({"models": [PLANNED]})
        return next(seconds), 1.0, ""

    monkeypatch.setattr(plans, "run_command", played)
    outcome = study(CASES[:1], 3, lambda _done, _of: None)
    assert asked == ["plan", "weights", "plan", "weights", "weights", "weights"]
    rows: list[dict[str, Any]] = outcome.json
    assert [(line["compiled"], line["ratio"]) for line in rows] == [(False, 0.75), (True, 1.2)]  # median of 3
    last = list(outcome.view)[-1]
    assert "2 of 2 plans are within a factor of 1.5; the median ratio is 0.97." in str(last)


@pytest.mark.mpspdz("ring")
def test_commands_are_compared(tmp_path: Path) -> None:
    done = call(
        "reproduce", "plans", "--quick", "--repetitions", "1", "--out", "found", "--json", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    assert [row["compiled"] for row in rows] == [False, True] * 2
    assert all(row["wall_s"] > 0 and row["planned"]["start_s"] > 0 for row in rows)
