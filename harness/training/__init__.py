"""Training on noisy sums: rounds, the model, and the run that releases it.

Imports: `pipeline` and below. Start with `session_plan`, and `inputs.updates` for vectors.
"""
