"""A release goes from stage to stage by types: nothing runs uncharged but what is on nobody's data."""

import ast
from dataclasses import FrozenInstanceError, fields
from pathlib import Path

import pytest

from fairshares.harness.charged import Chargeable
from fairshares.harness.engines.execution import PROGRAMS, PROJECT, Job, MadeUpJob, PrivateJob
from fairshares.harness.errors import LedgerError
from fairshares.harness.pipeline.run import (
    Allowed,
    ChargedRelease,
    Delivered,
    Planned,
    ReadyRelease,
    Revealed,
    Run,
)
from fairshares.harness.privacy.ledger.charge import Account, Entry, SeriesEntry
from fairshares.harness.privacy.ledger.entries import Ledger
from fairshares.harness.releases.base import PreparedRelease
from fairshares.harness.training.session_plan import PlannedSums
from fairshares.harness.training.sums import AllowedSums, ChargedSums, OpenSums, ReadySums, RevealedSums
from fairshares.harness.training.training_run import (
    AllowedTraining,
    PlannedTraining,
    RevealedTraining,
    Trained,
)
from fairshares.protocols.spec import PI_LAP
from tests.support.events import a_run
from tests.support.type_checks import check_lines

EVENT = a_run(model="mpyc")
BEFORE = """
from fractions import Fraction
from pathlib import Path
from benchmarks.measure.over_hosts import BenchmarkRunner
from fairshares.harness.charged import Charged
from fairshares.harness.engines.execution import (
    Conditions, MadeUpJob, MadeUpRunner, PrivateJob, ReadyParties, Runner,
)
from fairshares.harness.engines.engine import ReadyRounds
from fairshares.harness.engines.parties.handle import LaidOutParty, LocalProcess, PartyProcess
from fairshares.harness.engines.parties.supervisor import CertifiedParties, WaitingParties
from fairshares.harness.hosts.remote_parties import AgreedParties, ConnectedHosts
from fairshares.harness.hosts.runner import (
    HostsBackend, HostsRunner, HostsSource, propose, signed_result,
)
from fairshares.harness.online.client import ReadyToSend
from fairshares.harness.pipeline.run import Allowed, ChargedRelease, Delivered, ReadyRelease, charge
from fairshares.harness.privacy.ledger.charge import Entry
from fairshares.harness.privacy.ledger.populations import PrivacyEvent
from fairshares.harness.releases.base import Answer
from fairshares.harness.privacy.stock import Stock
from fairshares.harness.request.request import Protect, Randomness, Request, Trust
from fairshares.harness.security_models import SecurityModel
from fairshares.harness.training import sums
from fairshares.harness.training.training_run import AllowedTraining, PlannedTraining, allow_training
from fairshares.harness.training.session_plan import PlannedSums


def say(step: str) -> None: ...


def run(runner: Runner, of_noise: MadeUpRunner, hosts: HostsRunner, benchmark: BenchmarkRunner,
        allowed: Allowed[Answer], delivered: Delivered[Answer], ready_release: ReadyRelease[Answer],
        charged_release: ChargedRelease[Answer], entry: Entry, event: PrivacyEvent, stock: Stock,
        planned_sums: PlannedSums, allowed_sums: sums.AllowedSums, ready_sums: sums.ReadySums,
        charged_sums: sums.ChargedSums, training: PlannedTraining, allowed_training: AllowedTraining,
        ready: ReadyParties, rounds: ReadyRounds, client: ReadyToSend, charged: Charged,
        private: PrivateJob, made_up: MadeUpJob, model: SecurityModel, request: Request,
        chosen: HostsBackend, connected: ConnectedHosts, laid_out: LaidOutParty[PartyProcess],
        waiting: WaitingParties, certified: CertifiedParties[LocalProcess],
        agreed: AgreedParties) -> None:
    {line}
"""
RIGHT = [
    "request.but(Protect.epsilon, Fraction(1, 3)).but(Trust.security, model).but(Request.population, None)",
    "ready.go(charged)",
    "rounds.go(charged)",
    "charge(ready_release, entry, None).go()",
    "charged_release.go()",
    "sums.prepare(allowed_sums, Path(), 1.0)",
    "sums.charge(ready_sums, entry, stock).begun()",
    "charged_sums.begun()",
    "allow_training(training, Path())",
    "sums.prepare(allowed_training.sums, Path(), 1.0)",
    "entry.charge(event, ready)",
    "entry.charge(event, rounds)",
    "entry.charge(event, client)",
    "client.send(charged).close()",
    "runner.prepare(private, model, Conditions(Path(), 1.0, say))",
    "hosts.prepare(private, model, Conditions(Path(), 1.0, say))",
    "of_noise.run(made_up, model, Conditions(Path(), 1.0, say))",
    "benchmark.run(made_up, model, Conditions(Path(), 1.0, say))",
    "MadeUpJob(made_up.spec, Path(), ())",
    "HostsRunner(propose(connected, request))",
    "HostsSource(propose(connected, request))",
    "laid_out.start().certificate(1.0)",
    "laid_out.start().go({})",
    "waiting.finish(charged.begin(ready))",
    "waiting.finish(made_up)",
    "waiting.rounds(charged.begin(rounds))",
    "certified.go(charged.begin(ready))",
    "agreed.finish(charged.begin(ready))",
    "signed_result(agreed, made_up)",
]
WRONG = [
    "request.but(Protect.epsilon, 500)",
    "request.but(Protect.epsilon, '1/3')",
    "request.but(Protect.epsilon, None)",
    "request.but(Protect.epsilonn, Fraction(1, 3))",
    "request.but(Randomness.offline, 'yes')",
    "request.but(Trust.security, 'ring')",
    "request.but(population=None)",
    "ready.go(None)",
    "ready.go(ready)",
    "ready.go()",
    "rounds.go(None)",
    "charge(delivered, entry, None)",
    "charge(allowed, entry, None)",
    "ready_release.go()",
    "charged_release.go(charged)",
    "ChargedRelease(ready_release, None)",
    "sums.prepare(planned_sums, Path(), 1.0)",
    "sums.prepare(training.sums, Path(), 1.0)",
    "sums.charge(allowed_sums, entry, stock)",
    "sums.charge(allowed_training.sums, entry, stock)",
    "ready_sums.begun()",
    "sums.ChargedSums(ready_sums, None)",
    "sums.OpenSums(allowed_sums, ready_sums.parties)",
    "entry.charge(event)",
    "entry.charge(event, delivered)",
    "entry.charge(event, private)",
    "client.send().close()",
    "client.send(None).close()",
    "client.send(client).close()",
    "runner.run(made_up, model, Conditions(Path(), 1.0, say))",
    "of_noise.run(private, model, Conditions(Path(), 1.0, say))",
    "hosts.run(made_up, model, Conditions(Path(), 1.0, say))",
    "hosts.prepare(made_up, model, Conditions(Path(), 1.0, say))",
    "benchmark.run(private, model, Conditions(Path(), 1.0, say))",
    "runner.prepare(made_up, model, Conditions(Path(), 1.0, say))",
    "Charged()",
    "MadeUpJob(made_up.spec, Path(), (), values=private.values)",
    "propose(chosen, request)",
    "HostsRunner(connected)",
    "HostsSource(connected)",
    "laid_out.certificate(1.0)",
    "laid_out.go({})",
    "laid_out.exit_code()",
    "laid_out.start().start()",
    "waiting.finish()",
    "waiting.finish(private)",
    "waiting.finish(charged)",
    "waiting.rounds()",
    "waiting.rounds(rounds)",
    "certified.go()",
    "certified.finish()",
    "certified.finish(charged)",
    "agreed.finish()",
    "signed_result(agreed)",
    "signed_result(agreed, private)",
    "ready._finish()",
    "ready._finish(charged)",
    "client._send()",
]


