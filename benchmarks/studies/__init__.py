"""Studies in the clear: methods compared by simulation and calculation, without parties.

A package each: utility of score curves, trust models, caps, counts with a relative error, gaps under local
privacy.
"""
