"""Clients that send their values while the parties run: the client's side, and each party's gateway.

Imports: `inputs` and below. Start with `session`, which both sides share; then `sender` and `gateway`.
"""
