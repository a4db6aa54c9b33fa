"""Clients' records become shares, and parties' shares become inputs of runs; no engine is needed.

Imports: `system`, `errors`, `protocols`. Start with `record_schema`, then `records`, `encoding` and `shares`.
"""
