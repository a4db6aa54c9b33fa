"""A client's side: learns its masks from the parties, checks them, and sends its values masked."""

from __future__ import annotations

import asyncio
import errno
import queue
import secrets
import socket
import ssl
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from harness.clients import input_masks as masks
from harness.clients import messages as wire
from harness.clients.messages import Channel
from harness.clients.session import Check, Server
from harness.errors import ClientError, MaskError
from protocols.circuits.clients import CHECKS

_RETRY_S = 0.02
_HANDSHAKE_S = 30.0
_NO_WAY = {errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ETIMEDOUT, socket.EAI_NONAME, socket.EAI_AGAIN}
_PATIENCE_S = 2.0  # a party that fails is named before the client that lost it


def _no_account() -> None:
    """Count nothing: whoever plays the client does not keep its account."""


@dataclass(frozen=True)
class Sender:
    """One client.

    Attributes: number: from 0; certificate, key: files, PEM; values: shape (n,), int64; charge: called right
    before the first message that depends on the values; what it raises ends the sending.
    """

    number: int
    certificate: Path
    key: Path
    values: np.typing.NDArray[np.int64]
    charge: Callable[[], None] = _no_account


async def send_values(
    sender: Sender, servers: Sequence[Server], expected: Mapping[str, Any], seconds: float
) -> int:
    """Send one client's values to the running parties; return how many bytes it sent to each.

    Guarantees: nothing that depends on the values is sent unless all parties showed their certificates,
    agree on the terms, and passed the check of the masks.  [test: tests/harness/clients/test_sender.py]
    Reveals: to each party the values plus masks that are uniform unless all parties collude.
    Args: servers: in the order of the parties; expected: terms that the run must have, beside the client's
    own number and number of values; seconds: for all of it.
    Raises: ClientError: a party is not there, or ended the connection, or the terms differ; MaskError.
    """
    missing = dict(enumerate(servers))
    try:
        async with asyncio.timeout(seconds):
            return await _converse(sender, servers, expected, missing)
    except TimeoutError:
        where = "".join(f" Party {i} did not answer at {one.host}:{one.port}." for i, one in missing.items())
        raise ClientError(
            f"Client {sender.number}: the parties were not ready for its values within {seconds:g} s.{where}"
        ) from None


async def _converse(
    sender: Sender, servers: Sequence[Server], expected: Mapping[str, Any], missing: dict[int, Server]
) -> int:
    """Send as `send_values`. Args: missing: the servers by party; those that answer are taken out."""
    context = _context(sender, servers)
    channels: list[Channel] = []

    async def everywhere(step: Callable[[Channel], Coroutine[Any, Any, Any]]) -> list[Any]:
        return await _all_or_none([step(channel) for channel in channels])

    async def connect(party: int, server: Server) -> None:
        try:
            await _connect(server, context, channels)
        except OSError as error:
            if error.errno not in _NO_WAY:
                raise
            raise ClientError(
                f"Client {sender.number}: cannot reach party {party} at {server.host}:{server.port}: "
                f"{error.strerror}."
            ) from None
        del missing[party]

    try:
        await _all_or_none([connect(i, server) for i, server in enumerate(servers)])
        parts = _check_terms(sender, await everywhere(Channel.receive_terms), expected)
        count = len(sender.values)
        own = _add_up(await everywhere(lambda c: c.receive(count * masks.WORD_BYTES)))
        offsets = _add_up(await everywhere(lambda c: c.receive(CHECKS * parts * masks.WORD_BYTES)))
        seed = secrets.token_bytes(masks.SEED_BYTES)
        await everywhere(lambda c: c.send(seed))
        opened = await everywhere(lambda c: c.receive(CHECKS * parts * masks.WORD_BYTES))
        check_masks(sender.number, own, offsets, seed, parts, opened)
        sender.charge()
        masked = masks.to_bytes(sender.values.astype(np.int64).view(np.uint64) + own)
        await everywhere(lambda c: c.send(masked))
        if set(await everywhere(lambda c: c.receive(len(wire.ACCEPTED)))) != {wire.ACCEPTED}:
            raise ClientError(f"Client {sender.number}: a party did not confirm its values.")
        return channels[0].sent
    except (OSError, asyncio.IncompleteReadError):
        raise ClientError(
            f"Client {sender.number}: a party refused or ended the connection; is this client part of the "
            "run, has it not sent before, and do the parties still run?"
        ) from None
    except (wire.WrongLengthError, ValueError):
        raise ClientError(f"Client {sender.number}: a party speaks another protocol or version.") from None
    finally:
        for channel in channels:
            channel.close()


