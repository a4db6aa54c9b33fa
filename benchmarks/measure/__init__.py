"""Runs the cells of a suite. Start with `cell`, then `runner`."""
