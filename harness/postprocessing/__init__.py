"""Weights, curves and thresholds from released noisy counts, which cost no privacy.

Imports: `protocols`, `system`, and of `inputs` the description of records. Start with `noisy_counts`.
"""
