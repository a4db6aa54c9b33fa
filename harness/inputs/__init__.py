"""Records become shares, and shares become what parties feed: read, check, encode, split, add up.

A client's steps and a party's; no engine is needed. Imports: `system`, `errors`, `protocols`. Start
with `record_schema`, then follow a record: `records`, `encoding`, `shares`.
"""
