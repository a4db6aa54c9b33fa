"""One run: inputs, noise plan, charge, engine, result files and manifest; and tasks that clients upload for.

Imports: `privacy` and below. Start with `run`.
"""
