"""The command in Node shares a table as Python's `share` does, and parties count what it sends once."""

import json
import os
import re
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fairshares.harness.inputs.record_schema import RecordDomain, RecordKind
from fairshares.harness.inputs.records import read_records
from fairshares.harness.system.files import TURN, in_turn
from fairshares.harness.uploads.counted_records import records_left
from fairshares.harness.uploads.invitations import addresses_in
from fairshares.harness.uploads.opening import OpenedEnvelope, open_envelope
from fairshares.harness.uploads.sending import send
from fairshares.harness.uploads.task import ANYONE, CERTIFICATE, Task
from fairshares.protocols.accounting.calibration import PrivacyUnit
from tests.support.envelopes import CAPPED, counts, made_task, opener, revealed
from tests.support.page_sites import PageSite, serving_page, stand_in_build
from tests.support.running import until
from tests.support.servers import certify, serving, told
from tests.support.sharing import allowing
from tests.support.web_client import WEB, check_installed
from tests.web.test_tables import said_by_share

Run = Callable[..., "subprocess.CompletedProcess[str]"]
UPLOADS = 200
TABLE = "client_id,sex,hired\nm,a,0\nn,b,1\nm,a,1\nm,a,1\n"
LEFT_OUT = r"^my\.csv row (\d+): .* Left out(?:, with (\d+) more)?\.$"
COLUMNS = "group=sex,label=hired"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Bundle the command as `npm run build` does; return the bundle, or skip."""
    check_installed()
    scripts = json.loads((WEB / "package.json").read_text())["scripts"]["build"].split("&&")
    (command,) = [script.split() for script in scripts if "command/share.ts" in script]
    options = [option for option in command[1:] if not option.startswith("--outdir")]
    out = tmp_path_factory.mktemp("command") / "share.mjs"
    esbuild = WEB / "node_modules" / ".bin" / "esbuild"
    usual = ["--log-level=warning", f"--outfile={out}"]
    subprocess.run([esbuild, *options, *usual], cwd=WEB, check=True, timeout=600)
    return out


@pytest.fixture
def run(program: Path, tmp_path: Path) -> Run:
    """Return what runs the command in an own directory, with variables of its environment."""

    def ran(*words: str, **environment: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            ["node", program, *words],
            cwd=tmp_path,
            env={**os.environ, "LC_ALL": "C", **environment},
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )

    return ran


@pytest.fixture(scope="module")
def task(place: Path) -> Task:
    return made_task(place)


def write_files(directory: Path, task: Task, table: str) -> tuple[str, ...]:
    """Write a task and a table; return the options that name them."""
    (directory / "task.json").write_bytes(task.text)
    (directory / "my.csv").write_text(table)
    return ("--task", "task.json", "--records", "my.csv")


def test_parties_open_what_it_seals(task: Task, place: Path, tmp_path: Path, run: Run) -> None:
    options = write_files(tmp_path, task, TABLE)
    done = run(*options, "--columns", COLUMNS, "--out", "new/sent")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"Sealed 2 clients for task {task.name[:16]}: new/sent/party-<i>/")
    out = tmp_path / "new" / "sent"
    assert sorted(path.name for path in out.iterdir()) == ["party-0", "party-1", "party-2"]
    assert {path.stat().st_mode & 0o077 for path in out.rglob("*")} == {0}
    made = counts(task, place, shares=out)
    assert all(len(count.identities) == 2 and not count.unsound for count in made)
    assert revealed(task, [count.values for count in made]) == [1, 2, 0, 1]
    (tmp_path / "my.csv").write_text(TABLE.replace("client_id", "id"))
    again = run(*options, "--columns", COLUMNS, "--out", "new/sent")
    assert "Sealed 1 client for" in again.stdout and "holds 2 earlier uploads, too" in again.stderr


@pytest.mark.parametrize("kind", [RecordKind.NONE, RecordKind.SCORE])
def test_the_same_rows_are_left_out(kind: RecordKind, tmp_path: Path, run: Run) -> None:
    score = ["0.5", "0.5", "1", "61", "", "0.25", "0.5", "1", "0"] if kind is RecordKind.SCORE else []
    pairs = ["m,a,0", "n,A,0", ",a,0", "m,b,0", "o,a,1", "m,a,2", "m,b,", "m,a", "m,b,1"]
    rows = [",".join([pair, *score[i : i + 1]]) for i, pair in enumerate(pairs)]
    header = "client_id,group,label" + (",score" if score else "")
    domain = RecordDomain(("a", "b"), ("0", "1"), 1000).with_kind(kind, (0.0, 0.5) if score else ())
    (tmp_path / "own").mkdir()
    task = made_task(tmp_path / "own", domain=domain)
    options = write_files(tmp_path, task, "\n".join([header, *rows]) + "\n")
    _, faults = said_by_share(tmp_path / "my.csv", task)
    heard: list[str] = []
    expected = read_records(tmp_path / "my.csv", domain, kind=kind, say=heard.append)
    done = run(*options, "--check")
    assert done.returncode == 0, done.stderr
    told = {
        (int(row), 1 + int(more or 0))
        for row, more in re.findall(
            r"^my\.csv row (\d+): .* Left out(?:, with (\d+) more)?\.$", done.stderr, re.M
        )
    }
    assert told == {(row, number) for row, number, _ in faults.values()}
    assert f"{expected.sizes.sum()} records of {expected.clients} clients would be shared" in done.stdout
    assert f"Task {task.name}" in done.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["my.csv", "own", "task.json"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("--records my.csv --out new", "Name the task"),
        ("--task task.json --out new", "Name the records"),
        ("--task task.json --records my.csv", "Name a directory"),
        ("--task task.json --records my.csv --out new --noise 1", "Unknown option '--noise'"),
        ("--task task.json --records my.csv --out new --epsilon 0", "--epsilon must be a number above 0"),
        ("--task task.json --records my.csv --out new --epsilon 1 --delta 1", "--delta must be a number"),
        ("--task task.json --records my.csv --out new --delta 2^-9", "--delta goes with --epsilon"),
        (
            "--task task.json --records my.csv --out new --for-tasks gap",
            "--for-tasks must be weights or count",
        ),
        ("--task task.json --records my.csv --out new --epsilon 1 --privacy-unit x", "be record or client"),
        ("--task task.json --records my.csv --out new --epsilon 1e-200", "too much room in an envelope"),
        ("--task task.json --records my.csv --out new --counted no/c", "Cannot write no/c: ENOENT; nothing"),
        ("--task none.json --records my.csv --out new", "Cannot read none.json: ENOENT"),
        ("--task my.csv --records my.csv --out new", "not JSON|not a task|no task"),
        ("--task task.json --records . --out new", "Cannot read .: EISDIR"),
        ("--task task.json --records my.csv --out new --columns sex", "--columns does not say 'sex'"),
        ("--task task.json --records my.csv --out new --columns group=x", "no column 'x' for the group"),
        ("--task task.json --records my.csv --out new --to task", "A party without an address is no URL"),
        ("--task task.json --records my.csv --out new --to https://a/", "3 parties; --to names 1"),
        ("--task task.json --records my.csv --out new --to https://a/#task=1", "is no whole link"),
        ("--task task.json --records my.csv --out my.csv", "Cannot write shares to my.csv"),
        ("--task task.json --to https://a/ https://b/ https://c/ --out new", "Cannot send from new: ENOENT"),
    ],
)
def test_bad_input(words: str, says: str, task: Task, tmp_path: Path, run: Run) -> None:
    write_files(tmp_path, task, "client_id,group,label\nm,a,0\n")
    given = re.sub(r"(--to https://a/) (\S+) (\S+)", r"\1+\2+\3", words).split(" ")
    done = run(*(word.replace("+", " ") for word in given))
    assert (done.returncode, done.stdout) == (1, "")
    assert re.search(says, done.stderr) and done.stderr.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["my.csv", "task.json"]


def test_nothing_is_half_written(task: Task, program: Path, tmp_path: Path, run: Run) -> None:
    options = write_files(tmp_path, task, "client_id,group,label\nm,a,0\n")
    (tmp_path / "sent" / "party-1").mkdir(parents=True)
    (tmp_path / "sent" / "party-1").chmod(0o777)
    done = run(*options, "--out", "sent")
    assert done.returncode == 1 and "party-1, so others could replace shares" in done.stderr
    assert [path.name for path in (tmp_path / "sent").iterdir()] == ["party-1"]
    many = "".join(f"{i},a,0\n" for i in range(20_000))
    (tmp_path / "my.csv").write_text(f"client_id,group,label\n{many}")
    process = subprocess.Popen(["node", program, *options, "--out", "new/sent"], cwd=tmp_path)
    until(lambda: any(tmp_path.glob("new/sent/.partial-*/*")))
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=600) == 130
    assert not (tmp_path / "new").exists()


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a stand-in for the page, which nobody opens here."""
    return stand_in_build(tmp_path_factory.mktemp("built"))


