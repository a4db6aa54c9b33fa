"""Weights from noisy counts."""

from collections.abc import Iterator

from msgspec import UnsetType

from fairshares.harness.errors import named, named_command
from fairshares.harness.inputs.record_schema import RecordDomain
from fairshares.harness.privacy.manifest import ReleaseManifest, SumManifest
from fairshares.harness.releases.base import by_cell
from fairshares.harness.reweighing.formulas import GroupWeights
from fairshares.harness.views import run_summary
from fairshares.harness.views.parts import Findings, Part, Table, from_least_to_most
from fairshares.harness.views.rendering.plots import intervals, with_ends
from fairshares.protocols.accounting.rounding import interval_shown

_MOSTLY_NOISE = 2  # the ratio from one end of a weight's interval to the other
STEPS = {**run_summary.STEPS, "run": "parties: run π_RW", "read": "derive weights from the noisy counts"}


def weights(result: GroupWeights) -> Iterator[Part]:
    """Show noisy counts and their weights."""
    by_name = by_cell(result.domain, result.weights)
    yield from_least_to_most("Weights go from", by_name, 4)
    widths = (result.interval[..., 1] - result.interval[..., 0]) / result.weights
    widest = int(widths.argmax())
    low, high = result.interval.reshape(-1, 2)[widest]
    yield Findings([f"The least certain is that of {list(by_name)[widest]}, {interval_shown(low, high, 4)}."])
    yield intervals(
        "weights",
        list(by_name),
        {"": with_ends(result.weights, result.interval)},
        f"weight ({result.reweighing})",
        "Sample weights, with intervals for the noise.",
        at=1.0,
    )
    step = "1" if result.unit == 1 else f"1/{result.unit}"
    rows = []
    for s, group in enumerate(result.domain.groups):
        for y, label in enumerate(result.domain.labels):
            count = f"{result.noisy_counts[s, y] / result.unit:,.1f}"
            if result.floored[s, y]:
                count = f"below {step}, so {step}: {count}"
            low, high = result.interval[s, y]
            rows.append([group, label, count, f"{result.weights[s, y]:,.4f}", interval_shown(low, high, 4)])
    of_counts = ""
    if result.unit != 1:
        of_counts = f"Counts are of clients, in steps of {step}. "
    elif (result.noisy_counts % 1).any():  # joint noise; the mean of distributed noise is 0
        of_counts = "Counts end in .5: half is added to each revealed integer, as the noise's mean is −½. "
    heading = f"weight ({result.reweighing})"
    yield Table(
        ["group", "label", "noisy count", heading, f"{float(result.confidence):.0%} interval"],
        rows,
        "llrrr",
        caption=f"{of_counts}Each interval holds the weight by the true counts{of_what(result.domain)} with "
        "at least that probability, over the noise.",
    )
    factor = float((result.interval[..., 1] / result.interval[..., 0]).max())
    if factor > _MOSTLY_NOISE:
        yield (
            f"An interval spans a factor of {factor:,.1f}: with so few records its weight is mostly noise. "
            "More records or a larger ε help."
        )
    if result.floored.any():
        yield (f"A noisy count below {step} was raised to {step}, so its weight means little.")


def chain(manifest: ReleaseManifest) -> list[str]:
    """Say how a chain's runs protect together."""
    request = manifest.request
    name = "" if isinstance(request, UnsetType) else request.get("chain")
    if not name:
        return []
    what = f"New uploads that were counted: {manifest.inputs.uploads:,}"
    if isinstance(manifest, SumManifest):
        what = f"Runs added up: {len(manifest.added_up)}, of {manifest.inputs.clients:,} clients"
    return [
        f"{what}. All runs of chain {name!r} spend its ε once together, as long as each record is shared "
        f"once, and each client keeps to one cap, if there is one ({named('counted')} sees to both)."
    ]


def signed_by(*, signed: bool, compared: bool) -> list[str]:
    """Say whether hosts signed the runs that were added up, and whether anybody knows their certificates."""
    if not signed:
        return []
    if compared:
        return [f"The hosts that {named('fingerprints')} names signed each of these runs."]
    return [
        "The same certificates signed each of these runs, and nobody has compared them with what the hosts' "
        f"owners say: name their SHA-256 by {named('fingerprints')}, or compare what "
        f"{named_command('verify')} shows."
    ]


def of_what(domain: RecordDomain) -> str:
    """Say which records true counts cover, if a bound leaves some out."""
    if domain.cap and not domain.cap.weight_one:
        return ", of the records that the cap keeps,"
    return ""


VIEW = run_summary.ReleaseView(
    STEPS,
    "weights",
    lambda result, _: weights(result.weights),
    lambda _, __, done: chain(done.manifest),
    chain=chain,
)
