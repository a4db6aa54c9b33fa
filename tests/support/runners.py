"""Runs of jobs by tests: charged to nobody, or without parties at all."""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from fairshares.harness.charged import BegunCharge, Permission
from fairshares.harness.engines.execution import (
    Conditions,
    EngineResult,
    Job,
    PrivateJob,
    ReadyParties,
    Runner,
)
from fairshares.harness.engines.parties.handle import PartySetup, PartyState
from fairshares.harness.engines.parties.supervisor import waiting_parties
from fairshares.harness.security_models import SecurityModel
from fairshares.protocols.spec import InputForm, ProtocolSpec


def run_parties(job: Job, setups: Sequence[PartySetup], work: Path, timeout_s: float) -> list[PartyState]:
    """Run a process per setup to its end; return their states."""
    with waiting_parties(job, setups, work, timeout_s) as waiting:
        return waiting.finish(BegunCharge())


class StandInRunner(Runner):
    """Supports everything, and has no parties: `opens` says what a charged job reveals."""

    def supports(self, spec: ProtocolSpec, model: SecurityModel, form: InputForm) -> str | None:
        return None

    @contextmanager
    def prepare(
        self,
        job: PrivateJob,
        model: SecurityModel,
        conditions: Conditions,
    ) -> Iterator[ReadyParties]:
        yield _Waits(self, job, model)

    @abstractmethod
    def opens(self, job: PrivateJob, model: SecurityModel) -> EngineResult:
        """Return what is revealed once the job is charged."""


class _Waits(ReadyParties):
    def __init__(self, runner: StandInRunner, job: PrivateJob, model: SecurityModel) -> None:
        self._runner, self._job, self._model = runner, job, model

    def _finish(self, permission: Permission) -> EngineResult:
        return self._runner.opens(self._job, self._model)
