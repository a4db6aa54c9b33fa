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
MOST_SUCCESSORS = 100  # of a chain, a century of yearly renewals
SHOWN = 17  # characters of a fingerprint


@dataclass(frozen=True)
class Successor:
    """What an old key signs: the fingerprints of its own certificate and of the new one."""

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
    """Return the history of a key; that of one without a file, as in version 1.0, is the key itself.

    Raises HostUnfitError for a file of something else.
    """
    own, place = fingerprint(certificate.read_bytes()), history_file(certificate)
    if not os.path.lexists(place):
        return History([own], [])
    refusal = Refusal(HostUnfitError, str(place), "the history of a key", "restore it from a backup")
    history = as_type(History, read_json(place, refusal, SCHEMA), refusal)
    if own not in history.keys:
        refusal.say("it is of another key")
    until = history.keys.index(own) + 1  # more than that, if the host died between writing both files
    return History(history.keys[:until], history.successors)


def write_history(place: Path, history: History) -> None:
    """Write a history."""
    write_whole(place, json.dumps({"schema": SCHEMA, **asdict(history)}).encode())


def first_history(own: str, successors: Sequence[Signed], called: str) -> History:
    """Return the history that an owner states of a key, by its old keys' signatures.

    `own` is that key's fingerprint. Errors name the key as it is `called`.

    Raises CertificateError unless each key signed the next one, up to that key.
    """
    refusal = Refusal(CertificateError, called, "a successor", "ask its owner for the certificates again")
    if len(successors) > MOST_SUCCESSORS:
        refusal.say(f"more than {MOST_SUCCESSORS} keys are said to precede it")
    keys: list[str] = []
    for one in successors:
        if not is_signed(one, kind_of(Successor)):
            refusal.say("a signature is not of the old key that it names")
        said = as_type(Successor, parse_json(one.said.encode(), refusal), refusal)
        if said.old != fingerprint(one.certificate.encode()) or keys[-1:] not in ([], [said.old]):
            refusal.say("its old keys did not follow each other")
        if said.new in keys or said.new == said.old:
            refusal.say("a key is said to follow itself")
        keys = [*keys, said.new] if keys else [said.old, said.new]
    if keys and keys[-1] != own:
        refusal.say("the old keys signed another one")
    return History(keys or [own], list(successors))


def lengthened(held: History, stated: History, party: int, *, is_lost: bool) -> History:
    """Return the history that a host keeps of an owner who states this history of a key now.

    Args:
        held: The host's own history of that owner's keys; the last one is held.
        stated: By the owner, see `first_history`.
        party: The owner's party.
        is_lost: This host's owner says that the held key is lost.

    Raises CertificateError unless the stated key is held already, or follows the held one: by signatures, or
    as its owner has lost it.
    """
    current, new = held.keys[-1], stated.keys[-1]
    if new == current:
        return held
    if new in held.keys:
        raise CertificateError(
            f"Party {party} shows a key that another one has replaced ({new[:SHOWN]}…), so somebody may have "
            "stolen it: ask its owner for the certificates of its present key."
        )
    if current in stated.keys:
        return History([*held.keys, *stated.keys[stated.keys.index(current) + 1 :]], stated.successors)
    if is_lost:
        return History([*held.keys, new], [])
    if {*held.keys} & {*stated.keys}:
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
