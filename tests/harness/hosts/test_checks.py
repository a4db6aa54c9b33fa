"""Clocks of hosts, and what a terminal of theirs may send."""

import pytest

from harness.hosts import wire
from harness.hosts.checks import skew_s


@pytest.mark.parametrize(
    ("asked", "said", "answered", "ahead"),
    [(10, 10.5, 11, 0), (10, 10, 10, 0), (10, 71, 11, 60), (10, -50, 11, -60), (10, 11.5, 11, 0.5)],
)
def test_a_clock_is_off_only_as_far_as_waiting_cannot_explain(
    asked: float, said: float, answered: float, ahead: float
) -> None:
    assert skew_s(asked, said, answered) == ahead


def test_a_line_is_a_message_or_a_sign_of_life() -> None:
    assert wire.decode(wire.encode({"ok": [1, None]})) == {"ok": [1, None]}
    assert wire.decode(b"\n") is None
    for line in (b"Welcome!\n", b"[1]\n", b'"text"\n'):
        with pytest.raises(ValueError, match=r"not an object|Expecting value"):
            wire.decode(line)
    for line in (b'{"ok": "\\ud800"}\n', b'{"ok": NaN}\n', b'{"ok": 1, "ok": 2}\n'):
        with pytest.raises(ValueError, match=r"surrogates|invalid literal|twice"):
            wire.decode(line)
