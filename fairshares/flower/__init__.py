"""Federated averaging in Flower whose server sees noisy sums, and no update of a client.

    from fairshares.flower import NoisyMean, SealedUpdates

    app = ClientApp(mods=[SealedUpdates()])            # at each client
    strategy = NoisyMean(FedAvg(), sums, clients=100)  # at Flower's server

`sums` is a `SumsAtHosts`, whose hosts reveal what clients have sealed for them. With an open `SumSession` in
its place, and no mod, a simulation of all roles on one machine computes the same, and protects nothing there.
Flower itself is imported when one of these names is.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from fairshares.harness.errors import MissingPackageError

if TYPE_CHECKING:
    from fairshares.flower.noisy_mean import NoisyMean
    from fairshares.flower.sealed_updates import SealedUpdates

__all__ = ["NoisyMean", "SealedUpdates"]

_LATE = {
    "NoisyMean": "fairshares.flower.noisy_mean",
    "SealedUpdates": "fairshares.flower.sealed_updates",
}


def __getattr__(name: str) -> type[NoisyMean] | type[SealedUpdates]:
    """Return a class, whose module imports Flower; MissingPackageError if that is not installed."""
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        late: type[NoisyMean] | type[SealedUpdates] = getattr(import_module(_LATE[name]), name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "flwr":
            raise
        raise MissingPackageError(
            "This needs the package flwr, which is not installed; run `pip install 'fairshares[flower]'` in "
            "an environment of Flower's own."
        ) from None
    return late


def __dir__() -> list[str]:
    return __all__
