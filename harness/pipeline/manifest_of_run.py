"""The manifest of a run: its computation, its environment, and the loss of several releases together."""

import os
import platform
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, TypeVar

from msgspec import UNSET, Meta, Struct, UnsetType, structs

from fairshares.harness import __version__
from fairshares.harness.bounds import Size
from fairshares.harness.computation import Computation, Preprocessing
from fairshares.harness.engines.execution import EngineResult
from fairshares.harness.privacy.manifest import Columns, Environment, Manifest, read_statement
from fairshares.harness.privacy.statement import together
from fairshares.harness.privacy.stock import Piece
from fairshares.protocols.guarantee import Guarantee


def made_ahead(piece: Piece) -> Preprocessing:
    """Return the manifest's fields on a piece of noise that was made ahead."""
    return Preprocessing(
        piece=piece.name,
        attempts=piece.attempts,
        mpc_s=piece.costs.mpc_s,
        sent_bytes=piece.costs.sent_bytes,
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
        parties=UNSET if result.model.stated_parties is None else result.model.stated_parties,
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


def environment() -> Environment:
    """Return the machine, load and versions."""
    packages = {"fairshares": __version__}
    for name in ("mpyc", "numpy", "pandas"):
        packages[name] = version(name)
    return Environment(
        time=datetime.now(UTC).isoformat(timespec="seconds"),
        python=platform.python_version(),
        platform=platform.platform(),
        cores=os.cpu_count(),
        load_average=list(os.getloadavg()),
        packages=packages,
    )


class Hardware(Struct, frozen=True, kw_only=True):
    """The name of a machine's processor, and its memory in bytes."""

    processor: Annotated[str, Meta(max_length=1 << 16)]
    memory_bytes: Size


def hardware() -> Hardware:
    """Return this machine's memory and, on Linux, its processor."""
    try:
        processor = re.search(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        processor = None
    return Hardware(
        processor=processor[1] if processor else platform.processor(),
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
    )


def combined_manifest(task: str, parts: Mapping[str, Manifest], asked: Guarantee | None = None) -> Manifest:
    """Return the manifest of several releases on the same people, in order, by one model.

    Computes: the privacy loss by `statement.together`; sums of seconds, rounds and bytes; the
    most memory that a party took. For other fields the latest manifest wins. With `asked`, the last release
    counts at this full budget.
    [test: tests/harness/pipeline/test_manifest.py]
    """
    manifests = list(parts.values())
    *earlier, last = (read_statement(part) for part in manifests)
    latest = last.with_loss(asked) if asked else last
    return structs.replace(
        with_costs_of(manifests),
        task=task,
        program_hash=" ".join(part.program_hash for part in manifests),
        privacy=together([*earlier, latest]).stated,
        parts=dict(parts),
    )


def with_costs_of(manifests: Sequence[Manifest]) -> Manifest:
    """Return the last manifest with the costs of all: sums, and the most memory that a party took."""
    of_parts = [part.peak_memory_bytes for part in manifests]
    return structs.replace(
        manifests[-1],
        mpc_s=sum_if_known([part.mpc_s for part in manifests]),
        party_mpc_s=_sums_of_parties([part.party_mpc_s for part in manifests]),
        online_s=sum_if_known([part.online_s for part in manifests]),
        offline_s=sum_if_known([part.offline_s for part in manifests]),
        wall_s=sum_if_known([part.wall_s for part in manifests]),
        compile_s=sum_if_known([part.compile_s for part in manifests]),
        share_s=sum_if_known([part.share_s for part in manifests]),
        rounds=sum_if_known([part.rounds for part in manifests]),
        sent_bytes=_sums_of_parties([part.sent_bytes for part in manifests]),
        client_sent_bytes=_sums_if_set([part.client_sent_bytes for part in manifests]),
        client_received_bytes=_sums_if_set([part.client_received_bytes for part in manifests]),
        peak_memory_bytes=[max(peaks) for peaks in zip(*of_parts, strict=False)],
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
