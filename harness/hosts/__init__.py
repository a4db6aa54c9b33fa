"""Runs with each party on a host of its own, over ssh.

On a host, `agent` answers requests; the rest runs on the coordinator's machine. Imports: `pipeline` and
below. Start with `runner`.
"""
