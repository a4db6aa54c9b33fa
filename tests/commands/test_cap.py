"""`./inv cap`, as a user meets it: a cap, then the release with it; shares; what does not go together."""

import json
import shlex
from pathlib import Path

import pytest

from harness.privacy.ledger.entries import Ledger
from harness.security_models import MODELS, SecurityModel
from tests.support.command import refused, succeed
from tests.support.running import model_parameters

DECLARED = ("--groups", "a,b", "--labels", "0,1")
RING = model_parameters(models=[MODELS["ring"]])


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """Return a directory with records: 30 clients have 5 of (a, 0), two have 100 of (b, 1)."""
    rows = [f"c{k},a,0,0.5" for k in range(30) for _ in range(5)] + ["x,b,1,0.9", "y,b,1,0.9"] * 100
    (tmp_path / "mine.csv").write_text("\n".join(["client_id,group,label,score", *rows]) + "\n")
    (tmp_path / "domain.json").write_text('{"groups": ["a", "b"], "labels": ["0", "1"], "thresholds": 21}')
    return tmp_path


@pytest.mark.parametrize("model", RING)
def test_a_cap_and_the_release_with_it(model: SecurityModel, here: Path) -> None:
    """Weights of four counts at ε = 4: seven clients may exceed the cap, and two do. Both are charged."""
    common = ("--records", "mine.csv", *DECLARED, "--security", model.name, "--population", "p")
    said = succeed("cap", *common, "--epsilon", "20", "--release-epsilon", "4", "--out", "cap", cwd=here)
    assert "all of a client's records." in said and "Revealed: which cap was chosen" in said
    (line,) = (line for line in said.splitlines() if line.startswith("Next: "))
    words = shlex.split(line.removeprefix("Next: ./inv "))
    assert words[0] == "weights" and words[-4:] == ["--privacy-unit", "client", "--cap", "6"]
    succeed(*words, "--out", "weights", cwd=here)
    assert json.loads((here / "weights" / "manifest.json").read_text())["privacy"]["cap"] == 6
    (population,) = Ledger().populations()
    assert [charge.task for charge in population.charges] == ["cap", "weights"]
    assert all(charge.noise is None for charge in population.charges)  # no counts that move by 1 each


@pytest.mark.parametrize("model", RING)
def test_shares_of_sizes_are_for_this_alone(model: SecurityModel, here: Path) -> None:
    own = ("--records", "mine.csv", *DECLARED, "--security", model.name)
    succeed("share", *own, "--task", "cap", "--out", "sizes", cwd=here)
    succeed("share", *own, "--cap", "5", "--out", "slots", cwd=here)
    run = ("cap", "--epsilon", "20", "--release-epsilon", "4", "--security", model.name, "--shares")
    said = succeed(*run, "sizes", "--out", "cap", cwd=here)
    again, then = (shlex.split(line.split("./inv ")[1]) for line in said.splitlines() if "./inv " in line)
    (here / "domain.json").write_text('{"groups": ["a", "b"], "labels": ["0", "1"]}')
    listed = ("--party", "0", "--shares", "sizes/party-0", "--domain", "domain.json", "--out", "list")
    said = succeed("uploads", *listed, cwd=here)
    assert "0 uploads are sound here. Others: 1 of another domain than was declared." in said
    assert '"sizes": true' in said
    files = iter(("mine.csv", "domain.json"))
    succeed(*(next(files) if word == "FILE" else word for word in again), "--out", "again", cwd=here)
    succeed(*("again" if word == "SHARES" else word for word in then), "--out", "weights", cwd=here)
    assert json.loads((here / "weights" / "manifest.json").read_text())["privacy"]["cap"] == 6
    assert "cap needs their number alone" in refused(*run, "slots", "--out", "other", cwd=here)
    client = ("--epsilon", "20", "--privacy-unit", "client", "--security", model.name)
    assert "These shares are of records with their number alone" in refused(
        "weights", *client, "--shares", "sizes", "--out", "other", cwd=here
    )
    assert not (here / "other").exists()
