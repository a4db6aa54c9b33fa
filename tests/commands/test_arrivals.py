"""Weights while records arrive, from the command line: two epochs in every model; what contradicts them."""

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from harness.privacy.ledger.entries import Ledger
from harness.privacy.ledger.populations import Status
from harness.security_models import SecurityModel
from protocols.circuits.coins import design_coins
from protocols.mechanisms.counts_so_far import Part, Schedule
from protocols.noise.truncated import error_bound
from tests.support.command import files_below, processes_below, read_json, refused, succeed
from tests.support.running import QUICKEST, model_parameters

DOMAIN = {"groups": ["a", "b"], "labels": ["0", "1"], "max_count": 100}
CAPPED = {**DOMAIN, "cap": 2}


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "domain.json").write_text(json.dumps(DOMAIN))
    (tmp_path / "capped.json").write_text(json.dumps(CAPPED))
    return tmp_path


def arrive(here: Path, *cells: str, model: str = QUICKEST, options: tuple[str, ...] = ()) -> None:
    """Have a client arrive with a record in each of these cells, "a0" for example."""
    rows = [f"c,{cell[0]},{cell[1]}\n" for cell in cells]
    (here / "mine.csv").write_text("client_id,group,label\n" + "".join(rows))
    domain = "capped.json" if options else "domain.json"
    given = ("--domain", domain, "--security", model, "--out", "shares", *options)
    succeed("share", "--records", "mine.csv", *given, cwd=here)


def epoch(here: Path, out: str, *options: str) -> dict[str, Any]:
    """Run an epoch; return its manifest."""
    succeed("weights", "--shares", "shares", "--arrivals", "series", "--out", out, *options, cwd=here)
    return read_json(here / out / "manifest.json")


def counts(here: Path, out: str) -> list[float]:
    return [count for row in read_json(here / out / "weights.json")["noisy_counts"] for count in row]


def check(found: list[float], truth: list[int], releases: int) -> None:
    """Check counts that are the sum of so many releases, each of at least half of ε = 20 and δ."""
    bound = releases * error_bound(design_coins(Fraction(9), 41), Fraction(1, 10**10))
    assert all(abs(count - true) <= bound for count, true in zip(found, truth, strict=True))


CONTRADICTIONS = [
    ("--epsilon", "2", "20"),
    ("--horizon", "2", "3"),
    ("--delta", "1e-9", "2^-40"),
    ("--noise", "distributed", "joint"),
]


@pytest.mark.parametrize("model", model_parameters())
def test_two_epochs(model: SecurityModel, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of which the second counts the first again, each with half of ε."""
    half, whole = Fraction(1, 2), Fraction(1)
    schedule = Schedule((Part(0, half), Part(0, half), Part(2, whole)))
    monkeypatch.setattr("harness.releases.weights.best_schedule", lambda horizon: schedule)
    arrive(here, *["a0"] * 30, "b1", model=model.name)
    new = ("--horizon", "3", "--epsilon", "20", "--security", model.name, "--population", "people")
    first = epoch(here, "first", *new)
    arrive(here, *["a1"] * 40, model=model.name)
    again = ("weights", "--shares", "shares", "--arrivals", "series", "--out", "second")
    for option, other, began in CONTRADICTIONS:
        said = refused(*again, option, other, cwd=here)
        assert f"was begun with {option} {began} for all epochs, not {other}" in said
    said = succeed(*again, cwd=here)
    assert "Epoch 2 of 3: the counts are of all epochs so far together." in said
    assert "Charged to population 'people'" in said and "Spent in 1 run: ε" in said
    second = read_json(here / "second" / "manifest.json")
    check(counts(here, "first"), [30, 0, 0, 1], 1)
    check(counts(here, "second"), [30, 40, 0, 1], 1)
    assert second["inputs"]["clients"] == 2
    assert second["privacy"] == first["privacy"] and second["security"] == model.name
    assert files_below(here / "second") == {
        *("manifest.json", "weights.json", "epoch", "epoch/manifest.json", "epoch/weights.json")
    }
    assert {path.name for path in (here / "series").iterdir()} == {"arrivals.json"}
    assert processes_below(here) == {}
    (population,) = Ledger().populations()
    assert [charge.status for charge in population.charges] == [Status.DONE]
    assert "All 2 uploads in shares went into epochs of" in refused(*again[:-1], "third", cwd=here)
