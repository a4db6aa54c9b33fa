"""π_ROUNDS of uploads: a noisy sum of clients' vectors, one of several that are charged together."""
