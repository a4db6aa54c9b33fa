"""A coordinator of its own: asks hosts' real agents, by pipes, whatever a test wants, in whatever order.

It has none of the project's code for starting runs, so that it does nothing that only that code prevents.
"""

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from harness.inputs.shares.party import ANY
from tests.conftest import PROJECT
from tests.support.coordinators import have_port, now

LOOPBACK = "127.0.0.1"


class Refused(Exception):
    """An agent's refusal. Attributes: kind: the name of its error."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(f"{kind}: {text}")
        self.kind = kind


class Agent:
    """One host's agent, a process. Attributes: ended: what it said of how its party ended."""

    def __init__(self, host: Path, coordinator: str = "", project: Path = PROJECT, **variables: str) -> None:
        self.host = host
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "harness.hosts.agent", os.fspath(host), "", coordinator],
            env={**os.environ, "PYTHONPATH": os.fspath(project), **variables},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.ended: queue.Queue[dict[str, Any]] = queue.Queue()
        self._answers: queue.Queue[dict[str, Any] | None] = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()
        self._answers.get()  # that it is there

    def send(self, request: str, body: bytes = b"", **details: Any) -> None:
        """Ask without waiting for an answer."""
        self.write(json.dumps({"do": request, **details}).encode() + b"\n" + body)

    def write(self, line: bytes) -> None:
        """Send what may be no request."""
        assert self.process.stdin is not None
        self.process.stdin.write(line)
        self.process.stdin.flush()

    def answer(self) -> Any:
        """Wait for the next answer. Raises: Refused; EOFError: it has ended."""
        said = self._answers.get()
        if said is None:
            raise EOFError
        if "error" in said:
            raise Refused(*said["error"])
        return said["ok"]

    def ask(self, request: str, body: bytes = b"", **details: Any) -> Any:
        """Ask, and wait for the answer. Raises: as `answer`."""
        self.send(request, body, **details)
        return self.answer()

    def close(self) -> None:
        """End it, in the way that a connection ends that breaks."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                said = json.loads(line) if line.strip() else None
                if said is None:
                    self._beat()
                elif "ended" in said:
                    self.ended.put(said["ended"])
                else:
                    self._answers.put(said)
        self._answers.put(None)
        self.ended.put({})

    def _beat(self) -> None:
        with suppress(OSError, ValueError):  # it is being closed
            self.write(b"\n")


@contextmanager
def agents(hosts: Iterable[Path], **options: Any) -> Iterator[list[Agent]]:
    """Yield an agent for each host; they end with the block."""
    with ExitStack() as stack:
        made = []
        for host in hosts:
            made.append(Agent(host, **options))
            stack.callback(made[-1].close)
        yield made


def fed(hosts: Sequence[Agent], asked: dict[str, str]) -> None:
    """Propose a release, have hosts list what uploads they have, and add up what all take."""
    for one in hosts:
        one.ask("propose", asked=asked)
    lists = [one.ask("check_uploads", party=i, rules=ANY.to_json()) for i, one in enumerate(hosts)]
    for i, one in enumerate(hosts):
        for of, signed in enumerate(lists):
            if of != i:
                one.ask("take_list", of=of, signed=signed)
        one.ask("aggregate", party=i)


def agreed(
    hosts: Sequence[Agent], ports: Sequence[int], clients: Mapping[int, Any] | None = None
) -> dict[int, Any]:
    """Have hosts prepare the run and sign what it is. Args: clients: what each is told of who sends."""
    addresses = [(LOOPBACK, port) for port in ports]
    nonces = []
    for i, one in enumerate(hosts):
        sending = clients[i] if clients else None
        have_port(one.host, ports[i], sending["ports"][0] if sending else 0)
        facts = one.ask("prepare", run="0" * 32, party=i, addresses=addresses, clients=sending)
        nonces.append(facts["nonce"])
    started = now().isoformat()
    return {i: one.ask("agree", nonces=nonces, started=started) for i, one in enumerate(hosts)}


def ready(one: Agent) -> Any:
    """Start a host's party; return its certificate."""
    one.ask("start")
    return one.ask("certificate", seconds=600)


def begun(hosts: Sequence[Agent], signed: Mapping[int, Any], shown: Mapping[int, str] | None = None) -> None:
    """Start hosts' parties, the last of the model, and let them begin. Args: shown: others' certificates."""
    certificates = dict(shown or {})
    for one in hosts:
        certificates[len(certificates)] = ready(one)
    for one in hosts:
        one.send("go", agreed=signed, certificates=certificates)
    for one in hosts:
        one.answer()


def opened(hosts: Sequence[Agent]) -> list[dict[str, list[int]]]:
    """Return what each host signs that its party revealed, once it has ended; nothing where it failed."""
    ends = [one.ended.get() for one in hosts]
    return [json.loads(each["signed"]["said"])["outputs"] if "signed" in each else {} for each in ends]
