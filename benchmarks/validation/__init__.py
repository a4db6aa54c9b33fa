"""Judges measured runs: are they whole, in order, linear, and how far from the papers' figures."""