def test_what_runs_uncharged_is_a_type_error(tmp_path: Path) -> None:
    check_lines(BEFORE, RIGHT, WRONG, tmp_path)


PERMISSIONS = {"Permission", "BegunCharge", "MadeUpJob"}  # by which parties that wait compute


def name_of(node: ast.expr) -> str:
    """Return the name that an expression ends in, without its module; "" for one that is no name."""
    if isinstance(node, ast.Subscript):  # of a generic class
        return name_of(node.value)
    if isinstance(node, ast.Name):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else ""


def test_the_ledger_alone_has_classes_of_charges() -> None:
    """Of all sources, whose names of bases are read: another one could be made without a charge."""
    found = set()
    for place in ("harness", "fairshares", "protocols", "benchmarks"):
        for path in (PROJECT / place).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ClassDef):
                    bases = {name_of(base) for base in node.bases}
                    if bases & {"Charged", "ChargedRun", "ChargedSeries", *PERMISSIONS}:
                        found.add((str(path.relative_to(PROJECT)), node.name))
    assert found == {
        ("harness/privacy/ledger/charge.py", "ChargedRun"),
        ("harness/privacy/ledger/charge.py", "ChargedSeries"),
        ("harness/charged.py", "BegunCharge"),
        ("harness/engines/execution.py", "MadeUpJob"),  # which has no place for inputs
        ("harness/engines/compiled.py", "CompiledJob"),
    }


