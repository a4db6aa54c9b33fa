"""Runs the cells of a suite by the normal pipeline, and keeps each result as soon as it is there.

Start with `cell`, then `runner`.
"""
