"""The open problem's two-stage noise, for study: what it seems to protect, by numerical integration.

No program uses it. Nobody has a proof of its privacy beyond the first stage's; what is computed here has no
error bound, and is never printed as a guarantee.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

_ORDERS = (1.01, 1.1, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 100.0)
_FIRST_STAGE_SDS = 25.0  # how far integrals over the first noise go
_POINTS = 4_001
_LEAST = 1e-7  # how near 0 integrals go, in standard deviations of the first noise


@dataclass(frozen=True)
class TwoStageNoise:
    """Algorithm 1 of Pujol and Desfontaines: X ~ N(count, sigma^2), then Y ~ N(X, (relative * X)^2).

    Attributes: sigma: standard deviation of the first noise, > 0; relative: of the second to X, > 0.
    """

    sigma: float
    relative: float

    @property
    def first_stage_rho(self) -> float:
        """What is proven: Y is computed from X, which is rho-zCDP with rho = 1 / (2 sigma^2)."""
        return 1 / (2 * self.sigma**2)

    def density(self, y: Floats, count: float) -> Floats:
        """Return the density of Y at each y, by the trapezoid rule over X. Shape as y."""
        x = _grid(count, _FIRST_STAGE_SDS * self.sigma, self.sigma)
        weight = np.exp(-(((x - count) / self.sigma) ** 2) / 2)
        scale = self.relative * np.abs(x)
        found = np.empty_like(y)
        for at in range(0, len(y), 256):  # bounded memory
            part = y[at : at + 256, None]
            values = weight / scale * np.exp(-(((part - x) / scale) ** 2) / 2)
            found[at : at + 256] = np.trapezoid(values, x, axis=1)
        return found / (2 * np.pi * self.sigma)

    def sample(self, count: float, n: int, rng: np.random.Generator) -> Floats:
        """Draw Y n times, for figures."""
        x = rng.normal(count, self.sigma, n)
        return rng.normal(x, np.abs(self.relative * x))

    def numerical_rho(self, count: float) -> float:
        """Return the largest D_a(Y | count, Y | count + 1) / a, either way, over nine orders a: no bound.

        Computes: Renyi divergences by the trapezoid rule on a grid within 12 standard deviations.
        """
        spread = np.hypot(self.sigma, self.relative * (abs(count) + 3 * self.sigma))
        y = _grid(count, 12 * float(spread), self.sigma)
        densities = (
            np.log(np.maximum(self.density(y, count), 1e-300)),
            np.log(np.maximum(self.density(y, count + 1), 1e-300)),
        )
        largest = 0.0
        for p, q in (densities, densities[::-1]):
            for order in _ORDERS:
                power = order * p + (1 - order) * q
                top = float(power.max())
                divergence = (top + np.log(np.trapezoid(np.exp(power - top), y))) / (order - 1)
                largest = max(largest, float(divergence) / order)
        return largest


def _grid(centre: float, reach: float, unit: float) -> Floats:
    """Return points within `reach` of `centre`, evenly; if the first noise reaches 0, ever closer to it."""
    even: Floats = np.linspace(centre - reach, centre + reach, _POINTS)
    if abs(centre) > _FIRST_STAGE_SDS * unit:
        return even  # evenly spaced, the trapezoid rule is nearly exact
    close = np.geomspace(_LEAST * unit, abs(centre) + reach, _POINTS // 5)
    points = np.unique(np.concatenate([even, close, -close]))
    found: Floats = points[(np.abs(points - centre) <= reach) & (np.abs(points) >= _LEAST * unit)]
    return found


def gaussian_log_rho(count: int, offset: float, sigma: float) -> float:
    """Return rho of the shifted logarithm with Gaussian noise where `count` records are.

    Source: Finley et al. 2024: y = ln(count + offset) + sigma Z is rho(n)-zCDP per group with rho(n) =
    ln((m + a) / (m - 1 + a))^2 / (2 sigma^2), m = max(n, 1). In exact real numbers, which no computer has.
    """
    m = max(count, 1)
    return float(np.log((m + offset) / (m - 1 + offset)) ** 2 / (2 * sigma**2))
