"""Web servers of tests, on loopback, and a certificate that clients of this process trust."""

import ipaddress
import socket
import ssl
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from fairshares.harness.uploads.upload_servers import SendingEnd

HOST = "127.0.0.1"


def certify(directory: Path) -> Path:
    """Write `server.pem` and `server.key`, for loopback; return the certificate's file."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, HOST)])
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
    own = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(HOST))])
    certificate = builder.add_extension(own, critical=False).sign(key, hashes.SHA256())
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (directory / "server.key").write_bytes(pem)
    (directory / "server.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    return directory / "server.pem"


Answer = Callable[[str, bytes], int | None]
"""From a path and a body to a status; None drops the connection."""


@contextmanager
def serving(certificate: Path, answer: Answer, body: Iterable[bytes] = ()) -> Iterator[str]:
    """Run a server that takes PUT and answers with a body; yield its address, with a slash at its end."""

    class Handler(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            length = int(self.headers["Content-Length"])
            sent = self.rfile.read(length)
            status = answer(self.path, sent) if len(sent) == length else None
            if status is None:
                self.close_connection = True
                return
            self.send_response(status)
            if not body:
                self.send_header("Content-Length", "0")
            self.end_headers()
            for piece in body:
                self.wfile.write(piece)

        def log_message(self, format: str, *args: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, *_: object) -> None:
            """Say nothing of clients that leave."""

    server = Server((HOST, 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, certificate.with_suffix(".key"))
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"https://{HOST}:{server.server_port}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def talking(certificate: Path, talk: Callable[[ssl.SSLSocket], None]) -> Iterator[str]:
    """Run a TLS server that talks with each connection as it likes; yield its address.

    A conversation ends when its client is gone; all have to end before this does.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, certificate.with_suffix(".key"))

    def serve(connection: socket.socket) -> None:
        with connection, suppress(OSError), context.wrap_socket(connection, server_side=True) as secured:
            talk(secured)

    def accept() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:  # the test is over
                return
            threads.append(Thread(target=serve, args=[connection]))
            threads[-1].start()

    listening, threads = socket.create_server((HOST, 0)), list[Thread]()
    accepting = Thread(target=accept)
    accepting.start()
    try:
        yield f"https://{HOST}:{listening.getsockname()[1]}/"
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        accepting.join()
        listening.close()
        for thread in threads:
            thread.join()


def head_of(connection: ssl.SSLSocket) -> bytes:
    """Read a request's head, byte by byte; OSError if its client left."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        byte = connection.recv(1)
        if not byte:
            raise ConnectionError("the client left")
        head += byte
    return head


def told(ends: Sequence[Counter[SendingEnd]]) -> list[Counter[str]]:
    """Return what a client is told of its envelopes, for each party: how many ended in which way."""
    return [Counter({str(end): number for end, number in of_party.items()}) for of_party in ends]
