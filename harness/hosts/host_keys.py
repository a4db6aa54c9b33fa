"""A host's owner's keys, one per engine, and the certificates of other owners that it holds.

An owner's key signs, and does nothing else. It stays on its host, and only the agent reads it. The host
accepts no other certificates after set-up, so that a run needs no trust in its coordinator. A new key is the
successor of one old key; `fairshares.harness.hosts.key_histories` says which.
"""

import re
import shutil
from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

from fairshares.harness.engines.parties.certificates import check, fingerprint, make_key
from fairshares.harness.engines.registry import engine_of, engines
from fairshares.harness.errors import CertificateError, HostUnfitError
from fairshares.harness.hosts.key_histories import (
    History,
    first_history,
    history_file,
    lengthened,
    read_history,
    write_history,
)
from fairshares.harness.security_models import SecurityModel
from fairshares.harness.system.files import scratch_directory, write_whole
from fairshares.harness.system.places import make_own_directory, place_fault
from fairshares.harness.uploads.signatures import Signed

T = TypeVar("T")

DIRECTORY = "keys"
_ASIDE = "keys.old"  # while new ones take their place
_PARTY = "party"  # the file in that directory with the number of the host's party
_PEERS = "peers"  # the directory beside an engine's key with the other parties' certificates
_RENEW = "./inv hosts.setup --renew"


def by_party(by_name: Mapping[str, T]) -> dict[int, T]:
    """Return values by the parties' numbers, from values by names, which have to be these numbers.

    Raises:
        HostUnfitError: A name is no number of a party.
    """
    if not all(re.fullmatch(r"[0-9]{1,3}", party) for party in by_name):
        raise HostUnfitError("It was told certificates of what is no party.")
    return {int(name): value for name, value in by_name.items()}


def party_of(directory: Path) -> int:
    """Return the number of the party for which a host was set up. Raises HostUnfitError before its set-up."""
    file = directory / DIRECTORY / _PARTY
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        raise HostUnfitError(f"{file} names no party; run ./inv hosts.setup.") from None


def own_certificates(directory: Path, party: int) -> dict[str, str]:
    """Return this host's certificates by engine, or none before its set-up.

    Raises:
        HostUnfitError: The host's keys belong to another party, or others can read them.
    """
    keys = directory / DIRECTORY
    if not keys.is_dir():
        return {}
    made_for = (keys / _PARTY).read_text().strip()
    if made_for != str(party):
        raise HostUnfitError(
            f"{directory} was set up for party {made_for}, not {party}; correct hosts.toml, "
            "or set it up in another directory."
        )
    for key in keys.glob("*/*.key"):
        if key.stat().st_mode & 0o077:
            raise HostUnfitError(f"{key} can be read by others; it has to be as it was made, mode 0600.")
    return {name: (keys / name / f"P{party}.pem").read_text() for name in engines()}


def check_place(directory: Path) -> None:
    """Make a host's directory if need be; raise HostUnfitError if others could change or replace it."""
    reason = make_own_directory(directory)
    if reason is None:
        reason = place_fault(directory)
    if reason is not None:
        raise HostUnfitError(
            f"{reason}, so others could replace this host's keys and policy; take that right away (chmod "
            "go-w), or set the host up in another directory."
        )


def make_keys(directory: Path, party: int, *, renew: bool) -> dict[str, str]:
    """Make this host's keys, unless it has some and `renew` is false; return its certificates by engine.

    Args:
        directory: The host's own directory.
        party: The host's party.
        renew: Whether new keys take the place of old ones.

    Guarantees: either all keys are new, each signed by the old key as its successor, or none has changed. The
    certificates of other parties stay. Old keys are removed.  [test: tests/harness/hosts/test_renewal.py]
    No key is made where others could change or replace it.
    [test: tests/harness/uploads/test_places_of_others.py]

    Raises HostUnfitError as `own_certificates`, or if others could.
    """
    check_place(directory)
    keys = directory / DIRECTORY
    aside = directory / _ASIDE
    if aside.is_dir() and not keys.is_dir():  # a renewal was killed before its last step
        aside.rename(keys)
    before = own_certificates(directory, party)
    if before and not renew:
        return before
    with scratch_directory(directory) as partial:
        (partial / _PARTY).write_text(f"{party}\n")
        for name, engine in engines().items():
            (partial / name / _PEERS).mkdir(mode=0o700, parents=True)
            made = make_key(partial / name, f"P{party}", engine.common_name(party), timedelta(days=365))
            if before:
                old = keys / name / f"P{party}.pem"
                history = read_history(old).with_successor(old, made)
                write_history(history_file(made), history)
                for path in (keys / name / _PEERS).iterdir():
                    write_whole(partial / name / _PEERS / path.name, path.read_bytes())
        if keys.is_dir():
            keys.rename(aside)
        partial.rename(keys)
    shutil.rmtree(aside, ignore_errors=True)
    return own_certificates(directory, party)


def own_successors(directory: Path, party: int) -> dict[str, list[Signed]]:
    """Return by engine what this host's old keys signed of their successors, the oldest first."""
    places = {name: directory / DIRECTORY / name / f"P{party}.pem" for name in engines()}
    return {name: read_history(place).successors for name, place in places.items() if place.exists()}


