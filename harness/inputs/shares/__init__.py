"""Clients' uploads: clients share; parties agree on uploads and add them up.

Start with `file_format`, `client` and `party`. `client` seals uploads of a `task` for the parties' `keys`;
`counting` opens them.
"""
