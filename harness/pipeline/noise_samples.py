"""π_LAP as a command: parties open samples of noise."""

import time
from pathlib import Path

from msgspec import structs

from fairshares.harness.engines.execution import (
    PROGRAMS,
    Conditions,
    DistributedNoiseInput,
    EngineResult,
    MadeUpJob,
    MadeUpRunner,
    Progress,
)
from fairshares.harness.errors import OutputError
from fairshares.harness.pipeline.manifest_of_run import computation_of, environment
from fairshares.harness.pipeline.run import RunSettings
from fairshares.harness.privacy.manifest import (
    MANIFEST,
    SAMPLES,
    SampleInputs,
    SampleManifest,
    SamplePrivacy,
)
from fairshares.harness.releases.noise_samples import (
    WARNING,
    NoiseFile,
    Sampler,
    SampleSummary,
    noise_file,
    summarise,
)
from fairshares.harness.security_models import SecurityModel
from fairshares.harness.system.documents import as_json
from fairshares.harness.system.result_files import new_directory, write_json
from fairshares.protocols.circuits.noise import input_widths


def open_noise(
    sampler: Sampler,
    n: int,
    settings: RunSettings,
    out: Path,
    progress: Progress,
    *,
    runner: MadeUpRunner,
) -> tuple[SampleSummary, SampleManifest]:
    """Run π_LAP, write its two files into `out`, and return the samples' summary and the manifest."""
    started = time.monotonic()
    model = settings.release.model
    settings.check_supported(sampler.spec)
    with new_directory(out) as partial:
        conditions = Conditions(partial / "parties", settings.timeout_s, progress)
        result = runner.run(noise_job(sampler, n, model), model, conditions)
        progress("read")
        samples = _read(result, sampler, n)
        summary = summarise(samples, sampler)
        manifest = SampleManifest(
            **structs.asdict(computation_of(result, time.monotonic() - started, share_s=0.0)),
            task=SAMPLES,
            privacy=SamplePrivacy(
                warning=WARNING,
                mpc_statistical_security_bits=model.security_bits(compared=0),
                input_form="none",
                revealed=list(sampler.spec.revealed),
                public=["number of samples"],
            ),
            inputs=SampleInputs(samples=n),
            ledger=None,
            environment=environment(),
        )
        write_json(partial / NoiseFile.file_name, as_json(noise_file(sampler, samples, summary)))
        write_json(partial / MANIFEST, as_json(manifest))
    return summary, manifest


def noise_job(sampler: Sampler, n: int, model: SecurityModel) -> MadeUpJob:
    """Return the job that opens n samples."""
    arguments = {**sampler.arguments, "parties": model.parties, "samples": n, "nodes": n}
    return MadeUpJob(
        spec=sampler.spec,
        source=PROGRAMS / f"{sampler.spec.name}.mpc",
        arguments=tuple(str(arguments[name]) for name in sampler.spec.arguments),
        fair_bits=tuple((width, n) for width in input_widths(sampler.fair_bits)),
        own=DistributedNoiseInput(n) if sampler.spec.draws_distributed_noise else None,
    )


def _read(result: EngineResult, sampler: Sampler, n: int) -> tuple[int, ...]:
    (samples,) = result.outputs.values()
    if len(samples) != n:
        raise OutputError(f"The parties revealed {len(samples)} samples where {n} belong.")
    low, high = sampler.edges
    if not all(low <= x <= high for x in samples):
        raise OutputError("A sample is beyond what the noise can be: something is wrong with this engine.")
    return samples
