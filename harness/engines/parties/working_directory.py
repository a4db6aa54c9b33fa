"""Names of files in a party's working directory; parties import this first, so it imports little."""

from pathlib import Path

CLAIM = "started"  # made by the party, once: a directory is never started in again
CONFIG = "party.json"
HOSTS = "hosts"  # addresses and ports of all parties, for MP-SPDZ
LOG = "log"
PEERS = "peers"  # the others' certificates, as P<i>.pem
DATA = "Player-Data"  # where engines look for the following
SHARED_BITS = "shared-bits"  # of clients; this party's own bits are appended
GIVEN_BITS = "given-bits"  # of a test program, in place of random ones
PIECE = ("Persistence/Transactions-P*.data", f"{DATA}/*/Player-MAC-Keys-*")  # of noise made ahead
MET = "met"  # the SHA-256 of each certificate that a link of this party accepted, a line each
LOOPBACK = "127.0.0.1"  # in `CONFIG`, where all parties are on one machine


def values_file(party: int) -> str:
    """Return the file of a party's values."""
    return f"Input-Binary-P{party}-0"


def bits_file(party: int) -> str:
    """Return the file of integers whose bits a party inputs."""
    return f"Input-P{party}-0"


def certificate_file(party: int) -> str:
    """Return the file of a party's certificate."""
    return f"P{party}.pem"


def met(directory: Path) -> list[str]:
    """Return the fingerprints of certificates that a party's links accepted."""
    place = directory / MET
    return place.read_text().split() if place.exists() else []
