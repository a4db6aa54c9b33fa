"""Rounds of noisy sums: what they open in every model, what they cost a population, and how they end."""

import gc
import io
import math
import os
import signal
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fairshares
from benchmarks.measure.given_numbers import engine_giving
from fairshares.harness.charged import Chargeable
from fairshares.harness.engines.engine import RoundsShape
from fairshares.harness.engines.execution import PrivateJob
from fairshares.harness.engines.registry import engine_of
from fairshares.harness.errors import (
    BudgetError,
    LedgerError,
    OptionError,
    OutputError,
    PartyFailedError,
    PartyTimeoutError,
    PopulationError,
    StockError,
    UnsupportedError,
    named,
)
from fairshares.harness.pipeline.preprocessing import noise_job
from fairshares.harness.privacy.ledger.charge import Account, SeriesEntry
from fairshares.harness.privacy.ledger.entries import Ledger
from fairshares.harness.privacy.ledger.populations import Status
from fairshares.harness.privacy.stock import Stock, shares_of
from fairshares.harness.security_models import MODELS, SecurityModel
from fairshares.harness.training.session import SumSession, _Opened
from fairshares.harness.training.sums import (
    AllowedSums,
    OpenSums,
    charge,
    columns_of_parties,
    prepare,
    with_noise,
)
from fairshares.protocols.accounting.calibration import NeighboringRelation, PrivacyUnit
from fairshares.protocols.circuits.gaussian import JointGaussian
from fairshares.protocols.guarantee import Budget
from fairshares.protocols.noise.added import DistributedNoise
from fairshares.protocols.spec import NO_INPUT, with_noise_made_ahead
from tests.support.command import processes_below
from tests.support.distribution import dkw_bound
from tests.support.rings import to_integers
from tests.support.running import (
    QUICKEST,
    RUN_TIMEOUT_S,
    ChargedToNobody,
    as_integers,
    copy_of_program,
    gaussian_of,
    model_parameters,
    run_job,
    until,
    xor_shares,
)

ROUNDS, D = 2, 3
SMALL: dict[str, Any] = {"clients": 4, "coordinates": D, "rounds": ROUNDS, "clip": 1.0, "epsilon": 20}
UPDATES = np.array([[0.5, -0.5, 0.0], [9.0, 0.0, 0.0], [0.0, 0.1, 0.2], [-0.3, 0.3, -0.9]])


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Have parties' directories below a new one; in the end there are none, and no process in any."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    yield tmp_path
    until(lambda: not processes_below(tmp_path))
    assert {path.name for path in tmp_path.iterdir()} <= {
        *("ledger.sqlite", "whole.sqlite", "pi_rounds.mpc", "pi_preprocess.mpc", "at the end", "stock")
    }


def given_noise(
    session: SumSession, model: SecurityModel
) -> tuple[tuple[tuple[int, ...], ...], list[list[int]]]:
    """Return what each party is given for all rounds, and the noise that it makes in each."""
    rng, noise = np.random.default_rng(5), session.plan.noise
    if isinstance(noise, DistributedNoise):
        drawn = rng.integers(-(2**40), 2**40, (ROUNDS, model.parties, D))
        given = tuple(tuple(drawn[:, i].ravel().tolist()) for i in range(model.parties))
        return given, drawn.sum(axis=1).tolist()
    fed: list[tuple[int, ...]] = [()] * model.parties
    made = []
    for _ in range(ROUNDS):
        bits = rng.random((noise.bits, D)) < 0.5
        made.append(gaussian_of(noise, bits))
        for i, share in enumerate(xor_shares(bits, model.parties, rng)):
            fed[i] += as_integers(share)
    return tuple(fed), made


