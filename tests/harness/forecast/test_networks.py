"""Networks: what `--network` takes, and that all else ends in one sentence."""

import pytest

from fairshares.harness.errors import OptionError
from fairshares.harness.request.networks import LAN, WAN, NetworkProfile, parse_network


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("none", None),
        ("lan", LAN),
        ("wan", WAN),
        ("40ms,100Mbit", NetworkProfile("40ms,100Mbit", 0.04, 1e8)),
        (" 40 ms, 100 Mbit/s ", NetworkProfile("40ms,100Mbit", 0.04, 1e8)),
        ("500us,2.5Gbit", NetworkProfile("500us,2.5Gbit", 0.0005, 2.5e9)),
        ("1s,64kbit", NetworkProfile("1s,64kbit", 1.0, 64e3)),
        ("0ms,1Gbit", NetworkProfile("0ms,1Gbit", 0.0, 1e9)),
    ],
)
def test_network(text: str, expected: NetworkProfile | None) -> None:
    assert parse_network(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "", "LAN", "40ms", ",", "40,100", "40ms,", "40ms,100", "100Mbit,40ms", "-1ms,1Mbit", "1ms,1MB",
        "1ms,1Mbit,2", "nanms,1Mbit", "1e3ms,1Mbit", "1ms,1mbit", "½ms,1Mbit", "1" * 38 + "ms,1Mbit",
        "11s,1Mbit", "1ms,0Mbit", "1ms,0.5kbit", "1ms,101Gbit",
    ],
)  # fmt: skip
def test_no_network(text: str) -> None:
    with pytest.raises(OptionError, match=f"got {text!r}"):
        parse_network(text)
