"""`--cap auto`: two releases in one command, each charged, and what they say of privacy together."""

import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.errors import PartyFailedError
from harness.pipeline.run import run_release
from harness.privacy.ledger.entries import Ledger
from harness.privacy.ledger.populations import Status
from harness.security_models import MODELS, SecurityModel
from protocols.accounting.calibration import NeighboringRelation, Neighbors, each_cell_once, plan_noise
from protocols.noise.truncated import error_bound
from tests.support.command import call, read_json, refused, succeed
from tests.support.running import model_parameters

CLIENTS, RECORDS = 60, 3
TOTAL, DELTA = Fraction(20), Fraction(1, 2**40)
FALSE_ALARM = Fraction(1, 10**9)
RING = MODELS["ring"]
EVERY_KIND = model_parameters(models=[RING, MODELS["rep4-ring"], MODELS["mpyc"]])
DECLARED = ("--groups", "a,b", "--labels", "0,1")
AUTO = ("--privacy-unit", "client", "--cap", "auto", "--epsilon", "20")


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """Return a directory with records: 60 clients of two groups have three each, two of them positive."""
    rows = [f"c{k},{'ab'[k % 2]},{int(i > 0)},{k / 99}" for k in range(CLIENTS) for i in range(RECORDS)]
    (tmp_path / "mine.csv").write_text("\n".join(["client_id,group,label,score", *rows]) + "\n")
    return tmp_path


# Of a command: its options, and its counts. A tenth of the clients have scores of 1/2 and more.
TASKS: dict[str, tuple[tuple[str, ...], list[Any]]] = {
    "weights": ((), [[30, 60], [30, 60]]),
    "confusion": (("--threshold", "0.5"), [[[25, 5], [50, 10]], [[25, 5], [50, 10]]]),
}


@pytest.mark.parametrize(
    ("model", "task"),
    [
        pytest.param(*each.values, task, marks=each.marks, id=f"{each.id}-{task}")
        for each, task in [*((each, "weights") for each in EVERY_KIND), (EVERY_KIND[1], "confusion")]
    ],
)
def test_a_cap_is_chosen_then_used(model: SecurityModel, task: str, here: Path) -> None:
    options, truth = TASKS[task]
    run = (task, "--records", "mine.csv", *options, *DECLARED, *AUTO, "--max-count", "20")
    counted = ("--cap-epsilon", "10", "--population", "p", "--budget", "20")
    said = succeed(*run, *counted, "--security", model.name, "--out", "out", cwd=here)
    both, found = (read_json(here / "out" / name) for name in ("manifest.json", f"{task}.json"))
    first, choice = (read_json(here / "out-cap" / name) for name in ("manifest.json", "cap.json"))
    chosen = choice["cap"]
    assert chosen >= RECORDS  # but for probability e^-250
    assert f"The cap, {chosen} of a client's records, was chosen by π_CAP" in said

    cells = np.size(truth)
    plans = {  # whatever is chosen
        cap: plan_noise(
            each_cell_once(cells),
            Neighbors(NeighboringRelation.ZERO_OUT_ONE, cap, model.name == "rep4-ring"),
            Fraction(10),
            DELTA * 4 / 5,
        )
        for cap in choice["caps"]
    }
    plan = plans[chosen]
    of_cap, of_counts, total = (
        {name: Fraction(each["privacy"][f"{name}_exact"]) for name in ("epsilon", "delta")}
        for each in (first, both["parts"][task], both)
    )
    assert of_counts == {"epsilon": plan.exact.epsilon, "delta": plan.exact.delta}
    assert 0 < of_cap["epsilon"] <= 10 and 0 < of_cap["delta"] <= DELTA / 5
    assert total == {"epsilon": of_cap["epsilon"] + 10, "delta": of_cap["delta"] + DELTA * 4 / 5}
    assert total["epsilon"] <= TOTAL and total["delta"] <= DELTA
    for other in plans.values():
        assert of_cap["epsilon"] + other.exact.epsilon <= total["epsilon"]
        assert of_cap["delta"] + other.exact.delta <= total["delta"]
    shown = re.search(r"of its own with ε = ([0-9.e+-]+) of the total", said)
    assert shown is not None and Fraction(shown[1]) >= of_cap["epsilon"]
    assert found["privacy"] == both["privacy"] and both["privacy"]["cap"] == chosen
    assert both["parts"]["cap"]["privacy"] == choice["privacy"]
    bound = float(error_bound(plan.coins, FALSE_ALARM / cells))
    assert (np.abs(np.array(found["noisy_counts"]) - truth) <= bound).all()
    (population,) = Ledger().populations()
    charged = [(each.task, each.status) for each in population.charges]
    assert charged == [("cap", Status.DONE), (task, Status.DONE)]
    spent = population.spent  # what the manifest says: no more, and no less
    assert {"epsilon": spent.epsilon, "delta": spent.delta} == total


@pytest.mark.parametrize("model", model_parameters(models=[RING]))
def test_of_declared_runs_each_is_charged_with_its_cap(model: SecurityModel, here: Path) -> None:
    run = ("weights", "--records", "mine.csv", *DECLARED, *AUTO, "--max-count", "4", "--security", model.name)
    counted = ("--population", "p", "--budget", "41,1e-9,2")
    for out in ("first", "second"):
        succeed(*run, *counted, "--out", out, cwd=here)
    assert "for 2 runs with the noise of the first" in refused(*run, *counted, "--out", "third", cwd=here)
    (population,) = Ledger().populations()
    assert [(each.task, each.status) for each in population.charges] == [("weights", Status.DONE)] * 2


def test_a_cap_that_is_paid_for_stays(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second run fails: what the first has chosen, and its charge, stay."""
    real = run_release

    def fails_second(statistic: Any, *given: Any, **named: Any) -> Any:
        if statistic.name == "weights":
            raise PartyFailedError("Party 0 failed.")
        return real(statistic, *given, **named)

    monkeypatch.setattr("harness.pipeline.release.run_release", fails_second)
    run = ("weights", "--records", "mine.csv", *DECLARED, *AUTO, "--max-count", "4", "--security", "mpyc")
    done = call(*run, "--out", "out", "--population", "p", cwd=here)
    assert done.returncode == 1 and not (here / "out").exists()
    chosen = read_json(here / "out-cap" / "cap.json")["cap"]
    rest = f"--cap {chosen} --epsilon 16 --delta {DELTA * 4 / 5}"
    assert f"repeat it with {rest}. That keeps to the total if" in " ".join(done.stderr.split())
    assert [charge.task for charge in Ledger().populations()[0].charges] == ["cap"]
