"""Adds up the counts of a chain's runs, without spending ε."""

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from fairshares.harness.errors import ResultFileError, SignatureError, named, named_command
from fairshares.harness.inputs.record_schema import RecordDomain
from fairshares.harness.pipeline.earlier_results import WRONG_VALUES, read_files
from fairshares.harness.pipeline.manifest_of_run import environment
from fairshares.harness.postprocessing.noisy_counts import NoisyCounts
from fairshares.harness.privacy.manifest import SIGNATURES, Manifest, StatedInputs, SumManifest, given
from fairshares.harness.releases.files import ResultFile, domain_in, needed_file
from fairshares.harness.releases.registry import offering, request_from_json
from fairshares.harness.releases.weights.statistic import Weights, WeightsFile, WeightsStatistic
from fairshares.harness.reweighing.formulas import REWEIGHINGS
from fairshares.harness.stated_privacy import StatedPrivacy
from fairshares.protocols.noise.added import Several, Single


@dataclass(frozen=True)
class _ChainTerms:
    """The facts that all runs of a chain have in common."""

    ledger: str
    charge: int | None
    population: str | None
    chain: str
    privacy: StatedPrivacy
    domain: RecordDomain


@dataclass(frozen=True)
class _Run:
    """A run of a chain, as its files have it."""

    manifest: Manifest
    request: dict[str, str]
    terms: _ChainTerms
    uploads: int
    identities: str  # a hash of the counted uploads' identities
    counts: NoisyCounts
    noise: Single
    reweighing: str


@dataclass(frozen=True)
class AddedUp:
    """The weights that follow from a chain's runs together, with their manifest and other files.

    Attributes:
        signed: Whether hosts signed each run.
        compared: Whether the certificates that signed belong to the hosts' owners. If not, they may be
            anybody's.
    """

    weights: Weights
    manifest: SumManifest
    files: Sequence[ResultFile]
    signed: bool
    compared: bool


def add_up(
    directories: Sequence[Path],
    signers: Mapping[Path, Sequence[str]],
    known: Sequence[str] | None = None,
) -> AddedUp:
    """Add up the counts of a chain's runs.

    Computes: the sum of the counts, with the sum of the runs' independent noises. It protects what each run
    protects (theorem 16).  [test: tests/harness/pipeline/test_chains.py]
    Guarantees: if hosts signed a run, hosts signed all, by the `known` certificates or, without these, each
    by the same. A run that took place on hosts counts only with their signatures.
    [test: tests/harness/pipeline/test_signed_chains.py]

    Args:
        directories: The directories of the runs.
        signers: The SHA-256 of the hosts' certificates, party 0 first, of each run that hosts signed, once
            that is checked.
        known: The SHA-256 of the certificates, as the hosts' owners say them. If owners have renewed their
            keys in between, those of the renewed certificates follow.
    Raises:
        ResultFileError: A directory holds no run of the chain, or one that another holds.
        SignatureError: The runs are not signed as the guarantee requires.
    """
    started = time.monotonic()
    signed = _check_signers(directories, signers, known)
    runs = [_run_in(directory) for directory in directories]
    first = runs[0]
    for directory, run in zip(directories, runs, strict=True):
        if run.terms != first.terms:
            raise ResultFileError(
                f"{directory} is of another chain than {directories[0]}, or states another guarantee; add up "
                "runs of one chain."
            )
    if len({run.identities for run in runs}) < len(runs):
        raise ResultFileError("Two of these directories hold the same run; name each run once.")
    table = np.sum([run.counts.table for run in runs], axis=0)
    counts = NoisyCounts(first.counts.domain, table, Several(tuple(run.noise for run in runs)))
    weights = Weights(counts, REWEIGHINGS[first.reweighing](counts))
    manifest = SumManifest(
        task=first.manifest.task,
        security=first.manifest.security,
        parties=first.manifest.parties,
        engine=first.manifest.engine,
        engine_version=first.manifest.engine_version,
        request=first.request,
        privacy=first.manifest.privacy,
        ledger=first.manifest.ledger,
        added_up=list(map(str, directories)),
        inputs=StatedInputs(
            clients=sum(run.manifest.inputs.clients for run in runs),
            uploads=sum(run.uploads for run in runs),
        ),
        wall_s=time.monotonic() - started,
        environment=environment(),
    )
    files = weights.files(manifest.privacy)
    return AddedUp(weights, manifest, files, signed, compared=known is not None)


