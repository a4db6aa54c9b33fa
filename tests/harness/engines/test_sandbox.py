"""Hostile code in a party's place reaches its own run alone: locally, on hosts, in each engine, also as root.

Each test runs the same code without the sandbox as well, where it reaches the rest: no test passes because
what it looks for is not there.
"""

import json
import os
import platform
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import tracemalloc
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from msgspec import structs

from fairshares.harness.engines.compiled import CompiledJob
from fairshares.harness.engines.engine import Engine
from fairshares.harness.engines.execution import MadeUpJob, PreparedJob
from fairshares.harness.engines.mpspdz.engine import MpSpdzEngine
from fairshares.harness.engines.mpyc.engine import EmbeddedEngine
from fairshares.harness.engines.parties import handle, party_log, sandbox
from fairshares.harness.engines.parties.handle import LocalParty, LocalProcess
from fairshares.harness.engines.parties.sandbox import CHECKED, REFUSED, Protection, landlock_version, missing
from fairshares.harness.engines.parties.supervisor import free_ports
from fairshares.harness.engines.parties.working_directory import (
    DATA,
    LOG,
    LOOPBACK,
    MET,
    PRINTED,
    met,
    read_inside,
)
from fairshares.harness.party_reports import line_of_failure
from fairshares.harness.security_models import SecurityModel, get_model
from tests.conftest import PROJECT
from tests.support.coordinators import Agent, agents, agreed, asked, begun, fed, make_hosts
from tests.support.running import program_spec, until
from tests.support.sandboxes import OPEN
from tests.support.sent_programs import sent_program
from tests.support.ssh import copy_of_project

pytestmark = pytest.mark.skipif(bool(missing()), reason=f"this kernel lacks {missing()}")

INTRUDER = (PROJECT / "tests" / "support" / "intruder.py").read_text()
SCRIPT = """
import os, signal, sys
from pathlib import Path
from fairshares.harness.engines.parties import sandbox
sandbox.landlock_version = lambda: {version}
sandbox.has_filter = lambda: {filtered}
print(",".join(protection.name for protection in sandbox.missing()), flush=True)
sandbox.confine(sandbox.SandboxReach(Path.cwd(), (), (), ()))
sandbox.signal_only(os.getpid())
"""
Attempt = tuple[str, str]
PROCESS_KINDS = ("environ", "memory", "descriptors", "attach", "signal", "signals-of-a-socket", "limit")
SECURED = pytest.mark.parametrize("secured", [True, False], ids=["sandbox", "open"])


def text_of(attempts: Sequence[Attempt]) -> str:
    """Return the hostile program; the attempts follow what the text declares."""
    return INTRUDER.replace(
        "ATTEMPTS: list[tuple[str, str]]", f"ATTEMPTS = {json.dumps([list(attempt) for attempt in attempts])}"
    )


def answers_in(lines: Sequence[str]) -> dict[Attempt, bool]:
    """Return which attempts succeeded."""
    found = [re.fullmatch(r"OUT (\S+) (.*): (done|refused \d+)", line) for line in lines]
    return {(match[1], match[2]): match[3] == "done" for match in found if match}


