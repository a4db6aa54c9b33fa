"""π_RW's second program opens weights of noisy counts and nothing else: what its text may not become."""

from __future__ import annotations

import pytest

from protocols.spec import PI_RW_WEIGHTS
from tests.protocols.test_programs import faults, text_of

CHANGES = {
    "weights of the counts": ("counts + noise", "counts"),
    "weights of something else": ("sbitvec, counts + noise", "sbitvec, 1000 * counts + noise"),
    "the counts as well": ("print_ln(", "print_ln('OUT counts %s', counts.reveal())\nprint_ln("),
    "the noisy counts instead": ("found.reveal()", "(counts + noise).reveal()"),
    "something added": ("found.reveal()", "(found + counts).reveal()"),
    "weights changed": ("check_point()", "found = found * counts\ncheck_point()"),
    "weights changed in place": ("check_point()", "found += counts\ncheck_point()"),
    "noise taken off": ("check_point()", "found -= noise\ncheck_point()"),
    "another layout": ("len(coins))", "0)"),
    "a layout of secrets": ("int(most_records)", "counts"),
    "the layout changed": ("found = weights", "chosen = counts\nfound = weights"),
    "coins changed": ("chosen = layout", "coins = coins\nchosen = layout"),
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_weights_of_anything_but_noisy_counts_are_refused(change: str) -> None:
    old, new = CHANGES[change]
    text = text_of(PI_RW_WEIGHTS)
    assert text.count(old) == 1
    assert faults(text, PI_RW_WEIGHTS) == []
    assert faults(text.replace(old, new), PI_RW_WEIGHTS) != []
