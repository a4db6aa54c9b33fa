"""Clients' uploads, and parties' agreement on them.

Start with `file_format`, `client` and `party`. `client` seals uploads of a `task`; `counting` opens them.
"""
