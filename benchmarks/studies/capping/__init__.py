"""Costs and gains of a cap on clients' records: errors by the cap, ways to choose it, bounds."""
