"""The cost and the error of a run, before anything is run.

Imports: `pipeline` and below. Start with `plan`.
"""
