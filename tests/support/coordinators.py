"""Hosts for tests, and what a coordinator asks of them: by the agent's requests, in this process or by pipes.

A coordinator by pipes has none of the code for starting runs: that prevents nothing that it may try.
"""

import json
import os
import queue
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any, TypeVar
from unittest.mock import patch

import numpy as np
from msgspec import to_builtins

from fairshares.harness.engines.parties.certificates import make_key
from fairshares.harness.engines.parties.handle import PartyState
from fairshares.harness.engines.parties.supervisor import free_ports
from fairshares.harness.engines.registry import engine_of, engines
from fairshares.harness.errors import HostUnfitError
from fairshares.harness.hosts import fleet, host_keys, remote_parties, runner
from fairshares.harness.hosts.agent import Work
from fairshares.harness.hosts.connection import checked
from fairshares.harness.hosts.frames import AnswerFrame, EndFrame, ErrorFrame, read_frame
from fairshares.harness.hosts.inventory import Host
from fairshares.harness.hosts.listed_uploads import Listed
from fairshares.harness.hosts.messages import (
    Aggregate,
    Aggregated,
    Agree,
    CheckUploads,
    Go,
    Message,
    PartyEnd,
    Prepare,
    PrepareInvited,
    Propose,
    ReadList,
    Sending,
    TakeList,
    answer_type,
    check_order,
)
from fairshares.harness.hosts.party_run import Ready, RunState
from fairshares.harness.hosts.policy import LEDGER, POLICY_FILE
from fairshares.harness.hosts.remote_parties import ConnectedHosts
from fairshares.harness.hosts.runner import HostsRunner, ProposedRelease
from fairshares.harness.hosts.runs import ReleaseOfUploads
from fairshares.harness.hosts.signed_results import sign
from fairshares.harness.inputs.record_schema import RecordDomain
from fairshares.harness.inputs.records import ClientRecords
from fairshares.harness.privacy.ledger.entries import Ledger
from fairshares.harness.privacy.ledger.populations import Status
from fairshares.harness.releases.registry import REQUESTS
from fairshares.harness.releases.weights.request import WeightsRequest
from fairshares.harness.releases.weights.spec import PI_RW
from fairshares.harness.request.request import Request
from fairshares.harness.security_models import SecurityModel, get_model
from fairshares.harness.system.documents import Refusal, number_as_text
from fairshares.harness.system.files import sha256_of
from fairshares.harness.uploads.lists import UploadReport, _read_list
from fairshares.harness.uploads.signatures import Signed
from fairshares.protocols.spec import SHARES, InputPath
from tests.conftest import PROJECT
from tests.support.sharing import share, to_hosts

MODEL = get_model("mpyc")
DOMAIN = RecordDomain(("a", "b"), ("0", "1"), 10)
ANY_PORT = "port = 0\n"
RULE = ANY_PORT + '[[population]]\nname = "loans"\nepsilon = 4\ndelta = "2^-20"\nepsilon_per_run = 2\n'


def asked(task: str = "weights", **changes: Any) -> dict[str, str]:
    """Return what a coordinator asks for: weights of the loans at ε = 1 unless said otherwise.

    Args: changes: of the request's JSON; None for a field that is left out.
    """
    request = REQUESTS.get(task, WeightsRequest)(epsilon=1, security=MODEL, population="loans")
    fields = {**request.to_json(), "task": task, **changes}
    return {name: text for name, text in fields.items() if text is not None}


def records(rows: int = 1) -> ClientRecords:
    """Return one client's."""
    zeros = np.zeros(rows, dtype=np.int64)
    return ClientRecords(DOMAIN, np.array(["me"], dtype=object), zeros, zeros, zeros)


def make_hosts(
    directory: Path,
    policy: str = RULE,
    clients: int = 1,
    model: SecurityModel = MODEL,
    path: InputPath = SHARES,
) -> list[Path]:
    """Return hosts' directories: set up, with each its shares of the same clients, and this policy."""
    hosts = [directory / f"host-{i}" for i in range(model.parties)]
    own = [host_keys.make_keys(host, i, renew=False) for i, host in enumerate(hosts)]
    certificates = {name: {i: texts[name] for i, texts in enumerate(own)} for name in engines()}
    for i, host in enumerate(hosts):
        host_keys.pin(host, i, certificates)
        write_rules(host, policy)
    form = PI_RW.input_forms["split"].by(path)
    for _ in range(clients):
        share(records(), form, model, directory / "shares")
    if clients:
        to_hosts(directory / "shares", hosts)
    return hosts


