"""Runs any statistic. A release is planned, allowed, delivered, made ready, charged, revealed, published."""

import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Generic, TypeVar

from msgspec import UNSET, structs

from fairshares.harness.engines.execution import (
    Backend,
    Conditions,
    EngineResult,
    PrivateJob,
    Progress,
    ReadyParties,
    Runner,
)
from fairshares.harness.engines.links import Network
from fairshares.harness.engines.registry import engine_of
from fairshares.harness.errors import UnsupportedError
from fairshares.harness.pipeline.jobs import make_job
from fairshares.harness.pipeline.manifest_of_run import (
    columns_of,
    combined_manifest,
    computation_of,
    environment,
    made_ahead,
)
from fairshares.harness.pipeline.planning import Planner, event_of
from fairshares.harness.pipeline.preprocessing import charging_for, joint_noise_of, taken
from fairshares.harness.pipeline.relations import refuse_noise_of_another_relation
from fairshares.harness.pipeline.sources import PartyInputs, RunContext, Source, with_excluded
from fairshares.harness.privacy.ledger.charge import Account, ChargedRun, Entry, entry
from fairshares.harness.privacy.ledger.populations import PrivacyEvent
from fairshares.harness.privacy.manifest import MANIFEST, SIGNATURES, Manifest
from fairshares.harness.privacy.statement import state_privacy
from fairshares.harness.privacy.stock import Piece, Stock
from fairshares.harness.releases.base import Answer, PreparedRelease, Statistic
from fairshares.harness.releases.files import ResultFile, files_to_json
from fairshares.harness.request.request import Request
from fairshares.harness.system.documents import as_json
from fairshares.harness.system.result_files import SCHEMA, new_directory, write_all, write_json
from fairshares.protocols.spec import ProtocolSpec

R = TypeVar("R", bound=Answer)


@dataclass(frozen=True)
class RunSettings:
    """How a release is run.

    Attributes:
        release: The release that is asked for.
        timeout_s: Seconds for the parties to start and compute.
        account: The population that is charged, and the ledger.
        network: The emulated network between the parties, if any.
        hosts: The hosts that run the parties; None for this machine's engine.
        stock: The stock that noise made ahead is taken from; None if parties make noise in the run.
    """

    release: Request
    timeout_s: float = 600.0
    account: Account = field(default_factory=Account)
    network: Network | None = None
    hosts: Runner | None = None
    stock: Stock | None = None

    @property
    def runner(self) -> Runner:
        """The hosts, or the engine on this machine."""
        return self.hosts or engine_of(self.release.model)

    def check_supported(self, spec: ProtocolSpec) -> None:
        """Raise UnsupportedError or OptionError unless the model can run the protocol here."""
        check_supported(self.release, spec, self.runner)


def check_supported(release: Request, spec: ProtocolSpec, backend: Backend) -> None:
    """Raise UnsupportedError or OptionError unless the release's model can run the protocol there."""
    model = release.model
    reason = backend.supports(release.program_of(spec), model, release.form)
    if reason is not None:
        raise UnsupportedError(f"Security model {model.name} cannot do this. {reason}")


@dataclass(frozen=True)
class Run(Generic[R]):
    """A finished run."""

    found: R
    manifest: Manifest
    charging: Entry
    out: Path
    files: Sequence[ResultFile]  # beside the manifest


@dataclass(frozen=True)
class Planned(Generic[R]):
    """A release on inputs whose public facts are known. Nothing is shared yet.

    Attributes:
        event: The event about which the ledger is asked.
    """

    prepared: PreparedRelease[R]
    inputs: PartyInputs
    event: PrivacyEvent


@dataclass(frozen=True)
class Allowed(Generic[R]):
    """A planned release that the ledger would charge now. Refusals end here, except by the charge.

    Attributes:
        planned: The planned run, with the name of `piece` in its event.
        piece: The run's noise, which is out of the stock for good; None if parties make noise in the run.
    """

    planned: Planned[R]
    piece: Piece | None


@dataclass(frozen=True)
class Delivered(Generic[R]):
    """An allowed release whose shares are at the parties' doors, and the job that reads them."""

    allowed: Allowed[R]
    inputs: PartyInputs
    job: PrivateJob


@dataclass(frozen=True)
class ReadyRelease(Generic[R]):
    """A delivered release whose parties have started, have its shares, and wait. Nothing has left them."""

    delivered: Delivered[R]
    parties: ReadyParties


@dataclass(frozen=True)
class ChargedRelease(Generic[R]):
    """A ready release whose charge is on disk, for good.

    It is made by `charge` alone, of the release's own event, and lets its own parties compute.
    """

    ready: ReadyRelease[R]
    charge: ChargedRun

    def go(self) -> "Revealed[R]":
        """Let the parties compute, once, and return what they revealed; raises as `ReadyParties.go`."""
        return Revealed(self.ready.delivered, self.ready.parties.go(self.charge))


@dataclass(frozen=True)
class Revealed(Generic[R]):
    """The result of a charged release's parties: noisy integers, and the costs of the computation."""

    delivered: Delivered[R]
    result: EngineResult


