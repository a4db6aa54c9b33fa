"""A module per weighting, which `--reweighing` has by its name: `WEIGHTING` is what it computes."""
