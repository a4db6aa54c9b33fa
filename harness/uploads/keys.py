"""A party's keys: public ones in tasks, secret ones in its own directory.

Seals are HPKE in base mode (RFC 9180), which does not authenticate the sender. docs/reference/share-files.md
has the formats.
"""

import hashlib
import json
import os
import re
from dataclasses import asdict, dataclass, replace
from datetime import UTC, date, datetime
from functools import lru_cache
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey, MLKEM768PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hpke import (
    AEAD,
    KDF,
    KEM,
    MLKEM768X25519PrivateKey,
    MLKEM768X25519PublicKey,
    Suite,
)

from fairshares.harness.errors import OptionError, ShareError, cannot, named, named_command
from fairshares.harness.system.documents import SMALL, Refusal, as_type, read_json
from fairshares.harness.system.files import create_file, is_directory, read_bounded, write_whole
from fairshares.harness.system.places import make_own_directory, place_fault
from fairshares.harness.uploads.envelope import KEY_ID_BYTES
from fairshares.protocols.json_values import JsonValue

# Files in a party's directory of keys.
PARTY_FILE = "party.json"  # the public description of the party
SIGNING = "signing.pem"  # the secret signing key of the party
_COMPRESSED_POINT = re.compile("0[23][0-9a-f]{64}")
MOST_KEYS = 256  # keys of a party; each is tried as it is read
_CURVE_BYTES = 32  # bytes of an X25519 key, which stands last
_LATTICE_BYTES = 1184  # bytes of a public ML-KEM key
_TAG_BYTES = 16  # bytes that AES-GCM adds
# The bytes that a seal adds, by the bytes of the public key.
_OVERHEAD = {
    _CURVE_BYTES: KEM.X25519.enc_length() + _TAG_BYTES,
    _LATTICE_BYTES + _CURVE_BYTES: KEM.MLKEM768_X25519.enc_length() + _TAG_BYTES,
}
_CURVES = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.AES_256_GCM)
_HYBRID = Suite(KEM.MLKEM768_X25519, KDF.HKDF_SHA256, AEAD.AES_256_GCM)
_PEM = (
    serialization.Encoding.PEM,
    serialization.PrivateFormat.PKCS8,
    serialization.NoEncryption(),
)
_POINT = (serialization.Encoding.X962, serialization.PublicFormat.CompressedPoint)


def today() -> str:
    """Return the date in UTC."""
    return datetime.now(UTC).date().isoformat()


def is_date(text: str) -> bool:
    """Return whether a text is a date like 2027-12-31."""
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


@dataclass(frozen=True)
class SealingKey:
    """A party's public key in hexadecimal digits, and its last day in UTC."""

    public: str
    until: str

    def __post_init__(self) -> None:
        if not is_date(self.until) or not re.fullmatch("([0-9a-f]{2})+", self.public):
            raise ShareError("A sealing key is hexadecimal digits, with a date such as 2027-12-31.")
        try:
            _ = self.overhead  # raises KeyError for an unknown size
            _ = self.seal(b"", b"")  # raises ValueError for an unusable key
        except (KeyError, ValueError):
            raise ShareError(f"A sealing key of {len(self.raw)} bytes is none of this version.") from None

    @property
    def raw(self) -> bytes:
        """The key's bytes."""
        return bytes.fromhex(self.public)

    @property
    def id(self) -> bytes:
        """The key's 8-byte name in envelopes."""
        return hashlib.sha256(self.raw).digest()[:KEY_ID_BYTES]

    @property
    def hybrid(self) -> bool:
        """Whether seals withstand attacks on elliptic curves."""
        return len(self.raw) > _CURVE_BYTES

    @property
    def overhead(self) -> int:
        """The number of bytes that a seal adds."""
        return _OVERHEAD[len(self.raw)]

    def seal(self, plain: bytes, info: bytes) -> bytes:
        """Seal bytes for the key's holder, who opens them with the same info."""
        return _suite_of(self.raw).encrypt(plain, _public(self.raw), info)


def unseal(secret: bytes, sealed: bytes, info: bytes) -> bytes | None:
    """Return the sealed bytes, or None if the secret key does not open them with this info."""
    try:
        return _suite_of(secret).decrypt(sealed, _secret(secret), info)
    except InvalidTag:
        return None