def run_release(
    statistic: Statistic[R],
    source: Source,
    settings: RunSettings,
    out: Path,
    progress: Progress,
    *,
    earlier: Mapping[str, Manifest] | None = None,
    within: Entry | None = None,
) -> Run[R]:
    """Run a statistic's protocol; write its files and `manifest.json` into `out`.

    If it fails, `out` does not exist, and no shares are left. `earlier` holds manifests of releases on the
    same clients that led to this one. The files then state the loss of all, this one at its full budget,
    since its actual loss depends on earlier outcomes. `within` is the ledger entry of a series.
    """
    began = time.monotonic()
    release = settings.release
    settings.check_supported(statistic.spec)
    with (
        entry(settings.account) if within is None else nullcontext(within) as charging,
        new_directory(out) as partial,
    ):
        planner = Planner(statistic, release, settings.account, out, progress)
        context = RunContext(release, partial, progress, settings.timeout_s, planner)
        planned = plan(planner, source, context, full_budget=bool(earlier))
        allowed = allow(planned, charging, settings.stock, partial / "piece")
        delivered = deliver(allowed, source, context)
        with prepare(delivered, settings, partial / "parties", progress) as ready:
            charged = charge(ready, charging, settings.stock)
            revealed = charged.go()
        progress("read")
        answer = allowed.planned.prepared.read(revealed.result.outputs, delivered.inputs.clients)
        manifest = state(statistic.name, revealed, charging, began)
        if earlier:
            parts = {**earlier, statistic.name: manifest}
            manifest = combined_manifest(statistic.name, parts, release.protect.guarantee)
        files = answer.files(manifest.privacy)
        publish(partial, files, manifest, revealed.result)
        settings.runner.finish(revealed.result, partial)
        return Run(answer, manifest, charging, out, files)


def plan(planner: Planner[R], source: Source, context: RunContext, *, full_budget: bool) -> Planned[R]:
    """Ask a source for its public facts, and work out noise and loss for them.

    With `full_budget` all that was asked for is charged: the actual loss would tell what earlier releases
    opened.
    """
    inputs = source.describe(context)
    prepared = planner.prepared(inputs.domain)
    event = event_of(prepared, planner.statistic.name, planner.out)
    event = replace(event, uploads=inputs.batches, upload_task=inputs.upload_task, policies=inputs.policies)
    if full_budget:
        event = replace(event, exact=context.release.protect.guarantee, noise=None)
    return Planned(prepared, inputs, event)


def allow(planned: Planned[R], charging: Entry, stock: Stock | None, place: Path) -> Allowed[R]:
    """Ask the ledger, and take the noise, if it was made ahead, out of the stock into `place`.

    Raises BudgetError, PopulationError, UsedUploadsError or LedgerError; StockError without such noise.
    """
    charging.check(planned.event)
    if stock is None:
        return Allowed(planned, None)
    refuse_noise_of_another_relation(planned.prepared, stock, charging.account)
    piece = taken(joint_noise_of(planned.prepared), stock, place)
    return Allowed(replace(planned, event=replace(planned.event, piece=piece.name)), piece)


def deliver(allowed: Allowed[R], source: Source, context: RunContext) -> Delivered[R]:
    """Have the source share what it has, and lay out the parties' job."""
    planned = allowed.planned
    piece = allowed.piece
    inputs = source.deliver(context, planned.inputs, piece)
    job = make_job(planned.prepared, inputs)
    if piece is not None:
        job = replace(job, pieces=piece.parties)
    return Delivered(allowed, inputs, job)


@contextmanager
def prepare(
    delivered: Delivered[R], settings: RunSettings, work: Path, progress: Progress
) -> Iterator[ReadyRelease[R]]:
    """Start the parties under `work`; they get their shares, and wait.

    Raises, and leaves as much, as `Runner.prepare`.
    """
    conditions = Conditions(work, settings.timeout_s, progress, settings.network)
    with settings.runner.prepare(delivered.job, settings.release.model, conditions) as parties:
        yield ReadyRelease(delivered, parties)


def charge(ready: ReadyRelease[R], charging: Entry, stock: Stock | None) -> ChargedRelease[R]:
    """Write the charge of a release whose parties wait.

    Raises as `allow`; UsedNoiseError if a run has used the noise, whose stock is a copy.
    """
    event = ready.delivered.allowed.planned.event
    with nullcontext() if stock is None else charging_for(stock, event.piece):
        return ChargedRelease(ready, charging.charge(event, ready.parties))


def state(task: str, revealed: Revealed[R], charging: Entry, began: float) -> Manifest:
    """Return the manifest of one release, which began at this reading of the monotonic clock."""
    delivered = revealed.delivered
    result = revealed.result
    inputs = delivered.inputs
    piece = delivered.allowed.piece
    prepared = delivered.allowed.planned.prepared
    release = prepared.release
    noise = made_ahead(piece) if piece else result.preprocessing
    attempts = noise.attempts if noise is not None else 0
    wall_s = time.monotonic() - began
    return Manifest(
        **structs.asdict(computation_of(result, wall_s, inputs.share_s, inputs.uploaded)),
        task=task,
        privacy=state_privacy(prepared, delivered.job.compared, attempts).stated,
        inputs=with_excluded(inputs.public(release.form), result.left_out),
        ledger=charging.stated(),
        environment=environment(),
        hosts=UNSET if result.hosts is None else result.hosts,
        request=release.to_json(),
        columns=columns_of(inputs.columns),
        preprocessing=UNSET if noise is None else noise,
    )


def publish(partial: Path, files: Sequence[ResultFile], manifest: Manifest, result: EngineResult) -> None:
    """Write the results into a directory that nobody sees yet, and remove all else from it."""
    for leftover in partial.iterdir():  # the engine has removed the rest
        if leftover.is_file():
            leftover.unlink()
        else:
            shutil.rmtree(leftover)
    if result.signed:
        write_json(
            partial / SIGNATURES,
            {"schema": SCHEMA, "signed": [as_json(statement) for statement in result.signed]},
        )
    write_all(partial, {**files_to_json(files), MANIFEST: as_json(manifest)})
