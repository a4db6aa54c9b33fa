"""What a run would cost and how far off its result would be, before anything is run.

Imports: `pipeline`'s neighbours `releases` and `engines`, and below. Start with `plan`.
"""
