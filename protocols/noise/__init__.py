"""Exact distributions of noise: probabilities, quantiles, sums, draws."""
