"""Things of a host that expire: its certificates, the certificates that it holds of others, sealing keys."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import Path

from fairshares.harness.engines.parties.certificates import validity
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
        kind: The kind of thing that expires.
        name: Which one it is: an engine and a party, or the name of a sealing key.
        ends: The end of its validity, in UTC.
        begins: The beginning of its validity, in UTC; None if it is valid from its making on.
    """

    kind: Expiring
    name: str
    ends: datetime
    begins: datetime | None = None

    @property
    def title(self) -> str:
        """The name of the thing at the beginning of a sentence."""
        names = {
            Expiring.OWN: "This host's own certificate of",
            Expiring.PEER: "The certificate that this host holds of",
            Expiring.SEALING: "The sealing key",
        }
        return f"{names[self.kind]} {self.name}"

    def to_json(self) -> JsonObject:
        """Return the entry in `hosts.check --json`."""
        return {"kind": str(self.kind), "name": self.name, "ends": self.ends.isoformat(timespec="seconds")}


def invalid(expiries: Sequence[Expiry], now: datetime) -> str | None:
    """Return a sentence on the first of these that is not valid at a time, or None if all are.

    The time may be wrong: a clock that jumped makes certificates invalid, and new ones that it dates would be
    invalid once it is right.
    """
    for expiry in expiries:
        says = f"unless this machine's clock is wrong, which says {now:%FT%TZ}"
        if expiry.ends < now:
            return f"{expiry.title} expired on {expiry.ends:%Y-%m-%d}, {says}"
        if expiry.begins is not None and now < expiry.begins:
            return f"{expiry.title} is not valid before {expiry.begins:%Y-%m-%d}, {says}"
    return None


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
        yield _certificate(Expiring.OWN, f"{engine}, party {party}", text)
    for engine, texts in host_keys.pinned(directory).items():
        for other, text in texts.items():
            yield _certificate(Expiring.PEER, f"{engine}, party {other}", text)


def _certificate(kind: Expiring, name: str, text: str) -> Expiry:
    """Return the validity of a certificate (PEM), or raise CertificateError."""
    begins, ends = validity(text.encode())
    return Expiry(kind, name, ends, begins)
