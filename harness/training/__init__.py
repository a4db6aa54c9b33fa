"""Training on noisy sums: vectors as integers (`updates`), rounds that open their sums (`session`), a model
on them (`features`, `logistic`), and all that is released with it (`run`).

Imports: `pipeline` and below. Start with `updates`, what one vector may be.
"""
