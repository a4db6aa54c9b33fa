"""`share`: what its client alone is told, what it allows, and replicated shares from files to a result."""

import json
from pathlib import Path

import pytest

from fairshares.harness.security_models import MODELS, SecurityModel
from fairshares.harness.uploads.reasons import UNCOVERED
from fairshares.harness.uploads.task import read_task
from tests.support.command import call, files_below, read_json, refused, succeed
from tests.support.envelopes import changed
from tests.support.running import QUICKEST, model_parameters
from tests.support.sharing import aggregates_by_command, trial_by_command

DECLARED = ("--groups", "a,b", "--labels", "0,1", "--max-count")
SHARE = ("share", "--task", "s/task.json", "--out", "s", "--records")


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """Return a directory with a task, and records of one client.

    Two count, one has another label, and one is too many.
    """
    rows = "me,a,0\nme,a,2\nme,a,0\nme,a,0\n"
    (tmp_path / "mine.csv").write_text(f"client_id,group,label\n{rows}")
    trial_by_command("s", MODELS[QUICKEST], *DECLARED, "2", "--epsilon", "3", cwd=tmp_path)
    return tmp_path


def test_a_check_says_what_would_be_left_out_and_writes_nothing(here: Path) -> None:
    before = files_below(here)
    done = call(*SHARE, "mine.csv", "--check", cwd=here)
    assert done.returncode == 0 and files_below(here) == before
    assert done.stdout.endswith("2 records of 1 client would be shared; nothing was.\n")
    assert f"Task {read_task(here / 's' / 'task.json').name}" in done.stdout
    assert "mine.csv, row 3: label '2' is not declared (declared: 0, 1); left out." in done.stderr
    assert "the maximum of 2, of which as many are drawn at random; 1 left out." in done.stderr


def test_files_of_a_directory_are_shared_together(here: Path) -> None:
    """And nothing is written where the third file is of other columns."""
    (here / "parts").mkdir()
    for name in ("me", "you"):
        (here / "parts" / f"{name}.csv").write_text(f"client_id,group,label\n{name},a,0\nme,b,1\n")
    trial_by_command("t", MODELS[QUICKEST], *DECLARED, "3", cwd=here)
    share = ("share", "--task", "t/task.json", "--records")
    for records in ("parts", "parts/*.csv"):
        shared = succeed(*share, records, "--check", cwd=here)
        assert shared.endswith("4 records of 2 clients would be shared; nothing was.\n")
    (here / "parts" / "they.csv").write_text("client_id,label,group\nthey,0,a\n")
    message = refused(*share, "parts", "--out", "out", cwd=here)
    assert (
        "parts/they.csv has the columns client_id, label, group where parts/me.csv has client_id, g"
        in message
    )


def test_an_earlier_upload_is_told(here: Path) -> None:
    said = call(*SHARE, "mine.csv", cwd=here)
    assert "Sealed 1 client for task" in said.stdout and "earlier" not in said.stderr
    assert "s holds 1 earlier upload, too; if the same records" in call(*SHARE, "mine.csv", cwd=here).stderr


def test_a_run_leaves_out_whoever_does_not_allow_it_and_counts_what_each_upload_spends(here: Path) -> None:
    """Of three clients one allows another task only, and one no second run."""
    for policy in ((), ("--epsilon", "1"), ("--epsilon", "2", "--for-tasks", "count")):
        succeed(*SHARE, "mine.csv", *policy, cwd=here)
    release = ("--security", QUICKEST, "--epsilon", "0.9", "--ledger", "ledger", "--population", "p")
    for run, left_out in (("first", 1), ("second", 2)):
        said = succeed("weights", "--shares", "s", *release, "--out", run, cwd=here)
        assert f"by all parties alike: {left_out} {UNCOVERED}." in said
        inputs = read_json(here / run / "manifest.json")["inputs"]
        assert inputs["clients"] == 3 - left_out and inputs["excluded_because"] == {UNCOVERED: left_out}
    aggregates_by_command("s", MODELS[QUICKEST], "a", here)
    succeed("weights", "--shares", "a", *release, "--out", "third", cwd=here)
    told = refused("weights", "--shares", "a", *release, "--out", "fourth", cwd=here)
    assert "The policies of clients do not cover this run, in 1 of its 1 uploads" in told


ABLE = [model for model in MODELS.values() if model.replicated]
NAMED = ("--groups", "a,b", "--labels", "0,1")
AT_REST = ("--input-path", "replicated")


@pytest.fixture
def of_three(tmp_path: Path) -> Path:
    """Return a directory with the records of three clients: 40 of (a, 0), 70 of (b, 1) and 90 of (b, 0)."""
    for name, (cell, records) in {"one": ("a,0", 40), "two": ("b,1", 70), "three": ("b,0", 90)}.items():
        rows = [f"{name},{cell}"] * records
        (tmp_path / f"{name}.csv").write_text("\n".join(["client_id,group,label", *rows]) + "\n")
    return tmp_path


@pytest.mark.parametrize("model", model_parameters(models=ABLE))
@pytest.mark.parametrize("command", ["weights", "count"])
def test_a_result_is_of_the_reports_that_nobody_changed(
    command: str, model: SecurityModel, of_three: Path
) -> None:
    """Products and logarithms of shares that wait for the run; one report is changed at the last party."""
    form, known = ("product" if command == "weights" else "split"), set[Path]()
    of_task = (*NAMED, "--max-count", "100", "--epsilon", "20", "--input-form", form, *AT_REST)
    trial_by_command("s", model, *of_task, "--for-tasks", "weights,count", cwd=of_three)
    for name in ("one", "two", "three"):
        known = {*(of_three / "s").glob("party-*/*")}
        succeed(*SHARE, f"{name}.csv", cwd=of_three)
    file = max({*(of_three / "s").glob("party-*/*")} - known)
    file.write_bytes(changed(file.read_bytes(), 100))
    chosen = ("--input-form", form) if command == "weights" else ()
    run = (command, *AT_REST, "--shares", "s", *chosen, "--security", model.name)
    said = succeed(*run, "--epsilon", "20", "--population", "none", "--verbose", "--out", "out", cwd=of_three)
    assert "that report is left out, or the run ends" in said
    manifest = json.loads((of_three / "out" / "manifest.json").read_text())
    why = f"that the party's key does not open (says party {model.parties - 1} alone)"
    assert manifest["inputs"]["excluded_because"] == {why: 1} and manifest["inputs"]["clients"] == 2
    assert manifest["privacy"]["input_path"] == "replicated shares"
    result = json.loads((of_three / "out" / f"{command}.json").read_text())
    if command == "weights":  # (a, 0), (a, 1), (b, 0), (b, 1)
        noisy = [value for row in result["noisy_counts"] for value in row]
        assert all(abs(a - b) <= 10 for a, b in zip(noisy, (40, 0, 0, 70), strict=True))


@pytest.mark.parametrize("model", model_parameters(models=ABLE))
def test_slots_have_noise_for_clients_that_nobody_exchanges(model: SecurityModel, of_three: Path) -> None:
    run = (
        "weights",
        "--records",
        "one.csv",
        *NAMED,
        "--max-count",
        "50",
        "--cap",
        "2",
        "--security",
        model.name,
    )
    of_clients = (*run, "--privacy-unit", "client", "--epsilon", "8", "--population", "none")
    said = {}
    for path in ("shares", "replicated"):
        succeed(*of_clients, "--input-path", path, "--out", path, cwd=of_three)
        said[path] = json.loads((of_three / path / "manifest.json").read_text())["privacy"]
    assert "noise_for" in said["shares"] and "noise_for" not in said["replicated"]