def write_rules(host: Path, policy: str) -> None:
    """Write a host's policy, as its owner would."""
    (host / POLICY_FILE).write_text(policy)
    (host / POLICY_FILE).chmod(0o600)


def run_of(work: Work) -> Any:
    """Return the state of a host's work, which a test knows and looks into."""
    return work.state


def nonce_of(work: Work) -> str:
    """Return the nonce of a host's run."""
    assert isinstance(work.state, RunState)
    return work.state.place.nonce


def nonces_of(work: Work) -> list[str]:
    """Return the nonces by which a host agrees to its prepared run, as if all hosts said them."""
    state = run_of(work)
    heard = state.planned.heard if isinstance(state.planned, ReleaseOfUploads) else {}
    own = {state.prepared.party: nonce_of(work)}
    said = {party: upload_list.nonce for party, upload_list in heard.items()} | own
    return [said.get(party, f"{party:032}") for party in range(state.place.model.parties)]


def stand_in(work: Work, process: Any = None) -> Any:
    """Have a process, of which nothing runs, be the ready party of a prepared run; return it."""
    state = run_of(work)
    made: Any = process or Party()
    made.number = state.prepared.party
    certificate = run_certificate(state.prepared.party, state.place.model)
    work.enter(Ready(state.place, state.planned, state.prepared, made, certificate))
    return made


def to_prepare(party: int, piece: str | None = None, parties: int = MODEL.parties) -> Prepare:
    """Return what has a host prepare its party, of which nobody is reached."""
    addresses = [("127.0.0.1", 0)] * parties
    return Prepare(run="0" * 32, party=party, addresses=addresses, piece=piece)


def to_prepare_invited(party: int, clients: Sending, parties: int = MODEL.parties) -> PrepareInvited:
    """Return what has a host prepare its party, to which clients send."""
    addresses = [("127.0.0.1", 0)] * parties
    return PrepareInvited(run="0" * 32, party=party, addresses=addresses, clients=clients)


def to_agree(nonces: Sequence[str], attempts: int = 0, heads: Sequence[str] = ()) -> Agree:
    """Return what has a host sign a run that begins now."""
    return Agree(nonces=list(nonces), started=now(), attempts=attempts, heads=list(heads))


def to_go(signed: Mapping[str, Signed]) -> Go:
    """Return what has a host let its party begin, by what hosts signed."""
    return Go(agreed=dict(signed))


class Coordinator:
    """A connection to a host's agent, in this process. Attributes: work: what answers."""

    def __init__(self, host: Path, stack: ExitStack, name: str = "") -> None:
        self.work = Work(host, stack, name)

    def go(self, hosts: list[Path], **others: Any) -> None:
        """Let the prepared party begin, with what the other hosts sign. Args: others: they sign otherwise."""
        answered(self.work, to_go(self.signed(hosts, **others)))

    def signed(self, hosts: list[Path], **others: Any) -> dict[str, Signed]:
        """Have the host sign the run; return what all hosts sign. Args: others: they sign otherwise."""
        if not isinstance(self.work.state, Ready):
            stand_in(self.work)
        party = run_of(self.work).prepared.party
        signed = {str(party): answered(self.work, to_agree(nonces_of(self.work)))}
        for i, host in enumerate(hosts):
            own = host / "keys" / "embedded" / f"P{i}.pem"
            if i != party:
                said = replace(run_of(self.work).intent, party=i, run_certificate=run_certificate(i))
                signed[str(i)] = sign(replace(said, **others), own)
        return signed

    def tell(self, hosts: list[Path], run: dict[str, str], party: int = 0) -> None:
        """Have all hosts list their uploads for a proposed run, and tell this one the others' lists."""
        answered(self.work, CheckUploads(party=party))
        self.hear(hosts, run, party)

    def hear(self, hosts: list[Path], run: dict[str, str], party: int) -> None:
        """Have all other hosts list their uploads, and tell this one."""
        for i, host in enumerate(hosts):
            if i != party:
                with ExitStack() as stack:
                    other = Coordinator(host, stack).work
                    other.propose(Propose(asked=run))
                    signed, at = answered(other, CheckUploads(party=i)), 0
                    assert signed is not None
                    while piece := answered(other, ReadList(at=at)):
                        answered(self.work, TakeList(lister=i, signed=signed, at=at, piece=piece))
                        at += len(piece)

    def aggregated(self, run: dict[str, str], party: int = 0) -> Aggregated:
        """Have the host add its shares up for a run, by all hosts' lists; return what it says of that."""
        self.work.propose(Propose(asked=run))
        self.tell(sorted(self.work.host.directory.parent.glob("host-*")), run, party)
        return answered(self.work, Aggregate(party=party))

    def prepared(self, run: dict[str, str], party: int = 0) -> Work:
        """Return the host's work once a party is ready to start. Raises: whatever the host refuses by."""
        self.aggregated(run, party)
        answered(self.work, to_prepare(party))
        return self.work


