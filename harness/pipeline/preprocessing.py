"""Offline and online: the joint noise of releases, made before their inputs are there."""

import hashlib
import json
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.engines.base import PROGRAMS, EngineResult, Job, Progress
from harness.engines.registry import engine_of
from harness.privacy.stock import Piece, Stock, new_name, shares_of
from harness.releases.base import PreparedRelease
from harness.security_models import SecurityModel
from harness.system.files import scratch_directory
from protocols.circuits.noise import fair_bits_per_sample, input_widths
from protocols.spec import PI_PREPROCESS


def preprocess(
    prepared: PreparedRelease[Any], stock: Stock, runs: int, timeout_s: float, progress: Progress
) -> list[dict[str, Any]]:
    """Make the noise of so many runs of a release, one piece after the other; return what each took.

    Guarantees: a piece enters the stock only after every party has ended well; of one that fails nothing is
    left, neither shares nor keys.  [test: tests/harness/pipeline/test_preprocessing.py]
    Args: prepared: of a release that takes such noise; runs: 1 or more.
    Raises: FairSharesError: what was made before stays.
    """
    model: SecurityModel = prepared.release.security
    engine, terms, made = engine_of(model), terms_of(prepared), []
    for number in range(runs):
        progress(f"piece {number + 1}")
        attempts = stock.begin(terms)
        with scratch_directory(stock.directory) as scratch:
            job = noise_job(prepared, shares_of(scratch / "piece", model.parties))
            result = engine.run(job, model, scratch / "parties", timeout_s, progress)
            about = what_it_took(result) | {"attempts": attempts}
            stock.keep(terms, new_name(terms, [secrets.token_hex(32)]), scratch / "piece", about)
        made.append(about)
    return made


def what_it_took(result: EngineResult) -> dict[str, Any]:
    """Return what is said of how a piece was made."""
    return {"mpc_s": result.times["mpc_s"], "sent_bytes": list(result.sent_bytes)}


def noise_job(prepared: PreparedRelease[Any], directories: Sequence[Path]) -> Job:
    """Return the job that makes a release's noise. Args: directories: for each party's shares of it."""
    plan, parties = prepared.plan, prepared.release.security.parties
    return Job(
        spec=PI_PREPROCESS,
        source=PROGRAMS / f"{PI_PREPROCESS.name}.mpc",
        arguments=tuple(map(str, (parties, plan.nodes, plan.node_epsilon, plan.node_delta_bits))),
        party_inputs=(None,) * parties,
        fair_bits=tuple((width, plan.nodes) for width in input_widths(fair_bits_per_sample(plan.coins))),
        pieces=tuple(directories),
    )


def terms_of(prepared: PreparedRelease[Any], certificates: Mapping[str, str] | None = None) -> str:
    """Return what names the noise that a release takes: its program, arguments and engine, and the model.

    Args: certificates: fingerprints, by party, where each party is on a host of its own.
    """
    model: SecurityModel = prepared.release.security
    job = noise_job(prepared, [Path()] * model.parties)
    terms = [model.name, engine_of(model).program_hash(job, model), *sorted((certificates or {}).items())]
    return hashlib.sha256(json.dumps(terms).encode()).hexdigest()


def taken(prepared: PreparedRelease[Any], stock: Stock | None, target: Path) -> Piece | None:
    """Return the piece that a release takes out of the stock, None if it makes its own noise.

    Raises: StockError.
    """
    if stock is None or not prepared.release.offline:
        return None
    return stock.take(terms_of(prepared), prepared.release.security.parties, target)
