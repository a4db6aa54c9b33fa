"""Audits: every guarantee is computed again, from the noise's distribution and a protocol's linear map.

Published mechanisms are audited in `benchmarks/papers/audits.py`.

Imports: `releases.registry`, `protocols`. Start with `figures`, then `samplers` and `releases`.
"""
