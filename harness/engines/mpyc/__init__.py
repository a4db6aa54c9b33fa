"""The embedded engine: the same programs on MPyC, three parties on this machine, nothing to set up.

Imports: `engines.engine` and below. Start with `engine`; `names` is its language.
"""
