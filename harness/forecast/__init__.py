"""What a run would cost and how far off its result would be, before anything is run.

Imports: `pipeline` and below. Start with `plan`.
"""
