"""Statements that hosts sign: of their uploads, of the run ahead, then of its peers and its results.

The owner's key signs. Statements of a run ahead certify the key that the party has for that run alone.

docs/reference/files.md has the fields.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

from msgspec import UNSET, structs

from fairshares.harness.computation import HostsRun, Preprocessing
from fairshares.harness.engines.parties.certificates import RUN_CERTIFICATE_LASTS, check, fingerprint
from fairshares.harness.errors import (
    CertificateError,
    FairSharesError,
    HostUnfitError,
    SignatureError,
    named,
    named_command,
)
from fairshares.harness.inputs.record_schema import domain_from_json
from fairshares.harness.pipeline.planning import check_kind
from fairshares.harness.pipeline.sources import request_of_run, with_excluded
from fairshares.harness.privacy.manifest import MANIFEST, SIGNATURES, StatedInputs
from fairshares.harness.privacy.statement import state_privacy
from fairshares.harness.releases.base import statistic_of
from fairshares.harness.releases.files import files_to_json, without_intervals
from fairshares.harness.request.wire_form import RequestTexts
from fairshares.harness.system.documents import Refusal, as_json, as_type, parse_json, read_json
from fairshares.harness.system.result_files import SCHEMA as MANIFEST_SCHEMA
from fairshares.harness.uploads.signatures import Signed, is_signed, kind_of, signed_by
from fairshares.protocols.json_values import JsonFields, JsonObject

T = TypeVar("T")

SCHEMA = 1

SIGNED_AS_NONE = ""
"""The text of a signed statement in place of a piece of noise, a head or a certificate that there is not.

Version 1.0 signed it, and signatures and the heads of ledgers follow from it. All other code says None.
"""


class InputSource(StrEnum):
    """The source of a run's inputs, as statements name it."""

    UPLOADS = "uploads"
    AGGREGATE = "aggregate"
    INVITED = "invited clients"
    NOTHING_GIVEN = "nothing"

    @property
    def described(self) -> str:
        """A description that tells who could have made the inputs up."""
        return _DESCRIBED[self]


_DESCRIBED = {
    InputSource.UPLOADS: "uploads that each host's owner placed there",
    InputSource.AGGREGATE: "aggregates that each host's owner placed there",
    InputSource.INVITED: "clients whose keys the coordinator made, so that it could send in their place",
    InputSource.NOTHING_GIVEN: "no inputs, as noise was made ahead",
}
_MOST_SIGNERS = 16  # each signature is checked
_SHOWN = 200  # characters of a reason
_MOST_COUNTED = 1 << 62  # clients that a run left out
_MOST_COMPARED = 1 << 63
_MOST_ATTEMPTS = 10**6
_WAY_OUT = "do not use these results; fetch them from the hosts again"


@dataclass(frozen=True)
class UploadList:
    """A host's statement of its list of uploads: the list's SHA-256, and the host's nonce of the run.

    The digest commits the host to each share.
    """

    nonce: str
    digest: str


