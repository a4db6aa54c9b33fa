"""A training: one charge for all, of the right size; thresholds from clients that training does not see."""

import json
import math
import shutil
import sqlite3
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from msgspec import UNSET

from fairshares.harness.engines.registry import engine_of
from fairshares.harness.errors import (
    BudgetError,
    OptionError,
    PopulationError,
    RecordsError,
    UnsupportedError,
    UsedNoiseError,
)
from fairshares.harness.inputs.record_schema import RecordDomain
from fairshares.harness.inputs.records import ClientRecords
from fairshares.harness.pipeline.preprocessing import preprocess
from fairshares.harness.pipeline.release import settings_of
from fairshares.harness.privacy.ledger.charge import Account, Entry
from fairshares.harness.privacy.ledger.entries import Ledger
from fairshares.harness.privacy.ledger.populations import Status
from fairshares.harness.privacy.manifest import StatedInputs, given, read_statement
from fairshares.harness.privacy.statement import INFERRED, together
from fairshares.harness.privacy.stock import Piece
from fairshares.harness.request.request import Protect
from fairshares.harness.security_models import get_model
from fairshares.harness.stated_privacy import StatedLoss
from fairshares.harness.system.documents import as_json
from fairshares.harness.training import training_run
from fairshares.harness.training.features import Features, NumberInRange
from fairshares.harness.training.logistic import Descent, LogisticModel, fit
from fairshares.harness.training.request import TrainRequest
from fairshares.harness.training.session_plan import PlannedSums
from fairshares.harness.training.sums import AllowedSums, OpenSums, RevealedSums
from fairshares.harness.training.training_run import (
    ChosenTraining,
    held_out,
    train_on_records,
    train_on_source,
)
from fairshares.protocols.accounting.calibration import NeighboringRelation, PrivacyUnit
from fairshares.protocols.guarantee import Budget, Guarantee
from fairshares.protocols.spec import PI_ROUNDS
from tests.support.running import QUICKEST

CLIENTS, EACH = 40, 3
FEATURES = Features({"x": NumberInRange(0.0, 1.0)})
MODEL = get_model(QUICKEST)
REST = Guarantee(Fraction(7), Fraction(1, 10**5))


def records() -> ClientRecords:
    client = np.repeat(np.arange(CLIENTS), EACH)
    domain = RecordDomain(("a", "b"), ("0", "1"), EACH)
    group, label = client % 2, np.arange(len(client)) % 3 % 2
    return ClientRecords(domain, np.array([f"c{i}" for i in range(CLIENTS)]), client, group, label)


def encoded(of: ClientRecords):
    return (2 * of.label - 1).astype(float)[:, np.newaxis]


@pytest.fixture
def chosen(tmp_path) -> ChosenTraining:
    account = Account(Ledger(tmp_path / "ledger.sqlite"), "people", Budget(Fraction(9), Fraction(1, 1000)))
    texts = {"epsilon": 9, "delta": "1.25e-5", "weights_epsilon": 2, "with_": "weights,thresholds"}
    request = TrainRequest(**texts, records="my.csv", features="features.json", security=QUICKEST)
    relation = NeighboringRelation.ADD_OR_REMOVE_ONE
    return ChosenTraining(
        request,
        account,
        guarantee=REST,
        descent=Descent(2, largest_weight=2.0),
        grid=(0.0, 0.5, 1.0),
        relation=relation,
        weights=settings_of(request.of_release("weights", relation)),
        thresholds=settings_of(request.of_release("thresholds", relation)),
    )


def changed(chosen: ChosenTraining, **fields: Any) -> ChosenTraining:
    return replace(chosen, request=TrainRequest(**{**chosen.request.values(), **fields}))


def nothing(_step: str) -> None:
    pass


def charges(chosen: ChosenTraining):
    (population,) = chosen.account.ledger.populations()
    return population.charges


