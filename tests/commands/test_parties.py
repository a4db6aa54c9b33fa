"""Party processes, of the embedded engine and with stand-ins: what is said of them, kept, refused."""

import contextlib
import os
import resource
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pytest

from benchmarks.measure.given_numbers import Given, engine_giving
from fairshares.harness.engines.execution import (
    PROGRAMS,
    PROJECT,
    Conditions,
    EngineResult,
    MadeUpJob,
    parse_outputs,
)
from fairshares.harness.engines.mpyc.engine import EmbeddedEngine
from fairshares.harness.engines.parties import supervisor as parties
from fairshares.harness.engines.parties.certificates import make_key
from fairshares.harness.engines.parties.config import Embedded, PartyConfig, VirtualMachine, write_config
from fairshares.harness.engines.parties.handle import PartySetup, PartyState
from fairshares.harness.engines.parties.party_log import reasons_in
from fairshares.harness.engines.parties.supervisor import free_ports
from fairshares.harness.engines.parties.working_directory import CLAIM, DATA, LOG, LOOPBACK
from fairshares.harness.errors import (
    ClientError,
    PartyFailedError,
    PartyTimeoutError,
    UsedDirectoryError,
)
from fairshares.harness.online.gateway_config import GatewayConfig
from fairshares.harness.party_reports import ClientsFailed, ReadyReport, line_of, line_of_failure
from fairshares.harness.security_models import get_model
from fairshares.protocols.spec import PI_LAP
from tests.support.command import processes_below
from tests.support.runners import run_parties
from tests.support.running import program_spec, until

JOB = MadeUpJob(PI_LAP, PROGRAMS / "pi_lap.mpc", ())
WELL = "exit 0"


