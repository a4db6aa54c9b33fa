"""Views present results as tables, sentences and figures.

Imports: packages of results, from `protocols` to `forecast`; not `pipeline`, `hosts` or `cli`. Start with
`parts`, then `releases/weights`.
"""
