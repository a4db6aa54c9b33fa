"""What a record that is its client's only one takes: the relation of its population, else `replace_one`."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import fairshares as fs
from fairshares.harness.errors import BudgetError, OptionError, PopulationError, StockError
from fairshares.harness.inputs.record_schema import DEFAULT_MAX_COUNT, RecordDomain
from fairshares.harness.pipeline.relations import new_default, under_kept_relation
from fairshares.harness.privacy.ledger.charge import Account
from fairshares.harness.privacy.ledger.entries import Ledger
from fairshares.harness.releases.weights.request import WeightsRequest
from fairshares.harness.request.request import Protect
from fairshares.protocols.accounting.calibration import NeighboringRelation, PrivacyUnit
from tests.support.command import call, refused, succeed
from tests.support.plans import plan_of
from tests.support.running import QUICKEST

ADD = NeighboringRelation.ADD_OR_REMOVE_ONE
REPLACE = NeighboringRelation.REPLACE_ONE
OF_1_0 = Path(__file__).parents[2] / "golden" / "1.0" / "ledger.sql"
ROWS = 200
ONE_EACH = pd.DataFrame(
    {
        "group": ["a", "b"] * (ROWS // 2),
        "label": [0] * (ROWS // 2) + [1] * (ROWS // 2),
        "prediction": [0, 1] * (ROWS // 2),
        "score": np.arange(ROWS) / ROWS,
        "value": np.arange(ROWS) / ROWS,
        "x": np.arange(ROWS) / ROWS,
    }
)
SEVERAL = ONE_EACH.assign(client_id=np.arange(ROWS) // 4)  # clients of four records
FIRST_OF_EACH = ONE_EACH.assign(client_id=np.arange(ROWS))
CALLS: dict[str, dict[str, Any]] = {
    "weights": {},
    "confusion": {},
    "thresholds": {"thresholds": 4},
    "count": {"relative_error": 0.5, "error_from": 1000, "error_to": 2000},
    "gap": {"groups": ["a", "b"], "range": (0, 1)},
    "train": {"features": {"x": {"low": 0, "high": 1}}, "rounds": 2},
}
CHANGED = "ε holds for what each record says (replace_one), at about twice the noise; version 1.0 hid only"


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "ledger.sqlite"
    monkeypatch.setenv("FAIRSHARES_LEDGER", str(path))
    ONE_EACH.to_csv(tmp_path / "one.csv", index=False)
    SEVERAL.to_csv(tmp_path / "several.csv", index=False)
    return path


@pytest.fixture
def of_1_0(ledger: Path) -> Path:
    """A ledger of version 1.0, in which the population clinics is under `add_or_remove_one`."""
    with closing(sqlite3.connect(ledger)) as connection:
        connection.executescript(OF_1_0.read_text())
    return ledger


def released(task: str, records: pd.DataFrame, **more: Any) -> Any:
    return getattr(fs, task)(records, **{"epsilon": 1, "security": QUICKEST, **CALLS[task], **more})


def relations(ledger: Path, population: str) -> list[NeighboringRelation]:
    (found,) = Ledger(ledger).populations(population)
    return [charge.relation for charge in found.charges]


def test_a_request_takes_its_population_s_relation_unless_it_has_one(of_1_0: Path) -> None:
    """Which the new default then does not change, and of which nothing is said."""
    domain = RecordDomain(("a", "b"), ("0", "1"), max_count=1)
    asked = WeightsRequest(epsilon=1, security=QUICKEST)
    clinics = Account(Ledger(of_1_0), "clinics")
    kept = under_kept_relation(asked, domain, clinics)
    assert kept.protect.neighboring_relation is ADD and new_default(kept, domain, DEFAULT_MAX_COUNT) == ""
    nobody = under_kept_relation(asked, domain, Account(Ledger(of_1_0)))
    assert nobody is asked and new_default(nobody, domain, DEFAULT_MAX_COUNT).startswith(CHANGED)
    assert new_default(nobody, domain, 1) == ""  # declared, and so in 1.0, too
    for request in (
        asked.but(Protect.neighboring_relation, REPLACE),
        asked.but(Protect.privacy_unit, PrivacyUnit.CLIENT),
    ):
        assert under_kept_relation(request, domain, clinics) is request


@pytest.mark.parametrize("task", CALLS)
def test_rows_of_their_own_are_protected_in_what_they_say(task: str, ledger: Path) -> None:
    """With the noise for two changed values, and one line on it; as in 1.0 where another is chosen."""
    found = released(task, ONE_EACH, out=ledger.parent / "out")
    assert found.privacy.relation == REPLACE
    assert found.manifest["inputs"]["max_count"] == 1
    assert "if_replaced" not in found.manifest["privacy"]
    said = " ".join(str(found).split())
    assert (CHANGED in said) == (task != "gap")  # which hid what a client says in 1.0, too
    chosen = released(task, ONE_EACH, neighboring_relation=ADD)
    assert chosen.privacy.relation == ADD and CHANGED not in " ".join(str(chosen).split())
    if task != "gap":
        again = released(task, SEVERAL)
        assert again.privacy.relation == ADD and CHANGED not in " ".join(str(again).split())


def test_the_noise_is_that_of_half_the_epsilon(ledger: Path) -> None:
    """A replaced record changes two counts, each of which has half of ε and δ."""
    ours = released("weights", ONE_EACH).manifest["privacy"]
    half = released("weights", SEVERAL, epsilon=0.5, delta="2^-41").manifest["privacy"]
    assert ours["epsilon_exact"] == half["if_replaced"]["epsilon"] and ours["epsilon"] <= 1
    assert ours["delta_exact"] == half["if_replaced"]["delta"]


def test_a_population_keeps_the_relation_of_its_first_charge(ledger: Path) -> None:
    """Whichever that is; another one that is chosen is refused before anything runs."""
    first = released("weights", ONE_EACH, population="loans")
    assert f"{CHANGED} whether a record exists: neighboring_relation=" in " ".join(str(first).split())
    second = released("weights", SEVERAL, population="loans")
    assert second.privacy.relation == REPLACE and CHANGED not in " ".join(str(second).split())
    assert CHANGED not in " ".join(str(released("confusion", ONE_EACH, population="loans")).split())
    released("gap", ONE_EACH, population="loans")
    assert relations(ledger, "loans") == [REPLACE] * 4
    with pytest.raises(
        PopulationError, match=r"under replace_one, this run would be per record under add_or"
    ):
        released("weights", ONE_EACH, population="loans", neighboring_relation=ADD)
    released("weights", SEVERAL, population="shops")
    for task in ("weights", "gap", "train"):
        assert CHANGED not in " ".join(str(released(task, ONE_EACH, population="shops")).split())
    assert relations(ledger, "shops") == [ADD] * 4
    assert relations(ledger, "loans") == [REPLACE] * 4
    with pytest.raises(PopulationError, match="per record under replace_one, this run would be per client"):
        released("weights", SEVERAL, population="loans", privacy_unit="client", cap=1)


@pytest.mark.parametrize("task", ["weights", "thresholds", "train"])
def test_a_population_of_1_0_goes_on_as_it_began(task: str, of_1_0: Path) -> None:
    found = released(task, ONE_EACH, population="clinics")
    assert found.privacy.relation == ADD and CHANGED not in " ".join(str(found).split())
    assert relations(of_1_0, "clinics") == [ADD] * 5
    with pytest.raises(PopulationError, match=r"under add_or_remove_one, this run would be .* replace_one"):
        released(task, ONE_EACH, population="clinics", neighboring_relation=REPLACE)
    assert relations(of_1_0, "clinics") == [ADD] * 5


def test_a_form_that_shows_how_many_records_there_are_has_no_other_relation(of_1_0: Path) -> None:
    """So a population that hides whether one exists refuses it, as in 1.0."""
    with pytest.raises(PopulationError, match="the two do not add up"):
        released("thresholds", SEVERAL, population="clinics", variant="records")
    found = released("thresholds", SEVERAL, variant="records", population="none")
    assert found.privacy.relation == REPLACE and CHANGED not in str(found)


def test_a_declared_maximum_counts(ledger: Path) -> None:
    """One record of each was protected in what it says in 1.0, too, but by `train`."""
    one = released("weights", FIRST_OF_EACH, max_count=1)
    assert one.privacy.relation == REPLACE and CHANGED not in " ".join(str(one).split())
    several = released("weights", ONE_EACH, max_count=5)
    assert several.privacy.relation == ADD and several.manifest["inputs"]["max_count"] == 5
    trained = released("train", FIRST_OF_EACH, max_count=1)
    assert trained.privacy.relation == REPLACE and CHANGED in " ".join(str(trained).split())


def test_clients_are_zeroed_out_as_before(ledger: Path) -> None:
    found = released("weights", SEVERAL, privacy_unit="client", cap=2, population="shops")
    assert found.privacy.relation == "zero_out_one"
    assert Account(Ledger(ledger), "shops").kept_relation(PrivacyUnit.RECORD) is None
    with pytest.raises(PopulationError, match="accounted for per client under zero_out_one"):
        released("weights", SEVERAL, population="shops")
    with pytest.raises(OptionError, match="Without a column client_id each record is a client of its own"):
        released("weights", ONE_EACH, privacy_unit="client", cap=2)


def test_everything_of_a_training_is_in_one_population(ledger: Path) -> None:
    """Its weights, rounds and thresholds; releases before and after; and a session of sums."""
    released("weights", ONE_EACH, population="loans")
    both = {"with_": ["weights", "thresholds"], "epsilon": 9, "population": "loans"}
    trained = released("train", ONE_EACH, **both)
    privacy = [trained.privacy, trained.weights.privacy, trained.thresholds.privacy]
    assert {stated.relation for stated in privacy} == {str(REPLACE)}
    released("thresholds", ONE_EACH, population="loans")
    told: dict[str, Any] = {"clients": 9, "coordinates": 2, "rounds": 1, "clip": 1, "epsilon": 1}
    with fs.SumSession(QUICKEST, **told, unit="record", population="loans") as session:
        session.add(np.zeros((9, 2)))
    assert relations(ledger, "loans") == [REPLACE] * 4
    alone = fs.SumSession(QUICKEST, **told, unit="record")
    assert session.rule.squares == pytest.approx(4 * alone.rule.squares, rel=1e-3)


def test_a_session_s_calls_share_one_relation(ledger: Path) -> None:
    of_all: dict[str, Any] = {"population": "loans", "security": QUICKEST}
    session = fs.Session(ONE_EACH, **of_all)
    assert session.weights(epsilon=1).privacy.relation == REPLACE
    assert session.confusion(epsilon=1).privacy.relation == REPLACE
    with pytest.raises(PopulationError, match="do not add up"):
        session.weights(epsilon=1, neighboring_relation="add_or_remove_one")
    assert relations(ledger, "loans") == [REPLACE] * 2


def test_commands_say_it_once_for_a_population(ledger: Path) -> None:
    """Before the run, on stderr; a plan, and noise made ahead, are those of the run."""
    asked = ("weights", "--records", "one.csv", "--epsilon", "1", "--security", QUICKEST)
    charged = (*asked, "--population", "loans")
    first = call(*charged, "--out", "first", cwd=ledger.parent)
    flag = "--neighboring-relation add_or_remove_one"
    assert first.returncode == 0 and f"{CHANGED} whether a record exists: {flag}." in first.stderr
    assert "one record replaced" in first.stdout and CHANGED not in first.stdout
    second = call(*charged, "--out", "second", cwd=ledger.parent)
    assert second.returncode == 0 and CHANGED not in second.stderr
    wrong = refused(*charged, *flag.split(), cwd=ledger.parent)
    assert "the two do not add up. Choose the former by --neighboring-relation replace_one." in wrong
    assert relations(ledger, "loans") == [REPLACE] * 2
    trained = ("train", "--records", "one.csv", "--features", "features.json", "--epsilon", "9")
    (ledger.parent / "features.json").write_text('{"x": {"low": 0, "high": 1}}')
    done = call(*trained, "--rounds", "2", "--security", QUICKEST, "--population", "new", cwd=ledger.parent)
    assert done.returncode == 0 and CHANGED in done.stderr


@pytest.mark.parametrize(
    ("records", "task", "relation"),
    [
        ("one.csv", "weights", REPLACE),
        ("several.csv", "weights", ADD),
        ("one.csv", "thresholds", REPLACE),
        ("each.csv", "gap", REPLACE),
    ],
)
def test_a_plan_is_that_of_the_run(
    records: str, task: str, relation: NeighboringRelation, of_1_0: Path
) -> None:
    """Of a file's records, in a new population and in one of 1.0."""
    FIRST_OF_EACH.to_csv(of_1_0.parent / "each.csv", index=False)
    asked = (task, "--records", records, "--epsilon", "8", "--security", QUICKEST, "--json")
    of_run = ("--groups", "a,b", "--range", "0,1") if task == "gap" else ()
    for population, expected in (("new", relation), ("clinics", ADD)):
        there = (*asked, "--population", population)
        (planned,) = json.loads(succeed(*there, "--plan", "file", cwd=of_1_0.parent))["releases"]
        budget = ("--budget", "9") if population == "new" else ()
        ran = json.loads(succeed(*there, *of_run, *budget, "--out", population, cwd=of_1_0.parent))
        assert planned["privacy"]["neighboring_relation"] == expected
        assert ran["privacy"]["neighboring_relation"] == expected
        assert planned["privacy"]["epsilon"] == ran["privacy"]["epsilon"]


