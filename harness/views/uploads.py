"""The costs of many uploads."""

from fairshares.harness.forecast.uploads import UploadCosts
from fairshares.harness.views.parts import Table

_CORES = 32


def planned(costs: UploadCosts, uploads: int) -> Table:
    """Show the costs of so many uploads."""
    seconds = {
        "clients, to seal": costs.seal_s,
        "a party, to list": costs.list_s,
        "a party, to add up by all lists": costs.add_s,
        f"both on {_CORES} cores": (costs.list_s + costs.add_s) / _CORES,
    }
    sizes = {
        "a party's disk, for uploads": costs.disk_bytes,
        "each list, sent to all parties": costs.sent_bytes,
        "a party's memory, while it adds up": costs.memory_bytes,
    }
    rows = [
        [what, f"{1e6 * value / uploads:,.3g} µs", f"{value / 3600:,.3g} hours of a core"]
        for what, value in seconds.items()
    ]
    rows += [
        [what, f"{value / uploads:,.4g} bytes", f"{value / 1e9:,.3g} GB"] for what, value in sizes.items()
    ]
    return Table([f"{uploads:,} uploads", "of each", "of all"], rows, "lrr")
