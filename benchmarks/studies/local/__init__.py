"""Many clients of a local mechanism at once."""
