"""Runs of jobs by tests: charged to nobody, or without parties at all."""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from harness.charged import Charged
from harness.engines.base import EngineResult, Job, MadeUpJob, PrivateJob, Progress, Ready, Runner
from harness.engines.emulated_network.profiles import Network
from harness.engines.engine import Engine
from harness.engines.parties.handle import PartyState
from harness.engines.parties.supervisor import waiting_parties
from harness.engines.registry import engine_of
from harness.privacy.ledger.charge import ChargedElsewhere
from harness.security_models import SecurityModel
from protocols.spec import InputForm, ProtocolSpec
from tests.support.running import RUN_TIMEOUT_S


def no_charge() -> None:
    """Charge nobody: a test's records are nobody's."""


def no_progress(_step: str) -> None:
    """Show nothing."""


def run_job(
    job: PrivateJob | MadeUpJob,
    model: SecurityModel,
    work: Path,
    timeout_s: float = RUN_TIMEOUT_S,
    engine: Engine | None = None,
) -> EngineResult:
    """Run a job in a new directory, charged to nobody."""
    chosen = engine or engine_of(model)
    if isinstance(job, MadeUpJob):
        return chosen.run(job, model, work, timeout_s, no_progress)
    with chosen.prepare(job, model, work, timeout_s, no_progress) as ready:
        return ready.go(ChargedElsewhere(no_charge))


def run_parties(
    job: Job, configs: Sequence[dict[str, Any]], work: Path, timeout_s: float
) -> list[PartyState]:
    """Run a process per config to its end; return their states."""
    with waiting_parties(job, configs, work, timeout_s) as waiting:
        return waiting.finish()


class StandInRunner(Runner):
    """Supports everything, and has no parties: `opens` says what a charged job reveals."""

    def supports(self, spec: ProtocolSpec, model: SecurityModel, form: InputForm) -> str | None:
        return None

    @contextmanager
    def prepare(
        self,
        job: PrivateJob,
        model: SecurityModel,
        work: Path,
        timeout_s: float,
        progress: Progress,
        *,
        network: Network | None = None,
    ) -> Iterator[Ready]:
        yield _Waits(self, job, model)

    def run(self, *_: Any, **__: Any) -> EngineResult:
        raise AssertionError("a release is on somebody's records")

    @abstractmethod
    def opens(self, job: PrivateJob, model: SecurityModel) -> EngineResult:
        """Return what is revealed once the job is charged."""


class _Waits(Ready):
    def __init__(self, runner: StandInRunner, job: PrivateJob, model: SecurityModel) -> None:
        self._runner, self._job, self._model = runner, job, model

    def go(self, charged: Charged) -> EngineResult:
        charged.begin()
        return self._runner.opens(self._job, self._model)
