"""Commands with clients as the privacy unit: exact statements, caps that hold, caps that are chosen."""

import json
import re
import shlex
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairshares.harness.errors import PartyFailedError
from fairshares.harness.pipeline.run import run_release
from fairshares.harness.privacy.ledger.entries import Ledger
from fairshares.harness.privacy.ledger.populations import Status
from fairshares.harness.security_models import MODELS, SecurityModel
from fairshares.protocols.accounting.calibration import (
    NeighboringRelation,
    Neighbors,
    each_cell_once,
    plan_noise,
)
from fairshares.protocols.noise.truncated import error_bound
from fairshares.protocols.spec import ENFORCED, HONEST
from tests.support.command import CODES, call, read_json, refused, succeed
from tests.support.running import model_parameters

DELTA = Fraction(1, 2**40)
FALSE_ALARM = Fraction(1, 10**9)
DOMAIN = {"groups": ["a", "b"], "labels": ["0", "1"]}
DECLARED = ("--groups", "a,b", "--labels", "0,1")
CLIENT = ("--verbose", "--epsilon", "20", "--privacy-unit", "client")
LIGHT, HEAVY = 30, 100
RING = MODELS["ring"]


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """Return a directory with records: 30 clients have one of (a, 0), one has 100 of (b, 1).

    A third of the 30 have scores of 1/2 and more.
    """
    rows = [f"c{k},a,0,{k / 40}" for k in range(LIGHT)] + ["heavy,b,1,0.9"] * HEAVY
    (tmp_path / "mine.csv").write_text("\n".join(["client_id,group,label,score", *rows]) + "\n")
    (tmp_path / "domain.json").write_text(json.dumps({**DOMAIN, "cap": 10}))
    return tmp_path


def check_counts(
    directory: Path, truth: list[Any], cap: int, scale: int = 1, malleable_slots: bool = False
) -> None:
    """Check a run's statement against the plan for its cap, and its counts against the truth."""
    zero_out, cells = NeighboringRelation.ZERO_OUT_ONE, np.size(truth)
    plan = plan_noise(each_cell_once(cells), Neighbors(zero_out, cap, malleable_slots), Fraction(20), DELTA)
    manifest = read_json(directory / "manifest.json")
    privacy = manifest["privacy"]
    assert (privacy["privacy_unit"], privacy["neighboring_relation"]) == ("client", "zero_out_one")
    assert (privacy["epsilon_exact"], privacy["delta_exact"]) == (
        str(plan.exact.epsilon),
        str(plan.exact.delta),
    )
    bound = float(error_bound(plan.coins, FALSE_ALARM / cells)) / scale
    counts = np.array(read_json(directory / f"{manifest['task']}.json")["noisy_counts"])
    assert counts.shape == np.shape(truth) and (np.abs(counts - truth) <= bound).all()


@pytest.mark.parametrize("model", model_parameters(models=[RING, MODELS["mpyc"]]))
def test_no_client_weighs_more_than_its_cap(model: SecurityModel, here: Path) -> None:
    common = ("weights", "--records", "mine.csv", *CLIENT, "--security", model.name)
    said = succeed(*common, "--domain", "domain.json", "--out", "capped", cwd=here)
    assert "all records of a client together, there or not" in said
    assert (
        f"at most 10 records of a client count, chosen at random if there are more. Kept to by {ENFORCED}."
        in said
    )
    check_counts(here / "capped", [[LIGHT, 0], [0, 10]], 10)
    privacy = read_json(here / "capped" / "manifest.json")["privacy"]
    assert (privacy["input_form"], privacy["cap"], privacy["cap_kept_by"]) == ("slots", 10, ENFORCED)
    assert not any("number of records" in said for said in privacy["public"])

    split = ("--cap", "10", "--input-form", "split", "--out", "split")
    assert f"Kept to by {HONEST}." in succeed(*common, *DECLARED, *split, cwd=here)
    check_counts(here / "split", [[LIGHT, 0], [0, 10]], 10)

    said = succeed(*common, *DECLARED, "--cap", "weight-one", "--out", "one", cwd=here)
    assert "Counts are of clients, in steps of 1/60." in said
    check_counts(here / "one", [[LIGHT, 0], [0, 1]], 60, 60)


@pytest.mark.parametrize("model", model_parameters(models=[RING, MODELS["rep4-ring"]]))
def test_the_noise_is_for_what_a_party_can_do_to_slots(model: SecurityModel, here: Path) -> None:
    """One that deviates moves records between cells, so that two counts tell whether a client is there."""
    run = ("weights", "--records", "mine.csv", *CLIENT, *DECLARED, "--cap", "10", "--security", model.name)
    said, active = succeed(*run, "--out", "out", cwd=here), model.name == "rep4-ring"
    check_counts(here / "out", [[LIGHT, 0], [0, 10]], 10, malleable_slots=active)
    assert ("The noise is for replaced records" in said) == active
    for name in ("manifest.json", "weights.json"):
        assert ("noise_for" in read_json(here / "out" / name)["privacy"]) == active


CLIENTS, RECORDS = 60, 3
TOTAL = Fraction(20)
EVERY_KIND = model_parameters(models=[RING, MODELS["rep4-ring"], MODELS["mpyc"]])
AUTO = ("--privacy-unit", "client", "--cap", "auto", "--epsilon", "20")


