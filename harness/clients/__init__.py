"""Clients that send their values to the running parties: the client's side, and each party's front."""
