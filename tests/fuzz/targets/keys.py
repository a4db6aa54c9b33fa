"""What other hosts' owners sign and send, and what a coordinator writes for clients.

A hostile owner can sign any text, so the mutated text is signed again by a key that this host holds.
"""

import json
import ssl
import tempfile
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import serialization

from fairshares.harness.engines.parties.certificates import (
    RUN_CERTIFICATE_LASTS,
    check,
    fingerprint,
    make_key,
)
from fairshares.harness.errors import CertificateError, HostUnfitError, ShareError
from fairshares.harness.hosts import host_keys
from fairshares.harness.hosts.key_histories import Successor, first_history
from fairshares.harness.hosts.setup import exported, read_exported, set_up_here
from fairshares.harness.hosts.signed_results import (
    BenchmarkIntent,
    InputSource,
    Intent,
    check_agreement,
    run_certificates,
    sign,
)
from fairshares.harness.online.client import read_invitation
from fairshares.harness.online.session import Server
from fairshares.harness.uploads.signatures import Signed, kind_of, signature_of
from tests.fuzz.mutate import Target

_NONCES = ["0", "1"]


class _Owner:
    """A hostile owner's key. Attributes: certificate: its path; shown: that of a run, PEM."""

    def __init__(self) -> None:
        self._place = tempfile.TemporaryDirectory()
        place = Path(self._place.name)
        self.certificate = make_key(place, "owner", "P1")
        self.shown = make_key(place, "run", "P1").read_text()
        self.place = place
        key: Any = serialization.load_pem_private_key(self.certificate.with_suffix(".key").read_bytes(), None)
        self._key = key

    def signed(self, kind: type[Any], text: str) -> Signed:
        return Signed(text, signature_of(self._key, kind_of(kind), text), self.certificate.read_text())


@cache
def _owner() -> _Owner:
    return _Owner()


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _release(party: int) -> Intent:
    return Intent(
        _NONCES,
        party,
        "0" * 32,
        "2027-01-01",
        {"task": "weights"},
        {},
        InputSource.NOTHING_GIVEN,
        {},
        "",
        "h",
        "MP-SPDZ",
        0,
        run_certificate=_owner().shown,
    )


def _benchmark(party: int) -> BenchmarkIntent:
    return BenchmarkIntent(_NONCES, party, "0" * 32, "2027-01-01", "t", "h", "MP-SPDZ", _owner().shown)


def _begin(own: Intent | BenchmarkIntent, data: bytes) -> None:
    signed = _owner().signed(type(own), _text(data))
    others = check_agreement(own, {1: signed}, {1: signed.certificate})
    run_certificates(others, lambda party: f"P{party}")


def _said(statement: Intent | BenchmarkIntent) -> bytes:
    return json.dumps(asdict(statement), sort_keys=True).encode()


def _check_der(data: bytes) -> None:
    check(ssl.DER_cert_to_PEM_cert(data).encode(), "P1", "It", RUN_CERTIFICATE_LASTS)


def _follow(data: bytes) -> None:
    first_history("N", [_owner().signed(Successor, _text(data))], "It")


def _succession() -> bytes:
    old = fingerprint(_owner().certificate.read_bytes())
    return json.dumps({"new": "N", "old": old}).encode()


@cache
def _hosts() -> tuple[Path, Path]:
    """Return a host that holds another one's certificates, and that one's new file for it."""
    own, other = _owner().place / "own", _owner().place / "other"
    set_up_here(other, 1, renew=False, policy_text=None, others=[], models=["mpyc"])
    set_up_here(own, 0, renew=False, policy_text=None, others=[exported(other, 1)], models=["mpyc"])
    set_up_here(other, 1, renew=True, policy_text=None, others=[], models=["mpyc"])
    return own, exported(other, 1)


def _accept(data: bytes) -> None:
    own, _ = _hosts()
    file = _owner().place / "file"
    file.write_bytes(data)
    read = read_exported(file)
    (other,) = host_keys.by_party({str(read.party): read})
    host_keys.pin(
        own,
        0,
        {name: {other: text} for name, text in read.certificates.items()},
        {name: {other: signed} for name, signed in read.successors.items()},
    )


def _invitation() -> bytes:
    signed = sign(_release(0), _owner().certificate)
    server = Server("127.0.0.1", 1, _owner().shown, signed)
    fields = {"client": 0, "certificate": "", "key": "", "servers": [asdict(server)], "terms": {}}
    return json.dumps({"schema": 1, **fields}).encode()


def _invited(data: bytes) -> None:
    file = _owner().place / "invitation"
    file.write_bytes(data)
    read_invitation(file)


TARGETS = [
    Target("run-intents", lambda data: _begin(_release(0), data), [_said(_release(1))],
           (HostUnfitError, CertificateError)),
    Target("run-benchmarks", lambda data: _begin(_benchmark(0), data), [_said(_benchmark(1))],
           (HostUnfitError, CertificateError)),
    Target("run-certificates", _check_der, [ssl.PEM_cert_to_DER_cert(_owner().shown)], (CertificateError,)),
    Target("successors", _follow, [_succession()], (CertificateError,)),
    Target("certificates-files", _accept, [_hosts()[1].read_bytes()], (CertificateError, HostUnfitError)),
    Target("invitations", _invited, [_invitation()], (ShareError,)),
]  # fmt: skip
