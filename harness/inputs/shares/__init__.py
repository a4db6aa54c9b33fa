"""Clients' uploads, by who does what: a client shares, parties agree and add up.

Start with `file_format`, which all of them read or write; then `client` and `party`. Where
clients share for a `task` and leave, `keys` and `envelope` seal what a `client` shares, and `counting` is the
party's part.
"""
