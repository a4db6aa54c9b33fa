"""Costs and errors of the protocols, measured and simulated, with the raw samples. Start with README.md."""
