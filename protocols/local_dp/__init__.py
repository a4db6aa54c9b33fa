"""Local differential privacy: a client randomizes its own record."""
