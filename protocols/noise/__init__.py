"""The distributions of noise, exactly: distributions, quantiles, sums, draws.

Imports: `protocols.circuits`. Start with `truncated`, the default noise.
"""