class Surroundings:
    """What an owner has beside a run: files and sockets. Attributes: forbidden: attempts on them."""

    def __init__(self, directory: Path, stack: ExitStack) -> None:
        directory.mkdir()
        home = directory / "home"
        for name in ("keys/P0.key", "sealing/0.key", "shares/a.share", "ledger.sqlite", "policy.toml"):
            _write(directory / name)
        _write(directory / "run-of-another" / DATA / "Input-Binary-P0-0")
        _write(home / ".ssh" / "id_ed25519")
        _write(home / ".cache" / "fairshares" / "bytecode" / "program")
        files = [str(path) for path in sorted(directory.rglob("*")) if path.is_file()]
        writes = ("write", "truncate", "chmod", "touch")
        tcp = stack.enter_context(socket.create_server((LOOPBACK, 0)))
        port = str(tcp.getsockname()[1])
        udp = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        udp.bind((LOOPBACK, 0))
        abstract, named = (stack.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(2))
        hidden = f"fairshares-{os.getpid()}-{directory.parent.name}"
        abstract.bind(f"\0{hidden}")
        short = Path(stack.enter_context(_short_directory()))
        named.bind(str(short / "agent"))
        for one in (abstract, named):
            one.listen()
        (unused,) = stack.enter_context(free_ports(1))  # kept, or a party could be given it as its own
        self.forbidden: list[Attempt] = [
            *(("read", file) for file in [*files, "/etc/shadow"] if os.access(file, os.R_OK)),
            *((kind, file) for kind in writes for file in files),
            ("list", str(directory)),
            ("list", "/proc"),
            ("make", str(directory / "new")),
            ("make", str(home / ".cache" / "new")),
            ("take", str(directory / "sealing" / "0.key")),
            *((kind, port) for kind in ("connect", "fast-open", "multipath")),
            ("listen", str(unused)),
            ("datagram", str(udp.getsockname()[1])),
            ("abstract", hidden),
            ("unix", str(short / "agent")),
        ]
        self.moved = ("move", str(directory / "policy.toml"))


@contextmanager
def _short_directory() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="fs-") as directory:  # a socket's name has little room
        yield directory


def _write(path: Path) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.write_text("secret")
    path.chmod(0o600)


@pytest.fixture
def around(tmp_path: Path) -> Iterator[Surroundings]:
    with ExitStack() as stack:
        yield Surroundings(tmp_path / "owner", stack)


def copy(directory: Path, secured: bool) -> Path:
    """Return a copy of the project, in which parties are shut off, or are not."""
    return copy_of_project(directory / "project", "" if secured else OPEN)


def stand_in(directory: Path) -> Path:
    """Return a virtual machine's place, where a test puts hostile code for the system's own Python."""
    python = shutil.which("python3", path="/usr/bin:/bin")
    if python is None:
        pytest.skip("the hostile virtual machine is for the Python of /usr/bin, and there is none")
    machine = directory / "replicated-ring-party.x"
    machine.write_text(f"#!{python} -SI\n")
    machine.chmod(0o700)
    return machine


def prepared(
    engine: Engine, model: SecurityModel, source: Path, programs: Path, *, is_foreign: bool = False
) -> PreparedJob:
    """Return the run of a program, which the engine for MP-SPDZ finds compiled, or which somebody sent."""
    job = MadeUpJob(program_spec(source.stem, source.stem), source, ())
    if is_foreign:
        job = CompiledJob.of_program(sent_program(security=model.name).trial.program, model, programs)
    if isinstance(engine, MpSpdzEngine):
        command, links = (str(source), "-ip", "hosts"), {"Programs": str(programs)}
        return PreparedJob(job, model, "1", "1", command=command, links=links, fault_of_links="untried")
    return PreparedJob(job, model, engine.version() or "", "1")


@contextmanager
def waiting_parties(
    engine: Engine, ready: PreparedJob, directory: Path
) -> Iterator[tuple[list[LocalProcess], dict[int, str]]]:
    """Start all parties of a run, and yield them with their certificates; end what is left of them."""
    parties: list[LocalProcess] = []
    (directory / "work").mkdir()
    with free_ports(ready.model.parties) as ports:
        addresses = [(LOOPBACK, port) for port in ports]
        try:
            for i in range(ready.model.parties):
                values = directory / f"values-{i}"
                values.write_bytes(bytes(16))
                setup = engine.setup(ready, i, addresses, values=values)
                config = structs.replace(setup.config, fair_bits=((1, 8),))
                laid_out = LocalParty(replace(setup, config=config), directory / "work" / f"party-{i}")
                parties.append(laid_out.start())
            yield parties, {i: party.certificate(600) or "" for i, party in enumerate(parties)}
        finally:
            for party in parties:
                party.kill()
                party.close()