def with_noise_made_ahead_of(
    job: PrivateJob, session: SumSession, model: SecurityModel, here: Path
) -> PrivateJob:
    """Return the job that takes the noise which another one has made of the first one's bits."""
    piece = shares_of(here / "stock", model.parties)
    making = noise_job(session.planned.noise, piece)
    given = bits_of_all_rounds(session, model)
    making = replace(making, source=copy_of_program("pi_preprocess", here))
    run_job(making, model, here / "at first", given=given)
    spec = with_noise_made_ahead(job.spec, NO_INPUT)
    assert spec is not None
    arguments = (*job.arguments[:3], "0")
    return replace(job, spec=spec, arguments=arguments, fair_bits=(), pieces=piece)


def bits_of_all_rounds(session: SumSession, model: SecurityModel) -> tuple[tuple[int, ...], ...]:
    """Return each party's share of the bits of `given_noise`, in one batch for all rounds."""
    rng, noise = np.random.default_rng(5), session.plan.noise
    assert not isinstance(noise, DistributedNoise)
    batches = []
    for _ in range(ROUNDS):
        batches.append(rng.random((noise.bits, D)) < 0.5)
        xor_shares(batches[-1], model.parties, rng)  # as `given_noise`, so that what follows is the same
    shares = xor_shares(np.concatenate(batches, axis=1), model.parties, rng)
    return tuple(as_integers(share) for share in shares)


@pytest.mark.parametrize("noise", ["joint", "distributed", "made ahead"])
@pytest.mark.parametrize("model", model_parameters())
def test_each_round_opens_the_clear_sum_and_its_noise(noise: str, model: SecurityModel, here: Path) -> None:
    session = SumSession(model.name, **SMALL, noise="distributed" if noise == "distributed" else "joint")
    given, expected = given_noise(session, model)
    job = replace(session.planned.job, source=copy_of_program("pi_rounds", here))
    engine = engine_giving(model, given)
    if noise == "made ahead":
        job = with_noise_made_ahead_of(job, session, model, here)
        engine = engine_of(model)
    shape = RoundsShape(ROUNDS, D)
    with (
        engine.prepare_rounds(job, model, here / "at the end", RUN_TIMEOUT_S, shape) as ready,
        ready.go(ChargedToNobody()) as rounds,
    ):
        for scale, of_round in zip((1.0, -0.5), expected, strict=True):
            encoded = session.rule.encode(scale * UPDATES)
            opened = rounds.open(columns_of_parties(encoded, model))["sums"]
            assert (np.array(opened) - of_round).tolist() == encoded.sum(axis=0).tolist()
        costs = engine.costs(rounds.finish())
    assert len(costs) == model.parties and all(cost.sent_bytes > 0 for cost in costs)
    assert not (here / "at the end").exists()


def test_columns_are_shares_of_the_sum_and_fresh() -> None:
    for model in (MODELS["ring"], MODELS["mpyc"]):
        encoded, ring = np.array([[5, -7], [1, 2]]), model.ring
        once, again = (columns_of_parties(encoded, model) for _ in range(2))
        total = ring.total(np.stack([ring.from_bytes(column) for column in once], axis=1))
        assert to_integers(ring, total) == [6, -5]
        assert not {*once} & {*again} and len({*once}) == model.parties


def test_a_client_that_leaves_in_round_7_changes_the_sum_and_nothing_else(here: Path) -> None:
    """All rounds are charged beforehand, for full participation; no sum is scaled by who is there."""
    path = here / "ledger.sqlite"
    updates = np.full((500, 2), 0.5)
    declared: dict[str, Any] = {"clients": 500, "coordinates": 2, "rounds": 8, "clip": 1.0, "epsilon": 20}
    with SumSession(QUICKEST, **declared, noise="distributed", population="p", ledger=path) as session:
        bound = _error_bound(session)
        charged = [population.spent for population in Ledger(path).populations()]
        plan = session.plan
        for i in range(1, 9):
            there = 500 if i < 7 else 300  # many leave, so that the noise does not hide it
            sums = session.add(updates[:there])
            assert np.abs(sums - there / 2).max() <= bound + 500 / session.rule.units
        assert session.plan is plan
        with pytest.raises(OptionError, match="All 8 rounds were used"):
            session.add(updates)
    (population,) = Ledger(path).populations()
    (charge,) = population.charges
    assert charged == [population.spent] == [plan.exact]
    assert (charge.task, charge.status) == ("sums", Status.DONE)
    assert (charge.unit, charge.relation) == (PrivacyUnit.CLIENT, NeighboringRelation.ZERO_OUT_ONE)
    assert session.sent_bytes is not None and len(session.sent_bytes) == 3 and len(session.seconds) == 8
    with pytest.raises(OptionError, match="was opened before"):
        session.open()


