"""Runs with parties on hosts: the machine that starts them learns nothing secret; each fault is named."""

import contextlib
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from fairshares.harness.engines.parties.certificates import fingerprint, make_key
from fairshares.harness.engines.registry import choose_model, engine_of
from fairshares.harness.hosts import wire
from fairshares.harness.hosts.connection import HostConnection
from fairshares.harness.hosts.host_log import LOG_FILE, Event, read_log
from fairshares.harness.hosts.local_host import TURN
from fairshares.harness.hosts.messages import Forget, Message
from fairshares.harness.hosts.policy import LEDGER, POLICY_FILE
from fairshares.harness.inputs.rings import RINGS
from fairshares.harness.inputs.shares import SEED_BYTES
from fairshares.harness.system.files import PREFIX
from fairshares.harness.uploads.envelope import BOUNDS_BYTES, SALT_BYTES
from fairshares.harness.uploads.task import read_task
from fairshares.protocols.accounting.calibration import (
    NeighboringRelation,
    Neighbors,
    each_cell_once,
    plan_distributed_noise,
)
from fairshares.protocols.noise.added import BITS, NoiseDistribution
from tests.support.command import (
    CODES,
    call,
    files_below,
    finish,
    flat,
    processes_below,
    read_json,
    refused,
    start,
    succeed,
)
from tests.support.envelopes import unsealed
from tests.support.midway import charges, ended, have_party_0_stop, parent, party_on, wait_until_midway
from tests.support.running import until
from tests.support.ssh import Site, copy_of_project, set_up, site

MODEL = choose_model(None)  # ring, or mpyc where there is no MP-SPDZ
HOSTS = ["--hosts", "hosts.toml"]
RUN = ["weights", *HOSTS, "--security", MODEL.name, "--epsilon", "1", "--out", "results"]
PEOPLE = ["--population", "people"]


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Yield hosts that are set up, and have each its own shares of records that were shared elsewhere."""
    with site(tmp_path_factory.mktemp("site"), MODEL.parties) as made:
        set_up(made, MODEL)
        yield made


def below(hosts: Site) -> list[set[str]]:
    """Return what is on each host, but for results, the ledger, the log and the file of turns, which stay."""
    stay = {"results", LEDGER, f"{LEDGER}-journal", TURN, LOG_FILE}
    return [files_below(hosts.directory(i)) - stay for i in range(MODEL.parties)]


class Opened:
    """The names of the files that this process opens to write them, while it listens."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.listens = False
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.listens and event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            self.names.append(str(arguments[0]))


OPENED = Opened()  # an audit hook stays for good


