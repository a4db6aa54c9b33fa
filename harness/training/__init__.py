"""Training on noisy sums: vectors as integers (`updates`), models on their sums (`logistic`), rounds that open
such sums (`session`).

Imports: `pipeline` and below. Start with `updates`, what one vector may be.
"""
