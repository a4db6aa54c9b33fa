"""Chains of owners' keys: which key followed which, and whose history is whose.

Hosts remember each other by the first key of a chain: the last head that they have seen of a ledger, and
attempts to make noise. A key has one successor. The old key signs it or, if that key is lost, each owner of a
host that holds it says so.
"""

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from fairshares.harness.engines.parties.certificates import fingerprint
from fairshares.harness.errors import CertificateError, HostUnfitError
from fairshares.harness.system.documents import Refusal, as_type, parse_json, read_json
from fairshares.harness.system.files import write_whole
from fairshares.harness.uploads.signatures import Signed, is_signed, kind_of, signed_by

SCHEMA = 1
MOST_SUCCESSORS = 100  # successors of a chain, a century of yearly renewals
SHOWN = 17  # characters of a fingerprint


@dataclass(frozen=True)
class Successor:
    """A statement of an old key: the fingerprints of its own certificate and of the new one."""

    old: str
    new: str


@dataclass(frozen=True)
class History:
    """The fingerprints of a chain's keys, the oldest first, and what its keys signed of their successors.

    Keys before the first signature are known by an owner's word, or are the first one.
    """

    keys: list[str]
    successors: list[Signed]

    def with_successor(self, old: Path, new: Path) -> "History":
        """Return the history after the key of certificate `old` has signed its successor."""
        said = Successor(fingerprint(old.read_bytes()), fingerprint(new.read_bytes()))
        return History([*self.keys, said.new], [*self.successors, signed_by(old, said)])


def history_file(certificate: Path) -> Path:
    """Return the file of the history of a certificate's key, beside it."""
    return certificate.with_suffix(".history")


def read_history(certificate: Path) -> History:
    """Return the history of a certificate's key.

    A key without a file, as in version 1.0, is the only one in its history.

    Raises:
        HostUnfitError: The file has something else.
    """
    own = fingerprint(certificate.read_bytes())
    place = history_file(certificate)
    if not os.path.lexists(place):
        return History([own], [])
    refusal = Refusal(HostUnfitError, str(place), "the history of a key", "restore it from a backup")
    history = as_type(History, read_json(place, refusal, SCHEMA), refusal)
    if own not in history.keys:
        refusal.say("it is of another key")
    # If the host died after it wrote the history of a new key, and before the certificate, the file goes on
    # after the certificate's key.
    number_of_keys = history.keys.index(own) + 1
    return History(history.keys[:number_of_keys], history.successors)


def write_history(place: Path, history: History) -> None:
    """Write a history."""
    write_whole(place, json.dumps({"schema": SCHEMA, **asdict(history)}).encode())


def first_history(own: str, successors: Sequence[Signed], called: str) -> History:
    """Return the history that an owner states of a key, by the signatures of its old keys.

    Args:
        own: The fingerprint of the key.
        successors: The statements that the host's old keys signed, the oldest first.
        called: The name of the key in errors.

    Raises:
        CertificateError: Not each key signed the next one, up to that key.
    """
    refusal = Refusal(CertificateError, called, "a successor", "ask its owner for the certificates again")
    if len(successors) > MOST_SUCCESSORS:
        refusal.say(f"more than {MOST_SUCCESSORS} keys are said to precede it")
    keys: list[str] = []
    for signed in successors:
        if not is_signed(signed, kind_of(Successor)):
            refusal.say("a signature is not of the old key that it names")
        successor = as_type(Successor, parse_json(signed.said.encode(), refusal), refusal)
        if not keys:
            keys = [successor.old]
        signer = fingerprint(signed.certificate.encode())
        if successor.old != signer or successor.old != keys[-1]:
            refusal.say("its old keys did not follow each other")
        if successor.new in keys:
            refusal.say("a key is said to follow itself")
        keys.append(successor.new)
    if keys and keys[-1] != own:
        refusal.say("the old keys signed another one")
    return History(keys or [own], list(successors))


def lengthened(held: History, stated: History, party: int, *, is_lost: bool) -> History:
    """Return the history that a host keeps of an owner who states this history of a key now.

    Args:
        held: The host's own history of that owner's keys. The host holds the last one.
        stated: The history that the owner states, as `first_history` returns it.
        party: The owner's party.
        is_lost: Whether this host's owner says that the held key is lost.

    Raises:
        CertificateError: The host does not hold the stated key. Neither does that key follow the held one by
            signatures, nor is the held one lost.
    """
    current = held.keys[-1]
    new = stated.keys[-1]
    if new == current:
        return held
    if new in held.keys:
        raise CertificateError(
            f"Party {party} shows a key that another one has replaced ({new[:SHOWN]}…), so somebody may have "
            "stolen it: ask its owner for the certificates of its present key."
        )
    if current in stated.keys:
        first_new = stated.keys.index(current) + 1
        return History(held.keys + stated.keys[first_new:], stated.successors)
    if is_lost:
        return History([*held.keys, new], [])
    if set(held.keys) & set(stated.keys):
        raise CertificateError(
            f"The new key of party {party} ({new[:SHOWN]}…) would be a second successor of a key whose "
            f"successor this host holds ({current[:SHOWN]}…), so somebody may have stolen the old key: ask "
            "its owner which one is right. If it is the new one, accept it by ./inv hosts.setup --pin … "
            f"--lost {party}."
        )
    raise CertificateError(
        f"Party {party} has another certificate now than this host holds, and the held key "
        f"({current[:SHOWN]}…) did not sign it. If its owner says that the key is lost, accept the new one "
        f"by ./inv hosts.setup --pin … --lost {party}; if not, somebody may be posing as it."
    )
