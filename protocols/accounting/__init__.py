"""Privacy as arithmetic: what a record changes, the noise for it, and the guarantee of one release.

`calibration` plans a release's noise, and `rounds` that of a training's rounds, by Gaussian DP. How losses of
several runs add up, by a budget's rule, is the ledger's: `harness/privacy/ledger/accountants.py`.
"""
