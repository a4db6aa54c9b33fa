"""Parties on several hosts, over ssh.

This machine starts and watches them, and is told of no share, no key and no random bit of theirs.
"""
