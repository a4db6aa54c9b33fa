"""The client's side: it learns its masks from the parties, checks them, and sends its values masked."""

import asyncio
import errno
import json
import os
import secrets
import socket
import ssl
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from fairshares.harness.charged import Chargeable, Charged, Permission
from fairshares.harness.errors import (
    ClientError,
    MaskError,
    OptionError,
    ShareError,
    WriteError,
    cannot,
    named,
)
from fairshares.harness.online import masks, messages as wire
from fairshares.harness.online.messages import Announced, Channel, FirstMessage
from fairshares.harness.online.session import Server, check_servers
from fairshares.harness.system.documents import DECLARATION, Refusal, as_type, read_json
from fairshares.harness.system.files import create_file, scratch_directory, working_directory
from fairshares.harness.system.places import place_fault
from fairshares.harness.system.signals import uninterrupted
from fairshares.harness.system.threads import ContextPool
from fairshares.protocols.arrays import Words
from fairshares.protocols.circuits.clients import CHECKS, MOST_CHECKS
from fairshares.protocols.json_values import JsonFields, JsonObject

T = TypeVar("T")


@dataclass(frozen=True)
class Sender:
    """One client that sends.

    Attributes:
        number: The client's number in the run.
        certificate: The file of its certificate (PEM), with the key beside it.
        values: The client's values, of shape (n,).
    """

    number: int
    certificate: Path
    values: np.typing.NDArray[np.int64]


@asynccontextmanager
async def ready_to_send(
    sender: Sender, servers: Sequence[Server], expected: JsonObject, seconds: float
) -> AsyncIterator["ReadyToSend"]:
    """Connect a client to the running parties, check its masks, and yield it, ready to send its values.

    Guarantees: nothing that depends on the values is sent unless all parties showed their certificates, agree
    on the `expected` terms, and passed the check of the masks, and the sending was charged.
    [test: tests/harness/online/test_client.py]

    Args:
        sender: The client.
        servers: The parties' gateways, by party.
        expected: The terms that the client was told beforehand.
        seconds: The time for all of this and for the block.

    Raises:
        ClientError: A party is absent, ended the connection, leaves this client out, or has other terms; or
            the time is over.
        MaskError: The masks fail the check; the parties are told.
    """
    conversation = _Conversation(sender, servers)
    try:
        async with asyncio.timeout(seconds):
            try:
                with _said_of_parties(sender):
                    await conversation.connect()
                    own_masks = await conversation.checked_masks(expected)
                yield ReadyToSend(sender, conversation, own_masks)
            finally:
                await conversation.close()
    except TimeoutError:
        where = "".join(
            f" Party {party} did not answer at {server.host}:{server.port}."
            for party, server in conversation.unreached.items()
        )
        raise ClientError(
            f"Client {sender.number}: the parties were not ready for its values within {seconds:g} s.{where}"
        ) from None


@contextmanager
def _said_of_parties(sender: Sender) -> Iterator[None]:
    """Say of faults of connections in the block what they tell of the parties, as ClientError."""
    try:
        yield
    except (OSError, asyncio.IncompleteReadError):
        raise ClientError(
            f"Client {sender.number}: a party refused or ended the connection; is this client part of the "
            "run, has it not sent before, and do the parties still run?"
        ) from None
    except wire.OtherProtocolError:
        raise _other_terms(sender, "protocol") from None
    except (wire.WrongLengthError, ValueError):
        raise ClientError(f"Client {sender.number}: a party speaks another protocol or version.") from None


class ReadyToSend(Chargeable):
    """A client whose masks fit: it can send its values, and has sent nothing that depends on them."""

    def __init__(self, sender: Sender, conversation: "_Conversation", own_masks: Words) -> None:
        self._sender = sender
        self._conversation = conversation
        self._own_masks = own_masks

    async def send(self, charged: Charged) -> int:
        """Send the values, masked, on the charge that was made for this; return the bytes sent to each party.

        Reveals: to each party the values plus masks that are uniform unless all parties collude.

        Raises:
            LedgerError: The charge was made for something else, or these values were sent before.
            ClientError: A party ended the connection, leaves this client out, or confirms nothing.
        """
        return await self._send(charged.begin(self))

    async def _send(self, permission: Permission) -> int:
        """Send the values by the permission of their own charge, or of a charge for all clients of a run."""
        del permission  # it is what its type says
        with _said_of_parties(self._sender):
            return await self._conversation.send(self._own_masks)