def run(
    work: Path,
    *scripts: str,
    timeout_s: float = 30.0,
    links: Mapping[str, str] = MappingProxyType({}),
    **changes: Any,
) -> list[PartyState]:
    """Run shell scripts as the engines of as many parties."""
    setups = [
        PartySetup(
            config=PartyConfig(
                party=i,
                common_names=tuple(f"P{j}" for j in range(len(scripts))),
                engine=VirtualMachine(argv=("/bin/sh", "-c", script)),
                **changes,
            ),
            links=links,
        )
        for i, script in enumerate(scripts)
    ]
    try:
        return run_parties(JOB, setups, work, timeout_s)
    finally:
        assert not work.exists() and processes_below(work) == {}


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have all parties end before one is named, however long a busy machine takes for that."""
    for name in ("_GRACE_S", "_SEARCH_S"):
        monkeypatch.setattr(parties, name, 60.0)


# What a party may print, and what of it may be shown when it fails.
NO_REPORT = "fairshares: It wrote a report that is none."
LINES = {
    "OUT noise [12345, -67890]": None,
    "12345": None,
    "share 1234567890123456789": None,
    "x = 12345 OUT noise [12345]": None,
    "thread 3: hash 12345 of value 67890": None,
    'File "party.py", line 3, in <module>: secret = 12345': None,
    "Fatal error at pi_lap-0:6 (INPUTB): cannot read integer from Player-Data/Input-P1-0, problem "
    "with '12345' after 3": "cannot read integer from Player-Data/Input-P1-0",
    "terminate called after throwing an instance of 'std::bad_alloc' 12345": "std::bad_alloc",
    "/opt/12345/machine.x: error while loading shared libraries: libSPDZ.so: cannot open the file: "
    "67890": "error while loading shared libraries: libSPDZ.so",
    line_of_failure("Party 1 was given fewer input bits."): "fairshares: Party 1 was given fewer input bits.",
    # What begins as a report of ours, and is none, is not shown either.
    'fairshares: {"type":"failure","message":"12345","share":67890}': NO_REPORT,
    'fairshares: {"type":"shares","message":"12345"}': NO_REPORT,
    "fairshares: 12345": NO_REPORT,
}


@pytest.mark.parametrize(("line", "shown"), LINES.items())
def test_only_known_words_of_a_failing_partys_log_are_shown(
    line: str, shown: str | None, tmp_path: Path
) -> None:
    quoted = line.replace("'", "'\\''")
    with pytest.raises(PartyFailedError) as error:
        run(tmp_path / "run", WELL, f"printf '%s\\n' '{quoted}'; exit 3")
    said = str(error.value)
    assert said.startswith("Party 1 ended with exit code 3; ")
    assert said.endswith(f" Its last lines: {shown}") if shown else "last lines" not in said
    assert "12345" not in said and "67890" not in said


def test_a_log_is_kept_without_its_other_lines(tmp_path: Path) -> None:
    script = "echo $$ > pid; echo OUT n 1; echo share 12345; echo 'Time = 0.5 seconds '; echo 12345"
    waits = (
        "until [ -s ../party-0/pid ]; do :; done; while kill -0 $(cat ../party-0/pid); do sleep 0.01; done"
    )
    logs = run(tmp_path / "run", script, f"({waits}) 2>/dev/null")
    assert [log.lines for log in logs] == [("OUT n 1", "Time = 0.5 seconds"), ()]


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("seen_first", [True, False])
@pytest.mark.parametrize("culprit", [0, 1, 2])
def test_the_party_that_failed_is_named_not_one_that_lost_it(
    culprit: int, seen_first: bool, tmp_path: Path
) -> None:
    late = "sleep 0.1; "
    lost = "echo 'Fatal error in communication: read_some: stream truncated [asio]' >&2; exit 1"
    failed = "echo 'failure reading from Player-Data/Input-Binary-P1-0' >&2; exit 1"
    scripts = [late * seen_first + lost] * 3
    scripts[culprit] = late * (not seen_first) + failed
    with pytest.raises(PartyFailedError, match=rf"^Party {culprit} ended with exit code 1") as error:
        run(tmp_path / "run", *scripts)
    assert str(error.value).endswith("Its last lines: failure reading from Player-Data/Input-Binary-P1-0")


LOSES = "echo 'Fatal error in communication: read_some: stream truncated [asio]' >&2; exit 1"
LATE = "sleep 0.1; "
NOT_READY = f"echo '{line_of_failure('The machine was not ready for the clients after 5 s.')}'; exit 1"
NO_CLIENT = f"echo '{line_of(ClientsFailed('Clients failed: none of 3 sent values in time.'))}'; exit 1"
CLIENTS = (
    ClientError,
    "^Clients failed: none of 3 sent values in time. The parties were stopped",
)
CHECKS = ("MacCheck Failure", "check hash mismatch", "Inconsistent broadcast", "Invalid Commitment")
# What three parties do, and what is said of it; whoever finds that a check failed is not blamed.
FAILURES: dict[str, tuple[tuple[str, str, str], type[Exception], str]] = {
    **{
        said: (
            ("exit 1", f"echo 'at pi_rw-0:8 (OPEN): {said}' >&2; exit 1", LOSES),
            PartyFailedError,
            rf"^A check .* failed \(at party 1: {said}\): one of the parties 0 or 1 or 2 deviated",
        )
        for said in CHECKS
    },
    "a machine": ((LOSES, LOSES, LATE + NOT_READY), PartyFailedError, "^Party 2 .*not ready for the clients"),
    "a signal": (
        ("exit 1", "exit 1", f"{LATE}kill -SEGV $$"),
        PartyFailedError,
        "^Party 2 was killed by SIGSEGV; ",
    ),
    "a signal, after which another crashes": (
        (f"{LOSES.removesuffix('exit 1')}kill -SEGV $$", "kill -KILL $$", LOSES),
        PartyFailedError,
        "^Party 1 was killed by SIGKILL; ",
    ),
    "a signal, after which another crashes without a word": (
        (f"{LATE}kill -SEGV $$", "kill -KILL $$", LOSES),
        PartyFailedError,
        "^Party 1 was killed by SIGKILL; ",
    ),
    "the network": (
        (LOSES, LATE + LOSES, LATE + LOSES),
        PartyFailedError,
        r"^Connections between the parties were lost \(by 0, 1, 2\), and no party failed otherwise",
    ),
    "clients, one lost": ((LOSES, NO_CLIENT, LOSES), *CLIENTS),
    "clients, one failed": ((LOSES, NO_CLIENT, "exit 1"), *CLIENTS),
    "clients, one stays": ((LOSES, NO_CLIENT, "sleep 60"), *CLIENTS),
}


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("case", FAILURES)
def test_what_failed_is_named(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scripts, error, said = FAILURES[case]
    if "sleep 60" in scripts:
        monkeypatch.setattr(parties, "_GRACE_S", 0.5)
    with pytest.raises(error, match=said):
        run(tmp_path / "run", *scripts)


@pytest.mark.parametrize(
    ("said", "suspects"),
    [
        ({2: "hash mismatch for sender 0 and backup 1"}, "0 or 1 or 2"),  # which may lie
        (dict.fromkeys((2, 3), "hash mismatch for sender 0 and backup 1"), "0 or 1"),
        ({0: "check failed", 3: "hash mismatch for sender 0 and backup 1"}, "0 or 1 or 3"),
    ],
)
def test_a_check_that_tells_of_two_parties_names_them(said: dict[int, str], suspects: str) -> None:
    codes = {i: int(i in said) for i in range(4)}
    errors = [reasons_in([said[i]]) if i in said else [] for i in range(4)]
    failure = parties._failure([], codes, errors, sorted(said), sorted(said))
    assert f"one of the parties {suspects} deviated" in str(failure)


def test_a_run_that_fails_late_does_not_wait_for_the_others(tmp_path: Path) -> None:
    started = time.monotonic()
    with pytest.raises(PartyFailedError, match=r"^Party 1 ended with exit code 5; "):
        run(tmp_path / "run", "sleep 60", "exit 5", "sleep 60 & wait")
    assert time.monotonic() - started < 30


def test_a_party_says_why_it_could_not_start(tmp_path: Path) -> None:
    """Here it cannot write its key; what it says is the system's word, and names no value."""
    with pytest.raises(PartyFailedError, match=r"^Party 0 ended before it was ready.*: No such file or"):
        run(tmp_path / "run", WELL, links={f"{DATA}/P0.key": "nowhere/at/all"})