def _error_bound(session: SumSession) -> float:
    assert isinstance(session.plan.noise, DistributedNoise)
    bound = session.plan.noise.error_bound(Fraction(1, 10**9))
    assert bound < 100 * session.rule.units / 2  # less than who leaves
    return float(bound) / session.rule.units


def test_a_session_keeps_to_the_ledger_that_commands_keep_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ledger.sqlite"
    monkeypatch.setenv("FAIRSHARES_LEDGER", str(path))
    Ledger(path).set_budget("p", Budget(Fraction(1), None))
    short = SumSession("mpyc", **SMALL, population="p")
    with pytest.raises(BudgetError, match="No party computed anything"):
        short.open()
    assert all(not population.charges for population in Ledger(path).populations())
    with pytest.raises(PopulationError, match="holds budgets, for 'p'"):
        SumSession("mpyc", **SMALL)
    assert SumSession("mpyc", **SMALL, population="none")._account.population is None
    with pytest.raises(OptionError, match="budget= belongs to a population"):
        SumSession("mpyc", **SMALL, budget=(1, "1e-4"))


def test_a_party_that_dies_ends_the_session_by_name_and_its_charge_stays(here: Path) -> None:
    path = here / "ledger.sqlite"
    with SumSession("mpyc", **SMALL, noise="distributed", population="p", ledger=path) as session:
        session.add(UPDATES)
        (directory,) = here.glob("*/parties/party-1")
        for process in processes_below(directory):
            os.kill(process, signal.SIGKILL)
        with pytest.raises(PartyFailedError, match=r"^Party 1 was killed by SIGKILL.* Round 2 of 2 ended"):
            session.add(UPDATES)
        assert not processes_below(here)
        with pytest.raises(OptionError, match="is not open"):
            session.add(UPDATES)
    (charge,) = Ledger(path).populations()[0].charges
    assert charge.status is Status.ABORTED and charge.exact == session.plan.exact


@pytest.mark.mpspdz("semi2k")
@pytest.mark.parametrize("parties", [10, 16])
def test_a_party_that_dies_among_many_machines_is_named(parties: int, here: Path) -> None:
    """Not another one whose machine crashes as it loses the party."""
    dies = parties - 3
    with SumSession(
        "semi2k", parties=parties, **SMALL, noise="distributed", timeout=RUN_TIMEOUT_S
    ) as session:
        sums = session.add(UPDATES)
        assert all(abs(got - 2) < 50 for got in sums)
        (directory,) = here.glob(f"*/parties/party-{dies}")
        for process in processes_below(directory):
            os.kill(process, signal.SIGKILL)
        with pytest.raises(PartyFailedError, match=rf"^Party {dies} was killed by SIGKILL"):
            session.add(UPDATES)
    assert not processes_below(here)


def test_a_party_that_hangs_ends_the_session_in_time(here: Path) -> None:
    with SumSession("mpyc", **SMALL, noise="distributed", timeout=RUN_TIMEOUT_S) as session:
        session.add(UPDATES)
        (directory,) = here.glob("*/parties/party-2")
        for process in processes_below(directory):
            os.kill(process, signal.SIGSTOP)
        up(session).rounds._timeout_s = 1.0
        with pytest.raises(
            PartyTimeoutError, match=r"\(stopped: 2\).* Round 2 of 2 ended the session"
        ) as late:
            session.add(UPDATES)
    assert "Give more time with timeout=." in str(late.value)


