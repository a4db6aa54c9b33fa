"""Runs a program for several parties and returns the integers that it opened.

Imports: `inputs`, `clients` and below. Start with `base` (a run) and `engine` (common to all engines);
`registry` has the engine of each model.
"""
