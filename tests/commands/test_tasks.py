"""From keys to a result by commands: a task, uploads that are sent, lists, aggregates, a release."""

import json
from hashlib import sha256
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from fairshares.harness.cli.commands.tasks import _meaning
from fairshares.harness.uploads.keys import SealingParty, read_party
from fairshares.harness.uploads.reasons import COUNTED, UNCOVERED, WRONG_SIZE
from tests.support.command import call, files_below, refused, succeed
from tests.support.envelopes import made_task
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
    (intake / "party-1" / "torn.share").write_bytes(b"garbage")
    for i in range(3):
        succeed("uploads", *own(i), "intake", "--out", f"lists/party-{i}.uploads", cwd=here)
    (intake / "party-0" / "late.share").write_bytes(b"garbage")
    for i in range(3):
        out = ("--uploads", "lists", "--out", f"all/party-{i}.aggregate")
        said = succeed("aggregate", *own(i), "intake", *out, cwd=here)
        assert f"Party {i}: 3 uploads in all/party-{i}.aggregate" in said
        assert f"Uploads left out, by all parties alike: 1 {WRONG_SIZE}." in said
    run = ("weights", "--shares", "all", "--security", QUICKEST, "--epsilon")
    assert "policies" in refused(*run, "3.1", cwd=here)  # more than the task allows
    left_out = f"Uploads left out, by all parties alike: 1 {WRONG_SIZE}."
    said = succeed(*run, "1", "--out", "r", cwd=here)
    assert left_out in said and "Anybody who reached the parties' servers could upload" in said
    manifest = json.loads((here / "r" / "manifest.json").read_text())
    assert manifest["inputs"]["clients"] == 3 and manifest["inputs"]["admission"] == "anyone"
    assert manifest["inputs"]["excluded_because"] == {WRONG_SIZE: 1}
    assert "went into a run before" in refused(*run, "1", cwd=here)
    said = call(*run, "1", "--population", "p", "--json", "--out", "again", cwd=here).stderr
    assert left_out in [json.loads(line).get("announcement") for line in said.splitlines()]


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


def test_a_task_that_has_ended_says_so(tmp_path: Path) -> None:
    task = made_task(tmp_path)
    assert "over" not in _meaning(task)
    with patch("fairshares.harness.views.upload_tasks.today", return_value="9999-99"):
        assert "until 9999-12-31, which is over, as this machine has 9999-99;" in _meaning(task)


def test_a_client_may_allow_less(here: Path) -> None:
    (here / "one.csv").write_text("client_id,group,label\np,a,0\n")
    succeed("share", *TASK, "--records", "my.csv", "--out", "shares", cwd=here)
    succeed("share", *TASK, "--records", "one.csv", "--epsilon", "1", "--out", "shares", cwd=here)
    said = succeed("uploads", *own(0), "shares", "--out", "all", cwd=here)
    assert f"3 uploads are sound here. Others: 1 {UNCOVERED}" in said
    less = ("--epsilon", "1", "--out", "less")
    assert "4 uploads" in succeed("uploads", *own(0), "shares", *less, cwd=here)
    more = ("--epsilon", "3.1", "--out", "more")
    assert "ask for less" in refused("uploads", *own(0), "shares", *more, cwd=here)


