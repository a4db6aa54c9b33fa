"""Privacy as arithmetic: what a record changes, the noise for it, and the guarantee of one release.

`calibration` plans a release's noise, and `rounds` the noise of a training's rounds, by Gaussian DP. The
ledger adds up the losses of several runs by a budget's rule: `harness/privacy/ledger/accountants.py`.
"""
