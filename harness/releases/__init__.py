"""What can be released: one module per statistic, from a program's arguments to its result.

Imports: `postprocessing` and below; no engine, no ledger. Start with `base`, the class that a new statistic
implements.
"""