@SECURED
@pytest.mark.parametrize(
    ("engine", "is_foreign"),
    [(EmbeddedEngine(), False), (MpSpdzEngine(), False), (MpSpdzEngine(), True)],
    ids=["embedded", "mp-spdz", "a program of others"],
)
def test_hostile_code_reaches_its_own_run_alone(
    engine: Engine,
    is_foreign: bool,
    secured: bool,
    around: Surroundings,
    *,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whether the code came through a hole in an engine, or is what a coordinator sent."""
    monkeypatch.setattr(handle, "PROJECT", copy(tmp_path, secured))
    is_machine = isinstance(engine, MpSpdzEngine)
    model = get_model("ring" if is_machine else "mpyc")
    source = stand_in(tmp_path) if is_machine else tmp_path / "hostile.mpc"
    head = source.read_text() if is_machine else ""
    source.write_text(head)
    (tmp_path / "compiled").mkdir()
    (tmp_path / "compiled" / "program").write_text("code")
    ready = prepared(engine, model, source, tmp_path / "compiled", is_foreign=is_foreign)
    values = "public-integers" if is_foreign else "Input-Binary-P0-0"
    with waiting_parties(engine, ready, tmp_path) as (parties, certificates):
        other = parties[-1]
        of_other = tmp_path / "work" / f"party-{other.supervised.number}"
        forbidden = [
            *around.forbidden,
            *((kind, target) for kind in PROCESS_KINDS for target in ("parent", str(_pid(other)))),
            ("read", str(of_other / DATA / f"P{other.supervised.number}.key")),
            ("read", str(of_other / DATA / values.replace("P0", f"P{other.supervised.number}"))),
            *((kind, "Programs/program") for kind in ("write", "truncate") if is_machine),
            ("write", str(of_other / LOG)),
            ("write", str(source)),
            ("make", str(tmp_path / "project" / "harness" / "new")),
            around.moved,
        ]
        own = [
            *(("read", f"{DATA}/{name}") for name in ("P0.key", "P0.pem", values, "Input-P0-0")),
            ("read", str(source)),
            *([("read", "Programs/program")] if is_machine else []),
            ("make", "new"),
            ("write", f"{DATA}/P0.pem"),
            ("remove", "new"),
        ]
        source.write_text(head + text_of([*own, *forbidden]))
        for party in parties if not is_machine else parties[:1]:
            party.go(certificates)
        until(lambda: parties[0].exit_code() is not None)
        log = parties[0].log.read_text()
    answers = answers_in(log.splitlines())
    assert answers.keys() == {*own, *forbidden}, log
    assert {attempt for attempt in own if not answers[attempt]} == set()
    if secured:
        assert {attempt for attempt in forbidden if answers[attempt]} == set()
    else:
        assert {attempt for attempt in forbidden if not answers[attempt]} <= _never(around)


def _pid(party: LocalProcess) -> int:
    return int(party._process.pid)


def _never(around: Surroundings) -> set[Attempt]:
    """Return attempts that some systems refuse without a sandbox, too, as they lack multipath TCP."""
    return {attempt for attempt in around.forbidden if attempt[0] in ("fast-open", "multipath")}


@SECURED
def test_hostile_code_on_a_host_finds_no_key_no_share_and_no_ledger(secured: bool, tmp_path: Path) -> None:
    """The party of an agent, with a host's directory as its owner has it."""
    project = copy(tmp_path, secured)
    hosts = make_hosts(tmp_path)
    host = hosts[0]
    _write(host / "stock" / "piece")
    with agents(hosts, project=project) as made, free_ports(len(hosts)) as ports:
        fed(made, asked())
        signed = agreed(made, ports)
        files = [path for path in sorted(host.rglob("*")) if path.is_file() and "party" not in path.parts]
        names = {path.relative_to(host).parts[0] for path in files}
        assert {"keys", "sealing", "shares", "policy.toml", "stock"} <= names, names
        files.append(host / "ledger.sqlite")  # which is there once the run is charged
        forbidden: list[Attempt] = [
            *(("read", str(path)) for path in files),
            *(("chmod", str(path)) for path in files),
            *(("write", str(host / name)) for name in ("policy.toml", "ledger.sqlite")),
            *((kind, "parent") for kind in PROCESS_KINDS),
        ]
        own = [("read", f"{DATA}/{name}") for name in ("P0.key", "Input-Binary-P0-0", "Input-P0-0")]
        program = project / "Programs" / "Source" / "pi_rw.mpc"
        program.write_text(text_of([*own, *forbidden]))
        begun(made, signed)
        answers = answers_in(_lines_of(made[0]))
    assert answers.keys() == {*own, *forbidden}
    assert all(answers[attempt] for attempt in own)
    assert {attempt for attempt in forbidden if answers[attempt] == secured} == set()


def test_a_host_inside_of_the_project_is_shut_off_too(tmp_path: Path) -> None:
    """What is below the project's root, beside its code, may be its owner's."""
    project = copy(tmp_path, secured=True)
    _write(project / "host" / "keys" / "P0.key")
    (tmp_path / "run").mkdir()
    attempts = [
        ("read", str(project / "host" / "keys" / "P0.key")),
        ("read", str(project / "harness" / "errors.py")),
    ]
    text = SCRIPT.format(version=landlock_version(), filtered=True) + text_of(attempts)
    done = _run(text, tmp_path / "run", project=project)
    assert [*answers_in(done.stdout.splitlines()).values()] == [False, True], done.stderr


def _run(
    text: str, directory: Path, *arguments: str, project: Path = PROJECT
) -> subprocess.CompletedProcess[str]:
    """Run Python code in a process of its own, with the modules of a project."""
    return subprocess.run(
        [sys.executable, "-c", text, *arguments],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(project)},
        capture_output=True,
        text=True,
        check=False,
    )


