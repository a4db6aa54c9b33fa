"""Studies in the clear: methods compared by simulation and calculation, without parties.

Utility of score curves, trust models, caps, counts with a relative error, gaps under local privacy: of each,
`study` computes, and makes an `outcome` of it. Imports: `harness`, `protocols`, `data`. Start with `outcome`.
"""
