"""The main job: shares in, private weights out, by way of files that parties could hold apart."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

from harness import report, sharing
from harness.engines.base import PROGRAMS, Job, Progress
from harness.errors import FairSharesError, OptionError, ShareError, UnsupportedError
from harness.models import Model
from harness.outputs import NoisyCounts, read_counts
from harness.postprocess import REWEIGHINGS, GroupWeights
from harness.records import ClientRecords, domain_from_json
from harness.schemes import engine_of
from protocols.budget import NeighboringRelation, NoisePlan, plan_noise
from protocols.circuits.noise import fair_bits_per_sample, input_widths
from protocols.release import each_cell_once
from protocols.spec import PI_RW, InputForm

DEFAULT_TIMEOUT_S = 600.0
DEFAULT_DELTA = "2^-40"


@dataclass(frozen=True)
class Settings:
    """What the user chose for one release. epsilon, delta: totals of the release."""

    model: Model
    form: InputForm
    epsilon: Fraction
    delta: Fraction
    relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE
    timeout_s: float = DEFAULT_TIMEOUT_S
    reweighing: str = "balanced"


@dataclass(frozen=True)
class WeightsRun:
    """A finished run: what it opened, what follows from that, and the manifest."""

    counts: NoisyCounts
    weights: GroupWeights
    manifest: dict[str, Any]


def weights_from_records(
    records: ClientRecords, settings: Settings, out: Path, progress: Progress, task: str = "weights"
) -> WeightsRun:
    """Share all clients' records, run π_RW, write `weights.json` and `manifest.json` into `out`.

    Args: task: what the manifest calls the run.
    Raises: FairSharesError: `out` does not exist then, and nothing of the shares is left.
    """
    started = time.monotonic()
    check_supported(settings)
    plan_weights(settings, records.domain.cells)  # refuses what no noise fits before anything is shared
    with _new_directory(out) as partial:
        progress("share")
        shares = partial / "shares"
        before = time.monotonic()
        sharing.share(records, settings.form, settings.model.domain, settings.model.parties, shares)
        times = _Times(started, time.monotonic() - before)
        progress("aggregate")
        aggregates = _aggregate_all(shares, settings.model, partial)
        shutil.rmtree(shares)
        return _run(aggregates, settings, partial, progress, times, task, records.domain.inferred)


def weights_from_shares(shares: Path, settings: Settings, out: Path, progress: Progress) -> WeightsRun:
    """Run π_RW on what `share` or `aggregate` wrote, all parties on this machine.

    Args: shares: a directory with a directory `party-<i>` of share files per party, or a file
    `party-<i>.aggregate` per party; it stays as it is.
    Raises: FairSharesError: `out` does not exist then.
    """
    started = time.monotonic()
    check_supported(settings)
    aggregates = sorted(shares.glob("party-*.aggregate"))
    parties = len(aggregates or [path for path in shares.glob("party-*") if path.is_dir()])
    if parties != settings.model.parties:
        raise ShareError(
            f"{shares} holds shares for {parties} parties, model {settings.model.name} has "
            f"{settings.model.parties}; share for this model, or choose the one it was shared for."
        )
    with _new_directory(out) as partial:
        progress("aggregate")
        found = aggregates or _aggregate_all(shares, settings.model, partial)
        return _run(found, settings, partial, progress, _Times(started, 0.0), "weights", inferred=False)


def check_supported(settings: Settings) -> None:
    """Raise UnsupportedError unless the model can run π_RW on this input form here."""
    reason = engine_of(settings.model).supports(PI_RW, settings.model, settings.form)
    if reason is not None:
        raise UnsupportedError(f"Model {settings.model.name} cannot do this. {reason}")


def plan_weights(settings: Settings, cells: int) -> NoisePlan:
    """Choose the noise of a release of `cells` counts. Raises: OptionError: none fits the budget."""
    try:
        return plan_noise(each_cell_once(cells), settings.relation, settings.epsilon, settings.delta)
    except ValueError as error:
        raise OptionError(
            f"No noise fits --epsilon {settings.epsilon} and --delta {float(settings.delta):.3g}: {error}."
        ) from None


def default_out(task: str) -> Path:
    """Return a new directory's name under `runs/`."""
    return Path("runs") / f"{task}-{datetime.now():%Y%m%d-%H%M%S-%f}"