def _lines_of(agent: Agent) -> list[str]:
    lines: list[str] = agent.ended.get(timeout=600)["state"]["lines"]
    return lines


@SECURED
@pytest.mark.parametrize("version", sorted({1, 2, 3, 4, 5, 6, landlock_version()}))
def test_older_kernels_protect_all_but_what_is_said_to_be_missing(
    version: int, secured: bool, around: Surroundings, tmp_path: Path
) -> None:
    """With an older Landlock, with and without the filter of calls (here `secured`)."""
    lacks = {
        Protection.PORTS: ("connect", "fast-open", "multipath", "listen"),
        Protection.SOCKETS: ("datagram", "unix"),
        Protection.ATTRIBUTES: ("chmod", "touch"),
        Protection.TRUNCATING: ("truncate",),
        Protection.SIGNALS: ("signal",),
    }
    attempts = [*around.forbidden, *((kind, "parent") for kind in ("environ", "attach", "signal"))]
    (tmp_path / "run").mkdir()
    text = SCRIPT.format(version=version, filtered=secured) + text_of(attempts)
    done = _run(text, tmp_path / "run")
    first, *lines = done.stdout.splitlines()
    said = {Protection[name] for name in first.split(",") if name}
    answers = answers_in(lines)
    assert answers.keys() == {*attempts}, done.stderr
    allowed = {kind for protection in said for kind in lacks[protection]}
    if Protection.SOCKETS in said:
        allowed |= {"abstract"}
    assert {kind for (kind, _), succeeded in answers.items() if succeeded} <= allowed
    assert said == {
        *({Protection.PORTS} if version < 4 or not secured else ()),
        *({Protection.SIGNALS} if version < 6 and not secured else ()),
        *({Protection.TRUNCATING} if version < 3 and not secured else ()),
        *({Protection.ATTRIBUTES, Protection.SOCKETS} if not secured else ()),
    }


