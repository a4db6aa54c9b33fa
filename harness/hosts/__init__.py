"""The same run with each party on a host of its own, over ssh.

`agent` runs on a host, and `work` is what it does; the rest runs where somebody starts a run. Imports:
`pipeline` and below. Start with `runner`.
"""