def test_a_plan_of_clients_with_one_record_each_is_that_of_such_records(ledger: Path) -> None:
    """As many records as clients are no statement that each has one."""

    def relation(**sizes: Any) -> NeighboringRelation:
        (release,) = plan_of(epsilon="1", groups="2", security=QUICKEST, **sizes).releases
        return release.asked.prepared.plan.relation

    assert relation(clients="200") == REPLACE
    assert relation(clients="200", records="200") == relation(clients="200", records="900") == ADD
    assert relation(clients="200", max_count="3") == relation(clients="200", neighboring_relation=ADD) == ADD
    assert relation(clients="200", privacy_unit="client", cap="2") == "zero_out_one"


NOISE: dict[str, Any] = {"epsilon": 1, "security": QUICKEST, "groups": ["a", "b"], "labels": [0, 1]}


def test_noise_of_the_other_relation_is_refused_before_a_charge(ledger: Path) -> None:
    """And the refusal says both ways out, or the one that there is in a population with runs."""
    offline = {"groups": ["a", "b"], "labels": [0, 1], "offline": True}
    fs.preprocess("weights", 1, **NOISE)
    with pytest.raises(
        StockError, match=r"under add_or_remove_one, and this run is under replace_one"
    ) as said:
        released("weights", ONE_EACH, population="loans", **offline)
    assert 'noise with neighboring_relation="replace_one"' in str(said.value)
    assert 'or run with neighboring_relation="add_or_remove_one"' in str(said.value)
    assert Ledger(ledger).populations() == []
    fs.preprocess("weights", 1, **NOISE, max_count=1)
    found = released("weights", ONE_EACH, population="loans", **offline)
    assert found.manifest["privacy"]["made_ahead"] and found.privacy.relation == REPLACE
    with pytest.raises(StockError, match="this run is under replace_one") as said:
        released("weights", ONE_EACH, population="loans", **offline)
    assert "or run with" not in str(said.value) and relations(ledger, "loans") == [REPLACE]
    fs.preprocess("weights", 1, **NOISE, population="loans")  # under its relation
    released("weights", ONE_EACH, population="loans", **offline)
    released("weights", SEVERAL, population="shops", **offline)  # the first piece
    with pytest.raises(StockError, match="has no noise for this release"):
        released("weights", SEVERAL, population="shops", **offline)


