"""What each host signs of a run: what ran, on which uploads, with whom, what it spent and what it revealed.

All that a result says follows from it, so whoever has the signatures needs no trust in the starter.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from harness.engines.parties.certificates import fingerprint
from harness.errors import FairSharesError, SignatureError
from harness.inputs.record_schema import domain_from_json
from harness.pipeline.run import SIGNATURES, privacy_of, result_files
from harness.pipeline.terms import Asked
from harness.system.documents import Refusal, as_type, parse_json, read_json

SCHEMA = 1
_PREFIX = b"FairShares signed result 1\n"  # so that no other message of this key can be taken for one
_ALGORITHM = ec.ECDSA(hashes.SHA256())
_WAY_OUT = "do not use these results; fetch them from the hosts again"


@dataclass(frozen=True)
class Statement:
    """What a host says of a run in which its party took part.

    Attributes: uploads: a hash of their identities, of clients that send that of their certificates;
    compared: integers, by the program; peers: SHA-256 of the other parties' certificates that it held, by
    party; epsilon, delta: what the run spent, exactly; outputs: what was revealed.
    """

    run: str
    party: int
    asked: Asked
    domain: dict[str, Any]
    clients: int
    uploads: str
    program_hash: str
    engine_version: str
    compared: int
    peers: dict[str, str]
    epsilon: str
    delta: str
    outputs: dict[str, list[int]]
    ended: str


@dataclass(frozen=True)
class Signed:
    """A statement as text, and the host's signature of it. certificate: the host's own, PEM."""

    statement: str
    signature: str
    certificate: str


@dataclass(frozen=True)
class _Signatures:
    signed: list[Signed]


def sign(statement: Statement, own: Path) -> dict[str, str]:
    """Return a host's signature of a statement. Args: own: its certificate, with the key beside it."""
    key = serialization.load_pem_private_key(own.with_suffix(".key").read_bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    text = json.dumps(asdict(statement), sort_keys=True)
    return asdict(Signed(text, key.sign(_PREFIX + text.encode(), _ALGORITHM).hex(), own.read_text()))


def verify(directory: Path) -> list[tuple[Statement, str]]:
    """Check a run's results against what hosts signed; return each host's statement and fingerprint.

    Guarantees: every party of the model signed, they agree, each held the others' certificates that signed,
    and the result files and the public part of the manifest are those that follow from what they signed.
    [test: tests/harness/hosts/test_signed_results.py]
    Raises: SignatureError: names what is wrong.
    """
    refusal = Refusal(SignatureError, str(directory / SIGNATURES), "what the hosts signed", _WAY_OUT)
    found = as_type(_Signatures, read_json(directory / SIGNATURES, refusal, SCHEMA), refusal)
    signers = [(_checked(one, refusal), fingerprint(one.certificate.encode())) for one in found.signed]
    signers.sort(key=lambda signer: signer[0].party)
    if not signers:
        refusal.say("nobody signed")
    first = signers[0][0]
    for statement, _ in signers:
        peers = {str(other.party): held for other, held in signers if other.party != statement.party}
        if statement.peers != peers:
            refusal.say(f"party {statement.party} ran with parties of other certificates")
        if _shared(statement) != _shared(first):
            refusal.say(f"parties {first.party} and {statement.party} signed different runs")
    try:
        statistic, release = first.asked.statistic_and_release()
        prepared = statistic.prepare(release, domain_from_json(first.domain, "The signed domain"))
        made = prepared.read(
            {name: tuple(first.outputs[name]) for name in statistic.spec.outputs}, first.clients
        )
    except (FairSharesError, KeyError) as error:
        refusal.say(f"no result follows from what they signed ({error})")
    if [each.party for each, _ in signers] != list(range(release.model.parties)):
        refusal.say(f"not each of the {release.model.parties} parties signed, once")
    privacy = privacy_of(prepared, first.compared)
    exact = (privacy["epsilon_exact"], privacy["delta_exact"])
    if exact != (first.epsilon, first.delta):
        refusal.say("they signed another ε or δ than this version computes for that run")
    manifest = {
        "task": first.asked.task,
        "model": release.model.name,
        "engine": release.model.engine,
        "engine_version": first.engine_version,
        "program_hash": first.program_hash,
        "privacy": privacy,
    }
    follows = {**result_files(statistic, made, privacy), "manifest.json": manifest}
    for name, fields in follows.items():
        path = directory / name
        wrong = Refusal(SignatureError, str(path), "what the hosts signed", _WAY_OUT)
        said = as_type(dict[str, Any], read_json(path, wrong), wrong)
        for field, value in json.loads(json.dumps(fields)).items():
            if said.get(field) != value:
                wrong.say(f"its {field!r} is another")
        if name != "manifest.json" and set(said) != set(fields):
            wrong.say("it has fields of its own")
    return signers


def _checked(one: Signed, refusal: Refusal) -> Statement:
    """Return a statement whose signature is its certificate's."""
    try:
        key = x509.load_pem_x509_certificate(one.certificate.encode()).public_key()
        assert isinstance(key, ec.EllipticCurvePublicKey)
        key.verify(bytes.fromhex(one.signature), _PREFIX + one.statement.encode(), _ALGORITHM)
    except (InvalidSignature, ValueError, AssertionError):
        refusal.say("a signature is not its certificate's")
    return as_type(Statement, parse_json(one.statement.encode(), refusal), refusal)


def _shared(statement: Statement) -> dict[str, Any]:
    return {**asdict(statement), "party": 0, "peers": {}, "ended": ""}
