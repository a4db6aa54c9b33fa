"""Juarez and Korolova's tables and figures on gaps, redone. Start with `study`."""
