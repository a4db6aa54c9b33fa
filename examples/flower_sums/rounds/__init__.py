"""Federated training in Flower on noisy sums: `app` has the clients, the strategy and the server."""
