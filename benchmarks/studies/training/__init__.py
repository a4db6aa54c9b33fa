"""PrivFairFL's Table 3 by its own recipe, and at a joint epsilon. Start with `study`."""
