"""The command line: options in, commands run, mistakes in one sentence.

Imports: everything; imported by `fairshares`, `tasks.py`, benchmarks and tests alone. Start with `app`, then
`commands`.
"""
