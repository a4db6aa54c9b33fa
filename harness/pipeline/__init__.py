"""One run: inputs, noise plan, charge, engine, result files and manifest.

Imports: `privacy` and below. Start with `run`.
"""
