"""Each kind of file that another owner may have made: hostile ones end in one sentence, in little memory.

The kinds are those of docs/reference/files.md and share-files.md, so a new kind of file needs a line here.
"""

import json
import os
import re
import shutil
import socket
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

import fairshares as fs
from fairshares.harness.engines.parties.certificates import make_key
from fairshares.harness.errors import FairSharesError
from fairshares.harness.hosts.host_log import LOG_FILE, read_log
from fairshares.harness.hosts.inventory import read_hosts
from fairshares.harness.hosts.key_histories import read_history
from fairshares.harness.hosts.policy import checked_policy
from fairshares.harness.hosts.setup import set_up_here
from fairshares.harness.hosts.signed_results import signers_of, verify
from fairshares.harness.inputs.record_schema import read_domain
from fairshares.harness.inputs.records import ClientRecords, read_records
from fairshares.harness.online.client import read_invitation
from fairshares.harness.pipeline.chains import add_up
from fairshares.harness.privacy.ledger.entries import Ledger
from fairshares.harness.system.documents import DECLARATION, Refusal, read_toml
from fairshares.harness.training.client_round import read_round
from fairshares.harness.training.features import read_features
from fairshares.harness.uploads.aggregates import extract_values, read_header, read_uploads
from fairshares.harness.uploads.counted_records import records_left
from fairshares.harness.uploads.counting import Opener, UploadCount
from fairshares.harness.uploads.keys import read_party, secrets_in, signing_key
from fairshares.harness.uploads.lists import read_lists
from fairshares.harness.uploads.locked_keys import unlock
from fairshares.harness.uploads.signatures import read_fingerprints
from fairshares.harness.uploads.task import read_task
from fairshares.protocols.exact_numbers import MAX_DIGITS
from tests.conftest import PROJECT
from tests.fuzz.mutate import Target, limited_memory, outcome
from tests.project.test_documented_files import LISTED

GOLDEN = PROJECT / "tests" / "golden" / "1.0"
CPU_S = 5.0  # of a busy and slow machine, where all of this takes less than 1
MORE_BYTES = 500 << 20  # of addresses, of which less than half is ever used

# Kinds of the page that nothing reads back, or that their owner alone makes.
UNREAD = {
    "noise.json": "prints and writes only",
    "audit.json": "prints and writes only",
    "<run>.json": "written for people",
    "evaluation.csv": "written for people",
    "sums.json": "written for whoever trains, and read by no command",
    "ledger --json": "printed",
    "hosts.check --json": "printed",
    "hosts.check --directory --json": "printed",
}


def nothing(_: Path) -> None:
    raise AssertionError("signatures are checked by another kind")


def result(task: str, name: str) -> Callable[[Path], object]:
    """Return the reader of one file of a run's directory."""

    def read(path: Path) -> object:
        directory = path.with_name(f"{task}-run")
        shutil.copytree(GOLDEN / task, directory)
        (directory / name).unlink()
        path.rename(directory / name)
        return fs.load(directory)

    return read


def signatures(path: Path) -> object:
    directory = path.with_name("signed")
    shutil.copytree(GOLDEN / "weights", directory)
    path.rename(directory / "signatures.json")
    return verify(directory)


def result_beside_signatures(path: Path) -> object:
    directory = path.with_name("unsigned")
    shutil.copytree(GOLDEN / "weights", directory)
    path.rename(directory / "signatures.json")
    return add_up([directory], signers_of([directory]))


@cache
def records_of_a_client() -> ClientRecords:
    """Return records, which load packages that take more memory than a hostile file may."""
    with TemporaryDirectory() as directory:
        source = Path(directory, "records.csv")
        source.write_text("client_id,group,label\nc,a,0\n")
        declared = Path(directory, "declared.json")
        declared.write_text('{"groups": ["a", "b"], "labels": ["0", "1"], "cap": 1}')
        return read_records(source, read_domain(declared))


def counted(path: Path) -> object:
    source = path.with_name("records.csv")
    source.write_text("client_id,group,label\nc,a,0\n")
    return records_left(records_of_a_client(), source, path)


def aggregate(path: Path) -> object:
    read_header(path)
    read_uploads(path)
    return extract_values(path, path.with_name("values"))


