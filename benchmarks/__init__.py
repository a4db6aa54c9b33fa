"""Benchmarks: what the project's methods are worth, and what they cost, with the raw samples."""
