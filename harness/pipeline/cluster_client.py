"""The process that talks to a Dask cluster, as a program; `cluster` starts it and says what it is for.

Before it imports Dask's client, or hears anything of a cluster, it shuts itself off from all of its owner's
but its own directory, and the scheduler's port. Imports at the top start no thread, which would stay free.
"""

import os
import queue
import resource
import socket
import struct
import sys
from pathlib import Path
from typing import Annotated, Literal, Protocol

import msgspec
from msgspec import Meta, Struct

from fairshares.harness.bounds import Port
from fairshares.harness.engines.parties import sandbox
from fairshares.harness.system.processes import die_with_parent
from fairshares.harness.system.threads import ContextThread
from fairshares.protocols.json_values import JsonFields, JsonObject

HEAD = struct.Struct(">BQ")  # the head of a message: its kind, and how many bytes follow
# Kinds of messages to this process: about the run, and envelopes to open.
TOLD = 0
APART = 1
TOGETHER = 2
# Kinds of messages from it: how many threads the cluster has, what it found, and why it failed.
READY = 3
OPENED = 4
FAILED = 5
_TLS = ("ca-file", "client.cert", "client.key")  # files that Dask's configuration names


class ClusterRun(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The facts that this process is told first.

    Attributes:
        scheme: The protocol by which the scheduler is reached.
        host: The scheduler's machine.
        port: The scheduler's port.
        opener: The keys and rules by which workers open envelopes, as `Opener.to_json` describes them; it has
            secret keys.
    """

    scheme: Literal["tcp", "tls"]
    host: str
    port: Port
    opener: JsonFields

    def __repr__(self) -> str:
        """Return the scheduler's address, without keys."""
        return f"ClusterRun({self.scheme}://{self.host}:{self.port})"


class ClusterSize(Struct, frozen=True, forbid_unknown_fields=True):
    """The number of the workers' threads, which this process tells once the cluster is there."""

    threads: Annotated[int, Meta(ge=0, lt=10**5)]


class _Found(Protocol):
    """A result of the cluster, once it is there."""

    def result(self) -> object: ...


class Pipes:
    """The pipes between this process and the process that started it."""

    def __init__(self) -> None:
        self._questions = os.fdopen(os.dup(0), "rb")
        self._answers = os.fdopen(os.dup(1), "wb")
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, 0)
        os.dup2(nothing, 1)

    def received(self) -> tuple[int, bytes] | None:
        """Return the next message's kind and content, or None at the end."""
        head = self._questions.read(HEAD.size)
        if len(head) < HEAD.size:
            return None
        kind, length = HEAD.unpack(head)
        return kind, self._questions.read(length)

    def send(self, kind: int, content: bytes) -> None:
        """Send a message."""
        self._answers.write(HEAD.pack(kind, len(content)) + content)
        self._answers.flush()


def main() -> int:
    """Have a cluster open envelopes until no more come; return the exit code."""
    die_with_parent()
    os.umask(0o077)
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    pipes = Pipes()
    first = pipes.received()
    if first is None or first[0] != TOLD:
        return 1
    try:
        run = msgspec.json.decode(first[1], type=ClusterRun)
        _serve(pipes, _confined(run), run.opener)
    except Exception as error:  # noqa: BLE001  a cluster has Dask raise what it likes
        pipes.send(FAILED, (str(error) or type(error).__name__).encode()[:1000])
        return 1
    return 0


def _confined(run: ClusterRun) -> str:
    """Shut this process off, but for the scheduler; return the scheduler's numeric address."""
    port = run.port
    from dask import config  # reads its files, of the owner's own directories; starts no thread

    names = [f"distributed.comm.tls.{name}" for name in _TLS]
    files = [Path(found) for name in names if (found := config.get(name, None))]
    found = socket.getaddrinfo(run.host, port, type=socket.SOCK_STREAM)  # the sandbox asks no name server
    family, _, _, _, reached = found[0]
    numeric = f"[{reached[0]}]" if family == socket.AF_INET6 else str(reached[0])
    sandbox.confine(sandbox.SandboxReach(directory=Path.cwd(), reads=tuple(files), listens=(), calls=(port,)))
    sandbox.signal_only(os.getpid())
    return f"{run.scheme}://{numeric}:{port}"


def _serve(pipes: Pipes, address: str, described: JsonObject) -> None:
    from distributed import Client  # loads NumPy, which starts threads that would stay free

    from fairshares.harness.uploads.counting import opener_from_json, packed

    opener = opener_from_json(described)
    waiting: queue.SimpleQueue[_Found | None] = queue.SimpleQueue()
    # By msgpack results are plain bytes, which are not unpickled.
    with Client(address, serializers=["msgpack"], deserializers=["msgpack"]) as client:
        answering = ContextThread(target=_answer, args=(pipes, waiting), daemon=True)
        size = ClusterSize(sum(client.nthreads().values()))
        pipes.send(READY, msgspec.json.encode(size))
        answering.start()
        while (message := pipes.received()) is not None:
            kind, envelopes = message
            # Client.get_executor is not used: its futures may never end once the scheduler is gone.
            waiting.put(client.submit(packed, opener, envelopes, kind == APART, pure=False))
        waiting.put(None)
        answering.join()


def _answer(pipes: Pipes, waiting: "queue.SimpleQueue[_Found | None]") -> None:
    """Send what is found in the order in which it was asked for."""
    while (found := waiting.get()) is not None:
        try:
            content = found.result()
        except Exception as error:  # noqa: BLE001  as above
            pipes.send(FAILED, (str(error) or type(error).__name__).encode()[:1000])
            return
        if not isinstance(content, bytes):
            pipes.send(FAILED, b"a worker returned what is not bytes")
            return
        pipes.send(OPENED, content)


if __name__ == "__main__":
    sys.exit(main())
