"""What people read of a result: views give tables, sentences and figures as data, `rendering` shows them.

Imports: all that a result is made of, from `protocols` to `forecast`; not `pipeline`, `hosts` or `cli`: those
hand results in. Start with `parts`, then `releases/weights`.
"""
