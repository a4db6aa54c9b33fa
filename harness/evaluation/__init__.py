"""The effect of weights and thresholds on a model's accuracy and fairness, in the clear, on public data.

Imports: `postprocessing` and below. Start with `metrics`.
"""
