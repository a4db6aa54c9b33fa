"""Private federated training with weights before and thresholds after. Start with `app`."""