def test_a_training_s_noise_of_the_other_relation_is_refused_before_a_charge(ledger: Path) -> None:
    asked: dict[str, Any] = {**CALLS["train"], **NOISE}
    fs.preprocess("train", 1, **asked)
    with pytest.raises(StockError, match=r"under add_or_remove_one, and this run is under replace_one"):
        fs.train(ONE_EACH, **asked, offline=True, population="loans")
    assert Ledger(ledger).populations() == []
    fs.preprocess("train", 1, **asked, max_count=1)
    found = fs.train(ONE_EACH, **asked, offline=True, population="loans")
    assert found.manifest["privacy"]["made_ahead"] and relations(ledger, "loans") == [REPLACE]


def test_a_budget_that_one_relation_exceeds_is_refused_when_records_are_read(
    ledger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At ε = 0.9 the noise of replaced records spends 0.8972, and that of others 0.89995."""
    assert (
        released("weights", ONE_EACH, epsilon=0.9, population="loans", budget=0.8985).privacy.epsilon < 0.8985
    )
    with pytest.raises(BudgetError, match=r"this run needs ε = 0\.9"):
        released("weights", SEVERAL, epsilon=0.9, population="shops", budget=0.8985)
    monkeypatch.setattr("fairshares.harness.request.releases.ReleaseCall.read", None)  # not a record is read
    with pytest.raises(BudgetError):
        released("weights", ONE_EACH, population="people", budget=0.5)
