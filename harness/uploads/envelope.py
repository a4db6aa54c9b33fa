"""The bytes of an envelope, whose specification is docs/reference/share-files.md.

An envelope begins with a *head* in the clear: four bytes of the format's version, the task's digest, the
identity, and the key's ID. Then comes a *seal*. It contains the client's bounds, a commitment to each share,
and the salt and payload of each share that the party holds. The identity *binds* bounds and commitments.
"""

import hashlib
from functools import lru_cache

from fairshares.harness.inputs.shares import SEED_BYTES, held_by

VERSION = b"FSE\x03"
DIGEST_BYTES = 32  # bytes of the task, of an identity, of a commitment
BOUNDS_BYTES = 192  # bytes of the client's policy, in JSON and spaces
SALT_BYTES = 16
KEY_ID_BYTES = 8

# The places of the parts of a head.
TASK_DIGEST = slice(len(VERSION), len(VERSION) + DIGEST_BYTES)
IDENTITY = slice(TASK_DIGEST.stop, TASK_DIGEST.stop + DIGEST_BYTES)
KEY = slice(IDENTITY.stop, IDENTITY.stop + KEY_ID_BYTES)
HEAD_BYTES = KEY.stop

# The place of the bounds in the content of a seal.
BOUNDS = slice(0, BOUNDS_BYTES)

_LABEL = b"fairshares:share:3:%s\n"  # keeps digests of one use apart from those of another


def bound_in(parties: int) -> "slice[int, int]":
    """Return the place of bounds and commitments in the content of a seal."""
    return slice(0, BOUNDS_BYTES + DIGEST_BYTES * parties)


def commitment_in(share: int) -> "slice[int, int]":
    """Return the place of a share's commitment in the content of a seal."""
    start = BOUNDS_BYTES + DIGEST_BYTES * share
    return slice(start, start + DIGEST_BYTES)


@lru_cache(maxsize=64)  # all envelopes of a task ask the same
def pieces_of(
    party: int, parties: int, copies: int, value_bytes: int, clients: int = 1
) -> tuple[tuple[int, int], ...]:
    """Return each share that a party holds, with its bytes of salt and payload for all clients.

    The last share has `value_bytes`; the others are seeds.
    """
    payloads = [clients * SEED_BYTES] * (parties - 1) + [value_bytes]
    numbers = held_by(party, parties, copies)
    return tuple((number, clients * SALT_BYTES + payloads[number]) for number in numbers)


def identity_in(envelope: bytes) -> bytes:
    """Return the 32-byte identity that an envelope claims."""
    return envelope[IDENTITY]


def commitment_of(salt: bytes | memoryview, payload: bytes | memoryview) -> bytes:
    """Return the commitment to a share's salt and payload."""
    digest = hashlib.sha256(_LABEL % b"commitment")
    digest.update(salt)
    digest.update(payload)
    return digest.digest()


def identity_of(task: bytes, bound: bytes) -> bytes:
    """Return the identity that binds a task, by its digest, and the bounds and commitments of an upload."""
    return hashlib.sha256(_LABEL % b"identity" + task + bound).digest()


def info_of(head: bytes, party: int) -> bytes:
    """Return the `info` of the seal, by which an envelope opens with its own head at its own party alone."""
    return hashlib.sha256(_LABEL % b"info" + head + bytes([party])).digest()
