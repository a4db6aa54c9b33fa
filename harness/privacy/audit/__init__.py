"""Every guarantee, recomputed from the noise's distribution and the linear map that a protocol releases.

Imports: `releases.registry`, `protocols`. Start with `samplers`, then `releases`.
"""
