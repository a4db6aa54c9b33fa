"""π_CAP: the number of a client's records that are to count."""
