"""The embedded engine's processes: what ends a run, what is left of it, who can connect."""

import contextlib
import json
import os
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.engines.base import PROJECT, EngineResult, Job
from harness.engines.mpyc.engine import EmbeddedEngine
from harness.engines.parties.certificates import make_key
from harness.engines.parties.supervisor import free_ports
from harness.engines.parties.working_directory import LOOPBACK
from harness.errors import PartyFailedError
from harness.security_models import get_model
from tests.support.command import processes_below
from tests.support.running import program_spec, until

MPYC = get_model("mpyc")
MEETS = "from pathlib import Path\nimport time\nsint.get_random_bit(size=9).reveal()\nPath('met').touch()\n"
HANGS = MEETS + "time.sleep(600)\n"
WAIT_S = 600.0


def run(text: str, directory: Path, bits: tuple[tuple[int, ...], ...] | None = None) -> EngineResult:
    """Run a program's text with three parties under `directory / "run"`."""
    source = directory / "probe.mpc"
    source.write_text(text)
    job = Job(program_spec("probe", "x"), source, (), (None,) * 3, given_bits=bits)
    return EmbeddedEngine().run(job, MPYC, directory / "run", WAIT_S, lambda step: None)


def test_nothing_is_left_of_a_run_that_ends_well(tmp_path: Path) -> None:
    result = run(MEETS + "print_ln('OUT x %s', sint([4, -4]).reveal())", tmp_path)
    assert result.outputs == {"x": (4, -4)}
    assert (result.engine_version, result.rounds, result.times["compile_s"]) == ("MPyC 0.11", None, 0.0)
    assert 0 < result.times["mpc_s"] < result.times["wall_s"]
    assert len(result.sent_bytes) == 3 and min(result.sent_bytes) > 100
    assert not (tmp_path / "run").exists() and not processes_below(tmp_path)


def test_what_is_not_portable_is_named_with_its_place(tmp_path: Path) -> None:
    with pytest.raises(
        PartyFailedError, match=r"fairshares: probe\.mpc:6: for_range_opt is not in the portable"
    ):
        run(MEETS + "n = 4\n@for_range_opt(n)\ndef _(i):\n    pass\n", tmp_path)
    assert not (tmp_path / "run").exists()


def test_the_party_whose_input_is_wrong_is_named_without_its_value(tmp_path: Path) -> None:
    text = "for i in range(3):\n    sbitvec.get_type(3).get_input_from(i)\nsint(1).reveal()\n" + HANGS
    with pytest.raises(PartyFailedError, match=r"Party 2 ended with exit code 1.* fit its 3 bits") as error:
        run(text, tmp_path, ((1,), (7,), (99,)))
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
        config = {
            "party": 2,
            "common_names": [EmbeddedEngine().common_name(i) for i in range(3)],
            "module": "harness.engines.mpyc.party",
            "fair_bits": [],
            "program": str(tmp_path / "none.mpc"),
            "arguments": [],
            "addresses": [(LOOPBACK, port) for port in ports],
            "threshold": 1,
            "security_bits": 40,
        }
        (directory / "party.json").write_text(json.dumps(config))
        command = [sys.executable, "-m", "harness.engines.parties.main"]
        environment = {**os.environ, "PYTHONPATH": str(PROJECT)}
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        process = subprocess.Popen(command, cwd=directory, env=environment, **pipes)
        assert process.stdin is not None and process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.stdin.write("go\n")
        process.stdin.flush()
        yield process, ports[2]
        process.kill()
        process.communicate()


def listeners(port: int) -> list[str]:
    """Return the local addresses on which something listens, as the kernel writes them."""
    found = []
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for row in Path(table).read_text().splitlines()[1:]:
            address, state = row.split()[1], row.split()[3]
            if state == "0A" and address.endswith(f":{port:04X}"):
                found.append(address.partition(":")[0])
    return found


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
