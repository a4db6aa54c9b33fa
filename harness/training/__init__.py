"""Training on noisy sums of clients' updates, and what a release of a model is made of.

Imports: `pipeline` and below. Start with `logistic`.
"""
