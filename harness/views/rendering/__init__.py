"""Shows parts of views to people: on a terminal, as a page, in figures.

Imports: `views.parts`; figures also what they draw. Start with `text`.
"""
