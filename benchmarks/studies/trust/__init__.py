"""Whom one trusts, and how many clients that takes. Start with `study`."""
