"""Reads, checks, encodes and shares records, at clients; adds up shares, at parties.

No engine is needed. Imports: `system`, `errors`, `protocols`. Start with `record_schema`, then follow a
record through `records`, `encoding` and `shares`.
"""
