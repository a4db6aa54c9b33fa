"""`--cap auto`: two releases in one command, each charged, and what they say of privacy together."""

import json
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.errors import PartyFailedError
from harness.pipeline.run import run_release
from harness.security_models import MODELS, SecurityModel
from protocols.accounting.calibration import NeighboringRelation, Neighbors, each_cell_once, plan_noise
from protocols.noise.truncated import error_bound
from tests.support.command import call, read_json, refused
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
    run = (*run, "--cap-epsilon", "10")
    counted = ("--population", "p", "--ledger", "ledger.sqlite", "--budget", "20")
    done = call(*run, *counted, "--security", model.name, "--out", "out", cwd=here)
    assert done.returncode == 0, done.stderr
    both, first = read_json(here / "out" / "manifest.json"), read_json(here / "out-cap" / "manifest.json")
    chosen = read_json(here / "out-cap" / "cap.json")["cap"]
    assert chosen >= RECORDS  # but for probability e^-250
    assert f"The cap, {chosen} of a client's records, was chosen by π_CAP" in done.stdout

    zero_out, malleable_slots = NeighboringRelation.ZERO_OUT_ONE, model.name == "rep4-ring"
    cells = np.size(truth)
    plan = plan_noise(
        each_cell_once(cells), Neighbors(zero_out, chosen, malleable_slots), Fraction(10), DELTA * 4 / 5
    )
    of_cap, of_counts, total = (
        {name: Fraction(each["privacy"][f"{name}_exact"]) for name in ("epsilon", "delta")}
        for each in (first, both["parts"][task], both)
    )
    assert of_counts == {"epsilon": plan.exact.epsilon, "delta": plan.exact.delta}
    assert 0 < of_cap["epsilon"] <= 10 and 0 < of_cap["delta"] <= DELTA / 5
    assert total == {
        "epsilon": of_cap["epsilon"] + 10,
        "delta": of_cap["delta"] + DELTA * 4 / 5,
    }
    assert total["epsilon"] <= TOTAL and total["delta"] <= DELTA
    for cap in read_json(here / "out-cap" / "cap.json")["caps"]:  # the command's, whatever is chosen
        other = plan_noise(
            each_cell_once(cells), Neighbors(zero_out, cap, malleable_slots), Fraction(10), DELTA * 4 / 5
        ).exact
        assert of_cap["epsilon"] + other.epsilon <= total["epsilon"]
        assert of_cap["delta"] + other.delta <= total["delta"]
    shown = re.search(r"of its own with ε = ([0-9.e+-]+) of the total", done.stdout)
    assert shown is not None and Fraction(shown[1]) >= of_cap["epsilon"]
    found = read_json(here / "out" / f"{task}.json")
    assert found["privacy"] == both["privacy"] and both["privacy"]["cap"] == chosen
    assert both["parts"]["cap"]["privacy"] == read_json(here / "out-cap" / "cap.json")["privacy"]

    bound = float(error_bound(plan.coins, FALSE_ALARM / cells))
    assert (np.abs(np.array(found["noisy_counts"]) - truth) <= bound).all()

    charges = json.loads(call("ledger", "--ledger", "ledger.sqlite", "--json", cwd=here).stdout)
    assert [(each["task"], each["status"]) for each in charges["populations"][0]["charges"]] == [
        ("cap", "done"),
        (task, "done"),
    ]
    spent = charges["populations"][0]["spent"]  # what the manifest says: no more, and no less
    assert {name: Fraction(spent[name]) for name in total} == total


@pytest.mark.parametrize("model", model_parameters(models=[RING]))
def test_of_declared_runs_each_is_charged_with_its_cap(model: SecurityModel, here: Path) -> None:
    run = ("weights", "--records", "mine.csv", *DECLARED, *AUTO, "--max-count", "4", "--security", model.name)
    counted = ("--population", "p", "--ledger", "ledger.sqlite", "--budget", "41,1e-9,2")
    for out in ("first", "second"):
        done = call(*run, *counted, "--out", out, cwd=here)
        assert done.returncode == 0, done.stderr
    assert "for 2 runs with the noise of the first" in refused(*run, *counted, "--out", "third", cwd=here)
    assert not list(here.glob("third*"))
    charges = json.loads(call("ledger", "--ledger", "ledger.sqlite", "--json", cwd=here).stdout)
    found = charges["populations"][0]["charges"]
    assert [(each["task"], each["status"]) for each in found] == [("weights", "done")] * 2


REFUSED = {
    "nothing is left": (
        {"--cap-epsilon": "20"},
        "--cap-epsilon 20 leaves nothing of --epsilon 20",
    ),
    "no number": ({"--cap-epsilon": "much"}, "--cap-epsilon must be a number above 0"),
    "another unit": ({"--privacy-unit": "record"}, "say --privacy-unit client"),
    "fewer records": ({"--max-count": "1"}, "has 3 records, over the declared maximum of 1"),
    "no bound": ({"--input-form": "product"}, "Input form product keeps no client to a cap"),
    "another run's": ({"--out": "there"}, "there-cap exists already; name another directory by --out."),
    "no name": ({"--out": "."}, ". exists already; name another directory by --out."),
    "over the budget": ({"--population": "p", "--budget": "19"}, "No party was started."),
    "no such noise": ({"--delta": "2^-124"}, "No noise fits"),
    "another cap": ({"--cap": "3", "--cap-epsilon": "1"}, "is for --cap auto; give both, or neither."),
}


@pytest.mark.parametrize(("given", "said"), REFUSED.values(), ids=REFUSED)
def test_what_can_be_known_is_refused_before_anything_is_spent(
    given: dict[str, str], said: str, here: Path
) -> None:
    (here / "there-cap").mkdir()
    before = sorted(here.iterdir())
    options = dict(zip((*DECLARED, *AUTO)[::2], (*DECLARED, *AUTO)[1::2], strict=True))
    options |= {"--out": "out", "--security": "mpyc", "--ledger": "ledger.sqlite", **given}
    texts = (text for option in options.items() for text in option)
    done = call("weights", "--records", "mine.csv", *texts, cwd=here)
    assert done.returncode == 1 and said in " ".join(done.stderr.split()), done.stderr
    assert [path for path in sorted(here.iterdir()) if path.suffix != ".sqlite"] == before
    charges = json.loads(call("ledger", "--ledger", "ledger.sqlite", "--json", cwd=here).stdout)
    assert not any(each["charges"] for each in charges["populations"])


def test_a_cap_that_is_paid_for_stays(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second run fails: what the first has chosen, and its charge, stay."""
    real = run_release

    def fails_second(statistic: Any, *given: Any, **named: Any) -> Any:
        if statistic.name == "weights":
            raise PartyFailedError("Party 0 failed.")
        return real(statistic, *given, **named)

    monkeypatch.setattr("harness.pipeline.release.run_release", fails_second)
    run = ("weights", "--records", "mine.csv", *DECLARED, *AUTO, "--max-count", "4", "--security", "mpyc")
    done = call(*run, "--out", "out", "--population", "p", "--ledger", "ledger.sqlite", cwd=here)
    assert done.returncode == 1 and not (here / "out").exists()
    chosen = read_json(here / "out-cap" / "cap.json")["cap"]
    rest = f"--cap {chosen} --epsilon 16 --delta {DELTA * 4 / 5}"
    assert f"repeat it with {rest}. That keeps to the total if" in " ".join(done.stderr.split())
    charges = json.loads(call("ledger", "--ledger", "ledger.sqlite", "--json", cwd=here).stdout)
    assert [each["task"] for each in charges["populations"][0]["charges"]] == ["cap"]
