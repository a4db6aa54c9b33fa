"""The worth of released score curves. Start with `study`."""