def up(session: SumSession) -> OpenSums:
    """Return the rounds of a session whose parties are up."""
    assert isinstance(session._state, _Opened)
    return session._state.sums


def interrupt(session: SumSession) -> None:
    session.open()
    try:
        raise KeyboardInterrupt
    finally:
        session.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)


def forget(session: SumSession) -> None:
    session.open()


def close_early(session: SumSession) -> None:
    with session:
        session.add(UPDATES)


def disagree(session: SumSession) -> None:
    """A party's log says something else than the others'."""
    with session:
        up(session).rounds._logs[1].close()
        up(session).rounds._logs[1] = io.BytesIO(b"OUT sums [1, 2, 3]\n")
        session.add(UPDATES)


@pytest.mark.parametrize(
    ("way", "error"),
    [(interrupt, KeyboardInterrupt), (forget, None), (close_early, None), (disagree, OutputError)],
)
def test_nothing_is_left_however_a_session_ends(
    way: Callable[[SumSession], None], error: type[BaseException] | None, here: Path
) -> None:
    session = SumSession(QUICKEST, **SMALL, noise="distributed")
    if error:
        with pytest.raises(error):
            way(session)
    else:
        way(session)
    del session
    gc.collect()  # and the fixture looks


def test_rounds_of_a_larger_run_are_charged_with_it_alone(here: Path) -> None:
    ledger = Ledger(here / "whole.sqlite")
    planned = SumSession(QUICKEST, **SMALL, noise="distributed").planned
    whole = SeriesEntry(Account(ledger, "people"), planned.event)
    stock = Stock(here / "stock")
    allowed = with_noise(planned, stock, here / "piece")
    with prepare(allowed, here / "at the end", RUN_TIMEOUT_S) as ready:
        assert ledger.populations() == [], "while parties wait"
        charged = charge(ready, whole, stock)
        assert [len(population.charges) for population in ledger.populations()] == [1], "before any sum"
        with charged.begun() as rounds:
            rounds.add(UPDATES)
            assert rounds.finish().sent_bytes is None, "as a round is left"
        with pytest.raises(LedgerError, match="the run of this one has begun"), charged.begun():
            pass
    assert whole.charge(planned.event, Chargeable()) is whole.charged
    assert [len(population.charges) for population in ledger.populations()] == [1]
    assert not (here / "ledger.sqlite").exists()


def test_rounds_of_a_larger_run_that_is_refused_do_not_start(here: Path) -> None:
    ledger = Ledger(here / "whole.sqlite")
    planned = SumSession("mpyc", **SMALL).planned
    little = Budget(planned.plan.exact.epsilon / 2, Fraction(1, 2))
    whole = SeriesEntry(Account(ledger, "people", little), planned.event)
    stock = Stock(here / "stock")
    allowed = with_noise(planned, stock, here / "piece")
    with (
        pytest.raises(BudgetError, match="people"),
        prepare(allowed, here / "at the end", RUN_TIMEOUT_S) as ready,
    ):
        charge(ready, whole, stock)
    assert ledger.populations() == []


@pytest.mark.parametrize("timeout", [-1, 0, float("nan"), float("inf"), "soon", [60]])
def test_a_time_limit_is_read_as_that_of_any_run(timeout: Any) -> None:
    with pytest.raises(OptionError, match=r"^timeout= (must be a number of seconds|takes one value)"):
        SumSession("mpyc", **SMALL, timeout=timeout)


