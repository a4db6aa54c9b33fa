"""Adds up the counts of a chain's runs; this spends no ε."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from harness.errors import FairSharesError, ResultFileError, named
from harness.pipeline.earlier_results import read_files
from harness.pipeline.run import MANIFEST, SIGNATURES, environment, result_files
from harness.postprocessing.noisy_counts import NoisyCounts
from harness.postprocessing.reweighing.formulas import REWEIGHINGS
from harness.privacy.statement import read_statement
from harness.releases.base import Files, domain_of
from harness.releases.registry import statistic_of
from harness.releases.weights import Weights, WeightsStatistic
from harness.request.releases import request_from_json
from protocols.noise.added import Several, Single

_OF_ALL = ("schema", "task", "security", "engine", "engine_version", "request", "privacy", "ledger")


class _Run(NamedTuple):
    manifest: dict[str, Any]
    terms: tuple[Any, ...]  # the same for all runs of the chain
    uploads: str  # a hash of the counted ones
    counts: NoisyCounts
    noise: Single
    reweighing: str


def add_up(directories: Sequence[Path], verify: Callable[[Path], object]) -> tuple[Weights, Files]:
    """Add up the counts of a chain's runs; return the weights that follow, and their files.

    `verify` checks results that hosts signed, and raises SignatureError.
    Computes: the sum of the counts, with the sum of the runs' independent noises, so intervals are exact as
    for one run. The sum protects what each run does (theorem 16).

    Raises:
        ResultFileError: A directory holds no run of the chain, or one that another holds.
    [test: tests/harness/pipeline/test_chains.py]
    """
    started, runs = time.monotonic(), [_run_in(directory, verify) for directory in directories]
    first = runs[0]
    for directory, run in zip(directories, runs, strict=True):
        if run.terms != first.terms:
            raise ResultFileError(
                f"{directory} is of another chain than {directories[0]}, or states another guarantee; add up "
                "runs of one chain."
            )
    if len({run.uploads for run in runs}) < len(runs):
        raise ResultFileError("Two of these directories hold the same run; name each run once.")
    table = np.sum([run.counts.table for run in runs], axis=0)
    counts = NoisyCounts(first.counts.domain, table, Several(tuple(run.noise for run in runs)))
    weights = Weights(counts, REWEIGHINGS[first.reweighing](counts))
    inputs = [run.manifest["inputs"] for run in runs]
    manifest = {
        **{name: first.manifest[name] for name in _OF_ALL},
        "added_up": list(map(str, directories)),
        "inputs": {name: sum(numbers[name] for numbers in inputs) for name in ("clients", "uploads")},
        "wall_s": time.monotonic() - started,
        "environment": environment(),
    }
    files = WeightsStatistic().files(weights)
    return weights, {**result_files(files, manifest["privacy"]), MANIFEST: manifest}


def _run_in(directory: Path, verify: Callable[[Path], object]) -> _Run:
    if (directory / SIGNATURES).exists():
        verify(directory)
    files = read_files(directory)
    manifest, fields = files[MANIFEST], files.get("weights.json", {})
    try:
        request: Any = request_from_json(manifest["request"])
        ledger, privacy = manifest["ledger"], fields["privacy"]
        domain = replace(domain_of(fields), max_count=manifest["inputs"]["max_count"])
        plan = statistic_of(request).prepare(request, domain).plan
        counts = NoisyCounts(domain, np.array(fields["noisy_counts"], dtype=np.float64), plan.noise)
        charged = ledger["path"], ledger["charge"], request.population, request.chain
        run = _Run(
            manifest,
            (*charged, privacy, domain),
            manifest["inputs"]["uploads_sha256"],
            counts,
            plan.noise,
            request.reweighing,
        )
        intact = privacy == manifest["privacy"] and read_statement(manifest).exact == plan.exact
    except (FairSharesError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        intact = False
    if not (intact and run.terms[3]):
        raise ResultFileError(
            f"{directory} is not the result of a run of a chain, as the run left it; name directories that "
            f"runs of weights with {named('chain')} wrote."
        )
    return run
