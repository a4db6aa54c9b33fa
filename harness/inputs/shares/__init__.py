"""Clients' uploads, by who does what: a client shares, parties agree and add up.

Start with `file_format`, which all of them read or write; then `client` and `party`.
"""
