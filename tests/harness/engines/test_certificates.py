"""Keys and certificates: who can read a key, how long it is valid, and that OpenSSL finds what is trusted."""

import os
import shutil
import ssl
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
from cryptography.x509.oid import NameOID

from fairshares.harness.engines.parties.certificates import check, make_key, subject_hash, trust
from fairshares.harness.errors import CertificateError

# As `openssl x509 -subject_hash` of OpenSSL 3.0 gives them.
RECORDED = {
    "P0": "690ad341",
    "MPyC party 2": "f4caa8ef",
    "Party-A.example": "73f7bebd",
    "a  b": "49cdc5e0",
    " x ": "82965258",
    "ÄÖ": "62cae9c3",
}
OPENSSL = shutil.which("openssl")


def name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def openssl(*arguments: str) -> str:
    assert OPENSSL is not None
    done = subprocess.run([OPENSSL, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


needs_openssl = pytest.mark.skipif(OPENSSL is None, reason="needs the openssl command")


@pytest.mark.parametrize("common_name", RECORDED)
def test_subject_hash_recorded(common_name: str) -> None:
    assert subject_hash(name(common_name)) == RECORDED[common_name]


@needs_openssl
def test_openssl_finds_what_is_trusted_and_nothing_else(tmp_path: Path) -> None:
    """Only the directory's links count; a party's own name on another key is refused."""
    trusted, elsewhere = tmp_path / "trusted", tmp_path / "elsewhere"
    for directory in (trusted, elsewhere):
        directory.mkdir()
    for i in range(3):
        trust(make_key(elsewhere, f"P{i}", f"P{i}"), trusted, f"P{i}")
    for i in range(3):
        openssl("verify", "-no-CAfile", "-CApath", str(trusted), str(elsewhere / f"P{i}.pem"))
    forged = make_key(tmp_path, "forged", "P1")
    with pytest.raises(AssertionError, match="verification failed"):
        openssl("verify", "-no-CAfile", "-CApath", str(trusted), str(forged))


@needs_openssl
def test_a_party_cannot_vouch_for_another(tmp_path: Path) -> None:
    """Party 0 signs a certificate in party 1's name with the key that all others trust it by."""
    trusted = tmp_path / "trusted"
    trusted.mkdir()
    own = make_key(tmp_path, "P0", "P0")
    trust(own, trusted, "P0")
    key = load_pem_private_key((tmp_path / "P0.key").read_bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    now = datetime.now(UTC)
    forged = (
        x509.CertificateBuilder()
        .subject_name(name("P1"))
        .issuer_name(name("P0"))
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .sign(key, hashes.SHA256())
    )
    (tmp_path / "forged.pem").write_bytes(forged.public_bytes(Encoding.PEM))
    openssl("verify", "-no-CAfile", "-CApath", str(trusted), str(own))
    with pytest.raises(AssertionError, match="verification failed"):
        openssl("verify", "-no-CAfile", "-CApath", str(trusted), str(tmp_path / "forged.pem"))


def self_signed(directory: Path, *extensions: x509.ExtensionType, issuer: str = "P0") -> Path:
    """Write a certificate in party 0's name, signed by its own key, with these extensions."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(name("P0"))
        .issuer_name(name(issuer))
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now)
        .not_valid_after(now + timedelta(hours=1))
    )
    for extension in extensions:
        builder = builder.add_extension(extension, critical=isinstance(extension, x509.BasicConstraints))
    own = directory / "P0.pem"
    own.write_bytes(builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM))
    return own


NO_AUTHORITY = x509.BasicConstraints(ca=False, path_length=None)


@pytest.mark.parametrize(
    ("extensions", "issuer", "message"),
    [
        pytest.param([x509.BasicConstraints(True, 0)], "P0", "could stand for, or sign for,", id="authority"),
        pytest.param([], "P0", "could stand for, or sign for,", id="perhaps an authority"),
        pytest.param(
            [NO_AUTHORITY, x509.SubjectAlternativeName([x509.DNSName("P1")])],
            "P0",
            "could stand for, or sign for,",
            id="another name",
        ),
        pytest.param(
            [x509.SubjectAlternativeName([x509.DNSName("P1")])],
            "P0",
            "could stand for, or sign for,",
            id="another name alone",
        ),
        pytest.param([NO_AUTHORITY], "P1", "was not issued by P0 itself", id="another issuer"),
    ],
)
def test_a_certificate_that_says_more_than_a_party_may_is_not_trusted(
    extensions: list[x509.ExtensionType], issuer: str, message: str, tmp_path: Path
) -> None:
    """A party makes its own certificate, so what the others take for one is theirs to check."""
    with pytest.raises(CertificateError, match=message):
        trust(self_signed(tmp_path, *extensions, issuer=issuer), tmp_path, "P0")
    assert not list(tmp_path.glob("*.0"))


def test_a_certificate_that_says_no_more_is_trusted_for_its_own_party(tmp_path: Path) -> None:
    """The others differ from this one in what they are refused for."""
    own = self_signed(tmp_path, NO_AUTHORITY)
    with pytest.raises(CertificateError, match=r"P0\.pem was made for another party than P1"):
        trust(own, tmp_path, "P1")
    trust(own, tmp_path, "P0")
    assert len(list(tmp_path.glob("*.0"))) == 1


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_only_the_owner_reads_a_key(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        make_key(tmp_path, "P0", "P0")
    finally:
        os.umask(before)
    assert (tmp_path / "P0.key").stat().st_mode & 0o777 == 0o600


def test_certificate_is_the_keys_and_says_so_itself(tmp_path: Path) -> None:
    certificate = x509.load_pem_x509_certificate(make_key(tmp_path, "P0", "P0").read_bytes())
    key = load_pem_private_key((tmp_path / "P0.key").read_bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    assert isinstance(key.curve, ec.SECP256R1)
    assert certificate.public_key() == key.public_key()
    certificate.verify_directly_issued_by(certificate)
    assert certificate.subject == certificate.issuer == name("P0")
    assert b"PRIVATE" not in (tmp_path / "P0.pem").read_bytes()


def test_valid_for_a_day_from_an_hour_ago(tmp_path: Path) -> None:
    before = datetime.now(UTC)
    certificate = x509.load_pem_x509_certificate(make_key(tmp_path, "P0", "P0").read_bytes())
    after = datetime.now(UTC)
    second = timedelta(seconds=1)  # certificates have no fractions of one
    for moment, offset in (
        (certificate.not_valid_before_utc, timedelta(hours=-1)),
        (certificate.not_valid_after_utc, timedelta(days=1)),
    ):
        assert before - second <= moment - offset <= after


@pytest.mark.parametrize(
    ("found", "replaced"),
    [
        (b"\x02\x01\x02\x02", b"\x02\x01\x7f\x02"),
        (b"\x0c\x02P0", b"\x0d\x02P0"),
        (b"\x0c\x02P0", b"\x0c\x02P\xff"),
        (b"\x0c\x02P0", b"\x03\x02P0"),
    ],
    ids=["version", "kind of a name", "text of a name", "bits for a name"],
)
def test_whatever_stands_in_a_certificate_is_refused_in_one_sentence(
    found: bytes, replaced: bytes, tmp_path: Path
) -> None:
    der = ssl.PEM_cert_to_DER_cert(make_key(tmp_path, "P0", "P0").read_text())
    assert found in der
    pem = ssl.DER_cert_to_PEM_cert(der.replace(found, replaced))
    with pytest.raises(CertificateError, match=r"^It is not a certificate\.$"):
        check(pem.encode(), "P0", "It")
