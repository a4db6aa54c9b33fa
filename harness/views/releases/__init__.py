"""A view per release.

Imports: `releases` and below, `views.parts`, `views.run`. Start with `weights`.
"""