@dataclass(frozen=True)
class Intent:
    """A run that a host begins only if all others sign the same.

    `source` is an `InputSource`, or what another version has in its place. `run_certificate` (PEM) is of the
    party's key for this run alone; statements of version 1.0 have none. `SIGNED_AS_NONE` stands for no piece,
    head or certificate.
    """

    nonces: list[str]
    party: int
    run: str
    started: str
    asked: RequestTexts
    domain: JsonFields
    source: str
    inputs: JsonFields
    uploads: str
    program_hash: str
    engine_version: str
    compared: int
    lists: dict[str, str] = field(default_factory=dict)
    piece: str = SIGNED_AS_NONE
    attempts: int = 0
    head: str = SIGNED_AS_NONE
    seen: dict[str, str] = field(default_factory=dict)
    had: list[str] = field(default_factory=list)
    lacks: list[str] = field(default_factory=list)
    run_certificate: str = SIGNED_AS_NONE

    @property
    def by_1_0(self) -> bool:
        """Whether hosts of version 1.0 ran it, which had no keys of runs."""
        return self.run_certificate == SIGNED_AS_NONE

    @property
    def alike(self) -> "Intent":
        """All fields but each host's own."""
        return replace(
            self,
            party=0,
            head=SIGNED_AS_NONE,
            seen={},
            had=[],
            lacks=[],
            run_certificate=SIGNED_AS_NONE,
        )

    @property
    def digest(self) -> str:
        """SHA-256 of `alike`, which enters the heads of ledgers."""
        return hashlib.sha256(json.dumps(asdict(self.alike), sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class BenchmarkIntent:
    """A benchmark run that a host begins only if all others sign the same; `trial` is a SHA-256 of it.

    Guarantees: its signature is of another kind, so it stands for no release, and no release for it.
    [test: tests/harness/hosts/test_run_certificates.py]
    """

    nonces: list[str]
    party: int
    run: str
    started: str
    trial: str
    program_hash: str
    engine_version: str
    run_certificate: str

    @property
    def alike(self) -> "BenchmarkIntent":
        """All fields but each host's own."""
        return replace(self, party=0, run_certificate=SIGNED_AS_NONE)


@dataclass(frozen=True)
class PreparedParty:
    """A party that a host has prepared: the run's name, the party, and the program with its engine."""

    run: str
    party: int
    program_hash: str
    engine_version: str


RunAhead = TypeVar("RunAhead", bound=Intent | BenchmarkIntent)


@dataclass(frozen=True)
class Statement:
    """A host's statement of a run that took place."""

    ran: Intent
    met: dict[str, str]
    spent: tuple[str, str]
    outputs: dict[str, list[int]]
    left_out: dict[str, int]
    ended: str

    def inputs(self, refusal: Refusal) -> StatedInputs:
        """Return a manifest's public numbers about the inputs, or refuse what is none."""
        if not all(0 <= number <= _MOST_COUNTED for number in self.left_out.values()):
            refusal.say("a number of clients that were left out cannot be")
        return with_excluded(as_type(StatedInputs, self.ran.inputs, refusal), self.left_out)


@dataclass(frozen=True)
class _Signatures:
    signed: list[Signed]


def sign(content: UploadList | Intent | BenchmarkIntent | Statement, own: Path) -> Signed:
    """Return a signed statement. The key is the file beside the certificate `own`."""
    return signed_by(own, content)


def check_agreement(
    own: RunAhead, agreed: Mapping[int, Signed], certificates: Mapping[int, str]
) -> dict[int, RunAhead]:
    """Check that every other party's host is about to run the same; return their statements by party.

    Args:
        own: The statement that this host has signed.
        agreed: The statements that the other parties' hosts have signed, by party, as the coordinator passed
            them on.
        certificates: The certificates that this host holds of the other parties, by party.

    Guarantees: two hosts that begin, and hold each other's certificates, run the same. Each draws a nonce for
    its connection, and has no second run before that connection ends.
    [test: tests/harness/hosts/test_agreement.py]

    Raises:
        CertificateError: A party has another certificate than this host holds of it.
        HostUnfitError: A host is about to run something else. If either of two hosts may have lied about
            uploads, the error names both.
    """
    others: dict[int, RunAhead] = {}
    for party, other, refusal in _said_by(type(own), agreed, certificates, "this run"):
        _compare_lists(own, other, party, refusal)
        if other.party != party or other.alike != own.alike:
            refusal.say("it is about to run something else")
        others[party] = other
    return others


def check_agreed(
    kind: type[RunAhead], agreed: Mapping[int, Signed], common_name: Callable[[int], str]
) -> dict[int, RunAhead]:
    """Check that hosts let their parties begin by what all of them signed; return the statements by party.

    Whoever starts the run checks what each host will check, before its own ledger is charged. It holds no
    certificates of parties: which hosts hold which was compared before.

    Args:
        kind: The statements' type.
        agreed: The statements that all hosts signed, by party.
        common_name: A function that returns the name in the certificate of a party's key.

    Raises HostUnfitError or CertificateError, as `check_agreement` and `run_certificates`.
    """
    owners = {party: statement.certificate for party, statement in agreed.items()}
    said = {party: own for party, own, _ in _said_by(kind, agreed, owners, "this run")}
    for party, own in said.items():
        others = {other: certificate for other, certificate in owners.items() if other != party}
        check_agreement(own, agreed, others)
    run_certificates(said, common_name)
    return said


def _compare_lists(
    own: Intent | BenchmarkIntent, other: Intent | BenchmarkIntent, party: int, refusal: Refusal
) -> None:
    """Refuse other lists of uploads than this host was told of, in the same release."""
    if not isinstance(own, Intent) or not isinstance(other, Intent) or other.nonces != own.nonces:
        return
    for lister, digest in own.lists.items():
        if other.lists.get(lister, digest) != digest:
            suspects = sorted({int(lister), party} - {own.party})
            who = " or ".join(f"party {suspect}" for suspect in suspects)
            refusal.say(f"{who} lies about what party {lister} said of the uploads")
    if other.lists.keys() != own.lists.keys():
        refusal.say("it was told other parties' lists than this host, or says so falsely")


def run_certificates(others: Mapping[int, RunAhead], common_name: Callable[[int], str]) -> dict[int, str]:
    """Return the certificates of the other parties' keys for a run, from statements that agree with it.

    Raises CertificateError for one that is not fit to be that party's, or outlives a run.
    """
    for party, other in others.items():
        called = f"The certificate of party {party} for this run"
        check(other.run_certificate.encode(), common_name(party), called, RUN_CERTIFICATE_LASTS)
    return {party: other.run_certificate for party, other in others.items()}


def check_made(own: Intent, made: Mapping[int, Signed], certificates: Mapping[int, str]) -> None:
    """Check that the other hosts made this piece. Raises as `check_agreement`."""
    for party, statement, refusal in _said_by(Statement, made, certificates, "the end of this preparation"):
        if statement.ran.party != party or statement.ran.alike != own.alike:
            refusal.say("it ended something else")


def lists_of_others(signed: Mapping[int, Signed], certificates: Mapping[int, str]) -> dict[int, UploadList]:
    """Return the other parties' lists of uploads. Raises as `check_agreement`."""
    said_by_others = _said_by(UploadList, signed, certificates, "its list of uploads")
    return {party: said for party, said, _ in said_by_others}


def _said_by(
    kind: type[T], signed: Mapping[int, Signed], certificates: Mapping[int, str], what: str
) -> Iterator[tuple[int, T, Refusal]]:
    """Yield each other party's number, its statement, and the refusal for a statement that does not fit.

    Args:
        kind: The statements' type.
        signed: The statements that the parties' hosts signed, by party, as the coordinator passed them on.
        certificates: The certificates that this host holds of the other parties, by party.
        what: The thing that the statement should be of, for errors.

    Raises:
        CertificateError: A party has another certificate than this host holds of it.
        HostUnfitError: A statement is missing, or is none of this kind.
    """
    for party, certificate in certificates.items():
        statement = signed.get(party)
        refusal = Refusal(HostUnfitError, f"What party {party} signed", what, "start it again")
        if statement is None:
            refusal.say("whoever starts this run did not pass it on")
        if statement.certificate != certificate:
            raise CertificateError(f"Party {party} has another certificate than this host holds of it.")
        yield party, read_signed(kind, statement, refusal), refusal


def verify(directory: Path, known: Sequence[str] | None = None) -> list[tuple[Statement, str]]:
    """Check a run's results against the hosts' signatures; return each host's statement and fingerprint.

    Guarantees: every party of the model signed, and they agree. The links of each party accepted the
    certificates that the other signers had for the run. All result files, and the manifest's fields on the
    release and its inputs, follow from the signed statements.
    [test: tests/harness/hosts/test_signed_results.py]

    Intervals of a run by version 1.0 are not compared: later versions have closer ones for the same counts.

    Args:
        directory: The directory with the results.
        known: The fingerprints of the hosts' certificates, party 0 first. None accepts any hosts.

    Raises:
        SignatureError: The results do not follow from what the hosts signed.
    """
    if not os.path.lexists(directory / SIGNATURES):
        raise SignatureError(f"{directory} has no {SIGNATURES}: a run on hosts writes it beside its results.")
    refusal = Refusal(SignatureError, str(directory / SIGNATURES), "what the hosts signed", _WAY_OUT)
    signed = as_type(_Signatures, read_json(directory / SIGNATURES, refusal, SCHEMA), refusal).signed
    if len(signed) > _MOST_SIGNERS:
        refusal.say(f"{len(signed)} hosts signed, and no run has more than {_MOST_SIGNERS}")
    signers = [
        (read_signed(Statement, statement, refusal), fingerprint(statement.certificate.encode()))
        for statement in signed
    ]
    signers.sort(key=lambda signer: signer[0].ran.party)
    if not signers:
        refusal.say("nobody signed")
    if known is not None and [digest for _, digest in signers] != list(known):
        refusal.say(f"other hosts signed than {named('fingerprints')} names, in the order of the parties")
    first = _check_alike(signers, refusal)
    follows = _follows(first, [statement.ran.party for statement, _ in signers], refusal)
    more = sorted(path.name for path in directory.glob("*.json") if path.name not in (*follows, SIGNATURES))
    if more:
        refusal.say(f"they signed nothing that gives {more[0]}")
    for name, fields in follows.items():
        _compare(directory / name, fields, in_part=name == MANIFEST, intervals=not first.ran.by_1_0)
    return signers


def signers_of(directories: Sequence[Path]) -> dict[Path, list[str]]:
    """Return the SHA-256 of the certificates that signed each run's results, party 0 first.

    Runs without signatures are left out.

    Raises as `verify`.
    """
    signers: dict[Path, list[str]] = {}
    for directory in directories:
        if os.path.lexists(directory / SIGNATURES):
            signers[directory] = [certificate for _, certificate in verify(directory)]
    return signers


def check_ended(
    hosts: Sequence[str],
    agreed: Sequence[Signed],
    ended: Sequence[Signed | None],
    outputs: Mapping[str, Sequence[int]],
) -> Statement:
    """Check that all hosts signed the end of the run to which they agreed; return the first statement.

    Guarantees: no results are written that a host did not sign.
    [test: tests/harness/hosts/test_hostile_hosts.py]

    Args:
        hosts: The names of the hosts, by party.
        agreed: The statement that each host signed before the run, by party.
        ended: The statement that each host signed of the run's end, by party; None for a host that signed
            none.
        outputs: The integers that the parties opened, by the names of their lines.

    Raises:
        HostUnfitError: A host signed nothing, another run, or other integers.
    """
    way_out = (
        f"nothing was written; {named_command('hosts.collect')} fetches what others signed of a release, "
        "whose ε is spent"
    )
    refusal = Refusal(HostUnfitError, "What the hosts signed", "the end of this run", way_out)
    opened = {name: list(values) for name, values in outputs.items()}
    signers = []
    for host, before, after in zip(hosts, agreed, ended, strict=True):
        if after is None:
            refusal.say(f"{host} signed nothing")
        statement = read_signed(Statement, after, refusal)
        if after.certificate != before.certificate or statement.ran != read_signed(Intent, before, refusal):
            refusal.say(f"{host} signed another run than the one that it had agreed to")
        # A run that makes noise ahead opens no value. Its parties print only that they made the noise.
        expected = {} if statement.ran.source == InputSource.NOTHING_GIVEN else opened
        if statement.outputs != expected:
            refusal.say(f"{host} signed other values than its party printed")
        signers.append((statement, fingerprint(after.certificate.encode())))
    return _check_alike(signers, refusal)


def _check_alike(signers: Sequence[tuple[Statement, str]], refusal: Refusal) -> Statement:
    """Refuse statements that differ, and links that met others than the signers; return the first one."""
    first, _ = signers[0]
    shown = _certificates_of_links(signers, refusal)
    for statement, _ in signers:
        party = statement.ran.party
        peers = {
            str(other.ran.party): digest
            for (other, _), digest in zip(signers, shown, strict=True)
            if other.ran.party != party
        }
        if statement.met != peers:
            refusal.say(f"party {party} met parties of other certificates")
        if not is_time(statement.ended) or not is_time(statement.ran.started):
            refusal.say(f"party {party} signed a start or an end that is no time")
        if shared(statement) != shared(first):
            refusal.say(f"parties {first.ran.party} and {party} signed different runs")
    return first


def is_time(text: str) -> bool:
    """Return whether a text is a time as hosts write it, in ISO 8601."""
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def _certificates_of_links(signers: Sequence[tuple[Statement, str]], refusal: Refusal) -> list[str]:
    """Return the fingerprint of the certificate that each signer's links showed.

    This is the certificate of the party's key for the run or, in version 1.0, of the owner's key.
    """
    run_certificates_of_signers = [statement.ran.run_certificate for statement, _ in signers]
    if not any(run_certificates_of_signers):
        return [owner for _, owner in signers]
    try:
        return [fingerprint(certificate.encode()) for certificate in run_certificates_of_signers]
    except ValueError:
        refusal.say("not each of them names the certificate of its key for the run")


def _follows(first: Statement, parties: Sequence[int], refusal: Refusal) -> dict[str, JsonObject]:
    """Return the result files, by name, that follow from what the hosts signed.

    Args:
        first: The first host's statement; the others' are alike.
        parties: The numbers of the parties whose hosts signed.
        refusal: Refuses what no result follows from.
    """
    ran = first.ran
    inputs = first.inputs(refusal)
    if ran.source not in [*InputSource]:
        refusal.say("they signed a source of inputs that this version does not know")
    try:
        release = request_of_run(ran.asked)
        statistic = statistic_of(release)
        domain = domain_from_json(ran.domain, "The signed domain")
        check_kind(statistic, domain)
        if not (0 <= ran.compared <= _MOST_COMPARED and 0 <= ran.attempts <= _MOST_ATTEMPTS):
            raise ValueError("its numbers of comparisons and attempts cannot be")
        prepared = statistic.prepare(release, domain)
        outputs = {name: tuple(first.outputs[name]) for name in prepared.program.outputs}
        answer = prepared.read(outputs, inputs.clients)
    except (FairSharesError, ArithmeticError, LookupError, TypeError, ValueError) as error:
        refusal.say(f"no result follows from what they signed ({str(error)[:_SHOWN]})")
    if parties != list(range(release.model.parties)):
        refusal.say(f"not each of the {release.model.parties} parties signed, once")
    privacy = state_privacy(prepared, ran.compared, ran.attempts).stated
    if ran.by_1_0 and domain.max_count > 1:  # it stated this of clients with one record each alone
        privacy = structs.replace(privacy, if_replaced=UNSET)
    if (str(privacy.epsilon_exact), str(privacy.delta_exact)) != first.spent:
        refusal.say("they signed another ε or δ than this version computes for that run")
    files: dict[str, JsonObject] = {**files_to_json(answer.files(privacy))}
    files[MANIFEST] = {
        "schema": MANIFEST_SCHEMA,
        "task": release.task,
        "request": ran.asked,
        "security": release.model.name,
        **({} if release.model.stated_parties is None else {"parties": release.model.stated_parties}),
        "engine": release.model.engine,
        "engine_version": ran.engine_version,
        "program_hash": ran.program_hash,
        "privacy": as_json(privacy),
        "inputs": as_json(inputs),
        "hosts": as_json(what_hosts_ran(ran)),
        "preprocessing": as_json(noise_of(ran)),
    }
    return files


def _compare(path: Path, fields: JsonObject, *, in_part: bool, intervals: bool) -> None:
    """Raise SignatureError unless a file has these fields and, if not just `in_part`, no others.

    Without `intervals`, their ends are not compared: version 1.0 had other, wider ones.
    """
    wrong = Refusal(SignatureError, str(path), "what the hosts signed", _WAY_OUT)
    in_file = as_type(JsonFields, read_json(path, wrong), wrong)
    follows = as_type(JsonFields, parse_json(json.dumps(fields).encode(), wrong), wrong)
    if not intervals:
        in_file = as_type(JsonFields, without_intervals(in_file), wrong)
        follows = as_type(JsonFields, without_intervals(follows), wrong)
    for name, value in follows.items():
        if in_file.get(name) != value:
            wrong.say(f"its {name!r} is another")
    if not in_part and set(in_file) != set(follows):
        wrong.say("it has fields of its own")


def read_signed(kind: type[T], signed: Signed, refusal: Refusal) -> T:
    """Return a signed statement as its type, or refuse it unless its certificate signed it as this kind."""
    if not is_signed(signed, kind_of(kind)):
        refusal.say("a signature is not its certificate's")
    return as_type(kind, parse_json(signed.said.encode(), refusal), refusal)


def what_hosts_ran(ran: Intent) -> HostsRun:
    """Return a manifest's `hosts`."""
    return HostsRun(
        run=ran.run, started=ran.started, source=ran.source, population=ran.asked.get("population")
    )


def noise_of(ran: Intent) -> Preprocessing | None:
    """Return a manifest's entry on the noise made ahead that a run used, or None if it used none."""
    if ran.piece == SIGNED_AS_NONE:
        return None
    return Preprocessing(piece=ran.piece, attempts=ran.attempts)


def shared(statement: Statement) -> Statement:
    """Return the part of a statement that all hosts sign alike."""
    return replace(statement, ran=statement.ran.alike, met={}, ended="")
