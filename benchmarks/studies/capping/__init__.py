"""Costs and gains of a cap on clients' records."""
