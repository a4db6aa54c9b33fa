"""Shows parts of views on a terminal, as a page, and as figures.

Imports: `views.parts`; figures also what they draw. Start with `text`.
"""
