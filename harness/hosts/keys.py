"""A host's own long-lived keys, one per engine, and the other parties' certificates that it holds on to.

A key stays on its host, which accepts no other certificates after set-up, so that a run needs no trust in its
coordinator.
"""

import re
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

from harness.engines.parties.certificates import check, fingerprint, make_key
from harness.engines.registry import engine_of, engines
from harness.errors import CertificateError, HostUnfitError
from harness.security_models import SecurityModel
from harness.system.files import scratch_directory, write_whole

T = TypeVar("T")

DIRECTORY = "keys"
_PARTY, _RENEW = "party", "./inv hosts.setup --renew"


def by_party(by_name: Mapping[str, T]) -> dict[int, T]:
    """Return values by the parties' numbers; HostUnfitError for other names."""
    if not all(re.fullmatch(r"[0-9]{1,3}", party) for party in by_name):
        raise HostUnfitError("It was told certificates of what is no party.")
    return {int(party): one for party, one in by_name.items()}


def own_certificates(directory: Path, party: int) -> dict[str, str]:
    """Return this host's certificates by engine, none before its set-up.

    Raises HostUnfitError if its keys are another party's, or others can read them.
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


def make_keys(directory: Path, party: int, *, renew: bool) -> dict[str, str]:
    """Make this host's keys, unless it has some and `renew` is false; return its certificates by engine.

    Guarantees: either all keys are new, without certificates of other parties, or none has changed.
    [test: tests/harness/hosts/test_policy.py]
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    keys = directory / DIRECTORY
    if keys.is_dir() and not renew:
        return own_certificates(directory, party)
    with scratch_directory(directory) as partial:
        (partial / _PARTY).write_text(f"{party}\n")
        for name, engine in engines().items():
            (partial / name / "peers").mkdir(mode=0o700, parents=True)
            make_key(partial / name, f"P{party}", engine.common_name(party), timedelta(days=365))
        if keys.is_dir():
            keys.rename(partial / "old")
        partial.rename(keys)
    return own_certificates(directory, party)


def pinned(directory: Path) -> dict[str, dict[int, str]]:
    """Return the other parties' certificates that this host holds."""
    return {
        name: {
            int(path.stem[1:]): path.read_text()
            for path in sorted((directory / DIRECTORY / name / "peers").glob("P*.pem"))
        }
        for name in engines()
    }


def pin(directory: Path, party: int, certificates: Mapping[str, Mapping[int, str]]) -> None:
    """Hold on to other parties' certificates (PEM), by engine and party.

    Raises CertificateError if one cannot be trusted, or this host holds another one of that party.
    """
    known = pinned(directory)
    for name, engine in engines().items():
        for other, text in certificates.get(name, {}).items():
            if other == party:
                continue
            check(text.encode(), engine.common_name(other), f"The certificate of party {other}")
            if known[name].get(other, text) != text:
                raise CertificateError(
                    f"Party {other} has another certificate now than this host holds. If that host made new "
                    f"keys, all hosts have to: {_RENEW}; if not, somebody may be posing as it."
                )
            write_whole(directory / DIRECTORY / name / "peers" / f"P{other}.pem", text.encode())


class RunKeys:
    """Keys and certificates of a host for runs of a model."""

    def __init__(self, directory: Path, model: SecurityModel) -> None:
        self._directory, self._engine, self._parties = directory, engine_of(model), range(model.parties)

    def own(self, party: int) -> Path:
        """Return the path of this host's certificate, beside its key."""
        return self._directory / DIRECTORY / self._engine.name / f"P{party}.pem"

    def others(self, own: int) -> dict[int, str]:
        """Return the run's other parties' certificates."""
        certificates = pinned(self._directory)[self._engine.name]
        return {party: certificates[party] for party in self._parties if party != own}

    def fingerprints(self, own: int) -> dict[str, str]:
        """Return all parties' fingerprints, after `check`."""
        texts = self.others(own) | {own: own_certificates(self._directory, own)[self._engine.name]}
        return {str(party): fingerprint(text.encode()) for party, text in texts.items()}

    def check(self, own: int) -> None:
        """Raise CertificateError or HostUnfitError unless the certificates may be trusted."""
        texts = {
            **pinned(self._directory)[self._engine.name],
            own: own_certificates(self._directory, own).get(self._engine.name),
        }
        for party in self._parties:
            text = texts.get(party)
            which = "own certificate" if party == own else f"certificate of party {party} that it holds"
            whose = "Its" if party == own else "The"
            if text is None:
                raise HostUnfitError(f"No {which} is there; run ./inv hosts.setup.")
            try:
                check(text.encode(), self._engine.common_name(party), f"{whose} {which}")
            except CertificateError as error:
                raise CertificateError(f"{str(error).rstrip('.')}; make new keys by {_RENEW}.") from None