@dataclass(frozen=True)
class _Times:
    """When the command began, by the monotonic clock, and how long sharing took; seconds."""

    started: float
    share_s: float


def _aggregate_all(shares: Path, model: Model, partial: Path) -> list[Path]:
    """Take each party's step in its turn; return what they feed into the run."""
    aggregates = [partial / f"party-{i}.aggregate" for i in range(model.parties)]
    for i, path in enumerate(aggregates):
        sharing.aggregate(i, shares / f"party-{i}", path)
    return aggregates


def _run(
    aggregates: list[Path],
    settings: Settings,
    partial: Path,
    progress: Progress,
    times: _Times,
    task: str,
    inferred: bool,
) -> WeightsRun:
    model = settings.model
    header = sharing.check_aggregates(aggregates)
    if (header.form, header.arithmetic) != (settings.form.name, model.domain.name):
        raise ShareError(
            f"These shares are {header.form} over {header.arithmetic}; model {model.name} with --input-form "
            f"{settings.form.name} takes {settings.form.name} over {model.domain.name}."
        )
    domain = domain_from_json(header.record_domain, "the shares' header")
    plan = plan_weights(settings, domain.cells)
    values = [
        sharing.extract_values(path, partial / f"party-{i}.values") for i, path in enumerate(aggregates)
    ]
    job = rw_job(settings, plan, header.clients, len(domain.groups), len(domain.labels), values)
    result = engine_of(model).run(job, model, partial / "parties", settings.timeout_s, progress)
    progress("weights")
    counts = read_counts(result, domain, header.clients, plan.coins)
    weights = REWEIGHINGS[settings.reweighing](counts)
    privacy = report.privacy_fields(PI_RW, settings.form, model, plan, inferred)
    inputs = {"clients": header.clients, "uploads": header.batches, "max_count": domain.max_count}
    wall_s = time.monotonic() - times.started
    manifest = report.manifest(task, result, privacy, inputs, wall_s, times.share_s)
    for leftover in partial.iterdir():  # the engine has moved or removed all else
        leftover.unlink()
    _write_json(partial / "weights.json", {"schema": report.SCHEMA, **weights.to_json(), "privacy": privacy})
    _write_json(partial / "manifest.json", manifest)
    return WeightsRun(counts, weights, manifest)


def rw_job(
    settings: Settings, plan: NoisePlan, clients: int, groups: int, labels: int, values: list[Path]
) -> Job:
    """Return the job of π_RW; its arguments are those that `protocols.spec.PI_RW` names, in order."""
    cells = groups * labels
    arguments = {
        "form": settings.form.name,
        "parties": settings.model.parties,
        "clients": 0 if settings.form.summed_by_party else clients,
        "groups": groups,
        "labels": labels,
        "epsilon": plan.node_epsilon,
        "delta_bits": plan.node_delta_bits,
    }
    return Job(
        spec=PI_RW,
        source=PROGRAMS / f"{PI_RW.name}.mpc",
        arguments=tuple(str(arguments[name]) for name in PI_RW.arguments),
        party_inputs=tuple(values),
        fair_bits=tuple((width, cells) for width in input_widths(fair_bits_per_sample(plan.coins))),
    )


@contextmanager
def _new_directory(out: Path) -> Iterator[Path]:
    """Yield a private directory that becomes `out` when all is well, and vanishes when it is not."""
    if out.exists():
        raise OptionError(f"--out {out} exists already; name a new directory.")
    ours = [parent for parent in out.parents if not parent.exists()]
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(prefix=f".{out.name}.partial-", dir=out.parent))
    except OSError as error:
        raise OptionError(f"Cannot write to {out.parent}: {error.strerror}.") from None
    try:
        yield partial
        partial.rename(out)
    except OSError as error:
        where = error.filename or out
        raise FairSharesError(f"Cannot write to {where}: {error.strerror}; no result was written.") from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)
        for parent in ours:
            with suppress(OSError):  # it holds a result, this one or another
                parent.rmdir()


def _write_json(path: Path, value: dict[str, Any]) -> None:
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    with path.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
