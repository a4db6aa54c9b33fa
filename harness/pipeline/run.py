"""Runs any statistic: inputs, noise plan, charge, engine, files and manifest."""

import json
import os
import platform
import re
import shutil
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache, partial as part_of, reduce
from importlib.metadata import version
from pathlib import Path
from typing import Any, Generic, TypeVar

from harness import __version__
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
from harness.privacy.statement import PrivacyStatement, read_statement, state_privacy
from harness.privacy.stock import Piece, Stock
from harness.releases.base import PreparedRelease, Statistic
from harness.request.base import Request
from harness.system.result_files import SCHEMA, new_directory, write_all, write_json
from protocols.circuits.noise import fair_bits_per_sample, input_widths
from protocols.guarantee import Guarantee
from protocols.spec import HONEST, KEYS, ColumnSums, ProtocolSpec

MANIFEST = "manifest.json"
SIGNATURES = "signatures.json"  # of the hosts of a run

R = TypeVar("R")


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
    manifest: dict[str, Any]
    charging: Entry
    out: Path
    files: Mapping[str, dict[str, Any]]


def run_release(
    statistic: Statistic[R],
    source: Source,
    settings: RunSettings,
    out: Path,
    progress: Progress,
    earlier: Mapping[str, dict[str, Any]] | None = None,
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
        noise = {"piece": piece.name, **piece.about} if piece else dict(result.preprocessing)
        privacy = privacy_of(prepared, job.compared, noise.get("attempts", 0)).to_json()
        manifest = manifest_of(
            task,
            result,
            privacy,
            with_excluded(inputs.public(release.form), result.left_out),
            charging.fields(),
            time.monotonic() - started,
            inputs.share_s,
            inputs.uploaded,
        )
        manifest["request"] = release.to_json()
        if inputs.columns:
            manifest["columns"] = dict(inputs.columns)
        if noise:
            manifest["preprocessing"] = noise
        if earlier:
            manifest = combined_manifest(task, {**earlier, task: manifest}, release.protect.guarantee)
            privacy = manifest["privacy"]
        for leftover in partial.iterdir():  # the engine has removed the rest
            leftover.unlink() if leftover.is_file() else shutil.rmtree(leftover)
        if result.signed:
            write_json(partial / SIGNATURES, {"schema": SCHEMA, "signed": list(result.signed)})
        files = {**result_files(statistic.files(answer), privacy), MANIFEST: manifest}
        write_all(partial, files)
        settings.runner.finish(partial)
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


def result_files(
    files: Mapping[str, Mapping[str, Any]], privacy: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    """Return the result files by name, with the privacy statement."""
    return {name: {"schema": SCHEMA, **fields, "privacy": privacy} for name, fields in files.items()}


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
    form, nodes, sums = prepared.release.form, prepared.plan.nodes, prepared.program.release
    if inputs.sending or form.shares_bits:  # parties hold no values, or shares of bits
        return DistributedNoiseInput(nodes)
    columns = count_columns(inputs.domain, form.name)
    if not form.summed_by_party:
        return DistributedNoiseInput(nodes, columns * rows)
    assert isinstance(sums, ColumnSums)  # else its spec would not have been built
    bins, sizes = sums.blocks({name: str(value) for name, value in prepared.arguments.items()})
    return DistributedNoiseInput(nodes, columns, (columns // bins, bins, sizes))


def manifest_of(
    task: str,
    result: EngineResult,
    privacy: dict[str, Any],
    inputs: dict[str, int],
    charged: dict[str, Any] | None,
    wall_s: float,
    share_s: float,
    uploaded: Sequence[int] = (),
) -> dict[str, Any]:
    """Return the content of `manifest.json`."""
    record = {**result.flat(), "wall_s": wall_s, "share_s": share_s}
    traffic = {
        "client_sent_bytes": record.pop("client_sent_bytes") or list(uploaded),
        "client_received_bytes": list(result.client_received_bytes or ()),
    }
    return {
        "schema": SCHEMA,
        "task": task,
        "security": result.model.name,
        "privacy": privacy,
        "inputs": inputs,
        "ledger": charged,
        **record,
        **{name: sizes for name, sizes in traffic.items() if sizes},
        "environment": environment(),
        **({"hosts": dict(result.hosts)} if result.hosts else {}),
    }


def environment() -> dict[str, Any]:
    """Return the machine, load and versions."""
    return {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cores": os.cpu_count(),
        "load_average": list(os.getloadavg()),
        "packages": {
            "fairshares": __version__,
            **{name: version(name) for name in ("mpyc", "numpy", "pandas")},
        },
    }


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


def combined_manifest(
    task: str, parts: Mapping[str, dict[str, Any]], asked: Guarantee | None = None
) -> dict[str, Any]:
    """Return the manifest of several releases on the same people, in order, by one model.

    Computes: the privacy loss by `PrivacyStatement.plus`; sums of seconds, rounds and bytes; the most memory
    that a party took. For other fields the latest manifest wins. With `asked`, the last release counts at
    this full budget.
    [test: tests/harness/pipeline/test_manifest.py]
    """
    manifests = list(parts.values())
    *earlier, last = (read_statement(part) for part in manifests)
    of_each_party: dict[str, Callable[[Iterable[Any]], Any]] = {
        **dict.fromkeys(("sent_bytes", "party_mpc_s", "client_sent_bytes", "client_received_bytes"), sum),
        "peak_memory_bytes": max,
    }
    return {
        **manifests[-1],
        "task": task,
        "program_hash": " ".join(part["program_hash"] for part in manifests),
        "privacy": reduce(
            PrivacyStatement.plus, [*earlier, replace(last, exact=asked) if asked else last]
        ).to_json(),
        **{
            name: sum_if_known(part[name] for part in manifests)
            for name in ("mpc_s", "online_s", "offline_s", "wall_s", "compile_s", "share_s", "rounds")
        },
        **{
            name: [function(values) for values in zip(*(part[name] for part in manifests), strict=False)]
            for name, function in of_each_party.items()
            if all(name in part for part in manifests)
        },
        "parts": dict(parts),
    }


def sum_if_known(values: Iterable[float | None]) -> float | None:
    """Return the sum, or None if a value is unknown."""
    listed = list(values)
    known = [value for value in listed if value is not None]
    return sum(known) if len(known) == len(listed) else None
