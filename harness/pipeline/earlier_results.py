"""Reads earlier results, and chooses thresholds again, without spending ε."""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from msgspec import structs

from fairshares.harness.errors import FairSharesError, ResultFileError, SignatureError, named, named_command
from fairshares.harness.inputs.record_schema import RecordDomain
from fairshares.harness.pipeline.manifest_of_run import environment
from fairshares.harness.postprocessing.noisy_counts import NoisyCounts
from fairshares.harness.privacy.manifest import (
    FILE as MANIFEST,
    SIGNATURES,
    ChoiceManifest,
    CurvesOf,
    EarlierManifest,
    Inputs,
    Manifest,
    SumManifest,
    given,
    opened_by,
    read_manifest,
    read_statement,
)
from fairshares.harness.releases.base import Answer, statistic_class
from fairshares.harness.releases.files import ResultFile, domain_in, file_in, needed_file, read_file
from fairshares.harness.releases.registry import REQUESTS, request_from_json
from fairshares.harness.releases.thresholds.request import ThresholdsRequest
from fairshares.harness.releases.thresholds.statistic import (
    CURVES,
    CurvesFile,
    NoisyCurves,
    ThresholdChoice,
    Thresholds,
    curves_in,
    thresholds_on,
)
from fairshares.harness.releases.weights.statistic import Weights, WeightsFile, WeightsStatistic
from fairshares.harness.reweighing.formulas import REWEIGHINGS
from fairshares.harness.stated_privacy import StatedPrivacy
from fairshares.protocols.noise.added import Several, Single

OPENED_NOTHING = (
    "nothing: these thresholds were chosen on curves that another run revealed; its ε and δ are stated "
    "here, and none were spent for this choice"
)
_SHOWN = 200  # characters of a reason
_CLOSE = 1e-9  # relative, for sums that another processor may round differently


@dataclass(frozen=True)
class ReleasedCurves:
    """Curves of an earlier run, its directory, and its manifest."""

    curves: NoisyCurves
    run: str
    manifest: Manifest


def read_curves(directory: Path) -> ReleasedCurves:
    """Read the curves of a run or a later choice. Raises as `as_curves`."""
    manifest = read_manifest(directory)
    return as_curves(manifest, [read_file(directory / CURVES, CurvesFile)], directory)


