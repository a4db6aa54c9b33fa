"""Every protocol without an engine: arguments, noise, privacy, and an oracle in the clear.

Imports: `protocols.circuits` and numpy, never `harness`. Start with `spec`.
"""
