"""Recorded results as tables and figures."""
