"""The command line.

Imports: everything; imported only by `fairshares`, `tasks.py`, benchmarks and tests. Start with `app`.
"""
