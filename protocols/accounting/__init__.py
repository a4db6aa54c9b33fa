"""Privacy as arithmetic: what a record changes, the noise that this takes, and what it then protects.

Imports: `protocols.noise`, `protocols.circuits`. Start with `calibration`.
"""
