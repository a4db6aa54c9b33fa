"""Exact distributions of noise: probabilities, quantiles, sums, draws.

Imports: `protocols.circuits`. Start with `truncated`, the default noise.
"""
