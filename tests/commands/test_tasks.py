"""From keys to a result by commands: a task, uploads that are sent, lists, aggregates, a release."""

import json
from hashlib import sha256
from pathlib import Path

import pytest

from harness.inputs.shares.keys import SealingParty, read_party
from tests.support.command import files_below, refused, succeed
from tests.support.running import QUICKEST
from tests.support.servers import certify, serving

DECLARED = ("--groups", "a,b", "--labels", "0,1", "--max-count", "5", "--security", QUICKEST)
PARTIES = "keys-0/party.json,keys-1/party.json,keys-2/party.json"
TASK = ("--task", "task.json")


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """Return a directory with three parties' keys, a task, and records of three clients."""
    (tmp_path / "my.csv").write_text("client_id,group,label\nm,a,0\nm,a,0\nn,b,1\no,b,0\n")
    for i in range(3):
        succeed("keys", "--directory", f"keys-{i}", "--name", f"P{i}", "--until", "2999-01-01", cwd=tmp_path)
    made = ("--least-uploads", "3", "--until", "2998-01-01", "--epsilon", "3")
    succeed("task", "task.json", "--parties", PARTIES, *DECLARED, *made, cwd=tmp_path)
    return tmp_path


def own(party: int) -> tuple[str, ...]:
    return (*TASK, "--party", str(party), "--keys", f"keys-{party}", "--shares")


def test_clients_upload_and_leave(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certify(here)))
    intake = here / "intake"

    def answer(path: str, body: bytes) -> int:
        file = intake / path.removeprefix("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(body)
        return 201

    with serving(here / "server.pem", answer) as address:
        to = " ".join(f"{address}party-{i}/" for i in range(3))
        said = succeed("share", *TASK, "--records", "my.csv", "--out", "sent", "--to", to, cwd=here)
    assert "Sealed 3 clients" in said and said.count("3 stored (HTTP 201)") == 3
    for i in range(3):
        succeed("uploads", *own(i), "intake", "--out", f"lists/party-{i}.uploads", cwd=here)
    (intake / "party-0" / "late.share").write_bytes(b"garbage")
    for i in range(3):
        out = ("--uploads", "lists", "--out", f"all/party-{i}.aggregate")
        said = succeed("aggregate", *own(i), "intake", *out, cwd=here)
        assert f"Party {i}: 3 uploads in all/party-{i}.aggregate" in said
    run = ("weights", "--shares", "all", "--security", QUICKEST, "--epsilon")
    assert "policies" in refused(*run, "3.1", cwd=here)  # more than the task allows
    succeed(*run, "3", "--out", "r", cwd=here)
    manifest = json.loads((here / "r" / "manifest.json").read_text())
    assert manifest["inputs"]["clients"] == 3
    assert "went into a run before" in refused(*run, "3", cwd=here)


def test_a_task_is_shown_in_words_and_never_changes(here: Path) -> None:
    before = (here / "task.json").read_bytes()
    said = succeed("task", "task.json", cwd=here)
    for part in (sha256(before).hexdigest(), "noisy count of records", "ε = 3", "P1", "at least 3", "ML-KEM"):
        assert part in said, part
    again = ("task", "task.json", "--parties", PARTIES, "--until", "2998-01-01")
    assert "never changes" in refused(*again, cwd=here)
    checked = succeed("share", *TASK, "--records", "my.csv", "--check", cwd=here)
    assert said.splitlines()[0] in checked and "4 records of 3 clients would be shared" in checked
    assert (here / "task.json").read_bytes() == before and not (here / "shares").exists()


def test_a_client_may_allow_less(here: Path) -> None:
    (here / "one.csv").write_text("client_id,group,label\np,a,0\n")
    succeed("share", *TASK, "--records", "my.csv", "--out", "shares", cwd=here)
    succeed("share", *TASK, "--records", "one.csv", "--epsilon", "1", "--out", "shares", cwd=here)
    said = succeed("aggregate", *own(0), "shares", "--out", "all", cwd=here)
    assert "3 uploads" in said
    less = ("--epsilon", "1", "--out", "less")
    assert "4 uploads" in succeed("aggregate", *own(0), "shares", *less, cwd=here)
    assert "ask for less" in refused(
        "aggregate", *own(0), "shares", "--epsilon", "3.1", "--out", "more", cwd=here
    )


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("share", *TASK, "--to", "https://a/ https://b/", "--out", "x"), "3 parties"),
        (("share", *TASK, "--to", "task", "--out", "x"), "is no URL to send to"),
        (("share", "--to", "task", "--out", "x"), "--task is missing"),
        (("share", *TASK, "--records", "my.csv", "--for-tasks", "gap", "--out", "x"), "goes with --epsilon"),
        (("aggregate", *own(0)[:-1], "--shares", "keys-0", "--out", "x"), "wait for more"),
        (
            ("aggregate", *TASK, "--party", "0", "--keys", "keys-1", "--shares", "keys-0", "--out", "x"),
            "no key",
        ),
        (
            ("aggregate", *TASK, "--party", "3", "--keys", "keys-1", "--shares", "keys-0", "--out", "x"),
            "3 parties",
        ),
        (
            ("aggregate", *TASK, "--party", "0", "--keys", ".", "--shares", "keys-0", "--out", "x"),
            "no sealing keys",
        ),
        (("task", "new.json", *DECLARED), "--parties"),
        (
            ("task", "new.json", *DECLARED, "--parties", "keys-0/party.json", "--until", "2999-01-01"),
            "names 1",
        ),
        (("task", "my.csv"), "not a task"),
        (("keys", "--directory", "none"), "--until"),
        (("keys", "--directory", "keys-0", "--until", "tomorrow"), "date"),
    ],
)
def test_bad_input_leaves_nothing(options: tuple[str, ...], says: str, here: Path) -> None:
    before = files_below(here)
    assert says in refused(*options, cwd=here)
    assert files_below(here) == before


def test_keys_are_shown_by_state(here: Path) -> None:
    succeed("keys", "--directory", "keys-0", "--until", "2999-06-01", cwd=here)
    said = succeed("keys", "--directory", "keys-0", cwd=here)
    party: SealingParty = read_party(here / "keys-0" / "party.json")
    first, second = (key.id.hex() for key in party.keys)
    assert f"active: key {first}" in said and f"pending: key {second}" in said
    secrets = sorted((here / "keys-0").glob("*.key"))
    assert [path.stat().st_mode & 0o777 for path in secrets] == [0o600] * 2
    assert all(path.read_bytes()[-8:].hex() not in said for path in secrets)