async def _all_or_none(steps: Sequence[Coroutine[Any, Any, Any]]) -> list[Any]:
    """Return the results of steps done at once; when one fails, all others have ended too."""
    tasks = [asyncio.ensure_future(step) for step in steps]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def check_masks(
    number: int, own: masks.Words, offsets: masks.Words, seed: bytes, parts: int, opened: Sequence[bytes]
) -> None:
    """Raise MaskError unless all parties opened the same subset sums, and those of the client's masks."""
    chosen = masks.subsets(seed, len(own))
    expected = masks.subset_sums(own, chosen, parts) + offsets.reshape(CHECKS, parts)
    if set(opened) != {masks.to_bytes(expected.reshape(-1))}:
        raise MaskError(
            f"Client {number}: what the parties sent does not fit together; one of them cheats. "
            "The client's values were not sent."
        )


def _check_terms(sender: Sender, found: Sequence[Mapping[str, Any]], expected: Mapping[str, Any]) -> int:
    """Return the number of the client's parts. Raises: ClientError: parties differ, or other terms."""
    own = {"protocol": wire.PROTOCOL, "client": sender.number, "values": len(sender.values), **expected}
    for name, value in own.items():
        if any(name not in terms or terms[name] != value for terms in found):
            raise ClientError(
                f"Client {sender.number}: the parties run with another {name} than this client was told."
            )
    parts = found[0].get("parts")
    if any(terms != found[0] for terms in found):
        raise ClientError(f"Client {sender.number}: the parties do not agree on what they compute.")
    if type(parts) is not int or not 0 < parts <= len(sender.values) or len(sender.values) % parts:
        raise ClientError(f"Client {sender.number}: the parties name a number of parts that does not fit.")
    return parts


def _add_up(shares: Sequence[bytes]) -> masks.Words:
    total: masks.Words = np.sum([masks.from_bytes(share) for share in shares], axis=0, dtype=np.uint64)
    return total


def _context(sender: Sender, servers: Sequence[Server]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # each server's very certificate is compared instead
    context.load_verify_locations(cadata="".join(server.certificate for server in servers))
    context.load_cert_chain(sender.certificate, sender.key)
    return context


async def _connect(server: Server, context: ssl.SSLContext, channels: list[Channel]) -> None:
    while True:
        try:
            reader, writer = await asyncio.open_connection(
                server.host, server.port, ssl=context, ssl_handshake_timeout=_HANDSHAKE_S
            )
            break
        except ConnectionRefusedError:  # it has not begun to listen
            await asyncio.sleep(_RETRY_S)
    channels.append(Channel(reader, writer))
    if channels[-1].peer_certificate != ssl.PEM_cert_to_DER_cert(server.certificate):
        raise ConnectionAbortedError("another party's certificate")


@contextmanager
def sending(
    senders: Sequence[Sender], servers: Sequence[Server], expected: Mapping[str, Any], seconds: float
) -> Iterator[Check]:
    """Have clients send from this process while parties run; yield what raises the first one's error."""
    failed: list[tuple[float, ClientError | MaskError]] = []
    running: queue.SimpleQueue[tuple[asyncio.AbstractEventLoop, asyncio.Task[None] | None]]
    running = queue.SimpleQueue()

    async def send(sender: Sender) -> None:
        try:
            await send_values(sender, servers, expected, seconds)
        except (ClientError, MaskError) as error:
            failed.append((time.monotonic(), error))

    async def send_all() -> None:  # at once: parties need all clients at the same time
        running.put((asyncio.get_running_loop(), asyncio.current_task()))
        await asyncio.gather(*map(send, senders))

    def work() -> None:
        with suppress(asyncio.CancelledError):
            asyncio.run(send_all())

    def check() -> None:
        for when, error in failed:
            if isinstance(error, MaskError) or time.monotonic() - when > _PATIENCE_S:
                raise error

    thread = threading.Thread(target=work)
    thread.start()
    loop, task = running.get()
    assert task is not None
    try:
        yield check
    finally:
        with suppress(RuntimeError):  # all have sent: the loop is closed
            loop.call_soon_threadsafe(task.cancel)
        thread.join()
