"""Opens and checks a party's envelope."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from fairshares.harness.errors import ShareError
from fairshares.harness.system.documents import Refusal, as_type, parse_json
from fairshares.harness.uploads.envelope import (
    BOUNDS,
    HEAD_BYTES,
    IDENTITY,
    KEY,
    SALT_BYTES,
    TASK_DIGEST,
    VERSION,
    bound_in,
    commitment_in,
    commitment_of,
    identity_of,
    info_of,
)
from fairshares.harness.uploads.keys import unseal
from fairshares.harness.uploads.policy import ClientPolicy, client_policy_from_json
from fairshares.harness.uploads.reasons import CHANGED, OTHER_KEY, OTHER_TASK, UNOPENED, UNREADABLE
from fairshares.harness.uploads.task import Task
from fairshares.protocols.arrays import Words
from fairshares.protocols.json_values import JsonFields


@dataclass(frozen=True)
class OpenedEnvelope:
    """The content of an envelope.

    Attributes:
        bounds: The client's own policy, or None if the client states none beside the task's.
        shares: The party's shares, of shape (columns held, words).
    """

    bounds: ClientPolicy | None
    shares: Words


def head_fault(task: Task, keys: Collection[bytes], head: bytes) -> str | None:
    """Return the reason to leave an envelope out by its head alone, or None if there is no such reason.

    Args:
        task: The task of the uploads.
        keys: The IDs of the party's keys.
        head: The envelope's head.
    """
    if not head.startswith(VERSION):
        return UNREADABLE
    if head[TASK_DIGEST] != task.digest:
        return OTHER_TASK
    if head[KEY] not in keys:
        return OTHER_KEY
    return None


def open_envelope(
    task: Task, party: int, keys: Mapping[bytes, bytes], envelope: bytes
) -> OpenedEnvelope | str:
    """Open and check an envelope of the right length, or return the reason to leave it out.

    Guarantees: parties that open envelopes of the same identity hold shares of the same upload, with the same
    bounds. An identity is a digest of the bounds, and of the commitments to all shares.
    [test: tests/harness/uploads/test_envelopes.py]
    """
    head = envelope[:HEAD_BYTES]
    fault = head_fault(task, keys, head)
    if fault is not None:
        return fault
    content = unseal(keys[head[KEY]], envelope[HEAD_BYTES:], info_of(head, party))
    if content is None:
        return UNOPENED
    bound = bound_in(len(task.parties))
    if identity_of(task.digest, content[bound]) != head[IDENTITY]:
        return CHANGED
    shares: list[Words] = []
    rest = memoryview(content)[bound.stop :]  # parts of it are no copies
    for number, size in task.pieces(party):
        salt = rest[:SALT_BYTES]
        payload = rest[SALT_BYTES:size]
        rest = rest[size:]
        if commitment_of(salt, payload) != content[commitment_in(number)]:
            return CHANGED
        shares.append(_elements(task, number, payload))
    try:
        return OpenedEnvelope(_bounds(content[BOUNDS]), np.concatenate(shares))
    except ShareError:
        return UNREADABLE


def _elements(task: Task, share: int, payload: memoryview) -> Words:
    """Return a share's elements: the last share's payload has them, any other's is a seed."""
    is_last = share == len(task.parties) - 1
    if is_last:
        return task.ring.reduce(task.ring.from_bytes(payload))
    return task.ring.expand(payload, task.columns)


@lru_cache(maxsize=64)  # most clients state the same
def _bounds(stated: bytes) -> ClientPolicy | None:
    """Return the policy that an envelope states, or None if it states none. Raises ShareError."""
    refusal = Refusal(ShareError, "The envelope", "one of this version", "leave it out")
    fields = parse_json(stated, refusal)
    if fields is None:
        return None
    return client_policy_from_json(as_type(JsonFields, fields, refusal), refusal)
