"""Curves and thresholds from released noisy counts, which cost no privacy.

Imports: `protocols`, `system`, descriptions of `inputs`. Start with `noisy_counts`.
"""
