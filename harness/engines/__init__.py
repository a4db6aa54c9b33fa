"""Runs a program for several parties and returns the integers that it opened.

Imports: `inputs`, `clients` and below. Start with `base` and `engine`; `registry` has each model's engine.
"""
