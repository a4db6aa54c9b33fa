"""Sample weights from noisy counts, with intervals, and as a weight per row.

Imports: `postprocessing` and below. Start with `formulas`.
"""
