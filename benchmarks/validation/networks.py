"""Did an emulated network bite: measured round-trip times and bandwidths beside the wanted ones."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.validation.cells import Measured
from benchmarks.validation.findings import Check

# As shares of what was asked for. A round trip also takes the machine's own time, a transfer is never faster.
ROUND_TRIP, BANDWIDTH = (0.95, 1.5), (0.5, 1.1)


def checks(measured: Measured) -> Iterator[Check]:
    """Yield a check of the worst round trip and of the worst bandwidth of each cell with a network."""
    for cell in measured.cells:
        networks = [run.network for run in cell.ok if run.network is not None]
        for what, unit, (low, high) in (
            ("rtt", "s", ROUND_TRIP),
            ("bandwidth", "bits_per_s", BANDWIDTH),
        ):
            if not networks:
                continue
            key, says = f"network.{what}.{cell.suite}.{cell.name}", f"the {what} was what was asked for"
            pairs = [(found.get(f"measured_{what}_{unit}"), found[f"{what}_{unit}"]) for found in networks]
            ratios = [got / wanted for got, wanted in pairs if got is not None]
            if not ratios:
                yield Check(key, says, unjudged="it was not measured")
                continue
            worst = max(ratios, key=lambda ratio: max(low / ratio, ratio / high))
            yield Check(key, says, worst, low, high, f"×{worst:.3g} of {pairs[0][1]:g} {unit}")
