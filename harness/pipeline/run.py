"""Runs any statistic: inputs, noise plan, charge, engine, files and manifest."""

import json
import os
import platform
import re
import shutil
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache, partial as part_of, reduce
from importlib.metadata import version
from pathlib import Path
from typing import Any, Generic, TypeVar

from msgspec import UNSET, UnsetType, structs

from harness import __version__
from harness.computation import Computation, Preprocessing
from harness.engines.base import PROGRAMS, DistributedNoiseInput, EngineResult, Job, Progress, Runner
from harness.engines.emulated_network.profiles import Network
from harness.engines.registry import engine_of
from harness.errors import ShareError, UnsupportedError, named
from harness.inputs.encoding import count_columns
from harness.inputs.record_schema import RecordDomain
from harness.inputs.shares.file_format import ClientPolicy
from harness.pipeline.preprocessing import charging_for, joint_noise_of, taken
from harness.pipeline.sources import PartyInputs, RunContext, Source, with_excluded
from harness.privacy.ledger.accountants import NoiseEvent
from harness.privacy.ledger.charge import Account, Entry, entry
from harness.privacy.ledger.populations import PrivacyEvent, uncovered
from harness.privacy.ledger.stated import StatedCharge
from harness.privacy.manifest import (
    FILE as MANIFEST,
    SIGNATURES,
    Columns,
    Environment,
    Inputs,
    Manifest,
    manifest_to_json,
    read_statement,
)
from harness.privacy.statement import PrivacyStatement, state_privacy
from harness.privacy.stock import Piece, Stock
from harness.releases.base import Answer, PreparedRelease, Statistic
from harness.releases.files import ResultFile, files_to_json
from harness.request.base import Request
from harness.stated_privacy import StatedPrivacy
from harness.system.result_files import SCHEMA, new_directory, write_all, write_json
from protocols.circuits.noise import fair_bits_per_sample, input_widths
from protocols.guarantee import Guarantee
from protocols.spec import HONEST, KEYS, ColumnSums, ProtocolSpec

R = TypeVar("R", bound=Answer)


@dataclass(frozen=True)
class RunSettings:
    """How a release is run: on a `network`, by `hosts`, with noise from `stock`, if any."""

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
        model = self.release.model
        reason = self.runner.supports(self.release.program_of(spec), model, self.release.form)
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


