"""Runs the cells of a suite by the normal pipeline. Start with `cell`, then `runner`."""
