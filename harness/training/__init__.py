"""Training on noisy sums: vectors as integers (`updates`), models on their sums (`logistic`), and rounds that
open such sums (`session`).

Imports: `pipeline` and below. Start with `updates`, what one vector may be.
"""