@pytest.fixture
def observed(hosts: Site, monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Have this machine remove no file, and keep to its home; note what hosts tell it."""
    shutil.rmtree(hosts.home / "results", ignore_errors=True)  # of another test
    heard: list[bytes] = []
    read = wire.read_line

    def read_line(stream: BinaryIO, told: Callable[[], None], longest: Callable[[], int]) -> bytes | None:
        line = read(stream, told, longest)
        heard.append(line or b"")
        return line

    ask = HostConnection.ask

    def no_forgetting(self: HostConnection, message: Message[Any]) -> Any:
        return None if isinstance(message, Forget) else ask(self, message)

    monkeypatch.setattr(wire, "read_line", read_line)
    monkeypatch.setattr(HostConnection, "ask", no_forgetting)  # as if it had gone away before
    monkeypatch.setattr(shutil, "rmtree", lambda *arguments, **options: None)
    monkeypatch.setattr(Path, "unlink", lambda *arguments, **options: None)
    monkeypatch.setenv("HOME", str(hosts.home))
    return heard


def secrets_of(hosts: Site, drawn: Path) -> dict[str, list[bytes]]:
    """Return what nobody but its party may hold, by what it is, in the forms that it may come in."""
    secrets: dict[str, list[bytes]] = {
        "keys": [b"PRIVATE KEY"],
        "shares": [],
        "bits": [],
        "salts": [],
        "hashes": [],
    }
    for i in range(MODEL.parties):
        host = hosts.directory(i)
        secrets["keys"] += [path.read_bytes().split(b"\n")[1] for path in (host / "keys").rglob("*.key")]
        secrets["keys"] += [path.read_bytes() for path in (host / "sealing").glob("*.key")]
        upload, task = next((host / "shares").glob("*.share")), read_task(host / "task.json")
        plain = unsealed(task, i, upload.read_bytes(), host / "sealing")
        salted = plain[BOUNDS_BYTES + 32 * MODEL.parties :]
        salt, payload = salted[:SALT_BYTES], salted[SALT_BYTES:]
        secrets["salts"] += [salt, salt.hex().encode()]
        secrets["hashes"] += hashes_of(payload)
        if i < MODEL.parties - 1:
            assert len(payload) == SEED_BYTES
            secrets["shares"] += [payload, payload.hex().encode()]
            payload = task.ring.to_bytes(task.ring.expand(payload, task.columns))
            secrets["hashes"] += hashes_of(payload)
        size = RINGS[MODEL.ring.name].value_bytes
        values = [payload[at : at + size] for at in range(0, len(payload), size)]
        secrets["shares"] += values[:8]
        secrets["shares"] += [str(int.from_bytes(value, "little")).encode() for value in values[:8]]
    for word in map(int, drawn.read_text().split()):
        if word >= 1 << 32:  # a small number could be anything
            secrets["bits"] += [b"%d" % word, word.to_bytes((word.bit_length() + 7) // 8, "little")]
    assert len(secrets["bits"]) > 4 and len(secrets["shares"]) > 10 and len(secrets["keys"]) > MODEL.parties
    return secrets


def hashes_of(payload: bytes) -> list[bytes]:
    """Return what would let whoever has it test a guess at a share, or at a sum of them."""
    hashes = [hashlib.sha256(payload), hashlib.sha512(payload), hashlib.sha1(payload)]
    return [text for digest in hashes for text in (digest.digest(), digest.hexdigest().encode())]


def own_certificates(hosts: Site) -> list[Path]:
    """Return the certificate of each host's own key, for the engine of these tests."""
    engine = engine_of(MODEL).name
    return [hosts.directory(i) / "keys" / engine / f"P{i}.pem" for i in range(MODEL.parties)]


def run_in(directory: Path) -> str:
    """Return the run whose record is on a host."""
    (record,) = (directory / "results").iterdir()
    return record.stem


def near(counts: Sequence[float], true: Sequence[int]) -> bool:
    """Return whether counts are these with noise: its atoms end, so they are but for probability 1e-13."""
    return all(abs(count - one) < 40 for count, one in zip(counts, true, strict=True))


def test_the_machine_that_starts_a_run_writes_and_hears_nothing_secret(
    hosts: Site, observed: list[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every file that it wrote is kept, and looked into, and every line that came from a host."""
    drawn = tmp_path / "drawn"
    custom = (
        f"import secrets\nreal, file = secrets.randbits, open({str(drawn)!r}, 'a', 1)\n"  # before the sandbox
        "def randbits(n):\n    x = real(n)\n    file.write(f'{x}\\n')\n    return x\n"
        "secrets.randbits = randbits\n"
    )
    hosts.with_host(0, project=str(copy_of_project(tmp_path / "project", custom)))
    before = below(hosts)
    ledger = [*PEOPLE, "--budget", "1", "--ledger", "ledger.sqlite"]
    OPENED.listens = True
    done = call(*RUN, *ledger, cwd=hosts.home)
    OPENED.listens = False
    monkeypatch.undo()
    assert done.returncode == 0, done.stderr
    files = {path for path in hosts.home.rglob("*") if path.is_file()}
    bytecode = {path for path in OPENED.names if "__pycache__" in path}  # of modules that it imports
    written = {Path(hosts.home, path) for path in OPENED.names if path not in bytecode}
    assert written and all(path.is_relative_to(hosts.home) for path in written - {Path(os.devnull)})
    assert {"weights.json", "manifest.json", "ledger.sqlite", "party-0.head"} <= {path.name for path in files}
    told = {"files": b"".join(path.read_bytes() for path in files), "hosts": b"".join(observed)}
    for kind, secret in secrets_of(hosts, drawn).items():
        for where, text in told.items():
            assert not any(one in text for one in secret), (kind, where)

    counts = flat(hosts.home / "results")
    assert near(counts, (30, 0, 0, 20))
    assert "This machine saw no share, no key and no random bit" in done.stdout
    kept = [files - before[i] for i, files in enumerate(below(hosts))]  # as nobody said that it was read
    assert kept == [{f"results/{run_in(hosts.directory(0))}.json"}] * len(kept)

    known = [fingerprint(path.read_bytes()) for path in own_certificates(hosts)]
    (hosts.home / "known.txt").write_text("\n".join(known))
    succeed("verify", "results", "--fingerprints", "known.txt", cwd=hosts.home)
    (hosts.home / "known.txt").write_text("\n".join(reversed(known)))
    verify = ("verify", "results", "--fingerprints", "known.txt")
    assert "other hosts signed than --fingerprints names" in refused(*verify, cwd=hosts.home)
    weights = hosts.home / "results" / "weights.json"
    weights.write_text(json.dumps({**read_json(weights), "weights": []}))
    assert "its 'weights' is another; do not use" in refused("verify", "results", cwd=hosts.home)

    again = call(*RUN[:-1], "again", *ledger, cwd=hosts.home)
    assert again.returncode in CODES and "budget" in again.stderr and not (hosts.home / "again").exists()

    assert "(agree)" in succeed("hosts.collect", "--out", "collected", cwd=hosts.home)
    (record,) = (json.loads(path.read_text()) for path in (hosts.home / "collected").iterdir())
    assert [value + 0.5 for value in record["outputs"]["counts"]] == counts
    manifest = read_json(hosts.home / "results" / "manifest.json")
    spent = [charges(hosts.directory(i)) for i in range(MODEL.parties)]
    assert spent == [[(manifest["privacy"]["epsilon_exact"], "done")]] * MODEL.parties
    assert record["parties"] == [*range(MODEL.parties)] and record["task"] == "weights"
    cleaned = call("hosts.clean", cwd=hosts.home)
    assert cleaned.stdout.count("0 processes ended, 0 directories removed, 1 record removed") == MODEL.parties
    assert below(hosts) == before


def test_each_host_draws_noise_of_its_own(
    hosts: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is revealed is the truth plus what each host's own party drew; nothing else on earth drew any."""
    drawn = tmp_path / "drawn"
    custom = (
        f"import os\nreal, file = os.urandom, open({str(drawn)!r}, 'a', 1)\n"  # before the sandbox
        "def urandom(n):\n    found = real(n)\n"
        f"    if n == {4 * BITS // 8}:\n"
        "        file.write(f'{os.getcwd()} {found.hex()}\\n')\n"
        "    return found\nos.urandom = urandom\n"
    )
    project, changed = str(copy_of_project(tmp_path / "project", custom)), hosts
    for i in range(MODEL.parties):
        changed = changed.with_host(i, project=project)
    shutil.rmtree(hosts.home / "results", ignore_errors=True)
    weights = json.loads(succeed(*RUN, "--noise", "distributed", *PEOPLE, "--json", cwd=hosts.home))
    hosts.write()
    noise = [0] * 4
    # MPyC may draw as much once more, after that.
    drawn_at = dict(line.split() for line in reversed(drawn.read_text().splitlines()))
    places = [
        next(at for at in drawn_at if Path(at).is_relative_to(hosts.directory(i)))
        for i in range(len(drawn_at))
    ]
    assert len(places) == MODEL.parties and {Path(at).name for at in places} == {"party"}
    for words in drawn_at.values():
        monkeypatch.setattr(os, "urandom", lambda n, words=words: bytes.fromhex(words))
        own = plan_distributed_noise(
            *(each_cell_once(4), Neighbors(NeighboringRelation.ADD_OR_REMOVE_ONE), Fraction(1)),
            Fraction(1, 2**40),
            *(NoiseDistribution.LAPLACE, MODEL.parties, MODEL.corruptions),
        ).own
        assert own is not None
        noise = [a + int(b) for a, b in zip(noise, own.draw(4), strict=True)]
        monkeypatch.undo()
    counts = flat(hosts.home / "results")
    assert [count - x for count, x in zip(counts, noise, strict=True)] == [30, 0, 0, 20]
    assert (weights["privacy"]["noise"], weights["privacy"]["distribution"]) == ("distributed", "laplace")
    succeed("verify", "results", cwd=hosts.home)


class Hit:
    """A run in whose midst party 0 is stopped, so that the others wait for it."""

    def __init__(self, hosts: Site) -> None:
        self.hosts = hosts
        shutil.rmtree(hosts.home / "results", ignore_errors=True)
        (hosts.home / "hit.sqlite").unlink(missing_ok=True)  # else these uploads have been used
        self.before, self.home_before = below(hosts), files_below(hosts.home)
        have_party_0_stop(hosts)
        self.process = start(*RUN, *PEOPLE, "--ledger", "hit.sqlite", cwd=hosts.home)
        wait_until_midway(hosts, MODEL, ended(self.process))

    def processes(self, i: int) -> dict[int, Path]:
        return processes_below(self.hosts.directory(i))

    def party(self, i: int) -> int:
        return party_on(self.hosts.directory(i))

    def ends(self, code: int) -> str:
        """Check that command, parties and agents end, and leave no result; return what was said."""
        done = finish(self.process)
        codes = CODES if code == 1 else {code}
        assert done.returncode in codes and "Traceback" not in done.stderr, done.stderr
        until(lambda: not any(self.processes(i) for i in range(MODEL.parties)))
        assert not (self.hosts.home / "results").exists()
        return done.stderr

    def left_nothing(self) -> bool:
        until(lambda: below(self.hosts) == self.before)
        return files_below(self.hosts.home) - {"hit.sqlite"} <= self.home_before


def agents(directory: Path) -> list[int]:
    """Return the agents of a host's directory."""
    command = b"\0fairshares.harness.hosts.agent\0" + os.fsencode(directory)
    processes = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if command in (entry / "cmdline").read_bytes():
                processes.append(int(entry.name))
    return processes


needs_proc = pytest.mark.skipif(not Path("/proc/self/cwd").exists(), reason="finds parties in /proc")


KILLED: dict[str, tuple[Callable[[Hit], int], int, str, str]] = {
    "party": (lambda run: run.party(1), 1, "Party 1 (on 127.0.0.1) was killed by SIGKILL; the others", ""),
    "command": (lambda run: run.process.pid, -signal.SIGKILL, "", ""),
    # Its party dies with it; its directory, with shares in it, stays until somebody cleans up.
    "agent": (
        lambda run: parent(run.party(1)),
        1,
        "Party 1 (on 127.0.0.1) went away: the connection to its host broke; the others",
        "0 processes ended, 1 directory removed, 0 records removed",
    ),
}


@needs_proc
@pytest.mark.parametrize("killed", KILLED)
def test_what_is_killed_is_named_and_nothing_of_the_run_stays(killed: str, hosts: Site) -> None:
    of, code, said, cleaned = KILLED[killed]
    run = Hit(hosts)
    os.kill(of(run), signal.SIGKILL)
    assert said in run.ends(code)
    if killed == "party":  # its owner reads it, too
        last = read_log(hosts.directory(1)).lines[-1]
        assert (last.event, last.said) == (Event.FAILED, "The party ended with exit code -9.")
    if cleaned:
        (left,) = hosts.directory(1).glob(f"{PREFIX}*")
        key, of_owner = (
            (left / "party" / "Player-Data" / "P1.key"),
            own_certificates(hosts)[1].with_suffix(".key"),
        )
        assert not key.is_symlink() and key.read_bytes() != of_owner.read_bytes()
        assert succeed("hosts.clean", cwd=hosts.home).count(cleaned) == 1
    assert run.left_nothing() or killed == "command"  # which had no time to


@needs_proc
def test_of_two_coordinators_at_once_the_second_is_refused_and_the_first_goes_on(hosts: Site) -> None:
    run = Hit(hosts)
    charged = [len(charges(hosts.directory(i))) for i in range(MODEL.parties)]
    second = call(*RUN[:-1], "second", *PEOPLE, "--ledger", "second.sqlite", cwd=hosts.home)
    said = " ".join(second.stderr.split())
    assert second.returncode in CODES and "Another run is under way on it (process " in said
    assert "wait for its end, or end it by ./inv hosts.clean." in said and "No party was started." in said
    os.kill(run.party(0), signal.SIGCONT)
    done = finish(run.process)
    assert done.returncode == 0, done.stderr
    assert near(flat(hosts.home / "results"), (30, 0, 0, 20)) and not (hosts.home / "second").exists()
    assert [len(charges(hosts.directory(i))) for i in range(MODEL.parties)] == charged


def invite(hosts: Site) -> subprocess.Popen[str]:
    """Start a run that two clients are invited to, at two addresses; return it once they are (Linux)."""
    hosts.with_host(0, client_reached_at=f"127.0.0.2:{hosts.hosts[0].client_port}")
    shutil.rmtree(hosts.home / "results", ignore_errors=True)
    rows = "me,a,0\n" * 30 + "me,a,1\n" * 20
    for k, text in enumerate((rows, "")):
        (hosts.home / f"{k}.csv").write_text("client_id,group,label\n" + text)
    options = ["--invite", "invited", "--clients", "2", "--groups", "a,b", "--labels", "0,1"]
    options += ["--input-form", "product", "--population", "none", "--timeout", "600"]
    run = start(*RUN, *options, cwd=hosts.home)
    until(lambda: (hosts.home / "invited" / "client-1.json").exists() or run.poll() is not None)
    assert run.poll() is None, run.communicate()
    return run


@needs_proc
@pytest.mark.mpspdz("ring")
def test_clients_send_to_hosts(hosts: Site, tmp_path: Path) -> None:
    """A stranger, with an invitation but for its key, changes nothing."""
    before, run = below(hosts), invite(hosts)
    invitations = [hosts.home / "invited" / f"client-{k}.json" for k in (0, 1)]
    certificate = make_key(tmp_path, "C0", "C0")
    own = {"certificate": certificate.read_text(), "key": certificate.with_suffix(".key").read_text()}
    forged, known = tmp_path / "forged.json", tmp_path / "known.txt"
    forged.write_text(json.dumps({**json.loads(invitations[0].read_text()), **own}))
    by_a_stranger = call("send", "--records", "0.csv", "--invitation", str(forged), cwd=hosts.home)
    assert by_a_stranger.returncode in CODES and "refused or ended the connection" in by_a_stranger.stderr
    right = json.loads(invitations[0].read_text())
    right["servers"][1]["certificate"] = make_key(tmp_path, "P1", "P1").read_text()
    forged.write_text(json.dumps(right))  # by a coordinator with a server of its own
    said = refused("send", "--records", "0.csv", "--invitation", str(forged), cwd=hosts.home)
    assert "what it has of party 1 was signed for another certificate" in said
    known.write_text("\n".join(fingerprint(path.read_bytes()) for path in own_certificates(hosts)))
    pinned = ["--invitation", str(invitations[0]), "--fingerprints", str(known)]
    first = start("send", "--records", "0.csv", *pinned, cwd=hosts.home)
    second = call("send", "--records", "1.csv", "--invitation", str(invitations[1]), cwd=hosts.home)
    for sent in (finish(first), second):
        assert sent.returncode == 0 and "all 3 parties have its values" in sent.stdout, sent.stderr
    done = finish(run)
    assert done.returncode == 0 and "It made the clients' keys and could have" in done.stdout, done.stderr
    assert near(flat(hosts.home / "results"), (30, 20, 0, 0))
    assert '"input_path": "authenticated client input"' in (hosts.home / "results/manifest.json").read_text()
    assert files_below(hosts.home / "invited") == set() and below(hosts) == before


@needs_proc
@pytest.mark.mpspdz("ring")
def test_a_host_that_goes_away_ends_a_run_that_waits_for_clients(hosts: Site) -> None:
    """Its gateway and its virtual machine die with its agent; no invitation or process stays."""
    before, run = below(hosts), invite(hosts)
    (agent,) = agents(hosts.directory(1))
    os.kill(agent, signal.SIGKILL)
    done = finish(run)
    assert (
        done.returncode in CODES and "Error: Party 1 (on 127.0.0.1) went away: the connection" in done.stderr
    )
    assert files_below(hosts.home / "invited") == set() and not (hosts.home / "results").exists()
    until(lambda: not any(processes_below(hosts.directory(i)) for i in range(MODEL.parties)))
    assert call("hosts.clean", cwd=hosts.home).stdout.count("1 directory removed") == 1
    assert below(hosts) == before


def test_a_chain_on_hosts(hosts: Site) -> None:
    """Which its owners allow: it counts what is new at all hosts, and what they signed adds up."""
    run = (*RUN[:-1], "one", *PEOPLE, "--chain", "monthly")
    shutil.rmtree(hosts.home / "one", ignore_errors=True)
    assert "allows no chains for population" in refused(*run, cwd=hosts.home)
    for i in range(MODEL.parties):
        policy = hosts.directory(i) / POLICY_FILE
        policy.write_text(f"{policy.read_text()}\nchains = true\n")
    succeed(*run, cwd=hosts.home)
    succeed("verify", "one", cwd=hosts.home)
    said = refused(*run[:8], "two", *run[9:], cwd=hosts.home)
    assert "Earlier runs counted all 50 uploads" in said
    assert "Runs added up: 1" in succeed("weights", "--add", "one", "--out", "added", cwd=hosts.home)
    manifest = read_json(hosts.home / "one" / "manifest.json")
    manifest["request"]["chain"] = "another"
    (hosts.home / "one" / "manifest.json").write_text(json.dumps(manifest))
    assert "its 'request' is another" in refused("weights", "--add", "one", "--out", "two", cwd=hosts.home)
