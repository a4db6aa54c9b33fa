"""Arithmetic and Boolean circuits that the programs share; duck-typed, standard library only.

`secret_integer`, `bit_vector` and `check_point` are MP-SPDZ's sint, sbitvec and check_point, or stand-ins.
"""
