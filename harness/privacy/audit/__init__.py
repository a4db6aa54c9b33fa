"""Every guarantee recomputed from the noise's law and from the map that a protocol releases.

Imports: `protocols`. Start with `samplers`, then `releases`.
"""