def test_weights_add_to_the_larger_of_model_and_thresholds_in_one_charge(chosen, tmp_path):
    of = records()
    trained = train_on_records(of, FEATURES, encoded(of), chosen, tmp_path / "out", progress=nothing)
    parts = {name: part.privacy.exact for name, part in trained.manifest.releases.items()}
    assert [*parts] == ["weights", "training", "thresholds"]
    total = trained.manifest.privacy.exact
    for value in ("epsilon", "delta"):
        weights, training, thresholds = (getattr(parts[name], value) for name in parts)
        assert getattr(total, value) == weights + max(training, thresholds)
    assert total.epsilon <= 9 and trained.manifest.privacy.epsilon_requested == 9
    (charge,) = charges(chosen)
    assert (charge.task, charge.exact, charge.status) == ("train", total, Status.DONE)
    assert trained.manifest.inputs == StatedInputs(clients=CLIENTS, in_training=30, max_count=EACH)
    written = json.loads((tmp_path / "out" / "model.json").read_text())
    assert written["privacy"] == as_json(trained.manifest.privacy)
    loaded = LogisticModel.load(tmp_path / "out")
    assert (loaded.parameters == trained.model.parameters).all() and loaded.features == FEATURES
    assert {path.name for path in (tmp_path / "out").rglob("*.json")} == {
        *("manifest.json", "model.json", "weights.json", "curves.json", "thresholds.json")
    } - ({"thresholds.json"} if trained.thresholds and trained.thresholds.found.problem else set())


def test_records_that_are_replaced_are_protected_in_each_part(tmp_path):
    """And a population of such records takes weights before or after, which those of another would not."""
    relation = NeighboringRelation.REPLACE_ONE
    asked = asked_for(Ledger(tmp_path / "ledger.sqlite"))
    request = asked.but(Protect.neighboring_relation, relation).but(
        TrainRequest.with_, ["weights", "thresholds"]
    )
    people = table([0, 0, 1, 1] * 8)
    ours = train_on_source(request, people, FEATURES, tmp_path / "out", nothing)
    assert ours.manifest.privacy.neighboring_relation is relation
    assert ours.manifest.privacy.if_replaced is UNSET
    parts = ours.manifest.releases
    assert [*parts] == ["weights", "training", "thresholds"]
    assert {part.privacy.neighboring_relation for part in parts.values()} == {relation}
    account = Account(Ledger(tmp_path / "ledger.sqlite"), "people")
    assert [charge.relation for charge in account.ledger.populations()[0].charges] == [relation]
    added = request.but(Protect.neighboring_relation, NeighboringRelation.ADD_OR_REMOVE_ONE)
    with pytest.raises(PopulationError, match="the two do not add up"):
        train_on_source(added, people, FEATURES, tmp_path / "another", nothing)
    others = added.but(TrainRequest.population, "others")
    theirs = train_on_source(others, people, FEATURES, tmp_path / "another", nothing)
    stated = theirs.manifest.privacy
    assert isinstance(stated.if_replaced, StatedLoss)
    assert stated.if_replaced.epsilon == 2 * stated.epsilon_exact


def test_the_noise_is_twice_as_large_where_records_are_replaced(chosen):
    of = records()
    (added, replaced) = (
        training_run.plan_sums(replace(chosen, relation=relation), of.domain, FEATURES, None, CLIENTS)
        for relation in (NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_ONE)
    )
    assert replaced.plan.exact.within(chosen.guarantee) and added.plan.exact.within(chosen.guarantee)
    errors = [plan.rule.clip / plan.rule.units / math.sqrt(plan.plan.loss.rho) for plan in (added, replaced)]
    norms = [
        math.sqrt(plan.rule.squares) * error for plan, error in zip((added, replaced), errors, strict=True)
    ]
    assert norms[1] == pytest.approx(2 * norms[0], rel=0.1)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (
            {"privacy_unit": PrivacyUnit.CLIENT, "neighboring_relation": NeighboringRelation.REPLACE_ONE},
            "is under zero_out_one, not replace",
        ),
        ({"neighboring_relation": NeighboringRelation.ZERO_OUT_ONE}, "for all records of a client together"),
    ],
)
def test_a_relation_is_one_of_the_unit(fields, said, tmp_path):
    request = TrainRequest(**{**asked_for(Ledger(tmp_path / "ledger.sqlite")).values(), **fields})
    with pytest.raises(OptionError, match=said):
        train_on_source(request, table([0, 1] * 8), FEATURES, tmp_path / "out", nothing)


