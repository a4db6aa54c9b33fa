"""Attacks gateways, as strangers and as invited clients would.

`python -m tests.support.hostile_clients FILE` reads `servers` (host, port, certificate), `attacks` by name,
and the paths of `certificates` of invited clients, one for each attack. It prints `ready` once attacks have
begun, and goes on until it is killed.
"""

import json
import os
import socket
import ssl
import struct
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from fairshares.harness.engines.parties.certificates import make_key
from fairshares.harness.online import messages as wire
from fairshares.harness.online.session import Server

ADDRESS = "127.0.0.2"
HELD = 300  # connections of an attack at a time, more than the gateway's files in the tests


class Attacker:
    """Attacks one gateway, by connections that it keeps."""

    def __init__(self, server: Server, certificate: Path) -> None:
        self.server, self.certificate = server, certificate
        self.held: list[socket.socket] = []
        self.addresses = 0  # from which it has connected

    def plain(self, address: str = ADDRESS) -> socket.socket:
        """Return a connection without TLS."""
        return socket.create_connection((self.server.host, self.server.port), 10, (address, 0))

    def knocked(self) -> socket.socket:
        """Return a connection that knocks as an invited client does, as whoever reads along can."""
        one = self.plain()
        one.sendall(wire.knock(self.server.certificate, self.certificate.read_text()))
        return one

    def secured(self, certificate: Path | None = None) -> ssl.SSLSocket:
        """Return a connection with TLS, as the invited client by default."""
        own = wire.context(ssl.PROTOCOL_TLS_CLIENT, certificate or self.certificate, self.server.certificate)
        return own.wrap_socket(self.knocked())

    def idle(self) -> None:
        """Hold connections that send nothing, the oldest replaced by new ones."""
        self.held.append(self.plain())
        if len(self.held) > HELD:
            self.held.pop(0).close()

    def many_addresses(self) -> None:
        """Hold connections that send nothing, each from an address of its own."""
        self.addresses += 1
        low = self.addresses % 0xFFFFFD + 2
        self.held.append(self.plain(f"127.{low >> 16}.{low >> 8 & 255}.{low & 255}"))
        if len(self.held) > HELD:
            self.held.pop(0).close()

    def knocking(self) -> None:
        """Knock as an invited client, and send what is no TLS, or nothing."""
        one = self.knocked()
        if len(self.held) % 2:
            one.sendall(os.urandom(500))
        self.held.append(one)
        if len(self.held) > HELD:
            self.held.pop(0).close()

    def slow(self) -> None:
        """Begin TLS, a byte at a time."""
        self.idle()
        for one in self.held:
            with suppress(OSError):
                one.send(b"\x16")

    def garbage(self) -> None:
        """Send what is no TLS."""
        with self.plain() as one:
            one.sendall(os.urandom(5000))

    def stranger(self) -> None:
        """Finish TLS by a certificate that nobody invited."""
        with TemporaryDirectory() as place, self.secured(make_key(Path(place), "X", "X")) as one:
            one.sendall(struct.pack("<I", 2**31))
            one.recv(1)

    def many(self) -> None:
        """Hold many connections of one invited client."""
        self.held.append(self.secured())
        if len(self.held) > HELD:
            self.held.pop(0).close()

    def _masked(self) -> ssl.SSLSocket:
        """Return a connection that has got its masks."""
        one = self.secured()
        for _ in range(3):
            (length,) = struct.unpack("<I", self._exactly(one, 4))
            self._exactly(one, length)
        return one

    @staticmethod
    def _exactly(one: socket.socket, length: int) -> bytes:
        got = b""
        while len(got) < length:
            if not (more := one.recv(length - len(got))):
                raise ConnectionError
            got += more
        return got

    def huge(self) -> None:
        """Say that four gigabytes come, and send as much as is taken."""
        with self._masked() as one:
            one.sendall(struct.pack("<I", 2**32 - 1))
            while True:
                one.sendall(bytes(1 << 20))

    def drip(self) -> None:
        """Send the seed so slowly that it never ends."""
        with self._masked() as one:
            one.sendall(struct.pack("<I", 32))
            for _ in range(31):
                one.sendall(b"\0")
                time.sleep(5)

    def disorder(self) -> None:
        """Send values before the seed, then whatever else."""
        with self._masked() as one:
            for length in (24, 32, 9, 0):
                one.sendall(struct.pack("<I", length) + bytes(length))
            time.sleep(1)

    def early(self) -> None:
        """Send before the terms have come."""
        with self.secured() as one:
            one.sendall(bytes(1 << 20))


def repeat(attack: Callable[[], None], begun: threading.Semaphore) -> None:
    """Attack for ever; say when it has begun in earnest."""
    for number in range(10**9):
        with suppress(OSError):  # also where a gateway ends connections
            attack()
        if number == HELD // 4:
            begun.release()
        if number > HELD:
            time.sleep(0.005)  # tests share their processors with it


def main(file: Path) -> None:
    """Attack until killed."""
    told = json.loads(file.read_text())
    begun = threading.Semaphore(0)
    waited = 0
    for fields in told["servers"]:
        for name, certificate in zip(told["attacks"], told["certificates"], strict=True):
            attacker = Attacker(Server(**fields), Path(certificate))
            threading.Thread(target=repeat, args=(getattr(attacker, name), begun), daemon=True).start()
            waited += name in ("idle", "many_addresses", "slow", "many")
    for _ in range(waited):
        begun.acquire(timeout=20)
    print("ready", flush=True)
    time.sleep(10**6)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
