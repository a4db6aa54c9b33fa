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
)
from protocols.noise.truncated import error_bound
from protocols.spec import ENFORCED, HONEST, PI_ROC_RECORDS
from tests.support.command import call, read_json, refused, succeed
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


@pytest.mark.parametrize("model", model_parameters(models=[RING]))
def test_uploads_of_a_wrong_length_are_out_at_every_party(model: SecurityModel, here: Path) -> None:
    """Clients share, one sends party 1 less than the others; parties list, agree, aggregate; then the run."""
    header, *rows = (here / "mine.csv").read_text().splitlines()
    for name, own in (("light", rows[:LIGHT]), ("heavy", rows[LIGHT:])):
        before = {*(here / "shares").glob("party-1/*")}
        (here / f"{name}.csv").write_text("\n".join([header, *own]) + "\n")
        succeed("share", "--records", f"{name}.csv", "--domain", "domain.json", "--out", "shares", cwd=here)
    (bad,) = {*(here / "shares").glob("party-1/*")} - before
    bad.write_bytes(bad.read_bytes()[:-1])
    left_out = "Uploads left out, by all parties alike: 1 longer or shorter than it says, says party 1 alone."
    run = ("weights", *CLIENT, "--security", model.name)
    judged = ("--shares", "shares", "--domain", "domain.json", "--clients-per-upload", str(LIGHT))
    assert left_out in succeed(*run, *judged, "--out", "at-once", cwd=here)
    for i in range(model.parties):
        said = succeed("uploads", "--party", str(i), *judged, "--out", f"lists/party-{i}.uploads", cwd=here)
        assert ("Others: 1 longer or shorter than it says." in said) == (i == 1)
    for i in range(model.parties):
        agreed = ("--uploads", "lists", "--out", f"all/party-{i}.aggregate")
        assert left_out in succeed("aggregate", "--party", str(i), "--shares", "shares", *agreed, cwd=here)
    again = (*run, "--shares", "all", "--out", "in-steps")
    assert "--population" in refused(*again, cwd=here)  # the same uploads, once more
    succeed(*again, "--population", "p", cwd=here)
    for out, excluded in (("at-once", 1), ("in-steps", 0)):
        check_counts(here / out, [[LIGHT, 0], [0, 0]], 10)
        inputs = read_json(here / out / "manifest.json")["inputs"]
        assert inputs["clients"] == LIGHT and inputs.get("excluded_uploads", 0) == excluded


@pytest.mark.parametrize("model", model_parameters(models=[RING]))
def test_curves_of_clients(model: SecurityModel, here: Path) -> None:
    common = (*CLIENT, *DECLARED, "--security", model.name, "--cap", "4")
    for variant, kept in (("records", ENFORCED), ("histogram", HONEST)):
        scored = ("thresholds", "--records", "mine.csv", *common, "--variant", variant, "--out", variant)
        call(*scored, cwd=here)  # may be too noisy for thresholds
        manifest, curves = (read_json(here / variant / name) for name in ("manifest.json", "curves.json"))
        privacy = manifest["privacy"]
        assert privacy["privacy_unit"] == "client" and privacy["cap_kept_by"] == kept
        assert "records" not in manifest["inputs"]  # 100 of them would show
        assert not any("number of records" in said for said in privacy["public"])
        blocks = ".".join(map(str, curves["blocks"]))
        assert PI_ROC_RECORDS.release is not None
        release = PI_ROC_RECORDS.release({"groups": "2", "labels": "2", "bins": "1001", "blocks": blocks})
        plan = plan_noise(release, Neighbors(NeighboringRelation.ZERO_OUT_ONE, 4), Fraction(20), DELTA)
        assert (
            plan.changed == 4 * len(curves["blocks"]) and str(plan.exact.epsilon) == privacy["epsilon_exact"]
        )
        bound = 20.0  # the noise's standard deviation is 1 or 2 for a block, and there are six at the top
        assert abs(curves["negatives"][0] - LIGHT) < bound and abs(curves["positives"][1] - 4) < bound
