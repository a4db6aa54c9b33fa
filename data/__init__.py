"""Public data sets, one loader each; README.md documents every column.

Imports: `harness.evaluation` and below. Start with `loanapp`, which the quickstart takes.
"""

if __name__ != "fairshares.data":
    raise ImportError("import fairshares.data: under a second name each of its modules would be loaded twice")
