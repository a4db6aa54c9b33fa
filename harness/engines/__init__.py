"""Runs of programs by several parties.

Imports: `inputs`, `online` and below. Start with `base` and `engine`; `registry` has each model's engine.
"""
