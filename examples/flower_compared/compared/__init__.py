"""Noisy sums beside what Flower itself has. Start with `app`."""
