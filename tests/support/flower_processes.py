"""A Flower federation: of processes, with a relay that keeps all their messages, or simulated."""

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.conftest import PROJECT
from tests.support.running import until
from tests.support.ssh import answers

NEEDED = "Flower has an environment of its own: docs/how-to/flower.md"
_BIN = Path(sys.executable).parent
_RUN_S = 7000.0  # for a run that goes on: on a busy machine it takes long


class Relay:
    """Carries connections to a port, and keeps what goes through them, both ways, in a file."""

    def __init__(self, port: int, file: Path) -> None:
        self._to = port
        self._file = file.open("ab", buffering=0)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listening.close()
        self._file.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                try:
                    server = socket.create_connection(("127.0.0.1", self._to))
                except OSError:
                    client.close()
                    continue
                for one, other in ((client, server), (server, client)):
                    threading.Thread(target=self._carry, args=(one, other), daemon=True).start()

    def _carry(self, one: socket.socket, other: socket.socket) -> None:
        with suppress(OSError, ValueError):
            while piece := one.recv(1 << 16):
                self._file.write(piece)
                other.sendall(piece)
        for end in (one, other):
            with suppress(OSError):  # the other way has shut it down
                end.shutdown(socket.SHUT_RDWR)
            end.close()


@dataclass
class Federation:
    """A SuperLink and its SuperNodes.

    Attributes: place: their directories; port: the SuperLink's; paths: where the app's modules are;
    simulated: the number of SuperNodes of a simulation, None if they are processes.
    """

    place: Path
    port: int
    paths: Sequence[Path]
    simulated: int | None = None
    processes: list["subprocess.Popen[bytes]"] = field(default_factory=list)

    @property
    def messages(self) -> Path:
        """The file with all that went between SuperLink and SuperNodes."""
        return self.place / "messages"

    @property
    def logs(self) -> Sequence[Path]:
        """The files with what the server's processes have said."""
        return [self.place / "superlink.log", self.place / "run.log"]

    def environment(self, role: str) -> dict[str, str]:
        """Return the environment of a role's processes, by which they are known."""
        return {
            **os.environ,
            "FLWR_HOME": str(self.place / role),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLOWER_ROLE": f"{self.place}/{role}",
            "PATH": os.pathsep.join([str(_BIN), os.environ["PATH"]]),
            "PYTHONPATH": os.pathsep.join([str(PROJECT), *map(str, self.paths)]),
        }

    def processes_of(self, role: str) -> list[int]:
        """Return the numbers of a role's processes, those that others started included."""
        mark = f"FLOWER_ROLE={self.place}/{role}\0".encode()
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):  # it has ended, or is another user's
                if mark in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
        return found

    def start(self, role: str, log: str, *command: str) -> "subprocess.Popen[bytes]":
        """Start a process of a role, which writes to a log."""
        (self.place / role).mkdir(exist_ok=True)
        with (self.place / log).open("ab") as file:
            process = subprocess.Popen(
                [str(_BIN / command[0]), *command[1:]],
                env=self.environment(role),
                cwd=self.place / role,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
            )
        self.processes.append(process)
        return process

    def run(self, app: Path, **config: str | float) -> "subprocess.Popen[bytes]":
        """Start a run of an app, by `flwr run`; its output is in `run.log`."""
        (self.place / "user").mkdir(exist_ok=True)
        connection = f'[superlink]\ndefault = "own"\n[superlink.own]\naddress = "127.0.0.1:{self.port}"\n'
        (self.place / "user" / "config.toml").write_text(connection + "insecure = true\n")
        written = " ".join(
            f"{name}='{value}'" if isinstance(value, str) else f"{name}={value}"
            for name, value in config.items()
        )
        command = ["flwr", "run", str(app), "--stream", "--run-config", written]
        if self.simulated is not None:
            resources = f"num-supernodes={self.simulated} client-resources-num-cpus=1"
            command += ["--federation-config", resources]
        return self.start("user", "run.log", *command)

    def output(self, app: Path, **config: str | float) -> str:
        """Run an app to its end, and return what it has said."""
        self.run(app, **config).wait(timeout=_RUN_S)
        return (self.place / "run.log").read_text(encoding="utf-8", errors="replace")


def _free_ports(number: int) -> list[int]:
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(number)]
    ports = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return ports


@contextmanager
def federation(
    place: Path, nodes: Sequence[Mapping[str, str | int]], paths: Sequence[Path]
) -> Iterator[Federation]:
    """Run a SuperLink, and a SuperNode for each configuration of one; end all their processes.

    Args: paths: where the app's modules are.
    """
    own, *ports = _free_ports(1 + len(nodes))
    made = Federation(place, own, paths)
    relay = Relay(own, made.messages)
    try:
        made.start("server", "superlink.log", "flower-superlink", "--insecure", "--port", str(own))
        until(lambda: answers("127.0.0.1", own))
        for number, (port, node) in enumerate(zip(ports, nodes, strict=True)):
            config = " ".join(
                f"{name}={value}" if isinstance(value, int) else f"{name}='{value}'"
                for name, value in node.items()
            )
            made.start(
                f"node-{number}", f"node-{number}.log", "flower-supernode", "--insecure", "--superlink",
                f"127.0.0.1:{relay.port}", "--port", str(port), "--node-config", config,
            )  # fmt: skip
        yield made
    finally:
        _end(made)
        relay.close()


@contextmanager
def simulation(place: Path, clients: int, paths: Sequence[Path]) -> Iterator[Federation]:
    """Run a SuperLink that simulates clients; end all its processes.

    `flwr run` would start one itself, but gives up after 15 seconds, which a busy machine exceeds.

    Args: paths: where the app's modules are.
    """
    (own,) = _free_ports(1)
    made = Federation(place, own, paths, simulated=clients)
    try:
        made.start(
            "server", "superlink.log", "flower-superlink", "--insecure", "--simulation", "--port", str(own)
        )
        until(lambda: answers("127.0.0.1", own))
        yield made
    finally:
        _end(made)


def _end(made: Federation) -> None:
    roles = ["user", "server", *(path.name for path in made.place.glob("node-*") if path.is_dir())]
    for how in (signal.SIGTERM, signal.SIGKILL):
        left = [process for role in roles for process in made.processes_of(role)]
        for process in left:
            with suppress(ProcessLookupError):
                os.kill(process, how)
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline and any(made.processes_of(role) for role in roles):
            for child in made.processes:
                child.poll()
            time.sleep(0.1)
    for child in made.processes:
        child.wait()


def last_lines(federation: Federation) -> str:
    """Return the ends of all logs, for a test that fails."""
    said = ""
    for log in sorted(federation.place.glob("*.log")):
        text = re.sub(r"\x1b\[[0-9;]*m", "", log.read_text(encoding="utf-8", errors="replace"))
        said += f"--- {log.name}\n{text[-2000:]}\n"
    return said
