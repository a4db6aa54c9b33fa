"""The same run with each party on a host of its own, over ssh.

`agent` runs on a host, and `work` is all that it does: before a run by `local_host`, then by `party_run`. The
rest runs where somebody starts a run. Imports: `pipeline` and below. Start with `runner`.
"""