# Where a call makes a charge, or a value that holds one: by file, the function and what it calls.
CHARGING = {
    ("harness/privacy/ledger/charge.py", "__init__", "charge"),  # the ledger's file, by making a ChargedRun
    ("harness/privacy/ledger/charge.py", "charge", "ChargedRun"),
    ("harness/privacy/ledger/charge.py", "charge", "ChargedSeries"),
    ("harness/privacy/ledger/charge.py", "begin", "BegunCharge"),  # of a `ChargedRun` that waited for this
    ("harness/hosts/guard.py", "charged", "ChargedRun"),  # on which all hosts have agreed
    ("harness/pipeline/run.py", "charge", "charge"),
    ("harness/pipeline/run.py", "charge", "ChargedRelease"),
    ("harness/training/sums.py", "charge", "charge"),
    ("harness/training/sums.py", "charge", "ChargedSums"),
    ("harness/pipeline/sending.py", "_sent", "charge"),  # by a client that is ready to send
}
SHOWN = ("ledger_view",)  # modules whose `charge` shows one


def charging_in(path: Path) -> set[tuple[str, str, str]]:
    """Return which functions of a file call what makes a charge, or a value that holds one."""
    found = set()
    for function in ast.walk(ast.parse(path.read_text())):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for node in ast.walk(function):
            if not isinstance(node, ast.Call):
                continue
            called = name_of(node.func)
            is_method = isinstance(node.func, ast.Attribute)
            is_shown = isinstance(node.func, ast.Attribute) and name_of(node.func.value) in SHOWN
            is_charge = called == "charge" and is_method and not is_shown
            if called.startswith("Charged") or called in PERMISSIONS - {"MadeUpJob"} or is_charge:
                found.add((str(path.relative_to(PROJECT)), function.name, called))
    return found


def test_a_charge_is_made_of_the_event_of_what_waits_at_few_places() -> None:
    """Each has both at hand: the types alone would let another event be charged for the same parties."""
    found = set[tuple[str, str, str]]()
    for place in ("harness", "fairshares", "protocols", "benchmarks"):
        for path in (PROJECT / place).rglob("*.py"):
            found |= charging_in(path)
    assert found == CHARGING


def test_a_charge_is_for_the_run_that_waited_and_that_of_a_series_for_all_of_it(tmp_path: Path) -> None:
    account = Account(Ledger(tmp_path / "ledger.sqlite"), "people")
    here, another, stranger = Chargeable(), Chargeable(), Chargeable()
    alone = Entry(account).charge(EVENT, here)
    with pytest.raises(LedgerError, match="A charge is for one run, and this one was made for another run"):
        alone.begin(another)
    alone.begin(here)
    with pytest.raises(LedgerError, match="charge is for one run, and the run of this one has begun"):
        alone.begin(here)
    series = SeriesEntry(account, EVENT)
    first, second = series.charge(EVENT, here), series.charge(EVENT, another)
    assert first is second
    first.begin(here)
    second.begin(another)
    with pytest.raises(LedgerError, match="made for another run"):
        second.begin(stranger)
    with pytest.raises(LedgerError, match="has begun"):
        first.begin(here)
    assert [len(population.charges) for population in account.ledger.populations()] == [2]


def test_stages_hold_values_alone() -> None:
    """None has a function that was made in one stage for a later one."""
    of_releases = (PreparedRelease, Planned, Allowed, Delivered, ReadyRelease, ChargedRelease, Revealed, Run)
    of_sums = (PlannedSums, AllowedSums, ReadySums, ChargedSums, OpenSums, RevealedSums)
    of_training = (PlannedTraining, AllowedTraining, RevealedTraining, Trained)
    for stage in (*of_releases, *of_sums, *of_training):
        with pytest.raises(FrozenInstanceError):
            setattr(object.__new__(stage), fields(stage)[0].name, None)
        functions = [field.name for field in fields(stage) if "Callable" in str(field.type)]
        assert functions == [], stage.__name__


def test_what_is_made_up_has_no_place_for_inputs() -> None:
    of_inputs = {field.name for field in fields(PrivateJob)} - {field.name for field in fields(MadeUpJob)}
    assert of_inputs == {"values", "piece_at_hosts"}
    job: Job = MadeUpJob(PI_LAP, PROGRAMS / "pi_lap.mpc", ())
    assert job.values_of(0) is None and job.sending is None
