"""Federated training in Flower on noisy sums. Start with `app`."""