def lists(path: Path) -> object:
    directory = path.with_name("lists")
    shutil.copytree(GOLDEN / "lists", directory)
    (directory / "party-1.uploads").unlink()
    path.rename(directory / "party-1.uploads")
    return read_lists(directory, read_task(GOLDEN / "task.json"))


def shares(path: Path) -> object:
    """A share file never ends a command: it is left out, and counted as such."""
    directory = path.with_name("shares")
    shutil.copytree(GOLDEN / "party-0", directory)
    path.rename(directory / f"{'0' * 64}.share")
    task = read_task(GOLDEN / "task.json")
    count = UploadCount(Opener(task, 0, task.secrets(0, GOLDEN / "keys-0"), task.allowed))
    count.add(directory)
    assert len(count.identities) == 3 and count.unsound
    raise FairSharesError("it is left out, with its reason")


def keys(path: Path) -> object:
    directory = path.with_name("keys")
    directory.mkdir()
    path.rename(directory / "00.key")
    return secrets_in(directory)


def signing(path: Path) -> object:
    directory = path.with_name("keys")
    directory.mkdir()
    path.rename(directory / "signing.pem")
    return signing_key(directory)


def certificates(path: Path) -> object:
    return set_up_here(
        path.with_name("host"), 0, renew=False, policy_text=None, others=[path], models=["mpyc"]
    )


def history(path: Path) -> object:
    certificate = make_key(path.parent, "P0", "MPyC party 0")
    path.rename(certificate.with_suffix(".history"))
    return read_history(certificate)


def host_log(path: Path) -> object:
    """A line that no agent wrote is counted, and the others are shown."""
    path.rename(path.with_name(LOG_FILE))
    assert read_log(path.parent).unreadable
    raise FairSharesError("it is left out, with its reason")


def options(path: Path) -> object:
    return read_toml(path, Refusal(FairSharesError, str(path), "a file of options", "correct it"))


READERS: dict[str, Callable[[Path], object]] = {
    # of docs/reference/files.md
    "manifest.json": result("weights", "manifest.json"),
    "weights.json": result("weights", "weights.json"),
    "confusion.json": result("confusion", "confusion.json"),
    "curves.json": result("thresholds", "curves.json"),
    "thresholds.json": lambda path: fs.GroupThresholdPredictor.load(path),
    "gap.json": result("gap", "gap.json"),
    "count.json": result("count", "count.json"),
    "cap.json": result("cap", "cap.json"),
    "model.json": lambda path: fs.LogisticModel.load(path),
    "domain.json": read_domain,
    "<counted>.json": counted,
    "<name>.aggregate": aggregate,
    "party-<i>.uploads": lists,
    "client-<k>.json": read_invitation,
    "hosts.toml": read_hosts,
    "policy.toml": lambda path: checked_policy(path, str(path)),
    "signatures.json": signatures,
    "party-<i>.certificates": certificates,
    "P<i>.history": history,
    "log.jsonl": host_log,
    # of docs/reference/share-files.md, and of other pages
    "task.json": read_task,
    "party.json": read_party,
    "<ID>.key": keys,
    "signing.pem": signing,
    "keys.locked": lambda path: unlock(path, path.with_name("unlocked"), "of twelve characters"),
    "<upload>.share": shares,
    "fairshares.toml": options,
    "features.json": read_features,
    "round.json": read_round,
    "fingerprints": read_fingerprints,
    "ledger": lambda path: Ledger(path).populations(),
    "signatures.json of a chain": result_beside_signatures,
}
BINARY = {"<ID>.key", "signing.pem", "<upload>.share", "fingerprints", "ledger"}


def link_to(target: str) -> Callable[[Path], None]:
    return lambda path: path.symlink_to(target)


def make_socket(path: Path) -> None:
    with closing(socket.socket(socket.AF_UNIX)) as made:
        os.chdir(path.parent)  # names of sockets are short
        made.bind(path.name)


def text(content: bytes, times: int = 1, end: bytes = b"") -> Callable[[Path], object]:
    """Return what writes a text that is repeated, and made only where it is needed."""
    return lambda path: path.write_bytes(content * times + end)


def text_in(start: bytes, content: bytes, times: int, end: bytes = b"") -> Callable[[Path], object]:
    """Return what writes a repeated text after a start."""
    return lambda path: path.write_bytes(start + content * times + end)


