"""Five parties from end to end: a task's uploads, hosts of five owners, and what says another number."""

import json
from pathlib import Path

import pytest

from fairshares.harness.security_models import SecurityModel, get_model
from tests.support.command import refused, succeed
from tests.support.sharing import aggregates_by_command, trial_by_command
from tests.support.ssh import POLICY, set_up, site

DECLARED = ("--groups", "a,b", "--labels", "0,1", "--max-count", "5", "--epsilon", "20")
OF_FIVE = ("--security", "mpyc", "--parties", "5")


def counted(results: Path) -> list[list[float]]:
    """Return the noisy counts of a result, after a look at its manifest."""
    manifest = json.loads((results / "manifest.json").read_text())
    assert manifest["parties"] == 5 and len(manifest["sent_bytes"]) == 5
    assert manifest["request"]["parties"] == "5"
    counts: list[list[float]] = json.loads((results / "weights.json").read_text())["noisy_counts"]
    return counts


def are_near(counts: list[list[float]], *truth: int) -> bool:
    """Return whether the counts at ε = 20 are nearer to the truth than noise is with a chance of e^-100."""
    flat = [count for row in counts for count in row]
    return all(abs(count - true) <= 15 for count, true in zip(flat, truth, strict=True))


def test_uploads_of_a_task_for_five_parties_are_counted_by_five(tmp_path: Path) -> None:
    model: SecurityModel = get_model("mpyc", 5)
    rows = "".join(f"c{i},{'a,0' if i < 300 else 'b,1'}\n" for i in range(500))
    (tmp_path / "records.csv").write_text(f"client_id,group,label\n{rows}")
    trial_by_command("shares", model, *DECLARED, cwd=tmp_path)
    said = succeed("task", "shares/task.json", cwd=tmp_path)
    assert (
        "Model mpyc of 5 parties: 2 of the parties may be corrupt (passive). 3 that collude can read" in said
    )
    of_task = ("--task", "shares/task.json", "--records", "records.csv", "--out", "shares")
    succeed("share", *of_task, cwd=tmp_path)
    aggregates_by_command("shares", model, "aggregates", tmp_path)
    run = ("weights", "--shares", "aggregates", "--epsilon", "20", "--population", "none")
    said = refused(*run, "--security", "mpyc", cwd=tmp_path)
    assert "shared for 5 parties; this run would be of 3, as model mpyc is here." in said
    assert "--parties 5" in said
    succeed(*run, *OF_FIVE, "--out", "results", cwd=tmp_path)
    assert are_near(counted(tmp_path / "results"), 300, 0, 0, 200)


def test_hosts_of_five_owners_run_five_parties(tmp_path: Path) -> None:
    model = get_model("mpyc", 5)
    with site(tmp_path, 5) as made:
        set_up(made, model, f'{POLICY}security = ["mpyc of 5 parties"]\n')
        succeed("hosts.check", *OF_FIVE, cwd=made.home)
        run = ("weights", "--hosts", "hosts.toml", "--epsilon", "20", "--population", "none")
        said = refused(*run, "--security", "mpyc", "--parties", "4", cwd=made.home)
        assert "has hosts for 5 parties, and 4 were asked for; choose --parties 5" in said
        succeed(*run, *OF_FIVE, "--out", "results", cwd=made.home)
        assert are_near(counted(made.home / "results"), 30, 0, 0, 20)
        assert "5" in succeed("verify", "results", cwd=made.home)


@pytest.mark.mpspdz("semi2k")
def test_noise_for_sixteen_parties_is_made_ahead_on_one_machine(tmp_path: Path) -> None:
    rows = "".join(f"{'a,0' if i < 300 else 'b,1'}\n" for i in range(500))
    (tmp_path / "records.csv").write_text(f"group,label\n{rows}")
    of_sixteen = ("--security", "semi2k", "--parties", "16", "--epsilon", "20", "--stock", "stock")
    declared = ("--groups", "a,b", "--labels", "0,1", "--max-count", "1")
    succeed("weights", *declared, *of_sixteen, "--preprocess", "1", cwd=tmp_path)
    run = ("weights", "--records", "records.csv", *declared, "--population", "none", "--offline")
    of_fifteen = ("--security", "semi2k", "--parties", "15", "--epsilon", "20", "--stock", "stock")
    said = refused(*run, *of_fifteen, cwd=tmp_path)
    assert "noise" in said.lower()
    succeed(*run, *of_sixteen, "--out", "results", cwd=tmp_path)
    counts = json.loads((tmp_path / "results" / "weights.json").read_text())["noisy_counts"]
    assert are_near(counts, 300, 0, 0, 200)