def run_release(
    statistic: Statistic[R],
    source: Source,
    settings: RunSettings,
    out: Path,
    progress: Progress,
    earlier: Mapping[str, Manifest] | None = None,
    within: Entry | None = None,
) -> Run[R]:
    """Run a statistic's protocol; write its files and `manifest.json` into `out`.

    If it fails, `out` does not exist, and no shares are left. `earlier` holds manifests of releases on the
    same clients that led to this one. The files then state the loss of all, this one at its full budget,
    since its actual loss depends on earlier outcomes. `within` is the ledger entry of a series.
    """
    started, task, release = time.monotonic(), statistic.name, settings.release
    account, stock = settings.account, settings.stock
    settings.check_supported(statistic.spec)
    with (
        nullcontext(within) if within is not None else entry(account) as charging,
        new_directory(out) as partial,
    ):

        @cache
        def prepared_for(domain: RecordDomain) -> PreparedRelease[R]:
            check_kind(statistic, domain)
            progress("plan")
            return statistic.prepare(release, domain)

        def not_covered(domain: RecordDomain, policies: Mapping[str, ClientPolicy]) -> Collection[str]:
            event = event_of(prepared_for(domain), task, out)
            return uncovered(policies, event, account.ledger.spent_on(policies))

        @cache
        def taken_piece() -> Piece | None:
            return taken(joint_noise_of(prepared), stock, partial / "piece") if stock else None

        context = RunContext(
            release,
            partial,
            progress,
            settings.timeout_s,
            not_covered,
            part_of(account.ledger.counted, account.population, release.inputs.chain or ""),
            taken_piece,
        )
        described = source.describe(context)
        prepared = prepared_for(described.domain)  # refused before anything is shared
        event = event_of(prepared, task, out)
        event = replace(event, uploads=described.batches, policies=described.policies)
        if earlier:  # charge the full budget too: the actual loss would tell what they opened
            event = replace(event, exact=release.protect.guarantee, noise=None)
        charging.check(event)  # refused before anything is shared, and again when the parties start
        inputs = source.deliver(context, described)
        job = make_job(prepared, inputs)
        if (piece := taken_piece()) is not None:
            event, job = replace(event, piece=piece.name), replace(job, pieces=piece.parties)

        def starting() -> None:
            with charging_for(stock, event.piece) if stock else nullcontext():
                charging.start(event)

        result = settings.runner.run(
            job,
            release.model,
            partial / "parties",
            settings.timeout_s,
            progress,
            starting=starting,
            network=settings.network,
        )
        progress("read")
        answer = prepared.read(result.outputs, inputs.clients)
        noise = made_ahead(piece) if piece else result.preprocessing
        attempts = noise.attempts if noise is not None else 0
        manifest = manifest_of(
            task,
            result,
            privacy_of(prepared, job.compared, attempts).stated,
            with_excluded(inputs.public(release.form), result.left_out),
            charging.charged(),
            time.monotonic() - started,
            inputs.share_s,
            inputs.uploaded,
        )
        manifest = structs.replace(
            manifest,
            request=release.to_json(),
            columns=columns_of(inputs.columns),
            preprocessing=UNSET if noise is None else noise,
        )
        if earlier:
            manifest = combined_manifest(task, {**earlier, task: manifest}, release.protect.guarantee)
        for leftover in partial.iterdir():  # the engine has removed the rest
            leftover.unlink() if leftover.is_file() else shutil.rmtree(leftover)
        if result.signed:
            write_json(partial / SIGNATURES, {"schema": SCHEMA, "signed": list(result.signed)})
        files = answer.files(manifest.privacy)
        write_all(partial, {**files_to_json(files), MANIFEST: manifest_to_json(manifest)})
        settings.runner.finish(result, partial)
        return Run(answer, manifest, charging, out, files)


def check_kind(statistic: Statistic[Any], domain: RecordDomain) -> None:
    """Raise ShareError unless records of this domain suit the statistic."""
    if domain.kind is not statistic.kind:
        raise ShareError(
            f"These shares are of records with {domain.kind.described}; {statistic.name} needs "
            f"{statistic.kind.described}. Clients have to share again, with the right {named('task')}."
        )


def privacy_of(prepared: PreparedRelease[Any], compared: int, attempts: int = 0) -> PrivacyStatement:
    """Return a release's privacy statement; see `state_privacy`."""
    release, plan, domain = prepared.release, prepared.plan, prepared.domain
    stated = state_privacy(
        *(prepared.program, release.form, release.model, plan, domain.inferred, domain.cap),
        *(domain.max_count, compared, attempts),
    )
    if release.inputs.chain and domain.cap:  # the encoding bounds one upload, and a client may have several
        return replace(stated, cap_kept_by=HONEST)
    return stated


def event_of(prepared: PreparedRelease[Any], task: str, out: Path) -> PrivacyEvent:
    """Return the event for a ledger."""
    plan, release = prepared.plan, prepared.release
    return PrivacyEvent(
        task=task,
        model=release.model.name,
        exact=plan.exact,
        unit=plan.unit,
        relation=plan.relation,
        out=out,
        noise=NoiseEvent(plan.noise, plan.changed) if plan.release and plan.largest == 1 else None,
        chain=release.inputs.chain or "",
        domain=json.dumps(prepared.domain.to_json(), sort_keys=True) if release.inputs.chain else "",
    )


