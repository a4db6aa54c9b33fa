"""Noise made ahead is opened once: a program of the test opens marked noise; runs are killed and race."""

import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fairshares.harness.engines.execution import Conditions, EngineResult, MadeUpJob, PrivateJob
from fairshares.harness.engines.registry import engine_of
from fairshares.harness.errors import FairSharesError, LedgerError, StockError
from fairshares.harness.inputs.record_schema import Cap, RecordDomain
from fairshares.harness.inputs.records import read_records
from fairshares.harness.pipeline.preprocessing import NoiseToMake, joint_noise_of, terms_of
from fairshares.harness.pipeline.run import RunSettings, run_release
from fairshares.harness.pipeline.sources import RecordsSource
from fairshares.harness.privacy.ledger.charge import Account
from fairshares.harness.privacy.ledger.entries import Ledger
from fairshares.harness.privacy.manifest import given
from fairshares.harness.privacy.stock import PieceRecord, Stock, shares_of
from fairshares.harness.releases.base import statistic_of
from fairshares.harness.releases.count.request import CountRequest
from fairshares.harness.releases.weights.request import WeightsRequest
from fairshares.harness.releases.weights.statistic import WeightsStatistic
from fairshares.harness.request.request import Inputs, Protect, Request, Trust
from fairshares.harness.security_models import MODELS, SecurityModel
from fairshares.protocols.accounting.calibration import PrivacyUnit
from fairshares.protocols.reference import shifted_log
from fairshares.protocols.spec import CLIENTS, PI_PREPROCESS
from tests.support.marked import keep_marked, kill_at_random_steps, open_mark
from tests.support.runners import StandInRunner
from tests.support.running import RUN_TIMEOUT_S, TEST_PROGRAMS

MODEL = MODELS["mpyc"]
DOMAIN = RecordDomain(("a", "b"), ("0", "1"))
REQUEST = WeightsRequest(epsilon=1, security=MODEL, offline=True)
TERMS = terms_of(joint_noise_of(WeightsStatistic().prepare(REQUEST, DOMAIN)))
RECORDS = "client_id,group,label\na,a,0\nb,b,1\n"


class Opens(StandInRunner):
    """Opens the noise that a run has taken, once it is charged, in place of parties."""

    def __init__(self, opened: Path) -> None:
        self._opened = opened
        self.terms: dict[str, Any] = {}  # what clients that send were told

    def opens(self, job: PrivateJob, model: SecurityModel) -> EngineResult:
        assert job.pieces is not None
        self.terms = job.sending.terms if job.sending else {}
        open_mark(job.pieces[0], self._opened)
        return EngineResult(
            model=model,
            outputs={job.spec.outputs[0]: (0,) * 4},
            engine=model.engine,
            engine_version="rigged",
            program_hash="",
        )