def accepts(errors: np.ndarray, noise: Any, scale: float) -> bool:
    """Whether errors follow the noise's distribution at this scale: by DKW; 10^-9 false alarms a sample."""
    joint = isinstance(noise, JointGaussian)
    masses = np.array(noise.weights if joint else noise.summed(noise.parties), dtype=np.float64)
    drawn = np.random.default_rng(3).choice(masses.size, 200_000, p=masses / masses.sum())
    distribution = np.sort(scale * (drawn - noise.largest))
    points = np.quantile(distribution, np.linspace(0.01, 0.99, 99))
    observed, expected = (
        np.searchsorted(np.sort(sample), points, side="right") / sample.size
        for sample in (errors, distribution)
    )
    return bool(np.abs(observed - expected).max() <= dkw_bound(errors.size) + dkw_bound(distribution.size))


@pytest.mark.parametrize(
    ("model", "noise"),
    [
        ("mpyc", "distributed"),
        pytest.param("ring", "joint", marks=pytest.mark.mpspdz("ring")),
        pytest.param("ring", "made ahead", marks=pytest.mark.mpspdz("ring")),
    ],
)
def test_noise_over_rounds_has_its_distribution_and_is_fresh(model: str, noise: str, here: Path) -> None:
    """20,000 errors of 10 rounds of zeros, as they were planned, and not at 0.7 or 1.3 times the scale."""
    told: dict[str, Any] = {"clients": 1, "coordinates": 2000, "rounds": 10, "clip": 1.0, "epsilon": 20}
    ahead = noise == "made ahead"
    session = SumSession(model, **told, noise="joint" if ahead else noise, offline=ahead)
    if ahead:
        session.preprocess()
    with session:
        rounds = [session.add(np.zeros((1, 2000))) for _ in range(10)]
    errors = np.concatenate(rounds) * session.rule.units
    assert accepts(errors, session.plan.noise, 1.0)
    assert not accepts(errors, session.plan.noise, 0.7) and not accepts(errors, session.plan.noise, 1.3)
    pairs = np.asarray(np.corrcoef(np.array(rounds)))[np.triu_indices(10, 1)]
    assert np.abs(pairs).max() < 0.2  # 9 standard errors of what is independent; 1 where noise is used again


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rounds": 0}, "^rounds= must be a whole number from 1 to 100000; got '0'"),
        ({"clients": 0}, "^clients= must be a whole number from 1 to .*; got '0'"),
        ({"clients": 1 << 60}, "could overflow .* declare fewer clients"),
        ({"coordinates": 0}, "^coordinates= must be a whole number from 1 to 16777216; got '0'"),
        *(
            ({"largest_weight": weight}, "^largest_weight= must be a number from 1e-06 to 1048576, for")
            for weight in (0, -1, 5e-324, math.nan, math.inf, "a", 1 << 21)
        ),
        ({"rounds": 2.5}, "^rounds= must be a whole number from 1 to 100000; got '2.5'"),
        ({"clients": "a"}, "^clients= must be .*; got 'a'"),
        ({"clients": True}, "^clients= must be .*; got 'True'"),
        ({"coordinates": 2.5}, "^coordinates= must be .*; got '2.5'"),
        *(
            ({"clip": clip}, "^clip= must be a number above 0, for example 1; got")
            for clip in (0, -1, math.nan, math.inf, "a")
        ),
        *(
            ({name: [1]}, f"^{name}= takes one value, not several; got")
            for name in ("clients", "coordinates", "rounds", "clip", "epsilon", "delta", "step", "noise")
        ),
        *(
            ({name: None}, f"^{name}= is missing; give it a value, for example {name}=")
            for name in ("clients", "coordinates", "rounds", "clip", "epsilon")
        ),
        ({"epsilon": object}, "^epsilon= must be a number above 0 and at most 32, for example 1; got"),
        ({"step": "x"}, "^step= must be a number above 0, for example 0.01; got 'x'"),
        ({"budget": (1, 2, 3), "population": "p"}, "budget= must be a total ε.*got '1,2,3'"),
        ({"noise": "no"}, "^noise= must be joint or distributed; got 'no'"),
        ({"noise": "distributed-gaussian"}, "^noise= must be joint or distributed; got 'distributed-g"),
        ({"unit": "group"}, "^unit= must be record or client; got 'group'"),
        ({"rows": "group"}, "^rows= must be record or client; got 'group'"),
        ({"rows": "record"}, "clip one vector of each client"),
        ({"epsilon": "one"}, "^epsilon= must be a number above 0 and at most 32, for example 1; got 'one'"),
        *(
            ({"epsilon": epsilon}, f"^epsilon= must be a number above 0 and at most 32.*; got '{epsilon}'")
            for epsilon in (0, -1, 33, math.nan)
        ),
        *(({"delta": delta}, "^delta= must be a number between 0 and 1") for delta in (0, 1, -1, "x")),
        ({"epsilon": 1e-9, "delta": "1e-300"}, r"^ε and δ of 1e-09 and 1e-300: "),
        ({"epsilon": 1e-6, "rounds": 1000, "noise": "distributed"}, "would need a table up to"),
        ({"security": "none"}, "There is no model"),
        ({"step": 0}, "^step= must be a number above 0, for example 0.01; got '0'"),
        ({"step": math.nan}, "^step= must be .*; got 'nan'"),
        ({"step": 1e-300}, "A step of 1e-300 is below .*, the finest of the clipping norm"),
        ({"step": 1e-9}, "A step of 1e-09: no joint noise is as large"),
    ],
)
def test_sessions_that_make_no_sense_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        SumSession(**{"security": "mpyc", **SMALL, **change})


