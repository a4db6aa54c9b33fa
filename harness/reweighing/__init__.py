"""Sample weights from noisy counts, with intervals, and as a weight per row.

Imports: `postprocessing` and below. Start with `weighting`; `weightings` has a module for each.
"""