@cache
def run_certificate(party: int, model: SecurityModel = MODEL) -> str:
    """Return a certificate of a party's key for a run."""
    with tempfile.TemporaryDirectory() as place:
        return make_key(Path(place), f"P{party}", engine_of(model).common_name(party)).read_text()


class Party:
    """Takes the place of a process; says whether it was let go. Attributes: peers: parties that it met."""

    number, gone, peers = 0, False, tuple[int, ...]()

    def go(self, _certificates: object) -> None:
        self.gone = True

    def met(self) -> dict[int, str]:
        return dict.fromkeys(self.peers, "")

    def state(self) -> PartyState:
        return PartyState(("OUT counts 1 2 3 4",))

    def exit_code(self) -> int | None:
        return -9

    def kill(self) -> None: ...

    def close(self) -> None: ...


def spent(host: Path) -> list[tuple[str, Fraction, Status]]:
    """Return what a host's ledger has: of whom, ε, and what became of the run."""
    return [
        (population.name, charge.exact.epsilon, charge.status)
        for population in Ledger(host / LEDGER).populations()
        for charge in population.charges
    ]


def ran(hosts: list[Path], party: int = 0, found: Party | None = None, **changes: Any) -> Party:
    """Prepare a party on its host and let it go, of which nothing runs; return it."""
    with ExitStack() as stack:
        coordinator = Coordinator(hosts[party], stack)
        return let_go(coordinator, coordinator.prepared(asked(**changes), party), hosts, found)


def let_go(coordinator: Coordinator, work: Work, hosts: list[Path], found: Party | None = None) -> Party:
    made = found or Party()
    made.number = run_of(work).prepared.party
    stand_in(work, made)
    coordinator.go(hosts)
    return made


def listed(work: Work, party: int = 0) -> UploadReport:
    """Return what a host says, signed, of its uploads."""
    signed = answered(work, CheckUploads(party=party))
    assert signed is not None and isinstance(work.state, Listed)
    own = work.state.list_of(party)
    assert json.loads(signed.said)["digest"] == work.state.own.digest == sha256_of(own)
    return _read_list(own)


def have_port(host: Path, port: int, client_port: int | None = None) -> None:
    """Have a host's owner choose where its party listens, and where its gateway does."""
    text = re.sub("^(client_)?port = .*\n", "", (host / POLICY_FILE).read_text(), flags=re.MULTILINE)
    of_clients = "" if client_port is None else f"client_port = {client_port}\n"
    write_rules(host, f"port = {port}\n{of_clients}{text}")


def now() -> datetime:
    """Return the time by which a coordinator says that a run starts."""
    return datetime.now(UTC)


LOOPBACK = "127.0.0.1"


class Refused(Exception):
    """An agent's refusal. Attributes: kind: the name of its error."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(f"{kind}: {text}")
        self.kind = kind


NO_FRAME = Refusal(HostUnfitError, "What an agent says", "a frame", "correct it")


class Agent:
    """One host's agent, a process. Attributes: ended: what it said of how its party ended."""

    def __init__(self, host: Path, coordinator: str = "", project: Path = PROJECT, **variables: str) -> None:
        self.host = host
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "fairshares.harness.hosts.agent", os.fspath(host), "", coordinator],
            env={**os.environ, "PYTHONPATH": os.fspath(project), **variables},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.ended: queue.Queue[dict[str, Any]] = queue.Queue()
        self._answers: queue.Queue[AnswerFrame | ErrorFrame | None] = queue.Queue()
        self._is_there = threading.Event()
        threading.Thread(target=self._listen, daemon=True).start()
        self._is_there.wait()

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
        if isinstance(said, ErrorFrame):
            raise Refused(said.error, said.text)
        return said.answer

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
        try:
            with self.process.stdout as lines:
                for line in lines:
                    self._hear(line)
        finally:
            self._is_there.set()
            self._answers.put(None)
            self.ended.put({})

    def _hear(self, line: bytes) -> None:
        if not line.strip():
            self._beat()
            return
        if not self._is_there.is_set():
            self._is_there.set()  # the first line says no more
            return
        frame = read_frame(json.loads(line), NO_FRAME)
        if isinstance(frame, EndFrame):
            self.ended.put(as_sent(frame.end))
        else:
            self._answers.put(frame)

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
    lists = [one.ask("check_uploads", party=i) for i, one in enumerate(hosts)]
    for i, one in enumerate(hosts):
        for of, signed in enumerate(lists):
            if of != i:
                piece = hosts[of].ask("read_list", at=0)
                one.ask("take_list", lister=of, signed=signed, at=0, piece=piece)
    for i, one in enumerate(hosts):
        one.ask("aggregate", party=i)


