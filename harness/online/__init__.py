"""Clients that send their values while the parties run, and each party's gateway.

Imports: `uploads` and below. Start with `session`, then `client` and `gateway`.
"""