def _suite_of(key: bytes) -> Suite:
    """Return the suite of a public or secret key: a hybrid key is longer than one of a curve alone."""
    if len(key) > _CURVE_BYTES:
        return _HYBRID
    return _CURVES


@lru_cache(maxsize=64)
def _public(raw: bytes) -> X25519PublicKey | MLKEM768X25519PublicKey:
    """Return a public key. Raises ValueError if it is unusable."""
    curve = X25519PublicKey.from_public_bytes(raw[-_CURVE_BYTES:])
    if len(raw) == _CURVE_BYTES:
        return curve
    return MLKEM768X25519PublicKey(MLKEM768PublicKey.from_public_bytes(raw[:-_CURVE_BYTES]), curve)


@lru_cache(maxsize=16)
def _secret(raw: bytes) -> X25519PrivateKey | MLKEM768X25519PrivateKey:
    """Return a secret key. Raises ValueError if it is unusable."""
    curve = X25519PrivateKey.from_private_bytes(raw[-_CURVE_BYTES:])
    if len(raw) == _CURVE_BYTES:
        return curve
    return MLKEM768X25519PrivateKey(MLKEM768PrivateKey.from_seed_bytes(raw[:-_CURVE_BYTES]), curve)


@dataclass(frozen=True)
class SealingParty:
    """A party's public description.

    Attributes:
        name: The party's name.
        address: The URL to which clients send; "" for no address.
        keys: The public keys for which clients seal.
        signing: The public key of the party's signatures in hexadecimal digits, or "" before it has keys.
    """

    name: str
    address: str
    keys: list[SealingKey]
    signing: str = ""

    def __post_init__(self) -> None:
        if not self.name.isprintable() or not re.fullmatch(r"((https|s3|gs|sftp)://[!-~]+/)?", self.address):
            raise ShareError(
                "A party has a printable name, and an address that is empty, https://…/, s3://…/, gs://…/ or "
                "sftp://…/."
            )
        try:
            if self.signing:
                if not _COMPRESSED_POINT.fullmatch(self.signing):
                    raise ValueError(self.signing)
                _ = self.verifier  # raises ValueError for an unusable key
        except ValueError:
            raise ShareError(f"The signing key of {self.name} is none of this version.") from None

    @property
    def verifier(self) -> ec.EllipticCurvePublicKey:
        """The key for its signatures."""
        return ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), bytes.fromhex(self.signing))

    def states(self) -> dict[SealingKey, str]:
        """Return each key's state: expired, active (the first to end) or pending."""
        states = dict.fromkeys(self.keys, "expired")
        valid = sorted((key for key in self.keys if key.until >= today()), key=lambda key: key.until)
        for key in valid:
            states[key] = "pending"
        if valid:
            states[valid[0]] = "active"
        return states

    @property
    def active(self) -> SealingKey:
        """The key to seal for. Raises ShareError if all keys have expired."""
        active = [key for key, state in self.states().items() if state == "active"]
        if not active:
            raise ShareError(
                f"On {today()}, by this machine's clock, all sealing keys of {self.name} have expired; "
                "correct the clock, or ask for a new task."
            )
        return active[0]

    def with_new_key(self, directory: Path, until: str, hybrid: bool) -> "SealingParty":
        """Make a new sealing key, and a signing key if there is none; return the party with both.

        Args:
            directory: The party's directory of keys.
            until: The new key's last day in UTC.
            hybrid: Whether seals for the new key withstand attacks on elliptic curves.
        """
        curve = X25519PrivateKey.generate()
        secret = curve.private_bytes_raw()
        public = curve.public_key().public_bytes_raw()
        if hybrid:
            lattice = MLKEM768PrivateKey.generate()
            secret = lattice.private_bytes_raw() + secret
            public = lattice.public_key().public_bytes_raw() + public
        key = SealingKey(public.hex(), until)
        create_file(directory / f"{key.id.hex()}.key", secret)
        signing = directory / SIGNING
        if not signing.exists():
            create_file(signing, ec.generate_private_key(ec.SECP256R1()).private_bytes(*_PEM))
        party = replace(
            self,
            keys=[*self.keys, key],
            signing=signing_key(directory).public_key().public_bytes(*_POINT).hex(),
        )
        write_whole(directory / PARTY_FILE, json.dumps(asdict(party), indent=1).encode() + b"\n")
        return party


