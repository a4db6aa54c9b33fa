"""Training: PrivFairFL's Table 3 by its own recipe, and the same at a joint epsilon. Start with `study`."""
