"""Keys and certificates of runs or hosts; only certificates travel."""

import hashlib
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.utils import CryptographyDeprecationWarning
from cryptography.x509.oid import NameOID

from fairshares.harness.errors import CertificateError, refuse

RUN_CERTIFICATE_LASTS = timedelta(days=1)  # long enough for parties to meet, and clients to come
_UNREADABLE = (  # errors by which parsing a certificate ends
    TypeError,
    ValueError,
    UnsupportedAlgorithm,
    CryptographyDeprecationWarning,  # of what a later release refuses, where warnings are errors
    x509.DuplicateExtension,
    x509.InvalidVersion,
    x509.UnsupportedGeneralNameType,
)
_EARLIER = timedelta(hours=1)  # as others' clocks may be behind
_NO_AUTHORITY = x509.BasicConstraints(ca=False, path_length=None)


def make_key(
    directory: Path, stem: str, common_name: str, lifetime: timedelta = RUN_CERTIFICATE_LASTS
) -> Path:
    """Draw a P-256 key into `<stem>.key` (mode 0600); self-sign and return `<stem>.pem`."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLIER)
        .not_valid_after(now + lifetime)
        # The key is no authority: else a party could sign a certificate in another party's name.
        .add_extension(_NO_AUTHORITY, critical=True)
        .sign(key, hashes.SHA256())
    )
    private = directory / f"{stem}.key"
    private.touch(mode=0o600)
    private.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    public = directory / f"{stem}.pem"
    public.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    return public


def trust(certificate: Path, directory: Path, common_name: str) -> None:
    """Copy a certificate into `directory` and link it under OpenSSL's name for its subject.

    Guarantees: it names one subject, which is its issuer, and nothing else. A subjectAltName would replace
    the subject, and an authority could sign in others' names.
    [test: tests/harness/engines/test_certificates.py]

    Raises CertificateError, also for another name or date.
    """
    copy = directory / certificate.name
    if copy != certificate:
        copy.write_bytes(certificate.read_bytes())
    subject = check(copy.read_bytes(), common_name, certificate.name).subject
    (directory / f"{subject_hash(subject)}.0").symlink_to(copy.name)


def check(pem: bytes, common_name: str, called: str, lasts: timedelta | None = None) -> x509.Certificate:
    """Return a certificate that is fit to be that party's, or raise as `trust`.

    Args:
        pem: The certificate.
        common_name: The party's name in it.
        called: The certificate's name in messages.
        lasts: The longest time for which a certificate of a single run is valid. None for others.
    """
    try:  # its parts are parsed as they are asked for
        certificate = x509.load_pem_x509_certificate(pem)
        extensions = [extension.value for extension in certificate.extensions]
        names = [str(attribute.value) for attribute in certificate.subject]
        is_own_issuer = certificate.issuer == certificate.subject
        first = certificate.not_valid_before_utc
        last = certificate.not_valid_after_utc
        alone = pem.strip() == certificate.public_bytes(serialization.Encoding.PEM).strip()
    except _UNREADABLE:
        raise CertificateError(f"{called} is not a certificate.") from None
    now = datetime.now(UTC)
    day = "%-d %B %Y"
    unless = f", unless the clock is wrong, which says {now:{day}}"
    refuse(
        CertificateError,
        (not alone, f"{called} is not one certificate alone: OpenSSL would trust all in its file."),
        (names != [common_name], f"{called} was made for another party than {common_name}."),
        (not is_own_issuer, f"{called} was not issued by {common_name} itself."),
        # A certificate that is silent about it may be taken for an authority.
        (extensions != [_NO_AUTHORITY], f"{called} could stand for, or sign for, other parties."),
        (
            lasts is not None and last - first > lasts + _EARLIER,
            f"{called} is valid for longer than a run, so its key is not for this run alone.",
        ),
        (now > last, f"{called} expired on {last:{day}}{unless}."),
        (now < first, f"{called} is not valid before {first:{day}}{unless}."),
    )
    return certificate


def validity(pem: bytes) -> tuple[datetime, datetime]:
    """Return the beginning and the end of a certificate's validity, in UTC, or raise CertificateError."""
    try:
        certificate = x509.load_pem_x509_certificate(pem)
        return certificate.not_valid_before_utc, certificate.not_valid_after_utc
    except _UNREADABLE:
        raise CertificateError("What should be a certificate is none.") from None


def fingerprint(pem: bytes) -> str:
    """Return a certificate's SHA-256 in OpenSSL's notation, or raise ValueError."""
    try:
        return x509.load_pem_x509_certificate(pem).fingerprint(hashes.SHA256()).hex(":").upper()
    except (CryptographyDeprecationWarning, x509.InvalidVersion) as error:
        raise ValueError(str(error)) from None


def expecting(certificates: Iterable[Path]) -> dict[str, str]:
    """Return the variable that names certificates to accept."""
    fingerprints = [fingerprint(certificate.read_bytes()) for certificate in certificates]
    return {"FAIRSHARES_PEERS": " ".join(fingerprints)}


def subject_hash(name: x509.Name) -> str:
    """Return OpenSSL's hash (X509_NAME_hash_ex) of a subject that is one common name.

    It begins the SHA-1 of the canonical name (UTF-8, ASCII in lower case, single spaces, without the outer
    sequence's header): four bytes, little-endian.
    [test: tests/harness/engines/test_certificates.py]
    """
    (attribute,) = name.get_attributes_for_oid(NameOID.COMMON_NAME)
    value = " ".join(str(attribute.value).split()).encode().lower()
    string = bytes([0x0C, len(value)]) + value
    pair = bytes.fromhex("0603550403") + string
    sequence = bytes([0x30, len(pair)]) + pair
    canonical = bytes([0x31, len(sequence)]) + sequence
    return hashlib.sha1(canonical, usedforsecurity=False).digest()[:4][::-1].hex()
