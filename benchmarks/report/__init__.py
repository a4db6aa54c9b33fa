"""Recorded results as tables and figures, for the project's pages and other tools."""