def test_a_timeout_names_all_that_still_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is reached as soon as party 1 has ended, and its end was seen."""
    pid, clock = tmp_path / "run" / "party-1" / "pid", SimpleNamespace(ahead=0.0)

    def sleep(seconds: float) -> None:
        time.sleep(seconds)
        if pid.exists() and (number := pid.read_text()) and not Path("/proc", number.strip()).exists():
            clock.ahead = 60.0

    now = SimpleNamespace(monotonic=lambda: time.monotonic() + clock.ahead, sleep=sleep)
    monkeypatch.setattr(parties, "time", now)
    with pytest.raises(PartyTimeoutError, match=r"^Parties 0, 2 had not finished after 50 s; .* timeout="):
        run(tmp_path / "run", "sleep 60", "echo $$ > pid", "sleep 60 & wait", timeout_s=50)


def test_every_party_draws_bits_of_its_own_at_every_start(tmp_path: Path) -> None:
    """Fair bits fail this with probability 1e-11 at most: a party that misses one of 0, 1, 2, 3 in 100."""
    script = "printf 'OUT bits [%s]\\n' \"$(paste -s -d , Player-Data/Input-P?-0 | sed 's/,/, /g')\""
    drawn = []
    for name in ("one", "other"):
        logs = run(tmp_path / name, script, script, fair_bits=[(63, 100), (2, 100)])
        drawn += [parse_outputs([log.lines], ["bits"])["bits"] for log in logs]
    assert len(set(drawn)) == 4
    for bits in drawn:
        assert len(bits) == 200 and 2**62 <= max(bits[:100]) < 2**63 and min(bits[:100]) >= 0
        assert set(bits[100:]) == {0, 1, 2, 3}


def test_a_directory_that_another_start_claims_meanwhile_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The claim is the party's own, so it holds even where whoever starts it did not look."""
    real = Path.exists
    monkeypatch.setattr(Path, "exists", lambda path: path.name != CLAIM and real(path))
    with pytest.raises(UsedDirectoryError, match="was started before"):
        run(tmp_path / "run", WELL, WELL, links={CLAIM: "another"})


