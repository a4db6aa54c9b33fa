"""Networks between parties, by their figures: what a plan predicts for, and a benchmark emulates."""

import re
from dataclasses import dataclass

from fairshares.harness.errors import OptionError, named

_MOST_RTT_S = 10.0
_LONGEST = 40
_RTT = re.compile(r"([0-9]+(?:[.][0-9]+)?) ?(us|ms|s)")
_BANDWIDTH = re.compile(r"([0-9]+(?:[.][0-9]+)?) ?([kMG])bit(?:/s)?")
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
_BITS = {"k": 1e3, "M": 1e6, "G": 1e9}


@dataclass(frozen=True)
class NetworkProfile:
    """The link between any two parties: round-trip time, and bandwidth per direction."""

    name: str
    rtt_s: float
    bandwidth_bits_per_s: float

    def __post_init__(self) -> None:
        if not (0 <= self.rtt_s <= _MOST_RTT_S and 1e3 <= self.bandwidth_bits_per_s <= 100e9):
            raise OptionError(
                f"A network has a round-trip time of at most {_MOST_RTT_S:g} s and a bandwidth from 1kbit to "
                f"100Gbit per second; got {self.name!r}."
            )


# Machines of one site on gigabit Ethernet, with the delays of virtual machines and switches.
LAN = NetworkProfile("lan", 1e-3, 1e9)
# Two organizations on one continent, 2,500 km apart: 40 ms is 4,000 km of fiber there and back, with detours.
# They have 100 Mbit/s of a shared uplink.
WAN = NetworkProfile("wan", 40e-3, 100e6)
PROFILES = {network.name: network for network in (LAN, WAN)}


def parse_network(text: str) -> NetworkProfile | None:
    """Read `lan`, `wan`, `none` (the machine itself), or figures such as `40ms,100Mbit`."""
    if text == "none":
        return None
    if text in PROFILES:
        return PROFILES[text]
    rtt, _, bandwidth = text[:_LONGEST].partition(",")
    time = _RTT.fullmatch(rtt.strip())
    rate = _BANDWIDTH.fullmatch(bandwidth.strip())
    if time is None or rate is None or len(text) > _LONGEST:
        raise OptionError(
            f"{named('network')} must be {', '.join(PROFILES)}, none, or a round-trip time and a bandwidth "
            f"per second such as 40ms,100Mbit; got {text[: 2 * _LONGEST]!r}."
        )
    return NetworkProfile(
        f"{time[1]}{time[2]},{rate[1]}{rate[2]}bit",
        float(time[1]) * _SECONDS[time[2]],
        float(rate[1]) * _BITS[rate[2]],
    )
