"""The command line: options, commands, and mistakes in one sentence.

Imports: everything; imported only by `fairshares`, `tasks.py`, benchmarks and tests. Start with `app`, then
`commands`.
"""
