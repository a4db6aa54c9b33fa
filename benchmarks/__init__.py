"""Costs and errors of the protocols, with raw samples. Start with README.md."""