def as_curves(manifest: EarlierManifest, files: Sequence[ResultFile], directory: Path) -> ReleasedCurves:
    """Return the curves in a run's files; those of a later choice name the run that revealed them.

    Raises ResultFileError for another task or version, or damage. Consistent changes of all counts go
    unnoticed.
    """
    if CurvesFile not in _file_types(manifest.task):
        raise ResultFileError(
            f"{directory} is the result of {manifest.task!r}; {named('curves')} takes that of "
            f"{ThresholdsRequest.task!r}."
        )
    run = manifest.curves_of.run if isinstance(manifest, ChoiceManifest) else str(directory)
    revealed = opened_by(manifest)
    try:
        if not isinstance(revealed, Manifest):
            raise ResultFileError("Curves are not added up.")
        file = needed_file(files, CurvesFile)
        curves = curves_in(file)
        of_run = read_statement(revealed).restated
        alike = file.privacy == manifest.privacy == revealed.privacy == of_run
        intact = alike and _as_written(curves, file)
    except (FairSharesError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        intact = False
    if not intact or not isinstance(revealed, Manifest):
        raise ResultFileError(
            f"{directory / CURVES} and {MANIFEST} beside it are not as this version writes them: they were "
            "changed, or another version wrote them; name the directory of a run as it left it."
        )
    return ReleasedCurves(curves, run, revealed)


def choose_again(
    released: ReleasedCurves, choice: ThresholdChoice, positive: str
) -> tuple[Thresholds, ChoiceManifest, Sequence[ResultFile]]:
    """Choose thresholds on released curves; return them, their manifest, and their other files.

    An empty `positive` keeps the run's label.
    Guarantees: the same options give the run's own thresholds, to the last bit on one machine.
    [test: tests/harness/pipeline/test_earlier_curves.py]

    Raises RecordDomainError for an unknown label, or UndefinedRateError, TooNoisyError or InfeasibleError.
    """
    started = time.monotonic()
    chosen = thresholds_on(released.curves.for_positive(positive), choice)
    if chosen.problem is not None:
        raise chosen.problem
    privacy = released.manifest.privacy
    manifest = ChoiceManifest(
        task=ThresholdsRequest.task,
        opened=OPENED_NOTHING,
        curves_of=CurvesOf(run=released.run, manifest=released.manifest),
        privacy=privacy,
        ledger=None,
        wall_s=time.monotonic() - started,
        environment=environment(),
    )
    return chosen, manifest, chosen.files(privacy)


def _as_written(read_curves: NoisyCurves, file: CurvesFile) -> bool:
    """Return whether a file is as curves that were read from it would be written.

    Standard errors, and each curve's first counts against its totals, are sums: they may differ in the last
    bits.
    """
    if read_curves.positive == read_curves.negative:
        return False
    written = read_curves.file(file.privacy)
    errors = written.standard_error
    if structs.replace(file, standard_error=errors) != written:
        return False
    if not np.allclose(file.standard_error, errors, rtol=_CLOSE, atol=0):
        return False
    counts = []
    totals = []
    for curves in (read_curves.curves, *read_curves.others.values()):
        counts += [curves.tp, curves.fp]
        totals += [curves.positives, curves.negatives]
    first_counts = np.concatenate(counts)[:, 0]
    return np.allclose(first_counts, np.concatenate(totals), rtol=_CLOSE, atol=_CLOSE)


@dataclass(frozen=True)
class EarlierFiles:
    """The manifest and the other files of an earlier run."""

    manifest: EarlierManifest
    files: Sequence[ResultFile]


def read_files(directory: Path) -> EarlierFiles:
    """Return a run's files; ResultFileError if there is no run."""
    manifest = read_manifest(directory)
    if manifest.task not in REQUESTS:
        raise ResultFileError(
            f"{directory} is the result of {manifest.task!r}; what can be read is that of "
            f"{', '.join(REQUESTS)}."
        )
    files = []
    for kind in _file_types(manifest.task):
        path = directory / kind.file_name
        if os.path.lexists(path):
            files.append(read_file(path, kind))
    _check_statement(manifest, directory / MANIFEST)
    return EarlierFiles(manifest, files)


def _file_types(task: str) -> Sequence[type[ResultFile]]:
    """Return the kinds of files, beside the manifest, that runs of a task write; () if it is no release."""
    if task not in REQUESTS:
        return ()
    return statistic_class(task).file_types


def _check_statement(manifest: EarlierManifest, path: Path) -> None:
    """Raise ResultFileError unless the guarantee is one, and that of the run which revealed the values."""
    try:
        if read_statement(opened_by(manifest)).exact != manifest.privacy.exact:
            raise ValueError("it is another than that of the run which revealed the curves")
    except (FairSharesError, ValueError) as error:
        raise ResultFileError(
            f"{path} states no guarantee as a run does: {str(error)[:_SHOWN]}; name the directory of a run "
            "as it left it."
        ) from None


def found_in(earlier: EarlierFiles, directory: Path) -> Answer:
    """Return the result in a run's files; ResultFileError if they hold none.

    Guarantees: it equals the run's own result to the last bit.  [test: tests/fairshares/test_results.py]
    """
    task = earlier.manifest.task
    try:
        if file_in(earlier.files, CurvesFile) is not None:
            as_curves(earlier.manifest, earlier.files, directory)  # gives a precise error
        found: Answer = statistic_class(task).read_files(earlier.files)
        return found
    except ResultFileError:
        raise
    except (FairSharesError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        raise ResultFileError(
            f"{directory} does not hold the files of a run of {task}, as it wrote them."
        ) from None


@dataclass(frozen=True)
class _Terms:
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
    terms: _Terms
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
        compared: Whether the certificates that signed are those of the hosts' owners. Else they may be
            anybody's.
    """

    weights: Weights
    manifest: SumManifest
    files: Sequence[ResultFile]
    signed: bool
    compared: bool


def add_up(
    directories: Sequence[Path],
    verify: Callable[[Path], Sequence[str]],
    known: Sequence[str] | None = None,
) -> AddedUp:
    """Add up the counts of a chain's runs.

    Computes: the sum of the counts, with the sum of the runs' independent noises. It protects what each run
    protects (theorem 16).  [test: tests/harness/pipeline/test_chains.py]
    Guarantees: if hosts signed a run, hosts signed all, by the `known` certificates or, without these, each
    by the same. A run that took place on hosts counts only with their signatures.
    [test: tests/harness/pipeline/test_signed_chains.py]

    Args:
        directories: Of the runs.
        verify: Checks results that hosts signed; returns the SHA-256 of their certificates, party 0 first.
        known: The SHA-256 of the certificates, as the hosts' owners say them. If owners have renewed their
            keys in between, those of the renewed certificates follow.
    Raises:
        ResultFileError: A directory holds no run of the chain, or one that another holds.
        SignatureError: As the guarantee has it; or as `verify`.
    """
    started = time.monotonic()
    signed = _check_signers(directories, verify, known)
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
        engine=first.manifest.engine,
        engine_version=first.manifest.engine_version,
        request=first.request,
        privacy=first.manifest.privacy,
        ledger=first.manifest.ledger,
        added_up=list(map(str, directories)),
        inputs=Inputs(
            clients=sum(run.manifest.inputs.clients for run in runs),
            uploads=sum(run.uploads for run in runs),
        ),
        wall_s=time.monotonic() - started,
        environment=environment(),
    )
    files = weights.files(manifest.privacy)
    return AddedUp(weights, manifest, files, signed, compared=known is not None)


def _check_signers(
    directories: Sequence[Path], verify: Callable[[Path], Sequence[str]], known: Sequence[str] | None
) -> bool:
    """Check who signed each run; return whether hosts did. Raises SignatureError as `add_up`."""
    signed = [directory for directory in directories if os.path.lexists(directory / SIGNATURES)]
    if not signed and known is None:
        return False
    for directory in directories:
        if directory not in signed:
            raise SignatureError(
                f"{directory} has no {SIGNATURES}, so nobody signed its counts; fetch the results from the "
                "hosts again, or leave this directory out."
            )
    of_runs = {directory: list(verify(directory)) for directory in directories}
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
    file = file_in(earlier.files, WeightsFile)
    refusal = ResultFileError(
        f"{directory} is not the result of a run of a chain, as the run left it; name directories that "
        f"runs of weights with {named('chain')} wrote."
    )
    if file is None or not isinstance(manifest, Manifest) or manifest.ledger is None:
        raise refusal
    inputs = manifest.inputs
    asked = given(manifest.request)
    max_count = given(inputs.max_count)
    uploads = given(inputs.uploads)
    identities = given(inputs.uploads_sha256)
    if asked is None or max_count is None or uploads is None or identities is None:
        raise refusal
    try:
        request = request_from_json(asked)
        if WeightsFile not in _file_types(request.task):
            raise refusal
        statistic = WeightsStatistic.for_request(request)
        domain = replace(domain_in(file.groups, file.labels, file.privacy), max_count=max_count)
        plan = statistic.prepare(request, domain).plan
        counts = NoisyCounts(domain, np.array(file.noisy_counts, dtype=np.float64), plan.noise)
        terms = _Terms(
            ledger=manifest.ledger.path,
            charge=manifest.ledger.charge,
            population=request.population,
            chain=request.charged_with,
            privacy=manifest.privacy,
            domain=domain,
        )
        run = _Run(
            manifest=manifest,
            request=asked,
            terms=terms,
            uploads=uploads,
            identities=identities,
            counts=counts,
            noise=plan.noise,
            reweighing=statistic.reweighing,
        )
        intact = file.privacy == manifest.privacy and manifest.privacy.exact == plan.exact
    except (FairSharesError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        raise refusal from None
    if not (intact and run.terms.chain):
        raise refusal
    return run