@dataclass(frozen=True)
class Hostile:
    """What is put in a file's place.

    Attributes:
        make: Puts it there.
        in_documents: Whether it is of JSON, so that files of other bytes may have it.
        large: Whether it is so large that it is tried on one kind for each way to read.
    """

    make: Callable[[Path], object]
    in_documents: bool = False
    large: bool = False


HOSTILE = {
    "pipe": Hostile(os.mkfifo),
    "endless device": Hostile(link_to("/dev/zero")),
    "silent device": Hostile(link_to("/dev/tty")),
    "link to itself": Hostile(link_to("file")),
    "link to nothing": Hostile(link_to("nothing")),
    "directory": Hostile(Path.mkdir),
    "socket": Hostile(make_socket),
    "nothing in it": Hostile(text(b"")),
    "a million lists": Hostile(text(b"[", 10**6)),
    "a million lists in a value": Hostile(text(b'{"a":', 10**6)),
    "a million empty lists": Hostile(text_in(b"[", b"[],", 10**6, b"[]]")),
    "64 MB of digits": Hostile(text(b"1", 64 << 20), large=True),
    "64 MB of digits in a value": Hostile(text_in(b'{"schema":', b"1", 63 << 20, b"}"), large=True),
    "64 MB of digits in TOML": Hostile(text_in(b"a = ", b"1", 63 << 20), large=True),
    "65 MB of spaces": Hostile(text(b" ", 65 << 20), large=True),
    "quotes without an end": Hostile(text_in(b'{"a": "', b'\\"', 31 << 20), True, large=True),
    "a key twice": Hostile(text(b'{"schema": 1, "schema": 1}'), True),
    "NaN": Hostile(text(b'{"schema": 1, "a": NaN}'), True),
    "a number beyond floats": Hostile(text(b'{"schema": 1, "a": 1e400}'), True),
    "half a character": Hostile(text(b'{"schema": 1, "a": "\\ud800"}'), True),
    "other bytes": Hostile(text(b"\xff\xfe{}")),
    "a key of many parts in TOML": Hostile(text(b"a." * 20_000 + b"a = 1")),
    "quoted parts in TOML": Hostile(text(b'"a".' * 20_000 + b"a = 1")),
    "hidden parts in TOML": Hostile(text(b'a = {b = """"""", ' + b"a." * 20_000 + b'a = ""}')),
}  # fmt: skip


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    before = Path.cwd()
    (tmp_path / "0").mkdir()
    yield tmp_path / "0"
    os.chdir(before)


def refused(read: Callable[[], object]) -> str:
    """Return the one sentence in which reading ends, within limits of processor time and memory."""
    said = []

    def reading(_: bytes) -> None:
        try:
            read()
        except FairSharesError as error:
            said.append(str(error))
            raise

    with limited_memory(MORE_BYTES):
        assert outcome(Target("hostile", reading, [], cpu_s=CPU_S), b"") != "accepted"
    (sentence,) = said
    assert "\n" not in sentence and len(sentence) < 1000
    return sentence


# A kind for each way to read, on which large files are tried.
WAYS = (
    "weights.json",
    "task.json",
    "policy.toml",
    "<name>.aggregate",
    "party-<i>.uploads",
    "<ID>.key",
    "ledger",
)
# What is no fault: nothing is there yet, or nothing is in it.
RIGHT = {
    *(
        (kind, name)
        for kind in ("<counted>.json", "ledger", "log.jsonl")
        for name in ("link to nothing", "link to itself")
    ),
    ("ledger", "nothing in it"),
    ("log.jsonl", "nothing in it"),
    ("fairshares.toml", "nothing in it"),
    ("<upload>.share", "nothing in it"),
}
CASES = [
    (kind, name)
    for kind in READERS
    for name, hostile in HOSTILE.items()
    if not (hostile.in_documents and kind in BINARY)
    and (kind in WAYS or not hostile.large)
    and not (kind == "<upload>.share" and name.startswith("a million"))  # as many envelopes, one by one
    and (kind, name) not in RIGHT
]


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_a_hostile_file_ends_in_one_sentence(kind: str, name: str, place: Path) -> None:
    path = place / "file"
    HOSTILE[name].make(path)
    records_of_a_client()
    before = {file: file.lstat().st_ino for file in place.parent.rglob("*")}
    sentence = refused(partial(READERS[kind], path))
    assert sentence.endswith((".", "reason"))
    left = {file for file in place.parent.rglob("*") if file not in before and "partial" in file.name}
    assert not left


