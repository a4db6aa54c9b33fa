"""What users import: the weights of training rows, and thresholds applied to a model's scores.

    from fairshares import GroupThresholdPredictor, sample_weight
    model.fit(X, y, sample_weight=sample_weight("runs/weights-…", rows["group"], rows["label"]))
    fair = GroupThresholdPredictor.load("runs/thresholds-…", model)

The one place for re-exports: names here stay where they are, the modules that they come from may move.
"""

from __future__ import annotations

from harness.postprocessing.reweighing.sample_weight import read_weights, sample_weight
from harness.postprocessing.thresholds.predictor import GroupThresholdPredictor

__all__ = ["GroupThresholdPredictor", "read_weights", "sample_weight"]
