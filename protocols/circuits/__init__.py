"""Arithmetic and Boolean circuits that the programs share; duck-typed, standard library only."""