def check_place_of_keys(directory: Path) -> None:
    """Raise ShareError if others than this user could replace a party's keys, or what it publishes.

    Clients seal for the keys in `party.json`. Whoever replaces it before the party hands it out reads what
    they share.
    [test: tests/harness/uploads/test_places_of_others.py]

    Args:
        directory: An existing directory of keys.
    """
    with cannot(f"read {directory}", ShareError):
        reason = place_fault(directory)
    if reason is not None:
        raise _not_own(reason, directory)


def make_place_of_keys(directory: Path) -> None:
    """Make a directory of keys if need be.

    Raises ShareError as `check_place_of_keys`. Nothing is left then.
    """
    with cannot(f"write a key to {directory}", ShareError):
        reason = make_own_directory(directory)
    if reason is not None:
        raise _not_own(reason, directory)
    check_place_of_keys(directory)


def _not_own(reason: str, directory: Path) -> ShareError:
    return ShareError(
        f"{reason}, so others could replace the keys in {directory}; take that right away (chmod go-w) if "
        "they are as you made them, or make others in a directory that only you can change."
    )


def party_with_keys(
    directory: Path, *, name: str, address: str, until: str | None, hybrid: bool
) -> SealingParty:
    """Return the party whose keys a directory holds, after a new key was made if a day is given.

    Args:
        directory: The party's own; it is made with the first key.
        name: The name of the party whose keys these are, if the directory has none yet.
        address: The URL to which uploads are put, if the directory has none yet; "" for no address.
        until: The last day of a new key; None makes none.
        hybrid: Whether a new key withstands attacks on elliptic curves.

    Raises:
        OptionError: There are no keys, and none is made.
        ShareError: A key cannot be written, or others could replace the party's keys.
    """
    if is_directory(directory):
        check_place_of_keys(directory)
    file = directory / PARTY_FILE
    party = read_party(file) if os.path.lexists(file) else SealingParty(name, address, [])
    if until:
        make_place_of_keys(directory)
        with cannot(f"write a key to {directory}", ShareError):
            party = party.with_new_key(directory, until, hybrid)
    if not party.keys:
        raise OptionError(
            f"{directory} holds no keys; make one with {named('until')}, the day on which it expires."
        )
    return party


def has_too_many_keys(party: JsonValue) -> bool:
    """Return whether a party's description, before it is read as one, lists more than `MOST_KEYS` keys."""
    keys = party.get("keys") if isinstance(party, dict) else None
    return isinstance(keys, list) and len(keys) > MOST_KEYS


def read_party(path: Path) -> SealingParty:
    """Return a party's published description, or raise ShareError."""
    refusal = Refusal(ShareError, str(path), f"what `{named_command('keys')}` writes", "ask the party for it")
    fields = read_json(path, refusal, limits=SMALL)
    if has_too_many_keys(fields):
        refusal.say(f"it has more than {MOST_KEYS} keys")
    return as_type(SealingParty, fields, refusal)


def signing_key(directory: Path) -> ec.EllipticCurvePrivateKey:
    """Return a directory's signing key. Raises ShareError if there is none, or others could replace it."""
    if is_directory(directory):
        check_place_of_keys(directory)
    try:
        key = serialization.load_pem_private_key(read_bounded(directory / SIGNING, SMALL.size), None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
    except (OSError, ValueError, TypeError, AssertionError):
        raise ShareError(
            f"{directory / SIGNING} is no key to sign by; restore what {named_command('keys')} made there."
        ) from None
    return key


def secrets_in(directory: Path) -> dict[bytes, bytes]:
    """Return a directory's secret sealing keys by ID.

    Raises ShareError if there is none, or others could replace one.
    """
    if is_directory(directory):
        check_place_of_keys(directory)
    secrets: dict[bytes, bytes] = {}
    for path in sorted(directory.glob("*.key")):
        try:
            secret = read_bounded(path, SMALL.size)
            _ = _secret(secret)  # raises ValueError for an unusable key
            secrets[bytes.fromhex(path.stem)] = secret
        except (OSError, ValueError):
            raise ShareError(
                f"{path} is no key that {named_command('keys')} made; restore it, or take it away."
            ) from None
    if not secrets:
        raise ShareError(
            f"{directory} holds no sealing keys; make one by {named_command('keys')}, or name another."
        )
    return secrets
