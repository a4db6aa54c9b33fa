"""Opened samples of noise, and their exact distribution."""

from collections.abc import Iterator

from fairshares.harness.privacy.manifest import SampleManifest, given
from fairshares.harness.releases.noise_samples import FALSE_ALARM, WARNING, Sampler, SampleSummary
from fairshares.harness.security_models import title_of
from fairshares.harness.views import run_summary
from fairshares.harness.views.parts import Bad, Paragraph, Part, Table
from fairshares.protocols.accounting.rounding import digits_up

STEPS = {
    "compile": "compile the program",
    "run": "parties: run π_LAP",
    "read": "compare with the exact distribution",
}


def noise(sampler: Sampler, summary: SampleSummary, manifest: SampleManifest) -> Iterator[Part]:
    """Show samples in summary, the protection by a secret one, and costs."""
    samples = summary.samples
    least, largest = summary.extremes
    exact_least, exact_largest = summary.exact_extremes
    yield Table(
        [f"{samples:,} samples, sampler {sampler.name}", "revealed", "exact distribution"],
        [
            ["mean", f"{summary.mean:,.4f}", f"{summary.exact_mean:,.4f}"],
            [
                "mean square around it",
                f"{summary.mean_square:,.4f}",
                f"{summary.exact_mean_square:,.4f}",
            ],
            ["least", f"{least:,.6g}", f"{exact_least:,.6g}"],
            ["largest", f"{largest:,.6g}", f"{exact_largest:,.6g}"],
        ],
    )
    verdict = "within" if summary.distance <= summary.distance_bound else Bad("beyond")
    yield Paragraph(
        f"Largest difference of the two distribution functions: {summary.distance:.5f}, {verdict} the "
        f"{summary.distance_bound:.5f} that fair noise exceeds with probability {FALSE_ALARM:g} at most.",
        strong=verdict if isinstance(verdict, Bad) else "",
    )
    yield Paragraph(WARNING, strong=WARNING)
    epsilon = digits_up(sampler.guarantee.epsilon, 4)
    delta = digits_up(sampler.guarantee.delta, 4)
    yield f"A count that moves by 1 and carries a secret sample like these has ε = {epsilon} and δ = {delta}."
    of_sample = f"{(manifest.mpc_s or 0) / samples * 1e6:,.1f} µs a sample, "
    yield (
        f"Cost: {run_summary.seconds_and_traffic(manifest, of_sample)} ({manifest.engine_version}, model "
        f"{title_of(manifest.security, given(manifest.parties))})."
    )
