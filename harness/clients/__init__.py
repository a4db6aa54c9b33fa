"""Clients that send their values while the parties run, and each party's gateway.

Imports: `inputs` and below. Start with `session`, then `sender` and `gateway`.
"""