class _Conversation:
    """A client's connections to all parties, over which it sends its values once."""

    def __init__(self, sender: Sender, servers: Sequence[Server]) -> None:
        """Prepare to connect.

        Args:
            sender: The client.
            servers: The parties' gateways, by party.
        """
        self._sender = sender
        self._servers = servers
        # TLS accepts any party's certificate. `_first_message_of` compares it with that of the wanted party.
        trusted = "".join(server.certificate for server in servers)
        self._certificate = sender.certificate.read_text()
        self._context = wire.context(ssl.PROTOCOL_TLS_CLIENT, sender.certificate, trusted)
        self._channels: list[Channel] = []
        self._first_messages: dict[int, FirstMessage] = {}  # those of connected parties, by party

    @property
    def unreached(self) -> dict[int, Server]:
        """The gateways of the parties that have not told their terms, by party."""
        return {
            party: server for party, server in enumerate(self._servers) if party not in self._first_messages
        }

    async def connect(self) -> None:
        """Connect to all parties at once, and take their terms; raises as `_connect_to`."""
        await _all_or_none([self._connect_to(party, server) for party, server in enumerate(self._servers)])

    async def _connect_to(self, party: int, server: Server) -> None:
        """Connect to a party, and take its terms.

        A gateway that is busy with strangers may end a connection before it has told its terms. Then the
        client connects again.

        Raises:
            ClientError: The party's machine cannot be reached.
            OSError: The party refuses the connection, or shows another certificate.
        """
        try:
            message = None
            while message is None:
                message = await self._first_message_of(server)
            self._first_messages[party] = message
        except OSError as error:
            unreachable = {errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ETIMEDOUT}
            if error.errno not in unreachable | {socket.EAI_NONAME, socket.EAI_AGAIN}:
                raise
            raise ClientError(
                f"Client {self._sender.number}: cannot reach party {party} at {server.host}:{server.port}: "
                f"{error.strerror}."
            ) from None

    async def _first_message_of(self, server: Server) -> FirstMessage | None:
        """Connect to a party's gateway; return its message, or None if it ended the connection before it."""
        channel = await wire.connected(
            server.host,
            server.port,
            lambda: True,
            tls=self._context,
            knocks=wire.knock(server.certificate, self._certificate),
            handshake_s=30.0,
        )
        self._channels.append(channel)
        if channel.peer_certificate != ssl.PEM_cert_to_DER_cert(server.certificate):
            raise ConnectionAbortedError("another party's certificate")
        try:
            return await channel.receive_first()
        except (ConnectionResetError, BrokenPipeError, asyncio.IncompleteReadError):
            self._channels.remove(channel)
            await wire.close_all([channel])
            await asyncio.sleep(wire.PAUSE_S)
            return None

    async def checked_masks(self, expected: JsonObject) -> Words:
        """Return a mask for each value, once all parties agree on the terms, and the masks are checked."""
        sender = self._sender
        messages = [self._first_messages[party] for party in sorted(self._first_messages)]
        announced = _check_first_messages(sender, messages, expected)
        parts = announced.parts
        sums = announced.sums
        own = _add_up(await self._told(len(sender.values) * masks.WORD_BYTES))
        offsets = _add_up(await self._told(sums * parts * masks.WORD_BYTES))
        seed = secrets.token_bytes(masks.SEED_BYTES)
        await self._tell(seed)
        opened = await self._told(sums * parts * masks.WORD_BYTES)
        try:
            check_masks(sender.number, own, offsets, seed, parts=parts, opened=opened)
        except MaskError:
            await self._tell(wire.COMPLAINT)
            raise
        return own

    async def send(self, own_masks: Words) -> int:
        """Send the values, masked; return the number of bytes sent to each party."""
        sender = self._sender
        words = sender.values.astype(np.int64).view(np.uint64)
        await self._tell(masks.to_bytes(words + own_masks))
        if set(await self._told(len(wire.ACCEPTED))) != {wire.ACCEPTED}:
            raise ClientError(f"Client {sender.number}: a party did not confirm its values.")
        return self._channels[0].sent

    async def close(self) -> None:
        """End all connections."""
        await wire.close_all(self._channels)

    async def _everywhere(self, step: Callable[[Channel], Awaitable[T]]) -> list[T]:
        """Take a step on all connections at once; return its results."""
        return await _all_or_none([step(channel) for channel in self._channels])

    async def _tell(self, message: bytes) -> None:
        """Send a message to all parties."""
        await self._everywhere(lambda channel: channel.send(message))

    async def _told(self, length: int) -> list[bytes]:
        """Return a message of this length from each party."""
        return await self._everywhere(lambda channel: _told(self._sender, channel, length))