def make_job(prepared: PreparedRelease[Any], inputs: PartyInputs) -> Job:
    """Return the engine's job, with the arguments of the protocol's spec."""
    release, plan, spec = prepared.release, prepared.plan, prepared.program
    rows = 0 if release.form.summed_by_party else inputs.rows
    arguments = {
        "form": release.form.name,
        "path": release.form.path.name,
        "parties": release.model.parties,
        "clients": rows,
        "records": inputs.entries if release.form.name == KEYS.name else rows,
        "slots": inputs.entries,
        "per_lane": release.model.slots_per_lane,
        "parts": inputs.sending.parts if inputs.sending else 0,
        "epsilon": plan.node_epsilon,
        "delta_bits": plan.node_delta_bits,
        "nodes": plan.nodes,
        "kept": 0,
        **(plan.own.arguments() if plan.own else {}),
        **prepared.arguments,
    }
    return Job(
        spec=spec,
        source=PROGRAMS / f"{spec.name}.mpc",
        arguments=tuple(str(arguments[name]) for name in spec.arguments),
        party_inputs=tuple(inputs.values),
        fair_bits=()
        if plan.own or spec.uses_piece
        else tuple((width, plan.nodes) for width in input_widths(fair_bits_per_sample(plan.coins))),
        clients=inputs.sending,
        own=_own_input(prepared, inputs, rows) if plan.own or spec.adds_to_sums else None,
    )


def _own_input(prepared: PreparedRelease[Any], inputs: PartyInputs, rows: int) -> DistributedNoiseInput:
    """Return how each party's noise enters its inputs; `rows` is 0 for sums."""
    form, nodes, declared = prepared.release.form, prepared.plan.nodes, prepared.program.release
    if inputs.sending or form.shares_bits:  # parties hold no values, or shares of bits
        return DistributedNoiseInput(nodes)
    columns = count_columns(inputs.domain, form.name)
    if not form.summed_by_party:
        return DistributedNoiseInput(nodes, columns * rows)
    if not prepared.program.adds_to_sums:
        return DistributedNoiseInput(nodes, columns)
    assert isinstance(declared, ColumnSums)  # else its own program would run
    sums = declared.sums({name: str(value) for name, value in prepared.arguments.items()})
    return DistributedNoiseInput(nodes, columns, sums.values)


def made_ahead(piece: Piece) -> Preprocessing:
    """Return what a manifest says of a piece of noise."""
    return Preprocessing(
        piece=piece.name,
        attempts=piece.attempts,
        mpc_s=piece.about.get("mpc_s", UNSET),
        sent_bytes=piece.about.get("sent_bytes", UNSET),
    )


def columns_of(dtypes: Mapping[str, str]) -> Columns | UnsetType:
    """Return the dtypes of the records' columns, if there are any."""
    return Columns(**dtypes) if dtypes else UNSET


def computation_of(
    result: EngineResult, wall_s: float, share_s: float, uploaded: Sequence[int] = ()
) -> Computation:
    """Return the engine's part of a manifest; clients sent `uploaded` bytes to each party beforehand."""
    times = result.times
    sent = list(result.client_sent_bytes or uploaded)
    received = list(result.client_received_bytes or ())
    return Computation(
        security=result.model.name,
        engine=result.engine,
        engine_version=result.engine_version,
        program_hash=result.program_hash,
        compile_options=list(result.compile_options),
        mpc_s=times["mpc_s"],
        party_mpc_s=times["party_mpc_s"],
        online_s=times["online_s"],
        offline_s=times["offline_s"],
        wall_s=wall_s,
        compile_s=times["compile_s"],
        share_s=share_s,
        rounds=result.rounds,
        sent_bytes=list(result.sent_bytes),
        peak_memory_bytes=list(result.peak_memory_bytes),
        network=result.network,
        client_sent_bytes=sent or UNSET,
        client_received_bytes=received or UNSET,
    )


