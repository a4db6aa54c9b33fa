"""What the protocols cost and are worth, measured and simulated, with the raw samples.

`suites` says what is measured; `measure` runs it, `validation` judges it, `report` shows it; `studies`
simulate in the clear; `papers` holds what the papers print. Start with README.md.
"""
