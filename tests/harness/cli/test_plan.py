"""`plan`: its options, what it refuses, what it prints and says as JSON; no party is started."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from fairshares.harness.errors import FairSharesError, OptionError
from fairshares.harness.security_models import MODELS
from fairshares.protocols.accounting.rounding import digits_up, float_up
from tests.support.plans import plan_of, show_plan

pytestmark = pytest.mark.usefixtures("in_shell")

GIVEN: dict[str, Any] = {
    "task": "weights",
    "clients": "109",
    "records": "26160",
    "groups": "2",
    "epsilon": "1",
    "delta": "2^-40",
    "privacy_unit": "record",
    "network": "none",
    "json": False,
}


UNMEASURED = {"shamir", "malicious-shamir"}  # models without unit costs on file


def with_costs(plan: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the models of a plan, but for those that only lack unit costs on file, and say so."""
    lacking = [
        model["security"]
        for model in plan["models"]
        if f"No unit costs of {model['security']} are on file" in (model["reason"] or "")
    ]
    assert set(lacking) <= UNMEASURED
    for model in plan["models"]:
        if model["security"] in UNMEASURED:
            assert model["mpc_s"] is None
    return [model for model in plan["models"] if model["security"] not in lacking]


def planned(capsys: pytest.CaptureFixture[str], **options: Any) -> dict[str, Any]:
    show_plan(**{**GIVEN, **options, "json": True})
    plan: dict[str, Any] = json.loads(capsys.readouterr().out)
    return plan


def only(plan: dict[str, Any]) -> dict[str, Any]:
    """Return the release of a plan in which all models' noise is the same."""
    (release,) = plan["releases"]
    assert release["models"] == [model["security"] for model in plan["models"]]
    return dict(release)