def test_every_kind_of_file_is_tried() -> None:
    """A new heading or file on the pages needs a reader above, or a reason."""
    headings = {name for name in LISTED if name and not name.startswith("## ")}
    assert headings <= READERS.keys() | UNREAD.keys()
    page = (PROJECT / "docs" / "reference" / "share-files.md").read_text(encoding="utf-8")
    files = set(re.findall(r"`([^`/ ]+\.(?:json|pem|key|toml|share))`", page))
    assert files and files - {"policy.toml"} <= READERS.keys() | {"*.share", ".share"}


def manifest_with(**privacy: Any) -> Callable[[dict[str, Any]], None]:
    return lambda fields: fields["privacy"].update(privacy)


NO_NUMBER = "expected an exact number of at most 4300 digits, such as 355/113 at `privacy."
NUMBERS: dict[str, tuple[Callable[[dict[str, Any]], None], str]] = {
    "a huge exponent": (manifest_with(epsilon_exact="1e400000000"), f"{NO_NUMBER}epsilon_exact`"),
    "a huge negative exponent": (manifest_with(delta_exact="1e-400000000"), f"{NO_NUMBER}delta_exact`"),
    "many digits": (manifest_with(epsilon_exact="9" * (MAX_DIGITS + 1)), f"{NO_NUMBER}epsilon_exact`"),
    "no number": (manifest_with(epsilon_exact=None), f"{NO_NUMBER}epsilon_exact`"),
    "division by zero": (manifest_with(epsilon_requested="1/0"), f"{NO_NUMBER}epsilon_requested`"),
    "no ratio": (manifest_with(epsilon_requested="1/2/3"), f"{NO_NUMBER}epsilon_requested`"),
    "digits of another script": (manifest_with(epsilon_exact="١"), f"{NO_NUMBER}epsilon_exact`"),
    "many bits": (manifest_with(mpc_statistical_security_bits=10**9), "expected `int` <= 4096 at"),
    "fewer than no bits": (manifest_with(mpc_statistical_security_bits=-1), "expected `int` >= 0 at"),
    "a text of bits": (manifest_with(mpc_statistical_security_bits="64"), "expected `int | null`, got `str`"),
    "no bits": (lambda fields: fields["privacy"].pop("mpc_statistical_security_bits"), "missing required"),
    "no rounded number": (lambda fields: fields["privacy"].pop("delta"), "missing required field `delta`"),
    "a flattering epsilon": (
        manifest_with(epsilon=0.5),
        "its epsilon is less than the exact one at `privacy`",
    ),
    "a flattering delta": (manifest_with(delta=0), "its delta is less than the exact one at `privacy`"),
    "a delta above 1": (manifest_with(delta=1.5), "expected `float` <= 1.0 at `privacy.delta`"),
    "no privacy": (lambda fields: fields.pop("privacy"), "missing required field `privacy`"),
    "a cap of no record": (manifest_with(cap=0), "expected `int` >= 1 at `privacy.cap`"),
}


@pytest.mark.parametrize("file", ["manifest", "weights"])
@pytest.mark.parametrize(("change", "said"), NUMBERS.values(), ids=NUMBERS)
def test_numbers_of_a_privacy_statement_have_ranges(
    change: Callable[[dict[str, Any]], None], said: str, file: str, place: Path
) -> None:
    shutil.copytree(GOLDEN / "weights", place / "run")
    path = place / "run" / f"{file}.json"
    fields = json.loads(path.read_text())
    change(fields)
    path.write_text(json.dumps(fields))
    sentence = refused(lambda: fs.load(place / "run"))
    assert sentence.startswith(f"{path} is not the {file}.json of a run: ") and said in sentence
    assert sentence.endswith("name the directory of a run as it left it.")