def manifest_of(
    task: str,
    result: EngineResult,
    privacy: StatedPrivacy,
    inputs: Inputs,
    charged: StatedCharge | None,
    wall_s: float,
    share_s: float,
    uploaded: Sequence[int] = (),
) -> Manifest:
    """Return the manifest of one release; `computation_of` says what the last three arguments are."""
    return Manifest(
        **structs.asdict(computation_of(result, wall_s, share_s, uploaded)),
        task=task,
        privacy=privacy,
        inputs=inputs,
        ledger=charged,
        environment=environment(),
        hosts=UNSET if result.hosts is None else result.hosts,
    )


def environment() -> Environment:
    """Return the machine, load and versions."""
    return Environment(
        time=datetime.now(UTC).isoformat(timespec="seconds"),
        python=platform.python_version(),
        platform=platform.platform(),
        cores=os.cpu_count(),
        load_average=list(os.getloadavg()),
        packages={
            "fairshares": __version__,
            **{name: version(name) for name in ("mpyc", "numpy", "pandas")},
        },
    )


def machine() -> dict[str, Any]:
    """Return the memory and, on Linux, the processor."""
    try:
        processor = re.search(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        processor = None
    return {
        "processor": processor[1] if processor else platform.processor(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
    }


def combined_manifest(task: str, parts: Mapping[str, Manifest], asked: Guarantee | None = None) -> Manifest:
    """Return the manifest of several releases on the same people, in order, by one model.

    Computes: the privacy loss by `PrivacyStatement.plus`; sums of seconds, rounds and bytes; the most memory
    that a party took. For other fields the latest manifest wins. With `asked`, the last release counts at
    this full budget.
    [test: tests/harness/pipeline/test_manifest.py]
    """
    manifests = list(parts.values())
    *earlier, last = (read_statement(part) for part in manifests)
    latest = replace(last, exact=asked) if asked else last
    client_sent = [part.client_sent_bytes for part in manifests]
    client_received = [part.client_received_bytes for part in manifests]
    return structs.replace(
        manifests[-1],
        task=task,
        program_hash=" ".join(part.program_hash for part in manifests),
        privacy=reduce(PrivacyStatement.plus, [*earlier, latest]).stated,
        mpc_s=sum_if_known([part.mpc_s for part in manifests]),
        party_mpc_s=_sums_of_parties([part.party_mpc_s for part in manifests]),
        online_s=sum_if_known([part.online_s for part in manifests]),
        offline_s=sum_if_known([part.offline_s for part in manifests]),
        wall_s=sum_if_known([part.wall_s for part in manifests]),
        compile_s=sum_if_known([part.compile_s for part in manifests]),
        share_s=sum_if_known([part.share_s for part in manifests]),
        rounds=sum_if_known([part.rounds for part in manifests]),
        sent_bytes=_sums_of_parties([part.sent_bytes for part in manifests]),
        client_sent_bytes=_sums_if_set(client_sent),
        client_received_bytes=_sums_if_set(client_received),
        peak_memory_bytes=[
            max(peaks) for peaks in zip(*(part.peak_memory_bytes for part in manifests), strict=False)
        ],
        parts=dict(parts),
    )


N = TypeVar("N", int, float)


def sum_if_known(values: Sequence[N | None]) -> N | None:
    """Return the sum, or None if a value is unknown."""
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def _sums_of_parties(figures: Sequence[Sequence[N] | None]) -> list[N] | None:
    """Return each party's sum over releases, None if a release's figures are unknown."""
    known = [figure for figure in figures if figure is not None]
    if len(known) < len(figures):
        return None
    return [sum(values) for values in zip(*known, strict=False)]


def _sums_if_set(figures: Sequence[list[int] | UnsetType]) -> list[int] | UnsetType:
    known = [figure for figure in figures if not isinstance(figure, UnsetType)]
    if len(known) < len(figures):
        return UNSET
    return [sum(values) for values in zip(*known, strict=False)]