@pytest.mark.parametrize("besides", ["weights", "thresholds", None])
def test_a_ledger_has_the_noise_of_rounds_alone(chosen, tmp_path, besides):
    """Thresholds spend no more ε and δ than the rounds of others, but have another noise, and more Rényi."""
    of = records()
    chosen = replace(chosen, **dict.fromkeys({"weights", "thresholds"} - {besides}))
    train_on_records(of, FEATURES, encoded(of), chosen, tmp_path / "out", progress=nothing)
    (charge,) = charges(chosen)
    assert (charge.noise is None) == (besides is not None)


@pytest.mark.parametrize("inferred", [True, False])
def test_that_labels_were_read_off_the_records_is_said_without_weights_too(chosen, tmp_path, inferred):
    chosen = changed(replace(chosen, weights=None, thresholds=None, descent=Descent(1)), noise="distributed")
    of = records()
    of = replace(of, domain=replace(of.domain, inferred=inferred))
    trained = train_on_records(of, FEATURES, encoded(of), chosen, tmp_path / "out", progress=nothing)
    assert (INFERRED in trained.manifest.privacy.public) == inferred


def test_what_the_budget_does_not_hold_is_refused_before_anything_is_opened(chosen, tmp_path, monkeypatch):
    of, short = records(), Budget(Fraction(8), Fraction(1, 1000))
    monkeypatch.setattr(training_run, "run_release", None)  # which would open weights
    chosen = replace(chosen, account=replace(chosen.account, budget=short))
    with pytest.raises(BudgetError, match="this run needs"):
        train_on_records(of, FEATURES, encoded(of), chosen, tmp_path / "out", progress=nothing)
    assert not (tmp_path / "out").exists() and not chosen.account.ledger.populations()


def test_thresholds_beside_training_take_two_labels(chosen):
    with pytest.raises(OptionError, match="Thresholds beside training take two labels, not 3; train without"):
        chosen.total(replace(records().domain, labels=("0", "1", "2")), REST)


def test_a_model_that_cannot_train_here_is_refused_before_weights_are_opened(chosen, tmp_path, monkeypatch):
    of = records()
    monkeypatch.setattr(training_run, "run_release", None)  # which would open weights
    of_rounds = {PI_ROUNDS.name: "not here"}
    monkeypatch.setattr(type(engine_of(MODEL)), "supports", lambda _, spec, *__: of_rounds.get(spec.name))
    with pytest.raises(UnsupportedError, match="not here"):
        train_on_records(
            of, FEATURES, encoded(of), replace(chosen, thresholds=None), tmp_path / "out", progress=nothing
        )
    assert not (tmp_path / "out").exists() and not chosen.account.ledger.populations()


def test_a_training_that_fails_stays_charged_whole(chosen, tmp_path, monkeypatch):
    def fails(*_args, **_more):
        raise OptionError("in round 1")

    of, chosen = records(), replace(chosen, weights=None)
    monkeypatch.setattr(training_run, "fit", fails)
    with pytest.raises(OptionError, match="in round 1"):
        train_on_records(of, FEATURES, encoded(of), chosen, tmp_path / "out", progress=nothing)
    (charge,) = charges(chosen)
    assert 6 < charge.exact.epsilon <= 7 and charge.status is Status.ABORTED
    assert not (tmp_path / "out").exists()