CURVES: dict[str, Callable[[dict[str, Any]], object]] = {
    "bits of a coin": lambda fields: fields.update(coins=[[1, 10**9]]),
    "a million coins": lambda fields: fields.update(coins=[[1, 1]] * 10**6),
    "thresholds": lambda fields: fields.update(thresholds=[i / 10**5 for i in range(10**5)]),
    "levels": lambda fields: fields.update(blocks=[1] * 10**5),
    "blocks": lambda fields: fields.update(blocks=[10**15]),
    "edge": lambda fields: fields.update(
        distributed_noise={"distribution": "laplace", "rate": "1", "edge": 10**12, "parties": 3, "honest": 2}
    ),
    "parties": lambda fields: fields.update(
        distributed_noise={"distribution": "laplace", "rate": "1", "edge": 9, "parties": 10**9, "honest": 2}
    ),
    "rate": lambda fields: fields.update(
        distributed_noise={
            "distribution": "laplace", "rate": "1e-400000000", "edge": 9, "parties": 3, "honest": 2,
        }
    ),
    "privacy of a file": lambda fields: fields["privacy"].update(epsilon_exact="1e400000000"),
}  # fmt: skip


@pytest.mark.parametrize("change", CURVES.values(), ids=CURVES)
def test_sizes_of_curves_and_their_noise_have_ranges(
    change: Callable[[dict[str, Any]], object], place: Path
) -> None:
    shutil.copytree(GOLDEN / "thresholds", place / "run")
    path = place / "run" / "curves.json"
    fields = json.loads(path.read_text())
    change(fields)
    path.write_text(json.dumps(fields))
    sentence = refused(lambda: fs.load(place / "run"))
    assert (
        "are not as this version writes them" in sentence or f"{path} is not the curves.json of a" in sentence
    )


def test_a_task_of_many_keys_is_not_tried_key_by_key(place: Path) -> None:
    fields = json.loads((GOLDEN / "task.json").read_text())
    (place / "file").write_text(json.dumps({**fields, "parties": fields["parties"] * 6}))
    assert "more than 16 parties" in refused(lambda: read_task(place / "file"))
    fields["parties"][0]["keys"] *= 5000
    (place / "file").write_text(json.dumps(fields))
    assert len((place / "file").read_bytes()) < DECLARATION.size
    assert "more than 256 keys" in refused(lambda: read_task(place / "file"))
    fields["parties"][0]["keys"] = fields["parties"][0]["keys"][:300]
    (place / "file").write_text(json.dumps(fields["parties"][0]))
    assert "more than 256 keys" in refused(lambda: read_party(place / "file"))


def test_a_domain_of_a_million_names_is_refused_in_a_few(place: Path) -> None:
    (place / "file").write_text(json.dumps({"groups": ["a" * 10**5] * 100, "labels": ["0", "1"]}))
    assert len(refused(lambda: read_domain(place / "file"))) < 500


def test_a_run_of_many_files_is_read_without_those_that_no_run_writes(place: Path) -> None:
    shutil.copytree(GOLDEN / "weights", place / "run")
    for number in range(20):
        (place / "run" / f"{number}.json").write_text("{")
    fs.load(place / "run").save(place / "saved")
    assert {path.name for path in (place / "saved").iterdir()} == {"manifest.json", "weights.json"}


def test_a_pipe_in_a_files_place_is_refused(place: Path) -> None:
    shutil.copytree(GOLDEN / "thresholds", place / "run")
    (place / "run" / "thresholds.json").unlink()
    os.mkfifo(place / "run" / "thresholds.json")
    assert "thresholds.json" in refused(lambda: fs.load(place / "run"))


@pytest.mark.parametrize(
    "made", ["VIEW v AS SELECT 1", "TRIGGER t AFTER INSERT ON charges BEGIN SELECT 1; END"]
)
def test_a_ledger_that_does_more_than_hold_rows_is_refused(made: str, place: Path) -> None:
    import sqlite3

    with closing(sqlite3.connect(place / "file")) as ledger:
        ledger.executescript((GOLDEN / "ledger.sql").read_text())
    Ledger(place / "file").populations()
    with closing(sqlite3.connect(place / "file")) as ledger:
        ledger.executescript(f"CREATE {made};")
    kind = made.split()[0].lower()
    assert f"it has a {kind}, as no ledger has" in refused(lambda: Ledger(place / "file").populations())
