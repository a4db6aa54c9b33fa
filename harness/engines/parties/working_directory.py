"""Names of files in a party's working directory; parties import this first, so it imports little."""

import os
import stat
from pathlib import Path

CLAIM = "started"  # made by the party, once: a directory is never started in again
CONFIG = "party.json"
HOSTS_FILE = "hosts"  # addresses and ports of all parties, for MP-SPDZ
LOG = "log"
PRINTED = "printed"  # the program's text, where it is kept apart from the machine's text
PEERS = "peers"  # the others' certificates, as P<i>.pem
DATA = "Player-Data"  # the folder in which engines look for the following
SHARED_BITS = "shared-bits"  # bits of clients; this party's own bits are appended
PUBLIC_INTEGERS = "public-integers"  # integers that the party inputs, a line each
PIECE_FILES = ("Persistence/Transactions-P*.data", f"{DATA}/*/Player-MAC-Keys-*")  # files of noise made ahead
MET = "met"  # the SHA-256 of each certificate that a link of this party accepted, a line each
LOOPBACK = "127.0.0.1"  # the address in `CONFIG`, where all parties are on one machine


def values_file(party: int) -> str:
    """Return the file of a party's values."""
    return f"Input-Binary-P{party}-0"


def bits_file(party: int) -> str:
    """Return the file of integers whose bits a party inputs."""
    return f"Input-P{party}-0"


def kept_shares_file(party: int) -> str:
    """Return the file in which a virtual machine keeps shares between programs."""
    return f"Persistence/Transactions-P{party}.data"


def certificate_file(party: int) -> str:
    """Return the file of a party's certificate."""
    return f"P{party}.pem"


def met(directory: Path) -> list[str]:
    """Return the fingerprints of certificates that a party's links accepted."""
    return read_inside(directory, MET).decode(errors="replace").split()


_MOST_READ = 1 << 20  # bytes of a file of a party; those that are read so are a few lines


def read_inside(directory: Path, name: str) -> bytes:
    """Return the bytes of a party's file, none if it is gone, or is no file of its directory.

    Guarantees: nothing outside of the directory is read for a party, which may put links, pipes or other
    directories in a file's place, and nothing waits.
    [test: tests/harness/engines/test_sandbox.py]
    """
    try:
        with os.fdopen(open_inside(directory, name), "rb") as file:
            return file.read(_MOST_READ)
    except OSError:
        return b""


def open_inside(directory: Path, name: str) -> int:
    """Return a descriptor of a regular file in a party's directory, or raise OSError."""
    *parents, last = Path(name).parts
    place = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for parent in parents:
            below = os.open(parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=place)
            os.close(place)
            place = below
        file = os.open(last, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=place)
    finally:
        os.close(place)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise FileNotFoundError(directory / name)
    return file
