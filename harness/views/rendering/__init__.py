"""Shows views on a terminal, as a page, and as figures.

Imports: `views.parts`, and what figures draw. Start with `text`.
"""
