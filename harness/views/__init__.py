"""Views present results as tables, sentences and figures, which `rendering` shows.

Imports: packages of results, from `protocols` to `forecast`; not `pipeline`, `hosts` or `cli`. Start with
`parts`, then `releases/weights`.
"""
