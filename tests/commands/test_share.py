"""`share`: what its client alone is told, what it allows, and replicated shares from files to a result."""

import json
from pathlib import Path
from typing import Any

import pytest

from harness.inputs.shares.party import UNCOVERED
from harness.security_models import MODELS, SecurityModel
from tests.support.command import call, files_below, read_json, refused, succeed
from tests.support.running import QUICKEST, model_parameters

DECLARED = ("--groups", "a,b", "--labels", "0,1", "--max-count", "2", "--security", QUICKEST)


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """Return a directory with records of one client: two that count, one with another label, one too many."""
    rows = "me,a,0\nme,a,2\nme,a,0\nme,a,0\n"
    (tmp_path / "mine.csv").write_text(f"client_id,group,label\n{rows}")
    return tmp_path


def test_a_check_says_what_would_be_left_out_and_writes_nothing(here: Path) -> None:
    before = files_below(here)
    done = call("share", "--records", "mine.csv", *DECLARED, "--check", cwd=here)
    assert done.returncode == 0 and files_below(here) == before
    assert done.stdout == "2 records of 1 client would be shared; nothing was.\n"
    assert "mine.csv, row 3: label '2' is not declared (declared: 0, 1); left out." in done.stderr
    assert "the maximum of 2, of which as many are drawn at random; 1 left out." in done.stderr


def test_files_of_a_directory_are_shared_together(here: Path) -> None:
    """And nothing is written where the third file is of other columns."""
    (here / "parts").mkdir()
    for name in ("me", "you"):
        (here / "parts" / f"{name}.csv").write_text(f"client_id,group,label\n{name},a,0\nme,b,1\n")
    options = (*DECLARED[:4], "--max-count", "3", *DECLARED[-2:])
    for records in ("parts", "parts/*.csv"):
        shared = succeed("share", "--records", records, *options, "--check", cwd=here)
        assert shared == "4 records of 2 clients would be shared; nothing was.\n"
    (here / "parts" / "they.csv").write_text("client_id,label,group\nthey,0,a\n")
    message = refused("share", "--records", "parts", *options, "--out", "out", cwd=here)
    assert (
        "parts/they.csv has the columns client_id, label, group where parts/me.csv has client_id, g"
        in message
    )


@pytest.mark.parametrize("form", ["split", "product"])
def test_an_upload_is_as_long_whatever_was_left_out(form: str, here: Path) -> None:
    (here / "other.csv").write_text("client_id,group,label\nme,b,1\n")
    sizes = set()
    for name in ("mine", "other"):
        options = ("--records", f"{name}.csv", *DECLARED, "--input-form", form, "--out", name)
        succeed("share", *options, cwd=here)
        files = sorted((here / name).rglob("*.share"))
        assert len(files) == 3
        sizes.add(tuple(path.stat().st_size for path in files))
    assert len(sizes) == 1


def policies(shares: Path) -> list[Any]:
    """Return the policies in the headers of one party's files."""
    files = sorted((shares / "party-1").iterdir())
    return [json.loads(path.read_bytes().partition(b"\n")[0])["policy"] for path in files]


@pytest.mark.parametrize(
    ("options", "policy"),
    [
        ((), None),
        (("--epsilon", "1.5"), (["weights", "count"], "3/2", "1/1073741824", "record")),
        (("--epsilon", "2", "--for-tasks", "count"), (["count"], "2", "1/1073741824", "record")),
        (
            ("--epsilon", "1e-1", "--delta", "1e-6", "--privacy-unit", "client"),
            (["weights", "count"], "1/10", "1/1000000", "client"),
        ),
    ],
)
def test_what_a_client_allows_is_in_every_partys_file(
    options: tuple[str, ...], policy: Any, here: Path
) -> None:
    said = succeed("share", "--records", "mine.csv", *DECLARED, *options, "--out", "s", cwd=here)
    expected = policy and dict(zip(("tasks", "epsilon", "delta", "unit"), policy, strict=True))
    assert policies(here / "s") == [expected]
    assert ("Who has a file can read your policy in it: " in said) == (policy is not None)


def test_a_run_leaves_out_whoever_does_not_allow_it_and_counts_what_each_upload_spends(here: Path) -> None:
    """Of three clients one allows another task only, and one no second run."""
    for policy in ((), ("--epsilon", "1"), ("--epsilon", "9", "--for-tasks", "count")):
        options = ("--records", "mine.csv", *DECLARED, *policy, "--out", "s")
        succeed("share", *options, cwd=here)
    release = ("--security", QUICKEST, "--epsilon", "0.9", "--ledger", "ledger", "--population", "p")
    for run, left_out in (("first", 1), ("second", 2)):
        said = succeed("weights", "--shares", "s", *release, "--out", run, cwd=here)
        assert f"by all parties alike: {left_out} {UNCOVERED}." in said
        inputs = read_json(here / run / "manifest.json")["inputs"]
        assert inputs["clients"] == 3 - left_out and inputs["excluded_because"] == {UNCOVERED: left_out}
    (here / "a").mkdir()
    for party in "012":
        options = ("--party", party, "--shares", "s", "--out", f"a/party-{party}.aggregate")
        succeed("aggregate", *options, cwd=here)
    told = refused("weights", "--shares", "a", *release, "--out", "third", cwd=here)
    assert "The policies of clients do not cover this run, in 3 of its 3 uploads" in told


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


def shared(of_three: Path, model: SecurityModel, form: str) -> list[Path]:
    """Have all clients share; return the files of the last one, by party."""
    known: set[Path] = set()
    for name in ("one", "two", "three"):
        known = {*(of_three / "shares").glob("party-*/*")}
        share = ("share", *AT_REST, *NAMED, "--input-form", form, "--security", model.name)
        said = succeed(*share, "--records", f"{name}.csv", "--out", "shares", cwd=of_three)
        assert "Any 2 of these parties together can read what was shared" in said
    return sorted({*(of_three / "shares").glob("party-*/*")} - known)


@pytest.mark.parametrize("model", model_parameters(models=ABLE))
@pytest.mark.parametrize("command", ["weights", "count"])
def test_a_result_is_of_the_reports_that_nobody_changed(
    command: str, model: SecurityModel, of_three: Path
) -> None:
    """Products and logarithms of shares that wait for the run; one report is changed at the last party."""
    form = "product" if command == "weights" else "split"
    file = shared(of_three, model, form)[-1]
    content = file.read_bytes()
    file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    chosen = ("--input-form", form) if command == "weights" else ()
    run = (command, *AT_REST, "--shares", "shares", *chosen, "--security", model.name)
    said = succeed(*run, "--epsilon", "20", "--population", "none", "--verbose", "--out", "out", cwd=of_three)
    assert "that report is left out, or the run ends" in said
    manifest = json.loads((of_three / "out" / "manifest.json").read_text())
    why = f"changed since it was shared, says party {model.parties - 1} alone"
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
