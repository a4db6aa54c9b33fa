"""Every protocol without an engine: arguments, noise, privacy, and an oracle in the clear.

Imports: `fairshares.protocols.circuits` and numpy, never `harness`. Start with `spec`.
"""

if __name__ != "fairshares.protocols":
    raise ImportError(
        "import fairshares.protocols: under a second name each of its modules would be loaded twice"
    )