def agreed(
    hosts: Sequence[Agent], ports: Sequence[int], clients: Mapping[int, Any] | None = None
) -> dict[int, Any]:
    """Have hosts prepare the run, start their parties, and sign what it is.

    Args: clients: what each is told of who sends.
    """
    addresses = [(LOOPBACK, port) for port in ports]
    nonces = []
    for i, one in enumerate(hosts):
        message: dict[str, Any] = {"run": "0" * 32, "party": i, "addresses": addresses}
        if clients:
            have_port(one.host, ports[i], clients[i]["ports"][0])
            facts = one.ask("prepare_invited", **message, clients=clients[i])
        else:
            have_port(one.host, ports[i])
            facts = one.ask("prepare", **message)
        nonces.append(facts["nonce"])
    for one in hosts:
        ready(one)
    started = now().isoformat()
    return {i: one.ask("agree", nonces=nonces, started=started) for i, one in enumerate(hosts)}


def ready(one: Agent) -> Any:
    """Start a host's party; return its certificate."""
    one.ask("start")
    return one.ask("certificate", seconds=600)


def begun(hosts: Sequence[Agent], signed: Mapping[int, Any]) -> None:
    """Let hosts' parties begin, which are ready."""
    for one in hosts:
        one.send("go", agreed=signed)
    for one in hosts:
        one.answer()


def opened(hosts: Sequence[Agent]) -> list[dict[str, list[int]]]:
    """Return what each host signs that its party revealed, once it has ended; nothing where it failed."""
    ends = [one.ended.get() for one in hosts]
    return [json.loads(end["signed"]["said"])["outputs"] if end.get("signed") else {} for end in ends]


After = Callable[[str, Work, Any], Any]  # of a request, the host's work and its answer: what is answered
T = TypeVar("T")


class Loopback:
    """Stands for the connection to a host's agent. Args: after: changes what it answers, or what it has."""

    lost = False

    def __init__(self, host: Host, stack: ExitStack, after: After) -> None:
        self.host, self._after = host, after
        self.work = Work(Path(host.directory), stack)
        self._ended: PartyEnd | None = None

    def ask(self, message: Message[T]) -> T:
        answer = answered(self.work, message)
        said = as_sent(self._after(message.name(), self.work, as_sent(answer)))
        return checked(answer_type(type(message)), said, self.host, message.name())

    def party_end(self) -> PartyEnd | None:
        if self.work.is_running:
            self._ended = self.work.ended()
        return self._ended

    def forget_end(self) -> None:
        self._ended = None


def as_sent(answer: object) -> Any:
    """Return an answer as JSON has it."""
    return json.loads(json.dumps(to_builtins(answer, enc_hook=number_as_text)))


def answered(work: Work, message: Message[T]) -> T:
    """Return a host's answer to a message that it gets in its state, whatever its policy."""
    check_order(work.state, type(message))
    fields = as_sent(message)
    answer: T = work.handlers[fields.pop("do")].answer(fields)  # type: ignore[assignment]
    return answer


def honest(_request: str, _work: Work, answer: Any) -> Any:
    return answer


@contextmanager
def hosts_runner(
    directories: Sequence[Path],
    model: SecurityModel,
    asked: Request,
    after: dict[int, After] | None = None,
) -> Iterator[HostsRunner]:
    """Yield what runs a model on hosts of this process, which were asked for a release.

    Args: directories: of the hosts, set up; after: by party, see `Loopback`.
    """
    with ExitStack() as stack, free_ports(model.parties) as ports:
        hosts = [
            Host(party=i, address="127.0.0.1", directory=str(directory), project="/", port=ports[i])
            for i, directory in enumerate(directories)
        ]
        for host in hosts:
            have_port(Path(host.directory), host.port)
        connections: list[Any] = [
            Loopback(host, stack, (after or {}).get(host.party, honest)) for host in hosts
        ]
        for one in connections:
            one.work.propose(Propose(asked=asked.to_json()))
        # One after the other, as these hosts have one process, and one cache of programs, in common.
        for module in (runner, remote_parties, fleet):
            stack.enter_context(
                patch.object(module, "at_once", lambda do, hosts_of: [do(one) for one in hosts_of])
            )
        yield HostsRunner(ProposedRelease(ConnectedHosts(model, connections), asked))
