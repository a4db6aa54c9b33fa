"""Mechanisms beyond noise on a count, in the clear: trees of counts, caps, logarithms.

Imports: `protocols.accounting`, `protocols.noise`, `protocols.circuits`. Start with `count_tree`.
"""