async def _told(sender: Sender, channel: Channel, length: int) -> bytes:
    """Return a message of this length from one party. Raises ClientError if it leaves the client out."""
    message = await channel.receive(length, wire.LEFT_OUT)
    if message == wire.LEFT_OUT:
        raise ClientError(
            f"Client {sender.number}: the parties go on without it: it came or answered too late, had been "
            "there before, or did not reach all parties. Its values do not count."
        )
    return message


async def _all_or_none(steps: Sequence[Awaitable[T]]) -> list[T]:
    """Take steps at the same time, and return their results. If a step fails, end the others."""
    tasks = [asyncio.ensure_future(step) for step in steps]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def check_masks(
    number: int, own: Words, offsets: Words, seed: bytes, *, parts: int, opened: Sequence[bytes]
) -> None:
    """Raise MaskError unless all parties opened the right sums of subsets of the client's masks.

    Args:
        number: The client's number.
        own: The client's masks, one for each value.
        offsets: The masks of the sums, for each sum and each part.
        seed: The client's seed, from which the subsets follow.
        parts: The number of equally long parts of the values.
        opened: The sums as each party says that all of them opened them.
    """
    count = len(offsets) // parts
    sums = masks.subset_sums(own, masks.subsets(seed, len(own), count), parts, count)
    expected = sums + offsets.reshape(count, parts)
    if set(opened) != {masks.to_bytes(expected.reshape(-1))}:
        raise MaskError(
            f"Client {number}: what the parties sent does not fit together; one of them cheats. "
            "The client's values were not sent."
        )


def _check_first_messages(
    sender: Sender, messages: Sequence[FirstMessage], expected: JsonObject
) -> Announced:
    """Return the facts that all parties announce alike, if all their terms are as expected.

    Args:
        sender: The client.
        messages: The message that each party sent first.
        expected: The terms that the client was told beforehand.

    Raises:
        ClientError: The terms differ, or have a number that cannot be.
    """
    announced = messages[0].announced
    for message in messages:
        said = message.announced
        is_alike = {
            "client": said.client == sender.number,
            "values": said.values == len(sender.values),
        }
        for name, alike in is_alike.items():
            if not alike:
                raise _other_terms(sender, name)
    for name, value in expected.items():
        if any(name not in message.terms or message.terms[name] != value for message in messages):
            raise _other_terms(sender, name)
    if any(message != messages[0] for message in messages):
        raise _unfit_terms(sender, "do not agree on what they compute")
    if not 0 < announced.parts <= announced.values or announced.values % announced.parts:
        raise _unfit_terms(sender, "name a number of parts that does not fit")
    if not CHECKS <= announced.sums <= MOST_CHECKS:
        raise _unfit_terms(sender, "name a number of sums that does not fit")
    return announced


def _other_terms(sender: Sender, name: str) -> ClientError:
    return ClientError(
        f"Client {sender.number}: the parties run with another {name} than this client was told."
    )


def _unfit_terms(sender: Sender, fault: str) -> ClientError:
    return ClientError(f"Client {sender.number}: the parties {fault}.")


def _add_up(shares: Sequence[bytes]) -> Words:
    """Return the sum of the parties' shares of some words, modulo 2^64."""
    words = [masks.from_bytes(share) for share in shares]
    return np.asarray(np.sum(words, axis=0, dtype=np.uint64))


@dataclass(frozen=True)
class LocalClients:
    """Clients that send from this process.

    The run of these parties is charged for all of its clients before any party takes a client. So these
    clients have no charge of their own, and send by the run's permission.

    Attributes:
        senders: The clients.
        terms: The terms with which they agree.
        seconds: How long each may take.
    """

    senders: Sequence[Sender]
    terms: JsonObject
    seconds: float

    @contextmanager
    def begin(self, servers: Sequence[Server], permission: Permission) -> Iterator[None]:
        """Have the clients send in another thread, for the time of the block.

        Guarantees: afterwards all their connections are closed, also if one client fails as nobody foresaw.
        [test: tests/harness/online/test_client.py]
        """
        runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)  # which leaves this thread's loop alone
        loop = runner.get_loop()
        task = loop.create_task(self._send_all(servers, permission))
        with ContextPool(1) as pool:
            pool.submit(_run_to_the_end, runner, task)
            try:
                yield
            finally:
                with suppress(RuntimeError):  # the clients have sent, and the loop is closed
                    loop.call_soon_threadsafe(task.cancel)

    async def _send_all(self, servers: Sequence[Server], permission: Permission) -> None:
        """Have all clients send at once, as parties need them at the same time."""
        await asyncio.gather(*(self._send(sender, servers, permission) for sender in self.senders))

    async def _send(self, sender: Sender, servers: Sequence[Server], permission: Permission) -> None:
        with suppress(ClientError, MaskError):
            async with ready_to_send(sender, servers, self.terms, self.seconds) as ready:
                await ready._send(permission)


