"""Sample weights from noisy counts, with intervals, and as a weight per row.

Imports: `postprocessing.noisy_counts` and below. Start with `formulas`.
"""
