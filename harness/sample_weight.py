"""The path of sample weights before `fairshares`; goes with 1.0."""

from __future__ import annotations

import warnings

from harness.postprocessing.reweighing.sample_weight import read_weights, sample_weight

__all__ = ["read_weights", "sample_weight"]

warnings.warn(
    "harness.sample_weight moved: use `from fairshares import sample_weight`; this path goes with 1.0.",
    DeprecationWarning,
    stacklevel=2,
)
