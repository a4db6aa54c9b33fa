"""From clients' records, and vectors, to shares and inputs of runs.

Imports: `system`, `errors`, `protocols`. Start with `record_schema`, then `records`, `encoding`
and `shares`. `updates` is of vectors.
"""
