"""The path of the predictor before `fairshares`; goes with 1.0."""

from __future__ import annotations

import warnings

from harness.postprocessing.thresholds.predictor import GroupThresholdPredictor

__all__ = ["GroupThresholdPredictor"]

warnings.warn(
    "harness.predictor moved: use `from fairshares import GroupThresholdPredictor`; this path goes with 1.0.",
    DeprecationWarning,
    stacklevel=2,
)
