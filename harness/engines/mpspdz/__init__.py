"""The engine for MP-SPDZ, as built by the user.

Imports: `engines.engine` and below. Start with `engine`.
"""
