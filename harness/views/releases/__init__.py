"""One view per release: from its result and manifest to tables and sentences.

Imports: `releases` and below, `views.parts`, `views.run`. Start with `weights`.
"""
