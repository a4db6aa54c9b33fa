"""The engine for the user's build of MP-SPDZ.

Imports: `engines.engine` and below. Start with `engine`.
"""
