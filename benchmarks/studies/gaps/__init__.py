"""Juarez and Korolova's tables and figures on gaps, each number again. Start with `study`."""