def test_a_party_that_is_told_nothing_ends(tmp_path: Path) -> None:
    """As when whoever started it dies before it says go: no engine starts, no bits are drawn."""
    (tmp_path / DATA).mkdir()
    write_config(
        PartyConfig(party=0, common_names=("P0",), engine=VirtualMachine(argv=("/bin/false",))), tmp_path
    )
    done = subprocess.run(
        [sys.executable, "-m", "fairshares.harness.engines.parties.main"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (1, f"{line_of(ReadyReport())}\n", "")
    assert not (tmp_path / LOG).exists() and not list((tmp_path / DATA).glob("Input-*"))


def test_what_a_party_writes_is_its_own_and_no_core_dump_holds_it(tmp_path: Path) -> None:
    """Whatever the coordinator's settings are: an engine writes files under names and modes of its own.

    A limit of 0, as many shells have it, would not keep a program from collecting dumps: it has to be 1.
    """
    script = (
        "printf 'OUT umask %s\\n' $(umask); "
        "printf 'OUT core %s\\n' $(prlimit --core --raw --noheadings --output SOFT)"
    )
    before = os.umask(0)
    try:
        (log,) = run(tmp_path / "run", script)
    finally:
        os.umask(before)
    assert log.lines[0] == "OUT umask 0077"
    hardest = resource.getrlimit(resource.RLIMIT_CORE)[1]
    assert log.lines[1] == f"OUT core {0 if hardest == 0 else 1}"


def test_a_front_calls_itself_by_another_number_at_every_party_and_start(tmp_path: Path) -> None:
    """It is what a virtual machine knows its front by. Fair numbers repeat with probability 15/2^31."""
    certificate = make_key(tmp_path, "C0", "C0").read_text()
    script = "printf 'OUT number %s\\n' $1"  # a machine is told its port, and the number
    with free_ports(1) as (port,):
        gateway = GatewayConfig(
            host="127.0.0.1",
            port=0,
            machine_port=port,
            uploads=(1,),
            certificates=(certificate,),
            terms={},
            seconds=30.0,
            seconds_to_send=30.0,
            most_failures=1,
        )
        logs = [
            log for name in ("one", "other") for log in run(tmp_path / name, *[script] * 3, gateway=gateway)
        ]
    numbers = {int(log.lines[0].removeprefix("OUT number ")) for log in logs}
    assert len(numbers) == 6 and max(numbers) > 2**20


MPYC = get_model("mpyc")
MEETS = "from pathlib import Path\nimport time\n(sint(3) * sint(5)).reveal()\nPath('met').touch()\n"
HANGS = MEETS + "time.sleep(600)\n"
WAIT_S = 600.0


def run_program(text: str, directory: Path, bits: Given | None = None) -> EngineResult:
    """Run a program's text with three parties under `directory / "run"`."""
    source = directory / "probe.mpc"
    source.write_text(text)
    job = MadeUpJob(program_spec("probe", "x"), source, ())
    return engine_giving(MPYC, bits).run(job, MPYC, Conditions(directory / "run", WAIT_S, lambda step: None))


def test_nothing_is_left_of_a_run_that_ends_well(tmp_path: Path) -> None:
    result = run_program(MEETS + "print_ln('OUT x %s', sint([4, -4]).reveal())", tmp_path)
    assert result.outputs == {"x": (4, -4)}
    assert (result.engine_version, result.rounds, result.times["compile_s"]) == ("MPyC 0.11", None, 0.0)
    took, in_all = result.times["mpc_s"], result.times["wall_s"]
    assert took is not None and in_all is not None and 0 < took < in_all
    assert len(result.sent_bytes) == 3 and min(result.sent_bytes) > 100
    assert not (tmp_path / "run").exists() and not processes_below(tmp_path)


def test_the_party_whose_input_is_wrong_is_named_without_its_value(tmp_path: Path) -> None:
    text = "for i in range(3):\n    sbitvec.get_type(3).get_input_from(i)\nsint(1).reveal()\n" + HANGS
    with pytest.raises(PartyFailedError, match=r"Party 2 ended with exit code 1.* fit its 3 bits") as error:
        run_program(text, tmp_path, ((1,), (7,), (99,)))
    assert "99" not in str(error.value)


@pytest.fixture
def waiting_party(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Start party 2 alone, in tmp_path / "party", with the others' certificates; give it and its port."""
    directory = tmp_path / "party"
    for made in (directory, directory / "Player-Data", directory / "peers"):
        made.mkdir()
    for i in (0, 1):
        certificate = make_key(tmp_path, f"P{i}", EmbeddedEngine().common_name(i))
        (directory / "peers" / certificate.name).write_bytes(certificate.read_bytes())
    with free_ports(3) as ports:
        config = PartyConfig(
            party=2,
            common_names=tuple(EmbeddedEngine().common_name(i) for i in range(3)),
            engine=Embedded(program=str(tmp_path / "none.mpc"), arguments=(), threshold=1, security_bits=40),
            addresses=tuple((LOOPBACK, port) for port in ports),
        )
        write_config(config, directory)
        command = [sys.executable, "-m", "fairshares.harness.engines.parties.main"]
        environment = {**os.environ, "PYTHONPATH": str(PROJECT)}
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        process = subprocess.Popen(command, cwd=directory, env=environment, **pipes)
        assert process.stdin is not None and process.stdout is not None
        assert process.stdout.readline() == f"{line_of(ReadyReport())}\n"
        process.stdin.write("go\n")
        process.stdin.flush()
        yield process, ports[2]
        process.kill()
        process.communicate()


def listeners(port: int) -> list[str]:
    """Return the local addresses on which something listens, as the kernel writes them."""
    addresses = []
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for row in Path(table).read_text().splitlines()[1:]:
            address, state = row.split()[1], row.split()[3]
            if state == "0A" and address.endswith(f":{port:04X}"):
                addresses.append(address.partition(":")[0])
    return addresses


def greet(port: int, directory: Path, stem: str, seconds: float) -> bytes | None:
    """Connect with a certificate as party 0 would; return what came back, None if nothing did in time."""
    context = ssl.create_default_context()
    context.load_cert_chain(directory / f"{stem}.pem", directory / f"{stem}.key")
    context.load_verify_locations(directory / "party" / "Player-Data" / "P2.pem")
    with socket.create_connection(("127.0.0.1", port), timeout=seconds) as plain:
        try:
            with context.wrap_socket(plain, server_hostname=EmbeddedEngine().common_name(2)) as secure:
                secure.send(bytes(2))
                return secure.recv(1)
        except TimeoutError:
            return None
        except (ssl.SSLError, ConnectionError):
            return b"refused"


def test_a_party_listens_on_loopback_and_lets_no_stranger_in(
    waiting_party: tuple[subprocess.Popen[str], int], tmp_path: Path
) -> None:
    process, port = waiting_party
    until(lambda: listeners(port) != [])
    assert listeners(port) == ["0100007F"]
    make_key(tmp_path, "stranger", EmbeddedEngine().common_name(0))
    assert greet(port, tmp_path, "stranger", WAIT_S) in (b"", b"refused")
    with socket.create_connection(("127.0.0.1", port), timeout=WAIT_S) as plain:
        plain.send(bytes(200))  # no TLS at all
        with contextlib.suppress(ConnectionError):
            while plain.recv(100):  # at most an alert, then the end
                pass
    assert greet(port, tmp_path, "P0", 1.0) is None  # the control: a peer is let in
    assert process.poll() is None