def test_a_file_s_own_sizes_say_whether_its_smallest_group_survives(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [(f"c{i % 40}", "b, c" if i < 12 else "a", "01"[i % 2]) for i in range(2000)]
    path = tmp_path / "records.csv"
    path.write_text("client_id,group,label\n" + "".join(f'{c},"{g}",{y}\n' for c, g, y in rows))
    texts = {"from_records": str(path), "epsilon": "1", "security": "mpyc", "reweighing": "balanced"}
    show_plan(**texts, json=True)
    plan = json.loads(capsys.readouterr().out)
    assert plan["from_records"] is True and (plan["clients"], plan["records"]) == (40, 2000)
    # A balanced weight of a cell with few records is off by the noise over its records, to first order.
    errors = only(plan)["errors"]
    assert errors["rmse"]["b, c, 0"] == pytest.approx(errors["count_rmse"] / 6, rel=0.02)
    assert errors["rmse"]["a, 0"] == pytest.approx(errors["count_rmse"] / 994, rel=0.2)

    show_plan(**texts)
    assert "they are for the owner of its records only" in " ".join(capsys.readouterr().out.split())
    show_plan(**texts, privacy_unit="client", cap="5", json=True)  # a tenth of 50 each
    capped = only(json.loads(capsys.readouterr().out))["errors"]
    assert capped["rmse"]["b, c, 0"] == pytest.approx(capped["count_rmse"] / 0.6, rel=0.02)


@pytest.mark.parametrize("release", [{}, {"task": "gap", "steps": "5", "records": ""}])
def test_a_plan_states_both_guarantees_of_whether_a_record_exists(
    release: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """The same as a run of this noise states. A replaced record has one guarantee, and so has a client."""
    options = {**GIVEN, **release, "security": "mpyc", "neighboring_relation": "add_or_remove_one"}
    show_plan(**options)
    noise = plan_of(**{name: text for name, text in options.items() if name != "json"}).releases[0]
    replaced = noise.asked.prepared.plan.if_replaced
    both = f"; for what it says, ε = {digits_up(replaced.epsilon, 4)} and δ = {digits_up(replaced.delta, 4)}"
    assert f"one record added or removed{both}" in " ".join(capsys.readouterr().out.split())
    stated = only(planned(capsys, **options))["privacy"]["if_replaced"]
    assert (stated["epsilon"], stated["delta"]) == (float_up(replaced.epsilon), float_up(replaced.delta))
    options["neighboring_relation"] = "replace_one"
    assert "if_replaced" not in only(planned(capsys, **options))["privacy"]
    show_plan(**options)
    assert "for what it says" not in " ".join(capsys.readouterr().out.split())


def test_json_has_errors_needs_and_a_cost_for_each_model(capsys: pytest.CaptureFixture[str]) -> None:
    plan = planned(capsys)
    assert [model["security"] for model in plan["models"]] == list(MODELS)
    assert all(model["mpc_s"] > 0 and model["sent_bytes"] > 0 for model in with_costs(plan))
    release = only(plan)
    assert release["privacy"]["neighboring_relation"] == "add_or_remove_one"
    assert float(release["privacy"]["epsilon"]) <= 1
    # Noise of mean square 2.13 on even counts of 6,540: see test_plan_errors for the weights' formula.
    assert release["errors"]["count_rmse"] == pytest.approx(1.46, abs=0.01)
    assert release["errors"]["rmse"]["group 1, label 1"] == pytest.approx(1.46 / 2 / 6540, rel=0.01)
    assert release["needed"]["records"] == pytest.approx(1.46 / 2 * 4 / 0.01, rel=0.01)


OF_CAP: dict[str, str] = {"task": "cap", "records": "", "clients": "5000", "release_epsilon": "1"}


def test_a_cap_is_planned_by_what_is_known_before_it_is_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    plan = planned(capsys, **OF_CAP, max_count="10")
    assert (plan["protocol"], plan["input_form"], plan["records"]) == ("pi_cap", "slots", None)
    assert all(model["mpc_s"] > 0 and model["sent_bytes"] > 0 for model in with_costs(plan))
    passive, active = plan["releases"]
    assert active["models"] == ["spdz2k", "ps-rep-ring", "rep4-ring", "malicious-shamir"]
    assert passive["needed"] is None
    # Weights of 4 counts aim at 8 · 4 / ε clients above the cap; ε is half as much for exchanged records.
    assert [planned_release["errors"]["allowed_above"] for planned_release in (passive, active)] == [31, 63]
    assert passive["errors"]["caps"] == [1, 2, 3, 4, 6, 8, 10]
    assert passive["privacy"]["privacy_unit"] == "client" and passive["privacy"]["epsilon"] <= 1
    # A comparison has two noises of ε / 2 each: beyond t clients with probability (1 + ε t / 4) e^(-ε t / 2).
    assert passive["errors"]["noise"] == pytest.approx(8.2, abs=1)
    sums = planned(capsys, **{**OF_CAP, "release": "counts", "counts": "1", "release_epsilon": "0.1"})
    assert sums["releases"][0]["errors"]["allowed_above"] == 9  # 1 / ε - 1, as the paper has it


def test_counts_are_planned_with_the_error_and_the_privacy_of_each(
    capsys: pytest.CaptureFixture[str],
) -> None:
    options = {"task": "count", "groups": "a:0.99,b:0.01", "records": "20000", "error_to": "10000"}
    release = only(planned(capsys, **options))
    errors = release["errors"]
    assert (errors["relative_error"], errors["error_from"], errors["error_to"]) == (0.1, 100, 10_000)
    assert [cell["records"] for cell in errors["privacy"].values()] == [9900, 9900, 100, 100]
    assert all(0 < error <= 0.1 for error in errors["mean"].values())
    large, small = (errors["privacy"][f"{group}, label 1"]["epsilon"] for group in "ab")
    assert large < small / 20  # who has 99 times as many gives less away
    assert small < release["privacy"]["epsilon"] <= 1


@pytest.mark.parametrize(
    ("release", "said"),
    [
        ({"reweighing": "balanced"}, "Count of a group and label: off by"),
        (OF_CAP, "The least of 1, 2, 3, 4, 6, 8, 10 that, by noisy counts, 31 clients or fewer exceed."),
        ({"task": "count", "records": "20000"}, "has a mean relative error of at most 10 %"),
    ],
)
def test_each_release_shows_its_own_kind_of_expected_errors(
    release: dict[str, str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    show_plan(**{**GIVEN, **release, "max_count": "10", "security": "mpyc"})
    assert said in " ".join(capsys.readouterr().out.split())


AUTO: dict[str, str] = {"privacy_unit": "client", "cap": "auto", "clients": "10000", "records": "100000"}


def test_a_chosen_cap_costs_two_releases_that_share_epsilon(capsys: pytest.CaptureFixture[str]) -> None:
    plan = planned(capsys, **AUTO)
    requested = [
        (planned_release["task"], planned_release["privacy"]["epsilon_requested"])
        for planned_release in plan["releases"]
    ]
    assert requested == [*[("cap", "1/5")] * 2, *[("weights", "4/5")] * 2]
    assert plan["cap"] == 11 and plan["cap_is_expected"]  # the least of the grid that 10 records fit
    # A fifth of 2^-40 is 1 in 5 · 2^40, the rest 1 in 5/4 · 2^40: each release is as it would be by itself.
    of_cap = {**OF_CAP, "clients": "10000", "epsilon": "1/5", "release_epsilon": "4/5"}
    cap = planned(capsys, **of_cap, delta=f"1/{5 * 2**40}")
    rest = planned(capsys, **{**AUTO, "cap": "11", "epsilon": "4/5", "delta": f"1/{5 * 2**38}"})
    assert plan["releases"] == [*cap["releases"], *rest["releases"]]
    for both, first, second in zip(*map(with_costs, (plan, cap, rest)), strict=True):
        for name in ("mpc_s", "sent_bytes"):
            assert [both["runs"][task][name] for task in ("cap", "weights")] == [first[name], second[name]]
            assert both[name] == pytest.approx(first[name] + second[name], abs=1)


BY_CLIENT: dict[str, Any] = {"privacy_unit": "client", "clients": "10000", "records": "100000"}


@pytest.mark.parametrize(
    ("options", "protocol", "form"),
    [
        ({}, "pi_rw_slots", "slots"),
        ({"input_form": "split"}, "pi_rw", "split"),
        ({"task": "thresholds", "thresholds": "5"}, "pi_roc", "split"),
        ({"task": "thresholds", "thresholds": "5", "variant": "records"}, "pi_roc_records", "keys"),
        ({"task": "gap", "records": "", "cap": "", "steps": "5"}, "pi_gap_slots", "slots"),
        ({"task": "confusion"}, "pi_cf_slots", "slots"),
    ],
)
def test_clients_can_be_the_unit(
    options: dict[str, str], protocol: str, form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = planned(capsys, **{**BY_CLIENT, "cap": "10", **options})
    assert (plan["protocol"], plan["input_form"]) == (protocol, form)
    assert plan["cap"] == (1 if "cap" in options else 10)
    for release in plan["releases"]:
        assert release["privacy"]["neighboring_relation"] == "zero_out_one"
        assert release["privacy"]["privacy_unit"] == "client" and "clients" in release["needed"]
    # Where a party can move what is in a slot, noise is for exchanged records: twice as large.
    by_model = {model: release for release in plan["releases"] for model in release["models"]}
    assert set(by_model) == set(MODELS)
    times = 1 if form == "split" else 2
    errors = [by_model[model]["errors"]["count_rmse"] for model in ("ring", "rep4-ring")]
    assert errors[1] / errors[0] == pytest.approx(times, rel=0.05)
    refused = {row["security"] for row in with_costs(plan) if row["mpc_s"] is None}
    assert refused == ({"mpyc", "malicious-shamir"} if form == "keys" else set())


def test_a_plan_of_curves_says_which_noise_is_best_at_this_delta(capsys: pytest.CaptureFixture[str]) -> None:
    """Where records are replaced, what is not built would be best at a large delta alone."""
    given = {"task": "thresholds", "neighboring_relation": "replace_one"}
    errors = {}
    for delta in ("1e-9", "1e-5"):
        release = planned(capsys, **given, delta=delta, security="ring")["releases"][0]
        errors[delta] = release["count_rmse_by_noise"]
        assert release["errors"]["count_rmse"] == min(list(errors[delta].values())[:-1])
    assert [name.partition(",")[0] for name in errors["1e-9"]] == [
        *("joint", "distributed", "distributed-gaussian", "square-root factorization")
    ]
    joint, _, _, root = errors["1e-9"].values()
    assert root > joint
    joint, _, _, root = errors["1e-5"].values()
    assert joint / root == pytest.approx(1.06, abs=0.01)
    show_plan(**{**GIVEN, **given, "security": "ring"})
    assert "Best noise at this δ: joint, blocks of" in " ".join(capsys.readouterr().out.split())
    assert "count_rmse_by_noise" not in only(planned(capsys, security="ring"))


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"clients": "-3"}, "--clients"),
        ({"clients": ""}, "--clients is missing"),
        ({"records": "0"}, "--records"),
        ({"records": "many"}, "--records"),
        ({"groups": "1"}, "--groups"),
        ({"labels": "a:0.5,b:0.6"}, "--labels"),
        ({"epsilon": "21"}, "--epsilon"),
        ({"epsilon": "1e-9"}, "No noise fits"),
        ({"delta": "1"}, "--delta"),
        ({"security": "ringg"}, "no model 'ringg'"),
        ({"network": "fast"}, "--network"),
        ({"task": "thresholds", "variant": "fast"}, "--variant"),
        ({"task": "thresholds", "labels": "3", "variant": "records"}, "--variant histogram"),
        ({"thresholds": "11"}, "--thresholds goes with thresholds or cap, not with weights"),
        ({"task": "gap"}, "neither --labels nor a number of records"),
        ({"input_form": "keys"}, "--input-form"),
        ({"error": "2"}, "--error"),
        ({"privacy_unit": "people"}, "--privacy-unit"),
        ({"privacy_unit": "client"}, "needs to know how much of a client counts"),
        ({"privacy_unit": "client", "cap": "0"}, "--cap"),
        ({"cap": "10"}, "say --privacy-unit client"),
        ({"privacy_unit": "client", "cap": "10", "input_form": "product"}, "keeps no client to a cap"),
        (
            {"privacy_unit": "client", "cap": "10", "input_form": "product", "task": "confusion"},
            "keeps no client to a cap",
        ),
        ({"privacy_unit": "client", "cap": "weight-one", "clients": "20000"}, "--clients times --cap is at"),
        (
            {
                "privacy_unit": "client",
                "cap": "10",
                "clients": "20000",
                "task": "thresholds",
                "variant": "records",
            },
            "at most 100000",
        ),
        ({"units": "nowhere"}, "nowhere"),
        ({**OF_CAP, "records": "9"}, "leave out the number of records and the error"),
        ({**OF_CAP, "release_epsilon": ""}, "--release-epsilon is missing"),
        ({**OF_CAP, "release": "counts"}, "--counts"),
        ({**OF_CAP, "max_count": "1"}, "no cap to choose"),
        ({**OF_CAP, "clients": "2000000"}, "--clients is at most 1000000"),
        ({"task": "count", "error": "0.1"}, "leave error out"),
        ({"task": "count", "error_to": "50"}, "--error-from 100 is above --error-to 50"),
        (
            {"task": "count", "records": "8e6", "error_to": "900"},
            "--error-to 900 is below the 2,000,000 records of",
        ),
        ({"task": "count", "epsilon": "0.01", "error_from": "1", "error_to": "2"}, "cannot be reached"),
        ({"task": "count", "privacy_unit": "client"}, "must be record; got 'client'"),
        ({**AUTO, "privacy_unit": "record"}, "say --privacy-unit client"),
        ({**OF_CAP, "release": "thresholds", "variant": "split"}, "--variant"),
        ({**OF_CAP, "variant": "records"}, "--variant goes with --release thresholds only"),
        ({**AUTO, "cap_epsilon": "1"}, "leaves nothing"),
        ({**AUTO, "cap": "9", "cap_epsilon": "0.1"}, "give both, or neither"),
        ({**AUTO, "max_count": "1"}, "no cap to choose"),
        (
            {**AUTO, "cap_epsilon": "0.99999", "security": "ring"},
            "No noise fits",
        ),  # a cap of 1,000, though it would one of 11
    ],
)
def test_bad_options_end_in_one_sentence(
    options: dict[str, str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(FairSharesError, match=re.escape(named)):
        show_plan(**{**GIVEN, **options})
    assert not capsys.readouterr().out


def test_noise_made_before_is_planned_apart(capsys: pytest.CaptureFixture[str]) -> None:
    """Both together do what joint noise does; what is left for later is an opening."""
    joint, offline = planned(capsys), planned(capsys, offline="True")
    for now, later in zip(with_costs(joint), with_costs(offline), strict=True):
        assert "preprocessing" not in now and later["preprocessing"]["sent_bytes"] > 0.5 * now["sent_bytes"]
        assert later["sent_bytes"] < now["sent_bytes"] and later["mpc_s"] < now["mpc_s"]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"epsilon": "1"}, "symmetric about −½, to which half is added, so revealed values end in .5."),
        ({"epsilon": "3"}, "symmetric about 0, so revealed values are whole."),
        ({"epsilon": "3", "noise_family": "signed"}, "symmetric about −½, to which half is added"),
        ({"epsilon": "3", "noise": "distributed"}, ""),
    ],
)
def test_a_plan_says_where_joint_noise_has_its_center(
    more: dict[str, str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    show_plan(**{**GIVEN, "security": "mpyc", **more})
    text = " ".join(capsys.readouterr().out.split())
    assert f"Joint noise: {said}" in text if said else "Joint noise" not in text


def test_joint_noise_has_at_every_epsilon_less_error_than_distributed_noise(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for epsilon in ("0.1", "1", "1.2", "2", "4", "10"):
        joint = only(planned(capsys, epsilon=epsilon, security="mpyc"))
        distributed = only(planned(capsys, epsilon=epsilon, security="mpyc", noise="distributed"))
        assert joint["errors"]["count_rmse"] < distributed["errors"]["count_rmse"]


def test_a_size_of_another_release_is_refused() -> None:
    with pytest.raises(OptionError, match=r"goes with gap, not with weights"):
        plan_of("weights", clients="100", groups="2", steps="5", epsilon="1")
    with_steps = plan_of("gap", clients="100", groups="2", steps="5", epsilon="1")
    assert with_steps.stages[0].steps == 5
