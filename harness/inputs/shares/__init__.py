"""Clients' uploads: clients share; parties agree on uploads and add them up.

Start with `file_format`, `client` and `party`. Where clients share for a `task` and leave, `envelope` seals
uploads for the parties' `keys`, and `counting` opens them.
"""
