"""Costs and errors of the protocols, measured and simulated, with the raw samples.

`suites` defines experiments, `measure` runs them, `validation` judges and `report` shows the results;
`studies` simulate in the clear; `papers` holds printed numbers. Start with README.md.
"""
