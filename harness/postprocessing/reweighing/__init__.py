"""Sample weights from noisy counts, their intervals, and the weight of each row of training data.

Imports: `postprocessing.noisy_counts` and below. Start with `formulas`.
"""