@pytest.mark.parametrize("kind", ["link", "directory", "pipe"])
def test_its_agent_follows_no_link_of_a_party(kind: str, tmp_path: Path) -> None:
    """Which could have it read, move or wait for what the party itself cannot reach."""
    party, owner, stock = (tmp_path / name for name in ("party", "owner", "stock"))
    party.mkdir()
    for name in ("MET", "Persistence/Transactions-P0.data"):
        _write(owner / name)
    if kind == "link":
        (party / "Persistence").mkdir()
        (party / "Persistence" / "Transactions-P0.data").symlink_to(
            owner / "Persistence" / "Transactions-P0.data"
        )
        (party / LOG).symlink_to(owner / "MET")
    elif kind == "directory":
        (party / "Persistence").symlink_to(owner / "Persistence")
        (party / LOG).mkdir()
    else:
        (party / "Persistence").mkdir()
        for name in ("Persistence/Transactions-P0.data", LOG):
            os.mkfifo(party / name)
    handle.move_piece(party, stock)
    assert not stock.exists() and (owner / "Persistence" / "Transactions-P0.data").exists()
    assert read_inside(party, LOG) == b""
    assert list(party_log.kept_lines(party, party_log.MOST_LOG_BYTES)) == []
    (party / MET).symlink_to(owner / "MET")
    assert read_inside(party, MET) == b"" and met(party) == []


def test_all_is_missing_where_the_kernel_offers_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "landlock_version", lambda: 0)
    monkeypatch.setattr(sandbox, "has_filter", lambda: False)
    assert missing() == tuple(Protection)


def test_a_thread_that_would_stay_free_is_refused() -> None:
    text = """
    import threading, time
    from pathlib import Path
    from fairshares.harness.engines.parties import sandbox
    from fairshares.harness.errors import SandboxError
    threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
    try:
        sandbox.confine(sandbox.SandboxReach(Path.cwd(), (), (), ()))
    except SandboxError as error:
        print(error)
    """
    command = [sys.executable, "-c", textwrap.dedent(text)]
    environment = {**os.environ, "PYTHONPATH": str(PROJECT)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "A thread of this party's process runs before the process is restricted.\n"


@pytest.mark.parametrize(
    ("machine", "header"), [(0, "x86_64-linux-gnu/asm/unistd_64.h"), (1, "asm-generic/unistd.h")]
)
def test_system_calls_have_the_kernels_numbers(machine: int, header: str) -> None:
    path = Path("/usr/include", header)
    if not path.exists() or (machine == 0 and platform.machine() != "x86_64"):
        pytest.skip(f"there is no {path}, of the package linux-libc-dev")
    text = path.read_text()
    defined = {
        name: int(number) for name, number in re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)\n", text)
    }
    for name, numbers in {**REFUSED, **CHECKED}.items():
        number = numbers[machine]
        if name in defined or number is None:
            assert number == defined.get(name), name
        else:  # newer than these headers
            assert number > max(defined.values()) - 20, name


