"""Mechanisms beyond noise on a count, in the clear: trees of counts, caps, logarithms."""
