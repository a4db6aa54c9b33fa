"""Opening of uploads on a Dask cluster, whose owner is trusted with no more than these uploads.

Dask unpickles what schedulers and workers send, so they run what they like in the process that talks to them.
That process is one of its own, which shuts itself off from its owner's files and programs before it connects
(`cluster_client`). It gets the task's sealing keys and the envelopes, as workers do, and returns plain bytes.
"""

import importlib.util
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal, NoReturn
from urllib.parse import urlsplit

import msgspec

from fairshares.harness.engines.parties.sandbox import missing
from fairshares.harness.errors import ShareError, named
from fairshares.harness.pipeline import cluster_client
from fairshares.harness.pipeline.cluster_client import (
    APART,
    FAILED,
    HEAD,
    OPENED,
    READY,
    TOGETHER,
    TOLD,
    ClusterRun,
    ClusterSize,
)
from fairshares.harness.system.files import working_directory
from fairshares.harness.system.processes import kill_group
from fairshares.harness.uploads.counting import OpenedBatch, Opener, Opening, OpeningPool, unpacked
from fairshares.protocols.json_values import JsonFields

PROJECT = Path(__file__).resolve().parents[2]
USUAL_PORT = 8786  # the port of a scheduler
_LENGTH_BYTES = 8  # bytes of the length of the answers
_WORD_BYTES = 8
_MOST_TEXT = 1 << 10  # bytes of a message in words
_ANSWER_BYTES = 1 << 10  # bytes of an envelope's answer in JSON: a reason, or bounds of at most 192 bytes
# Variables that a client needs: others may hold the owner's secrets.
_VARIABLES = ("PATH", "HOME", "LD_LIBRARY_PATH", "TZ", "LANG")
_PREFIXES = ("LC_", "DASK_", "PYTHON")


@dataclass(frozen=True)
class Cluster:
    """A cluster at which envelopes are opened, given by its scheduler; `on_cluster` makes it.

    Workers see the sealing keys that the task names for this party, and the envelopes. They can return false
    values, which nobody finds out.
    Guarantees: whatever the scheduler and its workers send, no code of theirs reads or writes another file of
    this user's, or reaches another program of his, as far as `sandbox.missing` has nothing. What comes back
    is plain bytes of one length, or a text.
    [test: tests/harness/pipeline/test_hostile_cluster.py]

    Attributes:
        address: The scheduler's address, as it was given.
        scheme: The protocol by which the scheduler is reached.
        host: The scheduler's machine.
        port: The scheduler's port.
    """

    address: str
    scheme: Literal["tcp", "tls"]
    host: str
    port: int

    @contextmanager
    def opening(self, opener: Opener) -> Iterator[OpeningPool]:
        """Yield a pool that opens envelopes by an opener. Raises ShareError if the cluster fails."""
        with _client(self.address) as client:
            run = ClusterRun(
                scheme=self.scheme, host=self.host, port=self.port, opener=JsonFields(opener.to_json())
            )
            threads = client.begin(run)
            yield _OnCluster(client, opener, 2 * threads)


def on_cluster(address: str) -> Cluster:
    """Return the cluster whose scheduler has an address. Raises ShareError for an address that is none."""
    parts = urlsplit(address if "://" in address else f"tcp://{address}")
    try:
        host = parts.hostname
        port = parts.port or USUAL_PORT
    except ValueError:  # its port is none
        host = None
    if parts.scheme == "tcp" and host is not None:
        return Cluster(address, "tcp", host, port)
    if parts.scheme == "tls" and host is not None:
        return Cluster(address, "tls", host, port)
    raise ShareError(
        f"{named('cluster')} {address} is no address of a scheduler; name one such as "
        "tcp://10.0.0.1:8786, or tls://10.0.0.1:8786."
    )


def unprotected() -> str | None:
    """Return a sentence about what whoever runs a cluster can do here, None if nothing beyond its uploads."""
    lacks = missing()
    if not lacks:
        return None
    can = ", ".join(protection.value for protection in lacks)
    return (
        "This kernel cannot shut off the process that talks to the cluster: whoever runs the cluster can "
        f"{can}. Use a cluster of your own, or a newer kernel."
    )