def test_its_agent_reads_no_more_of_a_log_than_any_run_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which a party may fill with one line, or with many: the reading ends, and says so."""
    log = tmp_path / LOG
    log.write_text("OUT counts 1\nnothing\nTime = 1 seconds\n")
    kept = list(party_log.kept_lines(tmp_path, party_log.MOST_LOG_BYTES))
    assert kept == ["OUT counts 1", "Time = 1 seconds"]
    with log.open("r+b") as file:
        file.seek(0, os.SEEK_END)
        file.truncate(1 << 31)  # a line of two gigabytes, of which nothing is on the disk
    tracemalloc.start()
    *kept, last = party_log.kept_lines(tmp_path, party_log.MOST_LOG_BYTES)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept == ["OUT counts 1", "Time = 1 seconds"] and peak < 20 * party_log.MOST_LOG_BYTES
    assert last == line_of_failure("It printed more than 64 MiB, and the rest was not read.")
    monkeypatch.setattr(party_log, "_MOST_KEPT", 2)
    log.write_text("OUT x 1\n" * 3)
    *kept, last = party_log.kept_lines(tmp_path, party_log.MOST_LOG_BYTES)
    assert kept == ["OUT x 1"] * 2 and "more than 2 lines to be shown" in last


def test_a_party_that_printed_too_much_has_failed(tmp_path: Path) -> None:
    """Though it ended well: what was read of it may not be all."""
    party: Any = handle.LocalProcess.__new__(handle.LocalProcess)
    party._directory = tmp_path
    party.supervised = handle.Supervised(number=0, most_log_bytes=10)
    party._process = Mock(poll=lambda: 0)
    (tmp_path / LOG).write_text("OUT x 1\n")
    assert party.exit_code() == 0
    (tmp_path / LOG).write_text("OUT x 1\nmore\n")
    assert party.exit_code() == handle._TOO_MUCH


def test_what_a_program_prints_apart_from_its_log_counts_and_is_kept(tmp_path: Path) -> None:
    printing = "import time\nwhile True:\n    print('x' * 99, flush=True)\n    time.sleep(0.01)"
    (tmp_path / LOG).touch()
    with (tmp_path / PRINTED).open("wb") as printed:
        process = subprocess.Popen([sys.executable, "-c", printing], stdout=printed, start_new_session=True)
    supervised = handle.Supervised(number=0, keeps_printed=True, most_log_bytes=1000)
    party = handle.LocalProcess(supervised, tmp_path, process)
    until(lambda: party.exit_code() == handle._TOO_MUCH)
    assert process.returncode == -signal.SIGKILL
    kept = party.state().printed
    assert kept is not None and kept.size > 1000 and kept.text.startswith("x" * 99 + "\n")


def test_why_a_machine_failed_is_shown_where_all_lines_may_be(tmp_path: Path) -> None:
    """Elsewhere MP-SPDZ may quote inputs in such lines. Lines about a run that goes well say none."""
    lines = [
        "Using statistical security parameter 40",
        "Truncation error probability 2^-40",
        "-p, --player ARG  This player's number (required if not given)",
        "Fatal error at mine-0:5 (LEGENDREC): no prime modulus",
        "Time1 = 0.5 seconds (0.1 MB, 3 rounds)",
        "Fatal error: connection reset by peer, and more",
    ]
    (tmp_path / LOG).write_text("".join(f"{line}\n" for line in lines))
    shown = list(party_log.kept_lines(tmp_path, 1 << 20, shows_all_lines=True))
    assert shown == [*lines[3:5], "connection reset by peer"]
    assert list(party_log.kept_lines(tmp_path, 1 << 20)) == [lines[4], "connection reset by peer"]
    (tmp_path / LOG).write_text("".join(f"{line}\n" for line in lines[:2]))
    assert list(party_log.kept_lines(tmp_path, 1 << 20, shows_all_lines=True)) == lines[:2]


def test_a_party_that_prints_too_much_is_ended_while_it_prints(tmp_path: Path) -> None:
    """Before it fills the disk."""
    process = subprocess.Popen(["sleep", "60"], start_new_session=True)
    party = handle.LocalProcess(handle.Supervised(number=0, most_log_bytes=1 << 12), tmp_path, process)
    with (tmp_path / LOG).open("w") as log:
        log.write("OUT x 1\n" * 500)
        log.flush()
        assert party.exit_code() is None and process.poll() is None
        log.write("OUT x 1\n" * 500)
        log.flush()
    until(lambda: party.exit_code() is not None)
    assert process.returncode == -signal.SIGKILL, "it ended by itself"
    assert party.exit_code() == handle._TOO_MUCH
    assert "It printed more than" in party.state().lines[-1]


def test_the_last_lines_are_shown_where_all_may_be_and_none_says_why(tmp_path: Path) -> None:
    """They are cut to text that is neither an output nor a report of our own."""
    (tmp_path / LOG).write_bytes(
        b"".join(b"line %d\n" % number for number in range(3000))
        + b"\x1b[31mit gave up\x00 here\n\n"
        + b"fairshares: no report\n"
        + b"\x1bfairshares: no report\n"
        + b"\x1bOUT x 1\n"
        + b" Time = 1 seconds\n"
        + b"x" * 400
    )
    last = ["line 2997", "line 2998", "line 2999", "[31mit gave up here", "x" * 300]
    for shows_all_lines in (True, False):
        party: Any = handle.LocalProcess.__new__(handle.LocalProcess)
        party._directory = tmp_path
        party.supervised = handle.Supervised(number=0, shows_all_lines=shows_all_lines)
        party._process = Mock(poll=lambda: 1)
        party._memory = Mock(bytes=None)
        shown = list(party.state().lines)
        assert shown == ["fairshares: no report", *(last if shows_all_lines else [])]


def test_a_program_of_others_may_print_less_and_shows_all(tmp_path: Path) -> None:
    """Its inputs are public, and nothing is known of what it does."""
    engine = MpSpdzEngine()
    source = tmp_path / "any.mpc"
    foreign = engine.setup(prepared(engine, get_model("ring"), source, tmp_path, is_foreign=True), 0, [])
    assert foreign.shows_all_lines and foreign.most_log_bytes == party_log.MOST_FOREIGN_LOG_BYTES
    ours = engine.setup(prepared(engine, get_model("ring"), source, tmp_path), 0, [])
    assert not ours.shows_all_lines and ours.most_log_bytes == party_log.MOST_LOG_BYTES
    assert 10 * party_log.MOST_FOREIGN_LOG_BYTES < party_log.MOST_LOG_BYTES


SHARED = ("shm", "msg", "sem", "mq_")  # how the calls begin by which processes of one user share memory
CALLS = """
import ctypes, errno, json, sys
libc = ctypes.CDLL(None, use_errno=True)
for number in json.loads(sys.argv[1]):
    libc.syscall(number, -1, 0, 0, 0, 0)
    print(ctypes.get_errno() == errno.EPERM)
