"""In the clear, on public data: what weights and thresholds do to a model's accuracy and fairness.

Imports: `postprocessing` and below. Start with `metrics`.
"""
