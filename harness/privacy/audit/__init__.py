"""Audits: every guarantee is computed again, from the noise's distribution and a protocol's linear map.

Imports: `releases.registry`, `protocols`. Start with `samplers`, then `releases`.
"""