"""


@pytest.mark.parametrize("filtered", [True, False])
def test_queues_and_semaphores_of_its_owner_are_out_of_reach(tmp_path: Path, filtered: bool) -> None:
    """Also by a number that a party guesses: without the filter, the kernel looks it up."""
    machine = 0 if platform.machine() == "x86_64" else 1
    numbers = [REFUSED[name][machine] for name in REFUSED if name.startswith(SHARED)]
    assert len(numbers) == 13
    script = SCRIPT.format(version=landlock_version(), filtered=filtered) if filtered else ""
    done = _run(script + CALLS, tmp_path, json.dumps(numbers))
    answers = [line for line in done.stdout.splitlines() if line in ("True", "False")]
    assert answers == [str(filtered)] * len(numbers), done.stderr


def test_what_a_party_leaves_running_ends_with_it(tmp_path: Path) -> None:
    """Also if it ended well, and its child is in no other group."""
    party: Any = handle.LocalProcess.__new__(handle.LocalProcess)
    party._directory, party._memory = tmp_path, Mock()
    party.supervised = handle.Supervised(number=0)
    leaving = (
        "import os, time\nchild = os.fork()\nif child == 0:\n    time.sleep(600)\nprint(child, flush=True)"
    )
    party._process = subprocess.Popen(
        [sys.executable, "-c", leaving], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    child = int(party._process.stdout.readline())
    until(lambda: party.exit_code() == 0)
    until(lambda: not _runs(child))
    party._process.stdout.close()


def _runs(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
