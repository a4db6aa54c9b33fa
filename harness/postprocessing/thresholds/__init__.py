"""A decision rule for each group, chosen on score curves, and the predictor that applies it.

Imports: `postprocessing.curves` and below. Start with `choose`.
"""