def send_again(out: Path) -> None:
    """Forget what is known of a directory's envelopes."""
    for file in out.glob("party-*/*.s*"):
        file.rename(file.with_suffix(".share"))


def test_uploads_are_counted_once_however_often_they_are_sent(built: Path, tmp_path: Path, run: Run) -> None:
    with serving_page(tmp_path / "page", built, admission=ANYONE) as page:
        rows = "".join(f"{number},{'ab'[number % 2]},1\n" for number in range(UPLOADS))
        options = write_files(tmp_path, page.task, f"client_id,group,label\n{rows}")
        trust = {"NODE_EXTRA_CA_CERTS": str(page.place / "server.pem")}
        first = run(*options, "--out", "sent", "--to", "task", **trust)
        assert first.stdout.count(f"{UPLOADS} stored (HTTP 201).") == 3, first.stderr
        rest = ("--task", "task.json", "--out", "sent", "--to", "task")
        before = sorted(path.name for path in (tmp_path / "sent").glob("party-*/*"))
        assert run(*rest, **trust).stdout.count("nothing to send") == 3
        assert {name.rpartition(".")[2] for name in before} == {"sent"} and len(before) == 3 * UPLOADS
        send_again(tmp_path / "sent")
        assert run(*rest, **trust).stdout.count(f"{UPLOADS} stored (HTTP 201).") == 3
        assert [len(page.stored(party)) for party in range(3)] == [2 * UPLOADS] * 3
        assert page.sums() == (UPLOADS, [0, UPLOADS // 2, 0, UPLOADS // 2])


def test_a_link_takes_one_upload(
    built: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving_page(tmp_path / "page", built, links=2) as page:
        options = write_files(tmp_path, page.task, "group,label\na,0\nb,1\n")
        trust = {"NODE_EXTRA_CA_CERTS": str(page.place / "server.pem")}
        for file in (page.place / "party-1" / "invited").iterdir():
            file.unlink()
        part = run(*options, "--out", "sent", "--to", page.link(1), **trust)
        assert part.returncode == 1 and "party 1: 1 not stored (HTTP 403)." in part.stdout
        page.let_in()
        (tmp_path / "copy").mkdir()
        shutil.copytree(tmp_path / "sent", tmp_path / "copy" / "sent")
        monkeypatch.setenv("SSL_CERT_FILE", trust["NODE_EXTRA_CA_CERTS"])
        rest = send(tmp_path / "sent", addresses_in(page.link(1), page.task))  # by Python
        assert told(rest) == [{}, {"stored (HTTP 201)": 1}, {}]
        sent = ("--task", "task.json", "--to", page.link(1))
        assert run(*sent, "--out", "sent", **trust).stdout.count("nothing to send") == 3
        assert page.sums() == (1, [1, 0, 0, 1])
        send_again(tmp_path / "copy" / "sent")
        again = run(*sent, "--out", "copy/sent", **trust)
        assert again.returncode == 1 and again.stdout.count("1 not stored (HTTP 409)") == 3
        check_one_link_for_one_client(page, tmp_path, run)


def test_it_speaks_the_language_of_whoever_runs_it(task: Task, tmp_path: Path, run: Run) -> None:
    (tmp_path / "other.json").write_bytes(task.text.replace(b'"schema":1', b'"schema":2'))
    options = write_files(tmp_path, task, "client_id,group,label\nm,A,0\nm,A,0\nn,b,1\n")
    german = {"LC_ALL": "", "LC_MESSAGES": "", "LANG": "de_DE.UTF-8"}
    checked = run(*options, "--check", **german)
    assert "1 Datensätze von 2 Clients würden eingesandt; nichts wurde eingesandt." in checked.stdout
    assert f"Aufgabe {task.name}: Einsenden kann man bis" in checked.stdout
    assert checked.stderr.startswith("my.csv, Zeile 2: In der Spalte group ist „A“ keiner der Namen dieser")
    assert checked.stderr.endswith("Schreiben Sie beide gleich. Weggelassen, mit 1 weiteren.\n")
    for words, says in (
        (
            ("--task", "other.json", *options[2:], "--check"),
            "sie hat das Schema 2, und diese Version liest 1",
        ),
        (
            ("--task", "task.json", "--to", "task", "--out", "none"),
            "Eine Partei ohne Adresse ist keine URL mit https",
        ),
        ((*options, "--out", "new", "--for-tasks", "x"), "--for-tasks muss weights oder count sein"),
        ((*options, "--nothing"), "siehe --help"),
    ):
        done = run(*words, **german)
        assert done.returncode == 1 and re.search(says, done.stderr) and done.stderr.count("\n") == 1
    assert "Aufruf: fairshares-share [Optionen]" in run("--help", **german).stdout
    helped = run("--help").stdout
    assert max(map(len, helped.splitlines())) <= 105 and "  --check          say what the task" in helped


OWN = ("--epsilon", "1e-1", "--delta", "2^-40", "--for-tasks", "count", "--privacy-unit", "client")


def test_a_client_allows_less_than_its_task(task: Task, place: Path, tmp_path: Path, run: Run) -> None:
    options = write_files(tmp_path, task, "group,label\na,0\n")
    for more, bounds in (
        ((), None),
        (("--epsilon", "1/3"), allowing(("weights", "count"), "1/3", "1/1073741824")),
        (OWN, allowing(("count",), "1/10", "1/1099511627776", PrivacyUnit.CLIENT)),
    ):
        out = tmp_path / str(len(more))
        assert run(*options, "--out", out.name, *more).returncode == 0
        (envelope,) = (out / "party-2").iterdir()
        answer = open_envelope(task, 2, opener(task, 2, place).keys, envelope.read_bytes())
        assert isinstance(answer, OpenedEnvelope) and answer.bounds == bounds


def test_both_commands_count_in_one_file(tmp_path: Path, run: Run) -> None:
    """Of m's five records in two tables the cap of 3 holds for both together, whichever command shares."""
    (tmp_path / "own").mkdir()
    task = made_task(tmp_path / "own", "slots", domain=CAPPED)
    options = (*write_files(tmp_path, task, "client_id,group,label\nm,a,0\nm,b,1\nm,a,1\n"), "--counted", "c")
    first = run(*options, "--out", "1")
    assert (first.returncode, first.stderr) == (0, "")
    again = run(*options, "--out", "2")
    assert again.returncode == 1 and "my.csv was shared before, by c, and each" in again.stderr
    assert not (tmp_path / "2").exists()
    (tmp_path / "my.csv").write_text("client_id,group,label\nn,a,0\nm,b,1\nm,a,0\nn,b,0\n")
    by_python = read_records(tmp_path / "my.csv", CAPPED, say=print)
    left = records_left(by_python, tmp_path / "my.csv", tmp_path / "c")
    assert dict(zip(left.client_ids.tolist(), left.sizes.tolist(), strict=True)) == {"m": 0, "n": 2}
    (tmp_path / "my.csv").write_text("client_id,group,label\no,a,0\nn,a,0\nm,b,1\nn,a,0\n")
    assert run(*options, "--out", "3").returncode == 0
    told = json.loads((tmp_path / "c").read_text())
    assert told["records"] == {"m": 3, "n": 3, "o": 1} and len(told["files"]) == 3
    made = counts(task, tmp_path / "own", shares=tmp_path / "3")
    rows = np.array(revealed(task, [count.values for count in made])).reshape(3, -1)  # (slots, clients)
    assert sorted((rows > 0).sum(axis=0).tolist()) == [0, 1, 1]
    for text, says in (
        ("{", "it is not JSON"),
        ('{"schema":1}', "not of schema 2"),
        ('{"schema":2,"x":1}', "other"),
    ):
        (tmp_path / "c").write_text(text)
        done = run(*options, "--out", "4")
        assert done.returncode == 1 and says in done.stderr and done.stderr.count("\n") == 1
        assert (tmp_path / "c").read_text() == text
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_a_certificate_is_shown(built: Path, tmp_path: Path, run: Run) -> None:
    (tmp_path / "mine").mkdir()
    mine = certify(tmp_path / "mine")
    (tmp_path / "mine.pem").write_bytes(mine.read_bytes() + mine.with_suffix(".key").read_bytes())
    with serving_page(tmp_path / "page", built, admission=CERTIFICATE, trusted=mine) as page:
        options = (*write_files(tmp_path, page.task, "client_id,group,label\nm,a,0\nn,b,1\n"), "--to", "task")
        trust = {"NODE_EXTRA_CA_CERTS": str(page.place / "server.pem")}
        without = run(*options, "--out", "sent", **trust)
        assert without.returncode == 1 and "show yours by --certificate" in without.stderr
        strange = run(*options, "--out", "sent", "--certificate", "my.csv", **trust)
        assert strange.returncode == 1 and "my.csv does not hold a certificate and its key" in strange.stderr
        assert not (tmp_path / "sent").exists()
        untrusting = run(*options, "--out", "sent", "--certificate", "mine.pem")
        assert untrusting.stdout.count("2 not stored (its certificate is not trusted here") == 3
        rest = ("--task", "task.json", "--out", "sent", "--to", "task", "--certificate", "mine.pem")
        assert run(*rest, **trust).stdout.count("2 stored (HTTP 201).") == 3
        assert page.sums() == (2, [1, 0, 0, 1])


def test_one_command_at_a_time_sends(task: Task, tmp_path: Path, program: Path, run: Run) -> None:
    """Python's locks a file, which Node cannot. The command in Node waits for it, and says so."""
    options = write_files(tmp_path, task, "group,label\na,0\n")
    assert run(*options, "--out", "sent").returncode == 0
    (tmp_path / "own").mkdir()
    words = ["node", str(program), "--task", "task.json", "--out", "sent", "--to"]
    with serving(certify(tmp_path / "own"), lambda *_: 201) as stranger:  # whom it does not trust
        with in_turn(tmp_path / "sent"):
            process = subprocess.Popen(
                [*words, " ".join([stranger] * 3)], cwd=tmp_path, stderr=subprocess.PIPE, text=True
            )
            assert process.stderr is not None
            said = process.stderr.readline()
            assert said.startswith(
                "Waiting for another process of yours to end, which holds sent/.fairshares"
            )
            assert process.poll() is None
        _, rest = process.communicate(timeout=600)
    assert process.returncode == 1 and rest.startswith("Not every upload is known to be stored")
    assert sorted(path.name for path in (tmp_path / "sent").iterdir()) == ["party-0", "party-1", "party-2"]


def process_in_turn(held: Path) -> list[str]:
    """Return what the file of a process in turn says, once it is there."""
    until(lambda: held.exists() and held.read_text().endswith("\n"))
    return held.read_text().split()


def test_the_turn_of_a_killed_command_is_taken_over(
    task: Task, tmp_path: Path, program: Path, run: Run
) -> None:
    """At once, without a word, and by one of those that wait; what the killed one left is gone."""
    options = write_files(tmp_path, task, "group,label\na,0\n")
    assert run(*options, "--out", "sent").returncode == 0
    (tmp_path / "own").mkdir()
    out, answers = tmp_path / "sent", threading.Event()
    words = ["node", str(program), "--task", "task.json", "--out", "sent", "--to"]

    def stall(_path: str, _body: bytes) -> int:
        answers.wait()
        return 201

    trusting = {**os.environ, "NODE_EXTRA_CA_CERTS": str(certify(tmp_path / "own"))}
    with serving(tmp_path / "own" / "server.pem", stall) as server:
        command = [*words, " ".join([server] * 3)]
        killed = subprocess.Popen(command, cwd=tmp_path, env=trusting, stderr=subprocess.DEVNULL)
        number, *_, place = process_in_turn(out / TURN)
        assert number == str(killed.pid) and (out / place).is_dir()
        killed.kill()
        killed.wait()
        answers.set()
        others = [
            subprocess.Popen(
                command, cwd=tmp_path, env=trusting, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
            for _ in range(2)
        ]
        said = [other.communicate(timeout=600) for other in others]
    assert [(other.returncode, error) for other, (_, error) in zip(others, said, strict=True)] == [
        (0, "")
    ] * 2
    assert sorted(path.name for path in out.iterdir()) == ["party-0", "party-1", "party-2"]
    assert {path.suffix for path in out.glob("*/*")} == {".sent"}


@pytest.mark.parametrize("unlike", ["began", "space", "boot", "all"])
def test_only_the_turn_of_a_process_that_is_gone_is_taken_over(
    unlike: str, task: Task, tmp_path: Path, program: Path, run: Run
) -> None:
    """A process of that number may be another container's, and a number alone says too little."""
    options = write_files(tmp_path, task, "group,label\na,0\n")
    assert run(*options, "--out", "sent").returncode == 0
    out, own = tmp_path / "sent", str(os.getpid())
    holder = {
        "pid": own,
        "began": Path(f"/proc/{own}/stat").read_text().rpartition(")")[2].split()[19],
        "space": str(Path("/proc/self/ns/pid").readlink()),
        "boot": Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
        "place": ".partial-abcdef",
    }
    if unlike in ("space", "boot"):
        holder |= {"began": "1", unlike: "another"}
    if unlike == "began":  # of an earlier process of that number
        holder["began"] = "1"
    if unlike == "all":
        holder = {"pid": own}
    (out / TURN).write_text(" ".join(holder.values()) + "\n")
    words = ["node", str(program), "--task", "task.json", "--out", "sent", "--to"]
    (tmp_path / "own").mkdir()
    with serving(certify(tmp_path / "own"), lambda *_: 201) as stranger:  # whom it does not trust
        process = subprocess.Popen(
            [*words, " ".join([stranger] * 3)], cwd=tmp_path, stderr=subprocess.PIPE, text=True
        )
        assert process.stderr is not None
        said = process.stderr.readline()
        is_taken_over = unlike == "began"
        assert said.startswith(
            "Not every upload" if is_taken_over else "Waiting for another process of yours"
        )
        assert (out / TURN).exists() is not is_taken_over
        (out / TURN).unlink(missing_ok=True)
        process.communicate(timeout=600)
    assert sorted(path.name for path in out.iterdir()) == ["party-0", "party-1", "party-2"]


def check_one_link_for_one_client(page: PageSite, directory: Path, run: Run) -> None:
    (directory / "my.csv").write_text("client_id,group,label\nm,a,0\nn,b,1\n")
    options = ("--task", "task.json", "--records", "my.csv")
    several = run(*options, "--out", "two", "--to", page.link(2))
    assert several.returncode == 1 and "--to is for one upload, and there are 2." in several.stderr
    assert not (directory / "two").exists()