def test_noise_made_ahead_is_charged_with_the_whole_and_used_once(chosen, tmp_path, monkeypatch):
    """One that the budget refuses costs none; a stock from a copy is found out before weights are opened."""
    of, stock = records(), tmp_path / "stock"
    chosen = changed(replace(chosen, thresholds=None), offline=True, stock=stock)

    def pieces():
        return [path.name for path in stock.glob("*/*")]

    sums = training_run.plan_sums(chosen, of.domain, FEATURES, None, 1)
    preprocess(sums.noise, chosen.stock, 2, 600.0, nothing)
    shutil.copytree(stock, tmp_path / "copy")
    short = replace(chosen, account=replace(chosen.account, budget=Budget(Fraction(8), Fraction(1, 1000))))
    with pytest.raises(BudgetError, match="this run needs"):
        train_on_records(of, FEATURES, encoded(of), short, tmp_path / "out", progress=nothing)
    assert len(pieces()) == 2
    trained = train_on_records(of, FEATURES, encoded(of), chosen, tmp_path / "out", progress=nothing)
    (charge,) = charges(chosen)
    noise = given(trained.manifest.releases["training"].preprocessing)
    assert noise is not None
    used = noise.piece
    with sqlite3.connect(chosen.account.ledger.path) as ledger:
        assert ledger.execute("SELECT * FROM pieces").fetchall() == [(used, charge.id)]
    assert used not in pieces() and not list((tmp_path / "out").rglob("piece*"))
    shutil.rmtree(next((tmp_path / "copy").glob(f"*/{pieces()[0]}")))  # which was not used
    shutil.rmtree(stock)
    (tmp_path / "copy").rename(stock)
    monkeypatch.setattr(training_run, "run_release", None)  # which would open weights
    roomy = replace(chosen, account=replace(chosen.account, population="others"))
    with pytest.raises(UsedNoiseError, match=r"used this noise.* make new noise"):
        train_on_records(of, FEATURES, encoded(of), roomy, tmp_path / "again", progress=nothing)
    assert not stock.exists() and not (tmp_path / "again").exists() and len(charges(chosen)) == 1


def test_noise_made_ahead_fits_whatever_the_number_of_clients(chosen):
    """The grid of sums is finer with more clients, whose number is unknown when noise is made."""
    domain = replace(records().domain, max_count=1)

    def planned(clients: int, *, offline: bool) -> PlannedSums:
        return training_run.plan_sums(changed(chosen, offline=offline), domain, FEATURES, None, clients)

    assert planned(1, offline=True).noise == planned(10**6, offline=True).noise
    assert planned(1, offline=False).noise != planned(10**6, offline=False).noise


@pytest.mark.mpspdz("spdz2k")
def test_failures_of_all_attempts_to_make_its_noise_count(chosen, tmp_path):
    """In a model that may fail: of three attempts and the rounds four times what the rounds alone state."""
    chosen = changed(replace(chosen, weights=None, thresholds=None), security=get_model("spdz2k"))
    of, stated = records(), []
    for piece in (None, Piece("piece", (), 3)):
        planned = training_run.plan_sums(
            changed(chosen, offline=piece is not None), of.domain, FEATURES, None, 1
        )
        sums = RevealedSums(AllowedSums(planned, piece), (), None)
        examples: Any = SimpleNamespace(clients=CLIENTS)
        manifest = training_run._manifest_of_rounds(chosen, sums, examples, Entry(chosen.account), False)
        stated.append(read_statement(manifest))
    assert stated[1].failure == 4 * stated[0].failure > 0
    assert [one.stated.made_ahead for one in stated] == [UNSET, True]
    assert together(stated).stated.made_ahead and together(stated[::-1]).stated.made_ahead


@pytest.mark.parametrize("unit", PrivacyUnit)
def test_groups_are_weighed_by_what_the_parties_opened_within_the_same_charge(
    chosen, tmp_path, monkeypatch, unit
):
    sessions: list[PlannedSums] = []
    rounds, add = [], OpenSums.add

    def told_of(opened, updates, weights=None):
        sums = add(opened, updates, weights)
        rounds.append((updates, sums))
        if not sessions:
            sessions.append(opened.allowed.planned)
        return sums

    def fitted(examples, sum_of, *told):
        seen.append((examples, told))
        return fit(examples, sum_of, *told)

    of, seen = records(), []  # type: ignore[var-annotated]
    monkeypatch.setattr(OpenSums, "add", told_of)
    monkeypatch.setattr(training_run, "fit", fitted)
    chosen = replace(
        changed(
            chosen, privacy_unit=unit, positive_label="0", with_="fairgrad", fairness="equal_opportunity"
        ),
        weights=None,
        thresholds=None,
        descent=replace(chosen.descent, rounds=4),
    )
    trained = train_on_records(of, FEATURES, encoded(of), chosen, tmp_path / "out", progress=nothing)
    (session,), ((examples, told),) = sessions, seen
    fairgrad = told[-1]
    assert (fairgrad.fairness, fairgrad.cells, fairgrad.positive) == ("equal_opportunity", 8, 0)
    assert session.rule.coordinates == 2 + 8
    assert session.rule.clip == pytest.approx(2 / math.sqrt(1 - fairgrad.share))
    (charge,) = charges(chosen)
    assert charge.exact == session.plan.exact == trained.manifest.privacy.exact
    settings = given(trained.manifest.training)
    assert settings is not None and settings.fairness == "equal_opportunity"
    assert "right and wrong, by group and label" in trained.manifest.releases["training"].privacy.revealed[0]
    most = session.plan.noise.largest + len(rounds[0][0])
    for updates, sums in rounds:
        assert np.abs(sums - updates.sum(axis=0)).max() <= most * session.rule.clip / session.rule.units
    opened = iter(rounds)

    def replayed(updates):
        before, sums = next(opened)
        assert np.array_equal(updates, before)  # weighed by nothing but what was opened
        return sums

    assert np.array_equal(fit(examples, replayed, *told), trained.model.parameters)


