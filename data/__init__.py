"""Public data sets, one loader each; README.md documents every column."""