def _run_to_the_end(runner: asyncio.Runner, task: asyncio.Task[None]) -> None:
    """Run a task, then end all others of its loop, so that these close what they have opened."""
    with runner:
        runner.get_loop().run_until_complete(task)


SCHEMA = 1


@dataclass(frozen=True)
class Invitation:
    """All that one client needs to send to one run.

    Attributes:
        client: The client's number.
        certificate: The client's certificate (PEM).
        key: The client's secret key (PEM).
        servers: The parties' gateways, by party.
        terms: The run's terms, with which the client agrees.
    """

    client: int
    certificate: str
    key: str
    servers: tuple[Server, ...]
    terms: JsonFields

    @asynccontextmanager
    async def ready_to_send(
        self, values: npt.NDArray[np.int64], seconds: float
    ) -> AsyncIterator[ReadyToSend]:
        """Yield the client, ready to send these values; see the function `ready_to_send`.

        Raises WriteError if others could put another key in the place of the client's while it is read.
        """
        with working_directory(Path(tempfile.gettempdir())) as own:  # OpenSSL reads keys from files only
            certificate = own / "own.pem"
            create_file(certificate, self.certificate.encode())
            create_file(certificate.with_suffix(".key"), self.key.encode())
            sender = Sender(self.client, certificate, values)
            async with ready_to_send(sender, self.servers, self.terms, seconds) as ready:
                yield ready


def check_directory(directory: Path, clients: int) -> None:
    """Raise OptionError if others can change or replace a directory of invitations, or one exists.

    [test: tests/harness/uploads/test_places_of_others.py]
    """
    with cannot(f"write to {named('invite')} {directory}", OptionError):
        reason = place_fault(directory)
    if reason is not None:
        raise OptionError(
            f"{reason}, so others could replace invitations; name another {named('invite')}, or chmod go-w "
            "it."
        )
    for path in _paths(directory, clients):
        if os.path.lexists(path):
            raise OptionError(
                f"{path} exists already; name another {named('invite')}, or remove it if no run waits for it."
            )


@dataclass(frozen=True)
class Invitations:
    """Clients that are invited by files.

    Guarantees: an invitation is whole or absent. No other file of that name is overwritten or removed.
    [test: tests/harness/online/test_client.py]

    Attributes:
        pairs: Each client's certificate and key (PEM).
        terms: The run's terms.
        directory: The directory of the files.
    """

    pairs: Sequence[tuple[str, str]]
    terms: JsonObject
    directory: Path

    @contextmanager
    def begin(self, servers: Sequence[Server], permission: Permission) -> Iterator[None]:  # noqa: ARG002
        """Write `client-<k>.json` for each client, and remove them after the run. Raises WriteError."""
        directory = self.directory
        paths = _paths(directory, len(self.pairs))
        with ExitStack() as stack:
            try:
                own = stack.enter_context(scratch_directory(directory))
                for number, path in enumerate(paths):
                    certificate, key = self.pairs[number]
                    invitation = Invitation(number, certificate, key, tuple(servers), JsonFields(self.terms))
                    fields = {"schema": SCHEMA, **asdict(invitation)}
                    create_file(own / path.name, json.dumps(fields, indent=1).encode())
                    stack.callback(_remove_if_same, path, own / path.name)
                    os.link(own / path.name, path)  # a rename would overwrite
            except OSError as error:
                raise WriteError(f"Cannot write invitations to {directory}: {error.strerror}.") from None
            yield


def _paths(directory: Path, clients: int) -> list[Path]:
    """Return the files of so many clients' invitations."""
    return [directory / f"client-{number}.json" for number in range(clients)]


def _remove_if_same(path: Path, own: Path) -> None:
    """Remove a file if it is still the own one, and nobody has put another one in its place."""
    with uninterrupted(), suppress(FileNotFoundError):
        if os.path.samestat(path.lstat(), own.lstat()):
            path.unlink()


def read_invitation(path: Path) -> Invitation:
    """Return the invitation in a file. Raises ShareError for anything else, or as `check_servers`."""
    refusal = Refusal(ShareError, str(path), "an invitation of this version", "ask for a new one")
    invitation = as_type(Invitation, read_json(path, refusal, SCHEMA, DECLARATION), refusal)
    have_ports = all(0 < server.port < 1 << 16 for server in invitation.servers)
    if invitation.client < 0 or not invitation.servers or not have_ports:
        refusal.say("it names a client or a port that cannot be")
    check_servers(invitation.servers, refusal)
    return invitation