def _check_signers(
    directories: Sequence[Path], signers: Mapping[Path, Sequence[str]], known: Sequence[str] | None
) -> bool:
    """Check who signed each run; return whether hosts did. Raises SignatureError as `add_up`."""
    has_signatures = any(os.path.lexists(directory / SIGNATURES) for directory in directories)
    if not has_signatures and known is None:
        return False
    for directory in directories:
        if directory not in signers:
            raise SignatureError(
                f"{directory} has no {SIGNATURES}, so nobody signed its counts; fetch the results from the "
                "hosts again, or leave this directory out."
            )
    of_runs = {directory: list(signers[directory]) for directory in directories}
    first = of_runs[directories[0]]
    parties = len(first)
    accepted = [first]
    if known is not None:
        accepted = [[*known[start : start + parties]] for start in range(0, len(known), parties)]
    for directory, certificates in of_runs.items():
        if certificates in accepted:
            continue
        if known is None:
            raise SignatureError(
                f"Other certificates signed {directory} than {directories[0]}, and nobody says whose they "
                f"are; name the SHA-256 of each owner's certificates by {named('fingerprints')}."
            )
        raise SignatureError(
            f"Other hosts signed {directory} than {named('fingerprints')} names, in the order of the "
            f"parties; compare the certificates that {named_command('verify')} shows with what the hosts' "
            "owners say."
        )
    return True


def _run_in(directory: Path) -> _Run:
    """Return the run of a chain in a directory; ResultFileError or SignatureError as `add_up`."""
    earlier = read_files(directory)
    manifest = earlier.manifest
    on_hosts = isinstance(manifest, Manifest) and given(manifest.hosts) is not None
    if on_hosts and not os.path.lexists(directory / SIGNATURES):
        raise SignatureError(
            f"{directory} is of a run on hosts and has no {SIGNATURES}, so nobody signed its counts; fetch "
            "the results from the hosts again, or leave this directory out."
        )
    run = None
    if manifest.task in offering("chain") and isinstance(manifest, Manifest):
        with suppress(*WRONG_VALUES):
            run = _run_of(manifest, needed_file(earlier.files, WeightsFile))
    if run is None:
        raise ResultFileError(
            f"{directory} is not the result of a run of a chain, as the run left it; name directories that "
            f"runs of {' or '.join(offering('chain'))} with {named('chain')} wrote."
        )
    return run


def _run_of(manifest: Manifest, file: WeightsFile) -> _Run | None:
    """Return the run of a chain that wrote these files; None if it was of no chain, or the files differ.

    Raises FairSharesError or another error for values that no run writes.
    """
    inputs = manifest.inputs
    asked = given(manifest.request)
    max_count = given(inputs.max_count)
    uploads = given(inputs.uploads)
    identities = given(inputs.uploads_sha256)
    if manifest.ledger is None or asked is None or max_count is None:
        return None
    if uploads is None or identities is None:
        return None
    request = request_from_json(asked)
    statistic = WeightsStatistic.for_request(request)
    domain = replace(domain_in(file.groups, file.labels, file.privacy), max_count=max_count)
    plan = statistic.prepare(request, domain).plan
    is_as_charged = file.privacy == manifest.privacy and manifest.privacy.exact == plan.exact
    if not is_as_charged or request.charged_with is None:
        return None
    terms = _ChainTerms(
        ledger=manifest.ledger.path,
        charge=manifest.ledger.charge,
        population=request.population,
        chain=request.charged_with,
        privacy=manifest.privacy,
        domain=domain,
    )
    return _Run(
        manifest=manifest,
        request=asked,
        terms=terms,
        uploads=uploads,
        identities=identities,
        counts=NoisyCounts(domain, np.array(file.noisy_counts, dtype=np.float64), plan.noise),
        noise=plan.noise,
        reweighing=statistic.reweighing,
    )