class _Client:
    """The process that talks to a cluster, as this process sees it.

    It may run what others sent, so all that it says is bounded.
    """

    def __init__(self, address: str, process: subprocess.Popen[bytes]) -> None:
        self._address = address
        self._process = process

    def begin(self, run: ClusterRun) -> int:
        """Tell it about the run; return how many threads its cluster has, at least 1."""
        self.send(TOLD, msgspec.json.encode(run))
        try:
            size = msgspec.json.decode(self._received(READY, _MOST_TEXT), type=ClusterSize)
        except (msgspec.DecodeError, RecursionError):
            self._fail("it does not say how many threads it has")
        return max(1, size.threads)

    def send(self, kind: int, content: bytes) -> None:
        """Send it a message."""
        pipe = self._pipe(self._process.stdin)
        try:
            pipe.write(HEAD.pack(kind, len(content)))
            pipe.write(content)
            pipe.flush()
        except BrokenPipeError:  # it has said why
            self._received(OPENED, _MOST_TEXT)
            self._fail("its client has ended")

    def opened(self, most: int) -> bytes:
        """Return the content of the envelopes that were sent first of those not asked for yet."""
        return self._received(OPENED, most)

    def _received(self, kind: int, most: int) -> bytes:
        pipe = self._pipe(self._process.stdout)
        head = pipe.read(HEAD.size)
        if len(head) < HEAD.size:
            self._fail("its client has ended")
        said, length = HEAD.unpack(head)
        if said == FAILED:
            self._fail(pipe.read(min(length, _MOST_TEXT)).decode(errors="replace"))
        if said != kind or length > most:
            self._fail("its client says what does not belong there")
        content = pipe.read(length)
        if len(content) < length:
            self._fail("its client has ended")
        return content

    def _fail(self, why: str) -> NoReturn:
        shown = "".join(letter if letter.isprintable() else " " for letter in why)
        raise ShareError(
            f"The cluster {self._address} does not answer, or lost its workers: {shown}; see that it runs, "
            "and go on by the same command."
        )

    @staticmethod
    def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
        assert pipe is not None, "it was started with pipes"
        return pipe


@dataclass(frozen=True)
class _SentBatch:
    """Envelopes that were sent to a cluster.

    Attributes:
        client: The process that talks to the cluster.
        opener: The opener that the cluster has.
        number: The number of the envelopes.
        apart: Whether each upload's values come apart.
    """

    client: _Client
    opener: Opener
    number: int
    apart: bool

    def result(self) -> OpenedBatch:
        """Return the cluster's results. Batches are asked for in the order in which they were sent."""
        content = self.client.opened(self._most_bytes)
        return unpacked(content, self.opener, self.number, self.apart)

    @property
    def _most_bytes(self) -> int:
        """The most bytes that the cluster may answer: the answers in JSON, with their length, and values."""
        rows = self.number if self.apart or not self.opener.summed else 1
        columns, _, words = self.opener.nothing.values.shape
        most: int = _LENGTH_BYTES + _ANSWER_BYTES * self.number + _WORD_BYTES * columns * rows * words
        return most


@dataclass(frozen=True)
class _OnCluster:
    """Opens envelopes on a cluster."""

    client: _Client
    opener: Opener
    most_waiting: int

    def start(self, envelopes: bytes, apart: bool) -> Opening:
        number = len(envelopes) // self.opener.task.envelope_bytes(self.opener.party)
        self.client.send(APART if apart else TOGETHER, envelopes)
        return _SentBatch(self.client, self.opener, number, apart)


@contextmanager
def _client(address: str) -> Iterator[_Client]:
    """Start a process that talks to a cluster; end it afterwards, with all that it started."""
    if importlib.util.find_spec("distributed") is None:
        raise ModuleNotFoundError("No module named 'distributed'", name="distributed")
    kept = {
        name: value for name, value in os.environ.items() if name in _VARIABLES or name.startswith(_PREFIXES)
    }
    with working_directory(Path(tempfile.gettempdir())) as own:
        process = subprocess.Popen(
            [sys.executable, "-m", cluster_client.__name__],
            cwd=own,
            env={**kept, "PYTHONPATH": str(PROJECT), "TMPDIR": str(own)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # a terminal would take what others have it print
            start_new_session=True,
        )
        try:
            yield _Client(address, process)
        finally:
            kill_group(process)
            process.wait()
            for pipe in (process.stdin, process.stdout):
                with suppress(BrokenPipeError):
                    _Client._pipe(pipe).close()
