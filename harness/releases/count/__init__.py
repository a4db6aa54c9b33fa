"""π_COUNT: noisy counts, with more privacy for larger groups."""