@pytest.fixture
def with_scores(tmp_path: Path) -> Path:
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
        pytest.param(*case.values, task, marks=case.marks, id=f"{case.id}-{task}")
        for case, task in [*((case, "weights") for case in EVERY_KIND), (EVERY_KIND[1], "confusion")]
    ],
)
def test_a_cap_is_chosen_then_used(model: SecurityModel, task: str, with_scores: Path) -> None:
    options, truth = TASKS[task]
    run = (task, "--records", "mine.csv", *options, *DECLARED, *AUTO, "--max-count", "20")
    counted = ("--cap-epsilon", "10", "--population", "p", "--budget", "20")
    said = succeed(*run, *counted, "--security", model.name, "--out", "out", cwd=with_scores)
    both, result = (read_json(with_scores / "out" / name) for name in ("manifest.json", f"{task}.json"))
    first, choice = (read_json(with_scores / "out-cap" / name) for name in ("manifest.json", "cap.json"))
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
        {name: Fraction(manifest["privacy"][f"{name}_exact"]) for name in ("epsilon", "delta")}
        for manifest in (first, both["parts"][task], both)
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
    assert result["privacy"] == both["privacy"] and both["privacy"]["cap"] == chosen
    assert both["parts"]["cap"]["privacy"] == choice["privacy"]
    bound = float(error_bound(plan.coins, FALSE_ALARM / cells))
    assert (np.abs(np.array(result["noisy_counts"]) - truth) <= bound).all()
    (population,) = Ledger().populations()
    charged = [(charge.task, charge.status) for charge in population.charges]
    assert charged == [("cap", Status.DONE), (task, Status.DONE)]
    spent = population.spent  # what the manifest says: no more, and no less
    assert {"epsilon": spent.epsilon, "delta": spent.delta} == total


@pytest.mark.parametrize("model", model_parameters(models=[RING]))
def test_of_declared_runs_each_is_charged_with_its_cap(model: SecurityModel, with_scores: Path) -> None:
    run = ("weights", "--records", "mine.csv", *DECLARED, *AUTO, "--max-count", "4", "--security", model.name)
    counted = ("--population", "p", "--budget", "41,1e-9,2")
    for out in ("first", "second"):
        succeed(*run, *counted, "--out", out, cwd=with_scores)
    assert "for 2 runs with the noise of the first" in refused(
        *run, *counted, "--out", "third", cwd=with_scores
    )
    (population,) = Ledger().populations()
    assert [(charge.task, charge.status) for charge in population.charges] == [("weights", Status.DONE)] * 2


def test_a_cap_that_is_paid_for_stays(with_scores: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second run fails: what the first has chosen, and its charge, stay."""
    real = run_release

    def fails_second(statistic: Any, *given: Any, **named: Any) -> Any:
        if statistic.name == "weights":
            raise PartyFailedError("Party 0 failed.")
        return real(statistic, *given, **named)

    monkeypatch.setattr("fairshares.harness.pipeline.release.run_release", fails_second)
    run = ("weights", "--records", "mine.csv", *DECLARED, *AUTO, "--max-count", "4", "--security", "mpyc")
    done = call(*run, "--out", "out", "--population", "p", cwd=with_scores)
    assert done.returncode in CODES and not (with_scores / "out").exists()
    chosen = read_json(with_scores / "out-cap" / "cap.json")["cap"]
    rest = f"--cap {chosen} --epsilon 16 --delta {DELTA * 4 / 5}"
    assert f"repeat it with {rest}. That keeps to the total if" in " ".join(done.stderr.split())
    assert [charge.task for charge in Ledger().populations()[0].charges] == ["cap"]


@pytest.fixture
def uneven(tmp_path: Path) -> Path:
    """Return a directory with records: 30 clients have 5 of (a, 0), two have 100 of (b, 1)."""
    rows = [f"c{k},a,0,0.5" for k in range(30) for _ in range(5)] + ["x,b,1,0.9", "y,b,1,0.9"] * 100
    (tmp_path / "mine.csv").write_text("\n".join(["client_id,group,label,score", *rows]) + "\n")
    (tmp_path / "domain.json").write_text('{"groups": ["a", "b"], "labels": ["0", "1"], "thresholds": 21}')
    return tmp_path


@pytest.mark.parametrize("model", model_parameters(models=[RING]))
def test_a_cap_and_the_release_with_it(model: SecurityModel, uneven: Path) -> None:
    """Weights of four counts at ε = 4: seven clients may exceed the cap, and two do. Both are charged."""
    common = ("--records", "mine.csv", *DECLARED, "--security", model.name, "--population", "p")
    said = succeed("cap", *common, "--epsilon", "20", "--release-epsilon", "4", "--out", "cap", cwd=uneven)
    assert "all of a client's records." in said and "Revealed: which cap was chosen" in said
    (line,) = (line for line in said.splitlines() if line.startswith("Next: "))
    words = shlex.split(line.removeprefix("Next: ./inv "))
    assert words[0] == "weights" and words[-4:] == ["--privacy-unit", "client", "--cap", "6"]
    succeed(*words, "--out", "weights", cwd=uneven)
    assert json.loads((uneven / "weights" / "manifest.json").read_text())["privacy"]["cap"] == 6
    (population,) = Ledger().populations()
    assert [charge.task for charge in population.charges] == ["cap", "weights"]
    assert all(charge.noise is None for charge in population.charges)  # no counts that move by 1 each
