"""Commands with clients as the privacy unit: exact statements, caps that hold, what does not go together."""

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.security_models import MODELS, SecurityModel
from protocols.accounting.calibration import (
    NeighboringRelation,
    Neighbors,
    each_cell_once,
    plan_noise,
    sums_and_sizes,
)
from protocols.noise.truncated import error_bound
from protocols.spec import ENFORCED, HONEST, PI_ROC_RECORDS
from tests.support.command import call, refused
from tests.support.running import model_parameters

DELTA = Fraction(1, 2**40)
FALSE_ALARM = Fraction(1, 10**9)
DOMAIN = {"groups": ["a", "b"], "labels": ["0", "1"]}
DECLARED = ("--groups", "a,b", "--labels", "0,1")
CLIENT = ("--verbose", "--epsilon", "20", "--privacy-unit", "client")
PREDICTED = ("--threshold", "0.5")
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
    (tmp_path / "large-cap.json").write_text(json.dumps({**DOMAIN, "max_count": 100, "cap": 101}))
    return tmp_path


def succeed(*arguments: str, cwd: Path) -> str:
    """Run a command that has to work, in this process; return what it printed."""
    done = call(*arguments, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return done.stdout


def read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def check_counts(
    directory: Path, truth: list[Any], cap: int, scale: int = 1, malleable_slots: bool = False
) -> None:
    """Check a run's statement against the plan for its cap, and its counts against the truth."""
    zero_out, cells = NeighboringRelation.ZERO_OUT_ONE, np.size(truth)
    plan = plan_noise(each_cell_once(cells), Neighbors(zero_out, cap, malleable_slots), Fraction(20), DELTA)
    manifest = read(directory / "manifest.json")
    privacy = manifest["privacy"]
    assert (privacy["privacy_unit"], privacy["neighboring_relation"]) == ("client", "zero_out_one")
    assert (privacy["epsilon_exact"], privacy["delta_exact"]) == (
        str(plan.exact.epsilon),
        str(plan.exact.delta),
    )
    bound = float(error_bound(plan.coins, FALSE_ALARM / cells)) / scale
    counts = np.array(read(directory / f"{manifest['task']}.json")["noisy_counts"])
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
    privacy = read(here / "capped" / "manifest.json")["privacy"]
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
        assert ("noise_for" in read(here / "out" / name)["privacy"]) == active


@pytest.mark.parametrize("model", model_parameters(models=[RING, MODELS["rep4-ring"]]))
def test_confusion_matrices_of_clients(model: SecurityModel, here: Path) -> None:
    run = ("confusion", "--records", "mine.csv", *CLIENT, *DECLARED, *PREDICTED, "--security", model.name)
    said, active = succeed(*run, "--cap", "3", "--out", "out", cwd=here), model.name == "rep4-ring"
    check_counts(here / "out", [[[20, 10], [0, 0]], [[0, 0], [0, 3]]], 3, malleable_slots=active)
    kept = f"at most 3 records of a client count, chosen at random if there are more. Kept to by {ENFORCED}."
    assert kept in said
    assert "the true counts, of the records that the cap keeps, all at once" in said
    assert ("The noise is for replaced records" in said) == active
    for name in ("manifest.json", "confusion.json"):
        privacy = read(here / "out" / name)["privacy"]
        assert ("noise_for" in privacy) == active and privacy["cap"] == 3
        assert (privacy["input_form"], privacy["cap_kept_by"]) == ("slots", ENFORCED)


@pytest.mark.parametrize("model", model_parameters(models=[RING]))
def test_confusion_matrices_of_clients_that_weigh_one_or_are_trusted(
    model: SecurityModel, here: Path
) -> None:
    run = ("confusion", "--records", "mine.csv", *CLIENT, *DECLARED, *PREDICTED, "--security", model.name)
    said = succeed(*run, "--cap", "weight-one", "--out", "one", cwd=here)
    assert "Noisy counts of clients, in steps of 1/60." in said
    check_counts(here / "one", [[[20, 10], [0, 0]], [[0, 0], [0, 1]]], 60, 60)
    split = ("--cap", "3", "--input-form", "split", "--out", "split")
    said = succeed(*run, *split, cwd=here)
    assert f"Kept to by {HONEST}." in said
    check_counts(here / "split", [[[20, 10], [0, 0]], [[0, 0], [0, 3]]], 3)


LEFT_OUT = "Uploads left out, by all parties alike: 1 longer or shorter than it says, says party 1 alone."
SHARED_FOR = {
    "weights": ((), [[LIGHT, 0], [0, 0]]),
    "confusion": (("--task", "confusion", "--threshold", "0.5"), [[[20, 10], [0, 0]], [[0, 0], [0, 0]]]),
}


@pytest.mark.parametrize(("task", "shared"), SHARED_FOR.items(), ids=SHARED_FOR)
@pytest.mark.parametrize("model", model_parameters(models=[RING]))
def test_uploads_of_a_wrong_length_are_out_at_every_party(
    model: SecurityModel, task: str, shared: tuple[tuple[str, ...], list[Any]], here: Path
) -> None:
    """Clients share, one sends party 1 less than the others; parties list, agree, aggregate; then the run."""
    options, truth = shared
    domain = read(here / "domain.json") | ({"predictions": True} if task == "confusion" else {})
    (here / "domain.json").write_text(json.dumps(domain))
    header, *rows = (here / "mine.csv").read_text().splitlines()
    (here / "light.csv").write_text("\n".join([header, *rows[:LIGHT]]) + "\n")
    (here / "heavy.csv").write_text("\n".join([header, *rows[LIGHT:]]) + "\n")
    for name in ("light", "heavy"):
        own = ("--records", f"{name}.csv", "--domain", "domain.json", "--out", name)
        succeed("share", *own, *options, cwd=here)
    (bad,) = (here / "heavy" / "party-1").iterdir()
    bad.write_bytes(bad.read_bytes()[:-1])
    for i in range(model.parties):
        (here / "shares" / f"party-{i}").mkdir(parents=True)
        for name in ("light", "heavy"):
            (file,) = (here / name / f"party-{i}").iterdir()
            file.rename(here / "shares" / f"party-{i}" / file.name)
    run = (task, *CLIENT, "--security", model.name)
    judged = ("--shares", "shares", "--domain", "domain.json", "--clients-per-upload", str(LIGHT))
    said = succeed(*run, *judged, "--out", "at-once", cwd=here)
    assert (
        "Uploads left out, by all parties alike: 1 longer or shorter than it says, says party 1 alone."
        in said
    )
    (here / "other.json").write_text(json.dumps({**DOMAIN, "cap": 9}))
    narrow = ("--shares", "shares", "--domain", "other.json", "--clients-per-upload", str(LIGHT - 1))
    failed = call(*run, *narrow, "--out", "narrow", cwd=here)
    assert failed.returncode != 0 and not (here / "narrow").exists()
    assert "1 of another domain than was declared, 1 of more clients than one may be of." in failed.stderr
    for i in range(model.parties):
        said = succeed("uploads", "--party", str(i), *judged, "--out", f"lists/party-{i}.uploads", cwd=here)
        assert ("Others: 1 longer or shorter than it says." in said) == (i == 1)
    for i in range(model.parties):
        taken = ("--uploads", "lists", "--out", f"all/party-{i}.aggregate")
        said = succeed("aggregate", "--party", str(i), "--shares", "shares", *taken, cwd=here)
        assert (
            "Uploads left out, by all parties alike: 1 longer or shorter than it says, says party 1 alone."
            in said
        )
    failed = call(*run, "--shares", "all", "--out", "in-steps", cwd=here)
    assert failed.returncode != 0 and "--population" in failed.stderr  # the same uploads, once more
    again = ("--population", "p")
    for out, excluded in (("at-once", 1), ("in-steps", 0)):
        if out == "in-steps":
            succeed(*run, "--shares", "all", *again, "--out", out, cwd=here)
        check_counts(here / out, truth, 10)
        inputs = read(here / out / "manifest.json")["inputs"]
        assert inputs["clients"] == LIGHT and inputs.get("excluded_uploads", 0) == excluded


@pytest.mark.parametrize("model", model_parameters(models=[RING]))
def test_curves_and_gaps_of_clients(model: SecurityModel, here: Path) -> None:
    common = (*CLIENT, "--security", model.name)
    scored = ("thresholds", "--records", "mine.csv", *DECLARED, *common, "--cap", "4")
    for variant, kept in (("records", ENFORCED), ("histogram", HONEST)):
        call(*scored, "--variant", variant, "--out", variant, cwd=here)  # may be too noisy for thresholds
        manifest, curves = read(here / variant / "manifest.json"), read(here / variant / "curves.json")
        privacy, levels = manifest["privacy"], len(curves["blocks"])
        assert privacy["privacy_unit"] == "client" and privacy["cap_kept_by"] == kept
        assert "records" not in manifest["inputs"]  # 100 of them would show
        assert not any("number of records" in said for said in privacy["public"])
        arguments = {
            "groups": "2",
            "labels": "2",
            "bins": "1001",
            "blocks": ".".join(map(str, curves["blocks"])),
        }
        assert PI_ROC_RECORDS.release is not None
        release = PI_ROC_RECORDS.release(arguments)
        plan = plan_noise(release, Neighbors(NeighboringRelation.ZERO_OUT_ONE, 4), Fraction(20), DELTA)
        assert plan.changed == 4 * levels and str(plan.exact.epsilon) == privacy["epsilon_exact"]
        positives, negatives = curves["positives"], curves["negatives"]
        bound = 20.0  # the noise's standard deviation is 1 or 2 for a block, and there are six at the top
        assert abs(negatives[0] - LIGHT) < bound and abs(positives[1] - 4) < bound

    rows = [f"c{k},{'ab'[k % 2]},0.5" for k in range(10)]
    (here / "values.csv").write_text("\n".join(["client_id,group,value", *rows]) + "\n")
    ranged = ("--groups", "a,b", "--range", "0,1", "--steps", "10")
    succeed("gap", "--records", "values.csv", *ranged, *common, "--out", "gap", cwd=here)
    plan = plan_noise(sums_and_sizes(2, 10), Neighbors(NeighboringRelation.ZERO_OUT_ONE), Fraction(20), DELTA)
    privacy = read(here / "gap" / "manifest.json")["privacy"]
    assert privacy["epsilon_exact"] == str(plan.exact.epsilon) and plan.changed == 20
    assert (privacy["privacy_unit"], privacy["cap"], privacy["cap_kept_by"]) == ("client", 1, ENFORCED)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("weights", *CLIENT, *DECLARED), "--privacy-unit client needs to know how much of a client counts"),
        (("weights", "--epsilon", "1", *DECLARED, "--cap", "3"), "say --privacy-unit client"),
        (
            ("weights", *CLIENT, *DECLARED, "--cap", "101", "--max-count", "100"),
            "A cap of 101 is above the 100 records that a client has at most",
        ),
        (
            ("weights", *CLIENT, "--domain", "large-cap.json"),
            "A cap of 101 is above the 100 records that a client has at most",
        ),
        (
            ("weights", "--epsilon", "1", *DECLARED, "--neighboring-relation", "zero_out_one"),
            "say --privacy-unit client",
        ),
        (
            ("weights", *CLIENT, *DECLARED, "--cap", "3", "--neighboring-relation", "replace_one"),
            "--privacy-unit client is under zero_out_one, not replace_one",
        ),
        (
            ("weights", *CLIENT, *DECLARED, "--cap", "3", "--input-form", "product"),
            "Input form product keeps no client to a cap",
        ),
        (
            ("weights", "--epsilon", "1", *DECLARED, "--input-form", "slots"),
            "The input form slots needs a cap",
        ),
        (("weights", *CLIENT, "--domain", "domain.json", "--cap", "3"), "The domain file says how much"),
        (("weights", *CLIENT, *DECLARED, "--cap", "ten"), "--cap must be how many records"),
        (
            ("confusion", *CLIENT, *DECLARED, *PREDICTED),
            "--privacy-unit client needs to know how much of a client counts",
        ),
        (("confusion", *CLIENT, *DECLARED, "--cap", "3"), "has no column prediction"),
        (("confusion", "--epsilon", "1", *DECLARED, *PREDICTED, "--cap", "3"), "say --privacy-unit client"),
        (
            ("confusion", *CLIENT, *DECLARED, *PREDICTED, "--cap", "3", "--input-form", "product"),
            "Input form product keeps no client to a cap",
        ),
    ],
)
def test_what_does_not_go_together_is_refused(options: tuple[str, ...], message: str, here: Path) -> None:
    own = ("--records", "mine.csv", "--security", "mpyc", "--out", "results")
    assert message in refused(*options, *own, cwd=here)