class Here:
    """Runs of one stock and one ledger in a directory."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.opened = directory, directory / "opened"
        (directory / "records.csv").write_text(RECORDS)
        self.stock, self.ledger = Stock(directory / "stock"), Ledger(directory / "ledger.sqlite")
        self._source = RecordsSource(read_records(directory / "records.csv", DOMAIN, 1))

    def fill(self, marks: range) -> None:
        for mark in marks:
            keep_marked(self.stock, TERMS, MODEL.parties, mark)

    def release(self, out: str, request: Request = REQUEST, hosts: Opens | None = None) -> Any:
        account, hosts = Account(self.ledger, "people"), hosts or Opens(self.opened)
        settings = RunSettings(request, account=account, stock=self.stock, hosts=hosts)
        return run_release(WeightsStatistic(), self._source, settings, self.directory / out, lambda _: None)

    def marks(self) -> list[str]:
        return self.opened.read_text().split() if self.opened.exists() else []

    def charges(self) -> int:
        return sum(len(population.charges) for population in self.ledger.populations())


@pytest.fixture
def here(tmp_path: Path) -> Here:
    return Here(tmp_path)


def test_wherever_runs_are_killed_no_noise_is_opened_twice(here: Here) -> None:
    """Nor after the stock was restored from a copy; each that is opened was charged."""
    kill_at_random_steps(lambda number: here.release(f"out-{number}"), here.fill, here.stock)
    marks = here.marks()
    assert 5 < len(marks) == len(set(marks)) <= here.charges()


def test_runs_that_race_and_copies_open_different_noise(here: Here) -> None:
    """Of 12 runs at once 8 find a piece; of those with a copy of the stock, whose pieces were used, none."""
    here.fill(range(8))
    shutil.copytree(here.stock.directory, here.directory / "copy")

    def run(number: int) -> str:
        try:
            here.release(f"out-{number}")
        except FairSharesError as error:
            return str(error)
        return ""

    with ThreadPoolExecutor(12) as pool:
        said = list(pool.map(run, range(12)))
    assert said.count("") == 8 and all("has no noise for this release" in text for text in said if text)
    (here.directory / "copy").rename(here.stock.directory.with_name("another"))
    here.stock = Stock(here.directory / "another")
    assert "used this noise" in run(12) and not here.stock.directory.exists()
    assert sorted(map(int, here.marks())) == list(range(8))


def test_a_ledger_that_cannot_be_written_costs_a_piece_and_says_so(
    here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise LedgerError("The disk is full.")

    here.fill(range(2))
    monkeypatch.setattr(Ledger, "charge", fail)
    with pytest.raises(
        LedgerError, match=r"No party computed anything\. The noise made ahead .* was removed"
    ):
        here.release("out")
    assert here.marks() == [] and len(here.stock.pieces(TERMS)) == 1
    monkeypatch.undo()
    here.release("out")
    with pytest.raises(StockError, match="has no noise"):  # it is used up
        here.release("more")
    assert len(here.marks()) == here.charges() == 1


def test_clients_that_send_are_told_how_often_it_was_begun(here: Here) -> None:
    """Of the piece that the run took: one attempt failed before."""
    here.stock.begin(TERMS)
    here.fill(range(1))
    parties = Opens(here.opened)
    run = here.release("out", REQUEST.but(Inputs.input_path, CLIENTS), parties)
    assert parties.terms["attempts"] == run.manifest.preprocessing.attempts == 2


MARKED = 8  # which noise can be
OF_CLIENTS = REQUEST.but(Protect.privacy_unit, PrivacyUnit.CLIENT)
ASKED = [
    pytest.param("ring", REQUEST.but(Inputs.input_form, "product"), marks=pytest.mark.mpspdz("ring")),
    pytest.param("ring", REQUEST.but(Inputs.input_path, CLIENTS), marks=pytest.mark.mpspdz("ring")),
    pytest.param("ring", CountRequest(epsilon=1, offline=True), marks=pytest.mark.mpspdz("ring")),
    pytest.param("spdz2k", OF_CLIENTS, marks=pytest.mark.mpspdz("spdz2k")),
    pytest.param("mpyc", OF_CLIENTS),
    pytest.param("mpyc", REQUEST),
]


def keep_on_engine(noise: NoiseToMake, stock: Stock) -> None:
    """Take in a piece whose values are all `MARKED`, by parties."""
    model, terms, spec = noise.security, terms_of(noise), replace(PI_PREPROCESS, name="marked_noise")
    attempts, made = stock.begin(terms), stock.directory / "made"
    arguments = (str(model.parties), str(noise.values), str(MARKED))
    source, places = TEST_PROGRAMS / "marked_noise.mpc", shares_of(made, model.parties)
    job = MadeUpJob(spec, source, arguments, pieces=places)
    engine_of(model).run(job, model, Conditions(stock.directory / "parties", RUN_TIMEOUT_S, print))
    stock.keep(terms, "marked", made, PieceRecord(attempts=attempts))


@pytest.mark.parametrize(("model", "request_"), ASKED)
def test_each_way_of_input_adds_the_noise_that_it_took(model: str, request_: Request, tmp_path: Path) -> None:
    asked, stock = request_.but(Trust.security, MODELS[model]), Stock(tmp_path / "stock")
    (tmp_path / "records.csv").write_text(RECORDS)
    domain = DOMAIN if asked.protect.privacy_unit is PrivacyUnit.RECORD else replace(DOMAIN, cap=Cap(1))
    source, statistic = RecordsSource(read_records(tmp_path / "records.csv", domain, 1)), statistic_of(asked)
    prepared = statistic.prepare(asked, domain)
    keep_on_engine(joint_noise_of(prepared), stock)
    settings = RunSettings(asked, stock=stock, account=Account(Ledger(tmp_path / "ledger")))
    run = run_release(statistic, source, settings, tmp_path / "out", lambda _: None)
    noise = given(run.manifest.preprocessing)
    assert noise is not None and noise.piece == "marked" and run.manifest.privacy.made_ahead is True
    exact, terms = [1, 0, 0, 1], prepared.arguments
    if asked.task == "count":
        log = (int(str(terms["offset"])), int(str(terms["most"])))
        exact = [shifted_log(count, *log) for count in exact]
    opened = {prepared.program.outputs[0]: tuple(value + MARKED for value in exact)}
    assert run.files == prepared.read(opened, 2).files(run.manifest.privacy)
