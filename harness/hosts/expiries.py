"""What of a host's expires: its certificates, those that it holds of others, and its sealing keys."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import Path

from fairshares.harness.engines.parties.certificates import last_valid
from fairshares.harness.hosts import host_keys
from fairshares.protocols.json_values import JsonObject

_SOON = timedelta(days=30)  # before the end of what a notice names


class Expiring(StrEnum):
    """The kinds of what expires."""

    OWN = "own_certificate"
    PEER = "peer_certificate"
    SEALING = "sealing_key"


@dataclass(frozen=True)
class Expiry:
    """Something that is valid up to a time.

    Attributes:
        kind: What it is.
        name: Which one it is: an engine and a party, or the name of a sealing key.
        ends: The end of its validity, in UTC.
    """

    kind: Expiring
    name: str
    ends: datetime

    @property
    def title(self) -> str:
        """What a sentence that begins with it calls what expires."""
        names = {
            Expiring.OWN: "This host's own certificate of",
            Expiring.PEER: "The certificate that this host holds of",
            Expiring.SEALING: "The sealing key",
        }
        return f"{names[self.kind]} {self.name}"

    def to_json(self) -> JsonObject:
        """Return the entry in `hosts.check --json`."""
        return {"kind": str(self.kind), "name": self.name, "ends": self.ends.isoformat(timespec="seconds")}


def soon(expiries: Sequence[Expiry], now: datetime) -> list[str]:
    """Return a sentence on each of these that expires within 30 days."""
    return [
        f"{expiry.title} expires on {expiry.ends:%Y-%m-%d}."
        for expiry in expiries
        if now <= expiry.ends < now + _SOON
    ]


def certificates_of(directory: Path) -> Iterator[Expiry]:
    """Yield the host's own certificates, and those that it holds. Raises as `host_keys.own_certificates`."""
    party = host_keys.party_of(directory)
    for engine, text in host_keys.own_certificates(directory, party).items():
        yield Expiry(Expiring.OWN, f"{engine}, party {party}", last_valid(text.encode()))
    for engine, texts in host_keys.pinned(directory).items():
        for other, text in texts.items():
            yield Expiry(Expiring.PEER, f"{engine}, party {other}", last_valid(text.encode()))
