"""A Flower app that trains with sample weights. Start with `app`."""
