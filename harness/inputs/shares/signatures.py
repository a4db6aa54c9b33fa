"""Parties' signatures of results and lists of uploads."""

from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

_ALGORITHM = ec.ECDSA(hashes.SHA256())


def signature_of(key: ec.EllipticCurvePrivateKey, kind: type[Any], text: str) -> str:
    """Sign a text of a kind, in hexadecimal digits."""
    return key.sign(_to_sign(kind, text), _ALGORITHM).hex()


def is_signature(signature: str, key: object, kind: type[Any], text: str) -> bool:
    """Return whether a key's holder signed this text of this kind."""
    try:
        assert isinstance(key, ec.EllipticCurvePublicKey)
        key.verify(bytes.fromhex(signature), _to_sign(kind, text), _ALGORITHM)
    except (InvalidSignature, ValueError, AssertionError):
        return False
    return True


def _to_sign(kind: type[Any], text: str) -> bytes:
    return f"FairShares {kind.__name__.lower()} 1\n{text}".encode()
