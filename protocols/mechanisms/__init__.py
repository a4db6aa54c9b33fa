"""Mechanisms beyond noise on a count: trees of counts, caps, logarithms."""
