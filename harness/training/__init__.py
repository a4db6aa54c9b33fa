"""Training on noisy sums: vectors, rounds, the model, and the run that releases it.

Imports: `pipeline` and below. Start with `updates`.
"""
