"""Replicated shares from clients' files to a result, without a report that a party changed."""

import json
from pathlib import Path

import pytest

from harness.security_models import MODELS, SecurityModel
from tests.support.command import call, succeed
from tests.support.running import model_parameters

ABLE = [model for model in MODELS.values() if model.replicated]
DECLARED = ("--groups", "a,b", "--labels", "0,1")
AT_REST = ("--input-path", "replicated")


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """Return a directory with the records of three clients: 40 of (a, 0), 70 of (b, 1) and 90 of (b, 0)."""
    for name, (cell, records) in {"one": ("a,0", 40), "two": ("b,1", 70), "three": ("b,0", 90)}.items():
        rows = [f"{name},{cell}"] * records
        (tmp_path / f"{name}.csv").write_text("\n".join(["client_id,group,label", *rows]) + "\n")
    return tmp_path


def shared(here: Path, model: SecurityModel, form: str) -> list[Path]:
    """Have all clients share; return the files of the last one, by party."""
    known: set[Path] = set()
    for name in ("one", "two", "three"):
        known = {*(here / "shares").glob("party-*/*")}
        share = ("share", *AT_REST, *DECLARED, "--input-form", form, "--security", model.name)
        said = succeed(*share, "--records", f"{name}.csv", "--out", "shares", cwd=here)
        assert "Any 2 of these parties together can read what was shared" in said
    return sorted({*(here / "shares").glob("party-*/*")} - known)


@pytest.mark.parametrize("model", model_parameters(models=ABLE))
@pytest.mark.parametrize("command", ["weights", "count"])
def test_a_result_is_of_the_reports_that_nobody_changed(
    command: str, model: SecurityModel, here: Path
) -> None:
    """Products and logarithms of shares that wait for the run; one report is changed at the last party."""
    form = "product" if command == "weights" else "split"
    file = shared(here, model, form)[-1]
    content = file.read_bytes()
    file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    chosen = ("--input-form", form) if command == "weights" else ()
    run = (command, *AT_REST, "--shares", "shares", *chosen, "--security", model.name)
    said = succeed(*run, "--epsilon", "20", "--population", "none", "--verbose", "--out", "out", cwd=here)
    assert "that report is left out, or the run ends" in said
    manifest = json.loads((here / "out" / "manifest.json").read_text())
    why = f"changed since it was shared, says party {model.parties - 1} alone"
    assert manifest["inputs"]["excluded_because"] == {why: 1}
    assert manifest["inputs"]["clients"] == 2
    assert manifest["privacy"]["input_path"] == "replicated shares"
    found = json.loads((here / "out" / f"{command}.json").read_text())
    if command == "weights":  # (a, 0), (a, 1), (b, 0), (b, 1)
        noisy = [value for row in found["noisy_counts"] for value in row]
        assert all(abs(a - b) <= 10 for a, b in zip(noisy, (40, 0, 0, 70), strict=True))


@pytest.mark.parametrize("model", model_parameters(models=ABLE))
def test_slots_have_noise_for_clients_that_nobody_exchanges(model: SecurityModel, here: Path) -> None:
    run = (
        "weights",
        "--records",
        "one.csv",
        *DECLARED,
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
        done = call(*of_clients, "--input-path", path, "--out", path, cwd=here)
        assert done.returncode == 0, done.stderr
        said[path] = json.loads((here / path / "manifest.json").read_text())["privacy"]
    assert "noise_for" in said["shares"] and "noise_for" not in said["replicated"]