def pinned(directory: Path) -> dict[str, dict[int, str]]:
    """Return the other parties' certificates that this host holds, by engine and party."""
    certificates: dict[str, dict[int, str]] = {}
    for name in engines():
        certificates[name] = {}
        for path in sorted((directory / DIRECTORY / name / _PEERS).glob("P*.pem")):
            party = int(path.stem.removeprefix("P"))
            certificates[name][party] = path.read_text()
    return certificates


def pin(
    directory: Path,
    party: int,
    certificates: Mapping[str, Mapping[int, str]],
    successors: Mapping[str, Mapping[int, Sequence[Signed]]] | None = None,
    lost: Collection[int] = (),
) -> None:
    """Hold on to other parties' certificates (PEM), by engine and party.

    Args:
        directory: The host's own directory.
        party: The host's party, whose own certificates are left out.
        certificates: The certificates by engine and party.
        successors: The statements that those parties' old keys signed of their successors, by engine and
            party.
        lost: Parties that lost their keys, by the word of this host's owner: their new keys take the place of
            those that this host holds.

    Guarantees: a held certificate gives way to its successor only, and what this host remembers of its
    owner's ledger stays. Either all certificates are held, or none is new.
    [test: tests/harness/hosts/test_renewal.py]

    Raises CertificateError if one cannot be trusted, or is no successor of the one that this host holds.
    """
    known = pinned(directory)
    new: list[tuple[Path, str, History]] = []
    for name, engine in engines().items():
        for other, text in certificates.get(name, {}).items():
            if other == party:
                continue
            check(text.encode(), engine.common_name(other), f"The certificate of party {other}")
            place = directory / DIRECTORY / name / _PEERS / f"P{other}.pem"
            signed = (successors or {}).get(name, {}).get(other, ())
            stated = first_history(fingerprint(text.encode()), signed, f"The new key of party {other}")
            if other in known[name]:
                stated = lengthened(read_history(place), stated, other, is_lost=other in lost)
            new.append((place, text, stated))
    for place, text, history in new:
        if len(history.keys) > 1:  # the signatures are for owners who hold none of them yet
            write_history(history_file(place), History(history.keys, []))
        write_whole(place, text.encode())


class RunKeys:
    """Keys and certificates of a host for runs of a model."""

    def __init__(self, directory: Path, model: SecurityModel) -> None:
        self._directory = directory
        self._engine = engine_of(model)
        self._parties = range(model.parties)

    def own(self, party: int) -> Path:
        """Return the path of this host's certificate, beside its owner's key."""
        return self._directory / DIRECTORY / self._engine.name / f"P{party}.pem"

    def others(self, own: int) -> dict[int, str]:
        """Return the run's other parties' certificates."""
        certificates = pinned(self._directory)[self._engine.name]
        return {party: certificates[party] for party in self._parties if party != own}

    def fingerprints(self, own: int) -> dict[str, str]:
        """Return all parties' fingerprints, after `check`."""
        texts = self.others(own) | {own: own_certificates(self._directory, own)[self._engine.name]}
        return {str(party): fingerprint(text.encode()) for party, text in texts.items()}

    def histories(self, own: int) -> dict[int, str]:
        """Return the first key of each other party's chain, by which its history is kept."""
        return {party: self._first(self._engine.name, party) for party in self._parties if party != own}

    def all_histories(self, own: int) -> dict[int, list[str]]:
        """Return the first keys of each other party's chains, of all engines: its ledger is one.

        The chain of the run's engine comes first.
        """
        held = pinned(self._directory)
        names = sorted(engines(), key=lambda name: name != self._engine.name)
        histories: dict[int, list[str]] = {}
        for party in self._parties:
            if party != own:
                histories[party] = [self._first(name, party) for name in names if party in held[name]]
        return histories

    def first_fingerprints(self, own: int) -> dict[str, str]:
        """Return the fingerprint of the first key of each party's chain, after `check`."""
        firsts = self.histories(own) | {own: read_history(self.own(own)).keys[0]}
        return {str(party): first for party, first in firsts.items()}

    def _first(self, engine: str, party: int) -> str:
        """Return the fingerprint of the first key of another party's chain for an engine."""
        return read_history(self._directory / DIRECTORY / engine / _PEERS / f"P{party}.pem").keys[0]

    def check(self, own: int) -> None:
        """Raise an error unless all parties' certificates for this model are there and may be trusted.

        Args:
            own: The host's party.

        Raises:
            HostUnfitError: A certificate is missing.
            CertificateError: A certificate may not be trusted.
        """
        held = pinned(self._directory)[self._engine.name]
        own_text = own_certificates(self._directory, own).get(self._engine.name)
        for party in self._parties:
            if party == own:
                text = own_text
                which = "own certificate"
                called = "Its own certificate"
                way_out = f"make new keys by {_RENEW}"
            else:
                text = held.get(party)
                which = f"certificate of party {party} that it holds"
                called = f"The certificate of party {party} that it holds"
                way_out = f"its owner makes new keys by {_RENEW}"
            if text is None:
                raise HostUnfitError(f"No {which} is there; run ./inv hosts.setup.")
            try:
                check(text.encode(), self._engine.common_name(party), called)
            except CertificateError as error:
                raise CertificateError(f"{str(error).rstrip('.')}; {way_out}.") from None
