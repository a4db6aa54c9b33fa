"""Signatures of what parties and hosts state: results, lists of uploads, runs, and successors of keys."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes
from cryptography.utils import CryptographyDeprecationWarning

from fairshares.harness.errors import OptionError, cannot, named
from fairshares.harness.system.documents import SMALL
from fairshares.harness.system.files import read_bounded

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_FINGERPRINT = re.compile("[0-9A-F]{2}(:[0-9A-F]{2}){31}")
_ALGORITHM = ec.ECDSA(hashes.SHA256())


@dataclass(frozen=True)
class Signed:
    """A statement's text, its signature, and the signer's certificate (PEM)."""

    said: str
    signature: str
    certificate: str


def kind_of(statement: type) -> str:
    """Return the name of a kind of statements, which enters each signature."""
    return statement.__name__.lower()


def signature_of(key: ec.EllipticCurvePrivateKey, kind: str, text: str) -> str:
    """Sign a text of a kind, in hexadecimal digits."""
    return key.sign(_to_sign(kind, text), _ALGORITHM).hex()


def signed_by(own: Path, statement: "DataclassInstance") -> Signed:
    """Return a statement, a dataclass, signed by the key beside the certificate in the file `own`."""
    key = serialization.load_pem_private_key(own.with_suffix(".key").read_bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    text = json.dumps(statement, default=vars, sort_keys=True)
    return Signed(text, signature_of(key, kind_of(type(statement)), text), own.read_text())


def is_signature(signature: str, key: PublicKeyTypes, kind: str, text: str) -> bool:
    """Return whether a key's holder signed this text of this kind."""
    try:
        assert isinstance(key, ec.EllipticCurvePublicKey)
        key.verify(bytes.fromhex(signature), _to_sign(kind, text), _ALGORITHM)
    except (InvalidSignature, ValueError, AssertionError):
        return False
    return True


def is_signed(signed: Signed, kind: str) -> bool:
    """Return whether the key of its certificate signed a statement, as one of this kind."""
    try:
        key = x509.load_pem_x509_certificate(signed.certificate.encode()).public_key()
    except (ValueError, UnsupportedAlgorithm, CryptographyDeprecationWarning, x509.InvalidVersion):
        return False  # the warning is an error where a caller makes it one
    return is_signature(signed.signature, key, kind, signed.said)


def _to_sign(kind: str, text: str) -> bytes:
    return f"FairShares {kind} 1\n{text}".encode()


def read_fingerprints(path: Path) -> list[str]:
    """Read fingerprints in OpenSSL's notation, or raise OptionError."""
    try:
        with cannot(f"read {named('fingerprints')} {path}", OptionError, "name a file of fingerprints"):
            lines = read_bounded(path, SMALL.size).decode().splitlines()
    except UnicodeDecodeError:
        lines = []
    fingerprints = [line.rpartition("=")[2].strip().upper() for line in lines if line.strip()]
    are_well_formed = all(_FINGERPRINT.fullmatch(line) for line in fingerprints)
    if not fingerprints or not are_well_formed:
        raise OptionError(
            f"{path} must hold a line for each party, 0 first: the SHA-256 of its certificate, as "
            "openssl x509 -fingerprint -sha256 writes it."
        )
    return fingerprints
