"""PrivFairFL's pipeline in Flower. Start with `app`."""