@pytest.mark.parametrize("sessions", [0, -1, True, "x", 1.5, 1001, None])
def test_noise_is_made_ahead_of_a_number_of_sessions(sessions: Any) -> None:
    with pytest.raises(OptionError, match=r"^sessions= must be a whole number from 1 to 1000; got"):
        SumSession("mpyc", **SMALL).preprocess(sessions)


def test_noise_that_is_late_is_told_of_by_a_keyword(monkeypatch: pytest.MonkeyPatch) -> None:
    def late(*_: object) -> None:
        raise PartyTimeoutError(f"Give more time with {named('timeout')}.")

    monkeypatch.setattr("fairshares.harness.training.session.preprocess", late)
    with pytest.raises(PartyTimeoutError, match=r"^Give more time with timeout=\.$"):
        SumSession("mpyc", **SMALL).preprocess(1)


@pytest.mark.parametrize("wrong", ["x", [[1.0, 2.0, 3.0], [1.0]], [["a", "b", "c"]], None, {}])
def test_what_is_no_array_of_numbers_is_refused_in_a_sentence_that_shows_none(wrong: Any) -> None:
    rule = SumSession("mpyc", **SMALL).rule
    with pytest.raises(OptionError, match=r"^Updates (are arrays of numbers, of rows that|have shape)"):
        rule.encode(wrong)
    if wrong is not None:
        with pytest.raises(OptionError, match=r"^(Weights are arrays of numbers|There is a weight for each)"):
            rule.encode(UPDATES, wrong)


def test_more_rows_than_declared_are_refused_and_the_session_goes_on(here: Path) -> None:
    with SumSession(QUICKEST, **SMALL, noise="distributed") as session:
        with pytest.raises(OptionError, match="5 rows are more than the 4 clients"):
            session.add(np.zeros((5, D)))
        with pytest.raises(OptionError, match="Updates have shape"):
            session.add(np.zeros((4, D + 1)))
        assert np.isfinite(session.add(np.zeros((0, D)))).all()  # nobody came


def test_it_is_what_users_import_and_records_cost_the_same() -> None:
    assert fairshares.SumSession is SumSession
    of_records = SumSession("mpyc", **SMALL, unit="record")
    doubled = SumSession("mpyc", **SMALL, unit="record", rows="client")
    assert of_records.rule.squares == SumSession("mpyc", **SMALL).rule.squares
    assert math.isclose(doubled.rule.squares, 4 * of_records.rule.squares, rel_tol=1e-3)
    assert of_records.planned.event.relation is NeighboringRelation.ADD_OR_REMOVE_ONE


