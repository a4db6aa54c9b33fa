"""Files that other owners hand over: results, tasks, lists, aggregates, certificates, lists of hosts, heads.

Policies have a target of their own.
"""

import json
import shutil
import tempfile
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

import fairshares as fs
from fairshares.harness.engines.engine import left_out_by
from fairshares.harness.engines.execution import parse_outputs
from fairshares.harness.engines.mpspdz.engine import MpSpdzEngine
from fairshares.harness.engines.mpyc.engine import EmbeddedEngine
from fairshares.harness.engines.parties.party_log import MOST_LOG_BYTES, kept_lines
from fairshares.harness.engines.parties.working_directory import LOG
from fairshares.harness.errors import OptionError
from fairshares.harness.hosts.inventory import read_hosts
from fairshares.harness.hosts.setup import SCHEMA, read_exported
from fairshares.harness.hosts.signed_results import Statement, verify
from fairshares.harness.inputs.record_schema import read_domain
from fairshares.harness.online.client import read_invitation
from fairshares.harness.party_reports import ClientsServed, Costs, line_of
from fairshares.harness.privacy.ledger.accountants import noise_of
from fairshares.harness.request.readers import parse_heads
from fairshares.harness.training.client_round import read_round
from fairshares.harness.training.features import read_features
from fairshares.harness.uploads.aggregates import extract_values, read_header, read_uploads
from fairshares.harness.uploads.keys import read_party
from fairshares.harness.uploads.lists import read_lists
from fairshares.harness.uploads.signatures import kind_of, signature_of
from fairshares.harness.uploads.task import read_task, task_from_bytes
from tests.conftest import PROJECT
from tests.fuzz.mutate import Target

GOLDEN = PROJECT / "tests" / "golden" / "1.0"
_SHM = Path("/dev/shm")
PLACE = Path(tempfile.mkdtemp(prefix="fuzz-", dir=_SHM if _SHM.is_dir() else None))


def file_of(read: Callable[[Path], object], name: str) -> Callable[[bytes], object]:
    """Return a reader of bytes, by a reader of a file of this name."""
    path = PLACE / name

    def reading(data: bytes) -> object:
        path.write_bytes(data)
        return read(path)

    return reading


def in_run(task: str, name: str) -> Callable[[bytes], object]:
    """Return a reader of one file of a run's directory; the result is shown, too."""
    directory = PLACE / f"{task}-{name}"

    def reading(data: bytes) -> object:
        if not directory.exists():
            shutil.copytree(GOLDEN / task, directory)
        (directory / name).write_bytes(data)
        result = fs.load(directory)
        return result.privacy

    return reading


def in_lists(data: bytes) -> object:
    directory = PLACE / "lists"
    if not directory.exists():
        shutil.copytree(GOLDEN / "lists", directory)
    (directory / "party-1.uploads").write_bytes(data)
    return read_lists(directory, read_task(GOLDEN / "task.json"))


def in_lists_of_hosts(data: bytes) -> object:
    """Read a list without a signature of its own, as hosts sign lists whole."""
    directory = PLACE / "lists-of-hosts"
    if not directory.exists():
        shutil.copytree(GOLDEN / "lists", directory)
    (directory / "party-1.uploads").write_bytes(data)
    return read_lists(directory, read_task(GOLDEN / "task.json"), signed=False)


def aggregate(path: Path) -> object:
    (PLACE / "values").unlink(missing_ok=True)
    header = read_header(path)
    read_uploads(path)
    extract_values(path, PLACE / "values")
    return header


def signatures(data: bytes) -> object:
    directory = PLACE / "signed"
    if not directory.exists():
        shutil.copytree(GOLDEN / "signed", directory)
    (directory / "signatures.json").write_bytes(data)
    with warnings.catch_warnings():
        # Signed values beyond what clients could have sent are clipped, with a warning that is right.
        warnings.simplefilter("ignore", UserWarning)
        return verify(directory)


