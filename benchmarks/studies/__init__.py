"""Studies in the clear: methods compared by simulation and calculation, without parties.

Utility of score curves, trust models, caps, counts with a relative error, gaps under local privacy: each
returns an `Outcome`. Imports: `harness`, `protocols`, `data`. Start with `outcome`.
"""
