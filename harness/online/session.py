"""The public facts on which parties and clients of a run agree before it."""

import json
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from math import gcd

from fairshares.harness.online.gateway_config import GatewayConfig
from fairshares.harness.system.documents import Refusal, as_type, parse_json
from fairshares.harness.uploads.signatures import Signed, is_signed
from fairshares.protocols.json_values import JsonValue

MAX_CONNECTIONS = 200  # of a run's clients, one each; to four parties, below most limits on files
_TO_COME, _TO_SEND = 0.8, 0.1  # of the run's time limit; then parties go on without absent clients


@dataclass(frozen=True)
class Upload:
    """One connection's number of values, and its certificate (PEM)."""

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
        """The certificate (PEM) that clients know: its owner's or, on one machine, that of the run."""
        return self.certificate if self.signed is None else self.signed.certificate


@dataclass(frozen=True)
class _RunAhead:
    """The fields of a host's statement before a run that concern clients; docs/reference/files.md has all."""

    nonces: list[str]
    party: int
    run_certificate: str


_INTENT = "intent"  # the kind of a host's statement before a release


def check_servers(servers: Sequence[Server], refusal: Refusal) -> None:
    """Refuse servers of hosts unless each one's certificate is that of its party's key in one run.

    Guarantees: each owner's key signed the server's certificate, for that party, and for a run with the same
    nonces of all hosts. So no certificate of an earlier run, of another party or of a benchmark stands in.
    [test: tests/harness/online/test_session.py]

    Raises the refusal's error.
    """
    statements = []
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


Begin = Callable[[Sequence[Server]], AbstractContextManager[None]]


def started_elsewhere(servers: Sequence[Server]) -> AbstractContextManager[None]:  # noqa: ARG001
    """Start no client: another process starts them."""
    return nullcontext()


@dataclass(frozen=True)
class ClientInputs:
    """How clients take part in one run, on `terms` with which every client agrees.

    `begin` is called with the parties' servers; its context is entered while the parties run.
    """

    uploads: tuple[Upload, ...]
    terms: dict[str, JsonValue]
    begin: Begin = started_elsewhere

    @property
    def parts(self) -> int:
        """Number of equally long parts that are checked: the fewest with each within one upload."""
        values = [upload.values for upload in self.uploads]
        return sum(values) // gcd(*values)

    def gateway(self, host: str, port: int, machine_port: int, timeout_s: float) -> GatewayConfig:
        """Return a party's gateway's configuration; its virtual machine listens at `machine_port`."""
        return GatewayConfig(
            host=host,
            port=port,
            machine_port=machine_port,
            uploads=tuple(upload.values for upload in self.uploads),
            certificates=tuple(upload.certificate for upload in self.uploads),
            terms=json.dumps(self.terms),
            seconds=timeout_s * _TO_COME,
            seconds_to_send=timeout_s * _TO_SEND,
            # A tenth of the clients may break off after they could detect a cheating party.
            most_failures=max(1, len(self.uploads) // 10),
        )