def test_rounds_take_one_piece_of_noise_or_are_refused(here: Path) -> None:
    """Of these rounds; other ones, used up or distributed are refused, and nothing is charged."""
    ledger = here / "ledger.sqlite"
    ahead: dict[str, Any] = {"offline": True, "population": "people", "budget": 100}
    session = SumSession(QUICKEST, **SMALL, **ahead, ledger=ledger)
    assert [piece["attempts"] for piece in session.preprocess(1)] == [1]
    with pytest.raises(StockError, match="no noise for this release"):
        SumSession(QUICKEST, **{**SMALL, "rounds": 3}, **ahead, ledger=ledger).open()
    assert Ledger(ledger).populations() == []
    with session:
        assert [session.add(UPDATES).shape for _ in range(ROUNDS)] == [(D,)] * ROUNDS
    with pytest.raises(
        StockError, match=r"make some beforehand by fairshares\.preprocess, or leave out offline="
    ):
        SumSession(QUICKEST, **SMALL, **ahead, ledger=ledger).open()
    assert [len(population.charges) for population in Ledger(ledger).populations()] == [1]
    part = SumSession(QUICKEST, **SMALL, offline=True, population="none", ledger=ledger).planned
    without = AllowedSums(part, None)
    with (
        pytest.raises(UnsupportedError, match="was given none of it"),
        prepare(without, here / "at the end", RUN_TIMEOUT_S),
    ):
        pass
    with pytest.raises(OptionError, match="only joint noise is made ahead"):
        SumSession(QUICKEST, **SMALL, offline=True, noise="distributed")
    with pytest.raises(OptionError, match="only joint noise is made ahead"):
        SumSession(QUICKEST, **SMALL, noise="distributed").preprocess()


@pytest.mark.parametrize("noise", ["joint", "distributed"])
@pytest.mark.parametrize("clients", [10, 10_000, 1_000_000])
@pytest.mark.parametrize("coordinates", [1, 2, 1000])
def test_the_usual_step_does_no_harm(coordinates: int, clients: int, noise: str) -> None:
    """It adds at most 4 % to a norm; all clients' rounding errs by a third of the noise at most."""
    asked: dict[str, Any] = {**SMALL, "coordinates": coordinates, "clients": clients, "epsilon": 4}
    session = SumSession("mpyc", **asked, noise=noise)
    rule, plan = session.rule, session.plan
    assert math.sqrt(coordinates) <= 0.04 * rule.norm
    assert session.step == rule.clip / rule.units
    spread = math.sqrt(session.rounds * rule.squares / (2 * plan.loss.rho))
    assert math.sqrt(clients) / 2 <= spread / 3
    half = SumSession("mpyc", **asked, noise=noise, step=session.step / 2)
    assert half.rule.units == 2 * rule.units and half.plan.exact.epsilon == 4


def test_a_session_s_sum_of_like_clients_is_right() -> None:
    """To the nearest step of the grid of 1.0, these 10,000 clients, whose sum is 150 each, gave -1 or so."""
    asked: dict[str, Any] = {"clients": 10_000, "coordinates": 2, "rounds": 1, "clip": 1.0, "epsilon": 8}
    with SumSession(QUICKEST, **asked, noise="distributed", population="none") as session:
        total = session.add(np.full((10_000, 2), 0.015))
    noise = session.plan.noise
    assert isinstance(noise, DistributedNoise)
    of_noise = float(noise.error_bound(Fraction(1, 10**9)))
    of_rounding = math.sqrt(10_000 * math.log(4e9) / 2)
    assert (np.abs(total - 150) <= (of_noise + of_rounding) * session.step).all()
    assert (of_noise + of_rounding) * session.step < 100
