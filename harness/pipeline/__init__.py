"""One run: inputs, noise plan, charge, engine, result files and manifest.

Imports: everything below but `hosts`, `views` and `cli`. Start with `run`.
"""
