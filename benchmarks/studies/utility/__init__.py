"""The worth of released score curves, by method, epsilon, records and groups. Start with `study`."""
