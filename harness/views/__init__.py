"""Views present results as tables, sentences and figures, which `rendering` shows.

Imports: everything in a result, from `protocols` to `forecast`; not `pipeline`, `hosts` or `cli`, which pass
results in. Start with `parts`, then `releases/weights`.
"""
