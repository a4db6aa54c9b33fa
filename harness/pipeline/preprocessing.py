"""Offline and online: the joint noise of releases, made before their inputs are there."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.engines.base import PROGRAMS, Job, Progress
from harness.engines.registry import engine_of
from harness.privacy.stock import Piece, Stock
from harness.releases.base import PreparedRelease
from harness.security_models import SecurityModel
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
        about: dict[str, Any] = {"model": model.name}
        with stock.making(terms, model.parties, about) as directories:
            job = noise_job(prepared, directories)
            parties = directories[0].parent.parent / "parties"
            result = engine.run(job, model, parties, timeout_s, progress)
            about |= {"mpc_s": result.times["mpc_s"], "sent_bytes": list(result.sent_bytes)}
        made.append(about)
    return made


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


def terms_of(prepared: PreparedRelease[Any]) -> str:
    """Return what names the noise that a release takes: its program, arguments and engine, and the model."""
    model: SecurityModel = prepared.release.security
    job = noise_job(prepared, [Path()] * model.parties)
    terms = [model.name, engine_of(model).program_hash(job, model)]
    return hashlib.sha256(json.dumps(terms).encode()).hexdigest()


def taken(prepared: PreparedRelease[Any], stock: Stock | None, target: Path) -> Piece | None:
    """Return the piece that a release takes out of the stock, None if it makes its own noise.

    Raises: StockError.
    """
    if stock is None or not prepared.release.offline:
        return None
    return stock.take(terms_of(prepared), prepared.release.security.parties, target)
