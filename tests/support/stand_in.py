"""Stands in for a peer of MP-SPDZ's virtual machines: says their hello, shakes hands as they do, and listens.

By MP-SPDZ's Networking/Player.cpp, ServerSocket.cpp, CryptoPlayer.cpp and ssl_sockets.h. Who has the higher
number connects, to two sockets for each link, and is the TLS client on both.
"""

import socket
import ssl
import struct
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, suppress
from pathlib import Path

LINKS = ("machine", "thread0")  # of a machine that runs a program of one thread, in order
_PATIENCE_S = 120.0  # with a machine that neither answers nor ends


def hello(name: str) -> bytes:
    """Return what who connects to a machine says first, in the clear: its name, behind its length."""
    return struct.pack("<I", len(name)) + name.encode()


def names(link: str, party: int) -> tuple[str, str]:
    """Return by which names a party greets for a link: of the socket to send by, and to receive by."""
    return f"{link}P{party}", f"{link}recvP{party}"


def context(certificate: Path | None, *, server: bool = False) -> ssl.SSLContext:
    """Return how to shake hands. Args: certificate: to show, its key beside it; None: to show none."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    made.maximum_version = ssl.TLSVersion.TLSv1_2
    made.check_hostname = False
    made.verify_mode = ssl.CERT_NONE
    if certificate is not None:
        made.load_cert_chain(certificate, certificate.with_suffix(".key"))
    return made


def greet(port: int, name: str) -> socket.socket:
    """Connect to a machine of this computer, and greet it."""
    link = socket.create_connection(("127.0.0.1", port), _PATIENCE_S)
    link.sendall(hello(name))
    return link


def shake_hands(
    link: socket.socket, by: ssl.SSLContext, session: ssl.SSLSession | None = None
) -> ssl.SSLSocket | None:
    """Return the link with TLS, None where the machine refuses; either way close it in the end.

    In TLS 1.2 a client has shaken hands only once the server has looked at the certificate.
    """
    server = by.protocol == ssl.PROTOCOL_TLS_SERVER
    try:
        return by.wrap_socket(link, server_side=server, session=session)
    except OSError:
        link.close()
        return None


def joined(port: int, parties: Mapping[int, ssl.SSLContext], link: str = LINKS[0]) -> dict[str, bool]:
    """Join a link as these parties, all at once; return by name whether the machine accepted each."""
    greeted = {name: (greet(port, name), by) for party, by in parties.items() for name in names(link, party)}
    with ThreadPoolExecutor(len(greeted)) as pool:
        shaken = {name: pool.submit(shake_hands, *greeting) for name, greeting in greeted.items()}
        connections = {name: future.result() for name, future in shaken.items()}
    for connection in connections.values():
        if connection is not None:
            connection.close()
    return {name: connection is not None for name, connection in connections.items()}


def told(port: int, parties: Mapping[int, ssl.SSLContext]) -> bytes:
    """Join all links as these parties; return the first that the machine sends to any, empty if it ends.

    What is returned was sent past the handshakes, by a machine that took these parties for its peers.
    """
    named_contexts = [
        (name, by) for link in LINKS for party, by in parties.items() for name in names(link, party)
    ]
    with ExitStack() as stack, ThreadPoolExecutor(len(named_contexts)) as pool:
        greeted = [(greet(port, name), by) for name, by in named_contexts]
        ends = [stack.enter_context(plain.dup()) for plain, _ in greeted]
        heard = as_completed([pool.submit(_hear, *pair) for pair in greeted])
        first = next((one.result() for one in heard if one.result()), b"")
        for end in ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)  # so that nobody listens any more
    return first


def _hear(plain: socket.socket, by: ssl.SSLContext) -> bytes:
    link = shake_hands(plain, by)
    if link is not None:
        with suppress(OSError), link:
            return link.recv(1 << 16)
    return b""