@cache
def owners() -> list[tuple[ec.EllipticCurvePrivateKey, str]]:
    """Return the hosts' keys and certificates, party 0 first."""
    found = []
    for party in range(3):
        certificate = GOLDEN / "hosts" / f"host-{party}" / "keys" / "embedded" / f"P{party}.pem"
        key = serialization.load_pem_private_key(certificate.with_suffix(".key").read_bytes(), None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        found.append((key, certificate.read_text()))
    return found


def statement_of(party: int) -> dict[str, Any]:
    signed = json.loads(golden("signed/signatures.json"))["signed"]
    said: dict[str, Any] = json.loads(signed[party]["said"])
    return said


def signed_by_all(data: bytes) -> object:
    """Verify what all three hosts signed alike: each with its own number and peers, where there are any."""
    signed = []
    for party, (key, certificate) in enumerate(owners()):
        text = data.decode(errors="replace")
        with suppress(ValueError, TypeError, LookupError, RecursionError):
            said = json.loads(text)
            said["ran"]["party"] = party
            said["met"] = statement_of(party)["met"]
            text = json.dumps(said)
        signature = signature_of(key, kind_of(Statement), text)
        signed.append({"said": text, "signature": signature, "certificate": certificate})
    return signatures(json.dumps({"schema": 1, "signed": signed}).encode())


def lines(log: Path) -> object:
    """Read the lines of two parties, as a run does."""
    kept = tuple(kept_lines(log.parent, MOST_LOG_BYTES))
    return parse_outputs([kept, kept], ["counts", "total"])


def costs(data: bytes) -> object:
    try:
        return MpSpdzEngine()._costs(data.decode(errors="replace").splitlines())
    except (IndexError, OverflowError, ValueError):  # as `Engine.costs` has it
        raise OptionError("no costs") from None


def costs_of_mpyc(data: bytes) -> object:
    try:
        return EmbeddedEngine()._costs(data.decode(errors="replace").splitlines())
    except (IndexError, OverflowError, ValueError):
        raise OptionError("no costs") from None


def noise(data: bytes) -> object:
    try:
        return noise_of(data.decode())
    except (ValueError, TypeError, ArithmeticError, LookupError):  # as `Database` has it
        raise OptionError("no noise") from None


def golden(name: str) -> bytes:
    return (GOLDEN / name).read_bytes()


LINES = b"""OUT counts [1, -2, 30, 40]
Reading file
OUT total 71
Spent 0.25 seconds (1.5 MB, 12 rounds) on the online phase and 0.5 seconds of another
Time = 0.75 seconds
Data sent = 3.5 MB in ~15 rounds (party 0 only)
Global data sent = 10.5 MB (all parties)
"""
LEFT_OUT = line_of(ClientsServed(sent_bytes=5, received_bytes=6, absent=1, failed=0, complained=2)).encode()
COSTS = line_of(Costs(seconds=0.5, sent_bytes=100)).encode()
CERTIFICATES = json.dumps({"schema": SCHEMA, "party": 1, "certificates": {"embedded": "PEM"}}).encode()
HOSTS = b"""[[host]]
party = 0
address = "a.example"
directory = "/srv/fairshares"
project = "/srv/project"
port = 12000

[[host]]
party = 1
address = "b.example"
directory = "/srv/fairshares"
project = "/srv/project"
port = 12000
"""
INVITATION = json.dumps(
    {
        "schema": 1, "client": 0, "certificate": "PEM", "key": "PEM",
        "servers": [{"host": "h", "port": 1, "certificate": "PEM"}], "terms": {"request": {}},
    }
).encode()  # fmt: skip
DOMAIN = b'{"groups": ["a", "b"], "labels": ["0", "1"], "max_count": 9, "thresholds": [0.25, 0.5]}'
ROUND = (
    b'{"schema": 1, "task": "0", "reveal": 1, "groups": ["a", "b"], "labels": ["0", "1"], "features": '
    b'{"age": {"low": 18, "high": 99}}, "parameters": [[0.5, 0.25]], "clip": 1.0, "largest_weight": 1.25, '
    b'"weights": [[1.0, 1.0], [1.0, 1.0]], "fairness": {"definition": "accuracy_parity", "positive": 1, '
    b'"step": 0.01, "share": 0.1}}'
)
FEATURES = b'{"age": {"low": 18, "high": 99}, "sector": {"categories": ["a", "b"]}}'
COINS = b'{"values": 4, "coins": [[1, 4], [3, 8]]}'
DRAWN = (
    b'{"values": 4, "parties": {"distribution": "laplace", "rate": "1/2", "edge": 90, "parties": 3,'
    b' "honest": 2}}'
)
HEADS = b"0a" * 32 + b"," + b"f" * 64
RULES = fs.GroupThresholdPredictor.load
TASK = golden("task.json")

TARGETS = [
    Target("manifest", in_run("weights", "manifest.json"), [golden("weights/manifest.json")]),
    Target("weights", in_run("weights", "weights.json"), [golden("weights/weights.json")]),
    Target("confusion", in_run("confusion", "confusion.json"), [golden("confusion/confusion.json")]),
    Target("curves", in_run("thresholds", "curves.json"), [golden("thresholds/curves.json")]),
    Target("thresholds", in_run("thresholds", "thresholds.json"), [golden("thresholds/thresholds.json")]),
    Target("gap", in_run("gap", "gap.json"), [golden("gap/gap.json")]),
    Target("count", in_run("count", "count.json"), [golden("count/count.json")]),
    Target("cap", in_run("cap", "cap.json"), [golden("cap/cap.json")]),
    Target(
        "rules", file_of(fs.GroupThresholdPredictor.load, "rules"), [golden("thresholds/thresholds.json")]
    ),
    Target("signatures", signatures, [golden("signed/signatures.json")]),
    Target("signed-by-all", signed_by_all, [json.dumps(statement_of(0)).encode()]),
    Target("task", lambda data: task_from_bytes(data, "task.json"), [TASK]),
    Target("party", file_of(read_party, "party"), [golden("keys-0/party.json")]),
    Target("list", in_lists, [golden(f"lists/party-{i}.uploads") for i in (1, 0)]),
    Target("list-of-hosts", in_lists_of_hosts, [golden(f"lists/party-{i}.uploads") for i in (1, 0)]),
    Target("aggregate", file_of(aggregate, "aggregate"), [golden("party-0.aggregate")]),
    Target("certificates", file_of(read_exported, "certificates"), [CERTIFICATES]),
    Target("invitation", file_of(read_invitation, "invitation"), [INVITATION]),
    Target("hosts", file_of(read_hosts, "hosts"), [HOSTS]),
    Target("domain", file_of(read_domain, "domain"), [DOMAIN]),
    Target("features", file_of(read_features, "features"), [FEATURES]),
    Target("round", file_of(read_round, "round.json"), [ROUND]),
    Target("heads", lambda data: parse_heads(data.decode(errors="replace")), [HEADS]),
    Target("noise-in-a-ledger", noise, [COINS, DRAWN]),
    Target("lines-of-mp-spdz", file_of(lines, LOG), [LINES]),
    Target("costs-of-mp-spdz", costs, [LINES]),
    Target("costs-of-mpyc", costs_of_mpyc, [COSTS]),
    Target("left-out", lambda data: left_out_by(0, data.decode(errors="replace").splitlines()), [LEFT_OUT]),
]
