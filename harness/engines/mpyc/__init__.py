"""The embedded engine: the same programs on MPyC, without set-up.

Imports: `engines.engine` and below. Start with `engine`; `names` is its language.
"""
