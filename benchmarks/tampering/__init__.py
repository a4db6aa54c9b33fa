"""Active security, tried: one party changes its messages. Start with `walk`."""