def test_nobody_is_in_training_and_among_those_kept_for_thresholds(chosen, tmp_path, monkeypatch):
    of, kept = records(), held_out(CLIENTS)
    seen = {}

    def fit(examples, *_args, **_more):
        seen["training"] = examples
        return np.zeros(examples.shape)

    def ends(statistic, source, *_args, **_more):
        seen[statistic.name] = source.records
        raise OptionError("seen enough")

    monkeypatch.setattr(training_run, "held_out", lambda _: kept)
    monkeypatch.setattr(training_run, "fit", fit)
    monkeypatch.setattr(training_run, "run_release", ends)
    numbers, chosen = np.arange(float(CLIENTS * EACH))[:, np.newaxis], replace(chosen, weights=None)
    with pytest.raises(OptionError, match="seen enough"):
        train_on_records(of, FEATURES, numbers, chosen, tmp_path / "out", progress=nothing)
    rows = np.flatnonzero(~kept[of.client])
    assert seen["training"].features.ravel().tolist() == rows.tolist()
    assert seen["training"].label.tolist() == of.label[rows].tolist()
    assert set(seen["thresholds"].client_ids) == set(of.client_ids[kept])
    assert (seen["thresholds"].detail == 1).all()  # scores of one half


def test_a_draw_keeps_one_client_in_four_and_needs_four():
    assert held_out(11).sum() == 2 and held_out(4).sum() == 1
    with pytest.raises(OptionError, match="Thresholds come from one client in 4, and there are 3"):
        held_out(3)


def table(x: list[object]) -> pd.DataFrame:
    """Return records of as many clients, with this feature."""
    number = np.arange(len(x))
    return pd.DataFrame({"client_id": number, "group": number % 2, "label": number // 2 % 2, "x": x})


def asked_for(ledger: Ledger) -> TrainRequest:
    return TrainRequest(
        records="The table",
        features="f",
        epsilon=9,
        security=QUICKEST,
        rounds=1,
        population="people",
        ledger=ledger.path,
    )


def test_a_column_of_which_nothing_is_read_costs_nothing(tmp_path):
    ledger = Ledger(tmp_path / "ledger.sqlite")
    with pytest.raises(
        RecordsError, match="The column x holds low, for example, and no value in it is a number"
    ):
        train_on_source(asked_for(ledger), table(["low", "high"] * 8), FEATURES, tmp_path / "out", nothing)
    assert ledger.populations() == [] and not (tmp_path / "out").exists()


def test_what_counts_as_nothing_is_said_before_anything_is_spent(tmp_path):
    ledger = Ledger(tmp_path / "ledger.sqlite")
    ledger.set_budget("people", Budget(Fraction(1)))
    said = "x: 8 of 16 values are not a number, such as 1.5, as high, and count as the middle of the range"
    with pytest.warns(UserWarning, match=said), pytest.raises(BudgetError):
        train_on_source(asked_for(ledger), table([1, "high"] * 8), FEATURES, tmp_path / "out", nothing)
    assert [population.charges for population in ledger.populations()] == [()]
