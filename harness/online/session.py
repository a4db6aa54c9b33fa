"""The public facts on which parties and clients of a run agree before it."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from math import gcd
from typing import Protocol

from fairshares.harness.charged import Permission
from fairshares.harness.online.gateway_config import GatewayConfig
from fairshares.harness.system.documents import Refusal, as_type, parse_json
from fairshares.harness.uploads.signatures import Signed, is_signed
from fairshares.protocols.json_values import JsonValue

MAX_CONNECTIONS = 200  # clients of a run; with four parties their connections are below most limits on files
# The parts of a run's time limit in which clients may come, and may send their values. After them the parties
# go on without absent clients.
_TO_COME = 0.8
_TO_SEND = 0.1
_MOST_FAILURES = 10  # one client of so many may break off after it could detect a cheating party


@dataclass(frozen=True)
class Upload:
    """The values that one client sends.

    Attributes:
        values: The number of its values.
        certificate: The certificate (PEM) by which gateways know the client.
    """

    values: int
    certificate: str


@dataclass(frozen=True)
class Server:
    """The address of a party's gateway, and the certificate (PEM) of its key for this run.

    On a host `signed` is the host's statement before the run, which names that certificate, by its owner's
    key. On one machine nobody signs.
    """

    host: str
    port: int
    certificate: str
    signed: Signed | None = None

    @property
    def owner(self) -> str:
        """The certificate (PEM) that clients know: the owner's on a host, or else the one for this run."""
        if self.signed is None:
            return self.certificate
        return self.signed.certificate


@dataclass(frozen=True)
class _RunAhead:
    """The fields of a host's statement before a run that concern clients; docs/reference/files.md has all."""

    nonces: list[str]
    party: int
    run_certificate: str


_INTENT = "intent"  # the kind of a host's statement before a release


def check_servers(servers: Sequence[Server], refusal: Refusal) -> None:
    """Refuse servers of hosts unless the owner of each party signed its certificate for the same run.

    Servers on one machine, of which no owner signed anything, are accepted.

    Guarantees: each owner's key signed the server's certificate for that party, and for a run with the same
    nonces of all hosts. So a certificate of an earlier run, of another party or of a benchmark is refused.
    [test: tests/harness/online/test_session.py]

    Args:
        servers: The parties' gateways, by party.
        refusal: The error that is raised.
    """
    statements: list[_RunAhead] = []
    for party, server in enumerate(servers):
        if server.signed is None:
            continue
        called = f"what it has of party {party}"
        if not is_signed(server.signed, _INTENT):
            refusal.say(f"{called} has no signature of that party's owner")
        said = as_type(_RunAhead, parse_json(server.signed.said.encode(), refusal), refusal, more=True)
        if said.party != party:
            refusal.say(f"{called} was signed for another party")
        if said.run_certificate != server.certificate:
            refusal.say(f"{called} was signed for another certificate")
        statements.append(said)
    if not statements:
        return
    if len(statements) != len(servers):
        refusal.say("the owners of some parties signed nothing")
    if any(statement.nonces != statements[0].nonces for statement in statements):
        refusal.say("the owners of its parties signed different runs")


class Clients(Protocol):
    """Clients that send to the parties of one run, as seen by whoever runs the parties."""

    def begin(self, servers: Sequence[Server], permission: Permission, /) -> AbstractContextManager[None]:
        """Return a context that is entered while the parties run.

        Args:
            servers: The run's parties, as clients find them.
            permission: The permission by which the parties compute, and clients of this process send.
        """
        ...


class StartedElsewhere(Clients):
    """Clients that another process starts."""

    def begin(
        self,
        servers: Sequence[Server],  # noqa: ARG002
        permission: Permission,  # noqa: ARG002
    ) -> AbstractContextManager[None]:
        return nullcontext()


ELSEWHERE = StartedElsewhere()


@dataclass(frozen=True)
class ClientInputs:
    """How clients take part in one run.

    Attributes:
        uploads: The values that each client sends.
        terms: The terms with which every client agrees.
        clients: The clients.
    """

    uploads: tuple[Upload, ...]
    terms: dict[str, JsonValue]
    clients: Clients = ELSEWHERE

    @property
    def parts(self) -> int:
        """The number of parts that are checked: the fewest of equal lengths, each within one upload."""
        values = [upload.values for upload in self.uploads]
        return sum(values) // gcd(*values)

    def gateway(self, host: str, port: int, machine_port: int, timeout_s: float) -> GatewayConfig:
        """Return the configuration of a party's gateway.

        Args:
            host: The address at which the gateway listens.
            port: The port at which it listens.
            machine_port: The port at which the party's virtual machine waits for it.
            timeout_s: The run's time limit in seconds.
        """
        return GatewayConfig(
            host=host,
            port=port,
            machine_port=machine_port,
            uploads=tuple(upload.values for upload in self.uploads),
            certificates=tuple(upload.certificate for upload in self.uploads),
            terms=self.terms,
            seconds=timeout_s * _TO_COME,
            seconds_to_send=timeout_s * _TO_SEND,
            most_failures=max(1, len(self.uploads) // _MOST_FAILURES),
        )
