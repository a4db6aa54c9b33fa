"""One view per release: its result and its manifest in, tables and sentences out.

Imports: `releases` and below, `views.parts`, `views.run`. Start with `weights`.
"""
