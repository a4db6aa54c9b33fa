"""Runs programs for several parties and returns the integers that they opened.

Imports: `inputs`, `clients` and below. Start with `base` and `engine`; `registry` has each model's engine.
"""
