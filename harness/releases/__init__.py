"""Statistics that can be released: one module each, from a program's arguments to its result.

Imports: `postprocessing` and below; no engine, no ledger. Start with `base`.
"""
