"""What noisy logarithms protect and how far they err, by the size of the group. Start with `study`."""