def test_what_an_earlier_run_counted_counts_again_only_where_that_is_charged(here: Path) -> None:
    """A chain takes new uploads, a run for nobody those that no run had, one for a population all of them.

    Between two runs a server sends all that was counted again, under other names, and the party has moved the
    files away.
    """
    lists, charged = ("--population", "p"), ("--security", QUICKEST, "--epsilon", "1", "--population", "p")

    def count(run: str, records: str, *options: str, of: int = 3) -> dict[str, Any]:
        (here / "new.csv").write_text(f"client_id,group,label\n{records}")
        succeed("share", *TASK, "--records", "new.csv", "--out", "shares", cwd=here)
        for command, more in (("uploads", options), ("aggregate", ("--uploads", run))):
            for i in range(3):
                out = (*more, "--out", f"{run}/party-{i}.{command}")
                said = succeed(command, *own(i), "shares", *out, cwd=here)
        assert f"Party 2: {of} uploads in" in said
        chain = options[2:]
        succeed("weights", "--shares", run, *charged, *chain, "--out", f"{run}-result", cwd=here)
        for file in (here / "shares").glob("party-*/*.share"):
            file.rename(file.with_name(f"replayed-by-{run}-{file.name}"))
        inputs: dict[str, Any] = json.loads((here / f"{run}-result" / "manifest.json").read_text())["inputs"]
        return inputs

    first, second = "a,a,0\nb,a,1\nc,b,0\n", "d,a,0\ne,a,1\nf,b,0\n"
    assert "excluded_because" not in count("january", first, *lists, "--chain", "monthly")
    again = count("february", second, *lists, "--chain", "monthly")
    assert (again["clients"], again["excluded_because"]) == (3, {COUNTED: 3})
    for_nobody = count("march", "g,a,0\nh,a,1\ni,b,0\n")
    assert (for_nobody["clients"], for_nobody["excluded_because"]) == (3, {COUNTED: 6})
    succeed("weights", "--add", "january-result,february-result", "--out", "added", cwd=here)
    nothing = ("uploads", *own(0), "shares", "--out", "again")
    assert "Earlier runs counted all 9 uploads" in refused(*nothing, cwd=here)
    assert "9 uploads" in refused(*nothing, "--population", "none", cwd=here)
    assert "9 uploads are sound here." in succeed(*nothing, *lists, cwd=here)
    all_again = count("april", "j,a,0\n", *lists, of=10)
    assert all_again["clients"] == 10 and "excluded_because" not in all_again
    (population,) = json.loads(succeed("ledger", "--json", cwd=here))["populations"]
    assert len(population["charges"]) == 3  # of the chain one, and each of the others


def test_clients_without_what_the_task_asks_for_send_nothing(here: Path) -> None:
    succeed("share", *TASK, "--records", "my.csv", "--out", "sent", cwd=here)
    made = ("--parties", PARTIES, *DECLARED, "--until", "2998-01-01")
    for admission, says, in_words in (
        ("certificate", "--certificate", "show a certificate"),
        ("urls", "a URL of its own", "at a URL that was given"),
    ):
        succeed("task", f"{admission}.json", "--admission", admission, *made, cwd=here)
        assert in_words in " ".join(succeed("task", f"{admission}.json", cwd=here).split())
        to = " ".join(f"https://{i}.invalid/" for i in range(3))
        send = ("share", "--task", f"{admission}.json", "--to", to, "--out", "sent")
        before = files_below(here)
        assert says in refused(*send, cwd=here)
        assert files_below(here) == before


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("share", *TASK, "--to", "https://a/ https://b/", "--out", "x"), "3 parties"),
        (("share", *TASK, "--to", "task", "--out", "x"), "is no URL to send to"),
        (("share", "--to", "task", "--out", "x"), "--task is missing"),
        (("share", *TASK, "--records", "my.csv", "--for-tasks", "gap", "--out", "x"), "goes with --epsilon"),
        (("aggregate", *own(0), "keys-0", "--uploads", "keys-0", "--out", "x"), "does not hold one list"),
        (("aggregate", *own(0), "keys-0", "--out", "x"), "--uploads is missing"),
        (
            ("uploads", *TASK, "--party", "0", "--keys", "keys-1", "--shares", "keys-0", "--out", "x"),
            "no key",
        ),
        (
            ("uploads", *TASK, "--party", "3", "--keys", "keys-1", "--shares", "keys-0", "--out", "x"),
            "3 parties",
        ),
        (
            ("uploads", *TASK, "--party", "0", "--keys", ".", "--shares", "keys-0", "--out", "x"),
            "no sealing keys",
        ),
        (("task", "new.json", *DECLARED), "--parties"),
        (
            ("task", "new.json", *DECLARED, "--parties", "keys-0/party.json", "--until", "2999-01-01"),
            "names 1",
        ),
        (("task", "my.csv"), "not a task"),
        (("keys", "--directory", "none"), "--until"),
        (("keys", "--directory", "keys-0", "--until", "tomorrow"), "must be a day"),
        (("keys", "--directory", "keys-0", "--until", "2020-02-02"), "is over: this machine's clock says"),
        (("task", "new.json", *DECLARED, "--parties", PARTIES, "--until", "2020-02-02"), "is over"),
        (
            ("task", "new.json", *DECLARED, "--parties", PARTIES, "--until", "2999-06-01"),
            "last key of P0 expires on 2999-01-01",
        ),
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
