"""A preloaded library (see its `.c`) that has MP-SPDZ's virtual machines ask peers for certificates."""

import hashlib
import os
import shutil
import socket
import ssl
import struct
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from fairshares.harness.engines.mpspdz.cache import (
    check_entry,
    is_intact,
    keep,
    kept_directory,
    trusted_place,
)
from fairshares.harness.engines.parties.certificates import expecting, fingerprint, make_key, trust
from fairshares.harness.engines.parties.supervisor import free_ports
from fairshares.harness.engines.parties.working_directory import DATA, LOOPBACK, MET, met
from fairshares.harness.errors import UnsupportedError
from fairshares.harness.system.files import create_file, scratch_directory
from fairshares.harness.system.threads import ContextPool

LIBRARY = "asks.so"  # relative to a party's directory, as LD_PRELOAD takes no spaces or colons
ENVIRONMENT = {"LD_PRELOAD": f"./{LIBRARY}", "FAIRSHARES_MET": MET}  # the environment of a machine that asks
_PLACE = "links"  # the place of the library in the cache
_SOURCE = Path(__file__).with_suffix(".c")
_NO_PROGRAM = b"1\n1\nnone-0:0\n1 0\n0\n"  # names no program: links come first
_PATIENCE_S = 60.0
_POLL_S = 0.01
_LETS_IN = "A virtual machine of MP-SPDZ lets in a peer that shows no certificate, unless it is prevented"


def asking_library(machine: Path, parties: int, options: Sequence[str]) -> Path:
    """Return the library that makes a machine ask its peers for certificates, or raise UnsupportedError.

    Guarantees: the machine lets in and notes peers with the right certificates, and lets in none without.
    Both were tried, once for each build of MP-SPDZ and of the library, which only this user can change. A
    library that is not as it was made is built again.
    [test: tests/harness/engines/test_peer_certificates.py]
    """
    directory = kept_directory() / _PLACE
    try:
        directory = trusted_place(_PLACE)
        library = _built(directory)
        parts = [part for part in (machine, machine.parent / "libSPDZ.so") if part.exists()]
        states = []
        for part in parts:
            state = part.stat()
            states.append((state.st_ino, state.st_size, state.st_ctime_ns))  # changes with every change
        build = (parts, states, options, library.read_bytes())
        tried = directory / f"{hashlib.sha256(repr(build).encode()).hexdigest()}.tried"
        if not tried.exists():
            _try(directory, machine, parties, options, library)
            tried.touch()
    except OSError as error:
        raise UnsupportedError(
            f"{_LETS_IN}, and that cannot be tried in {directory}: {error.strerror}; make room there, or set "
            "XDG_CACHE_HOME to another directory of yours."
        ) from None
    return library


def _built(directory: Path) -> Path:
    """Return the compiled library, kept in a directory; UnsupportedError if it cannot be compiled."""
    entry = directory / hashlib.sha256(_SOURCE.read_bytes()).hexdigest()
    if entry.exists():
        check_entry(entry)
    if not is_intact(entry):
        with scratch_directory(directory) as partial:
            if not _compiles(partial / LIBRARY):
                raise UnsupportedError(
                    f"{_LETS_IN} by a library, which could not be compiled here: install a C compiler and "
                    "OpenSSL's headers (on Debian: apt install gcc libc6-dev libssl-dev)."
                )
            keep(partial, entry)
    return entry / LIBRARY


def _compiles(library: Path) -> bool:
    """Compile the library with the first C compiler that is there; return whether this worked."""
    compilers = [shutil.which(name) for name in ("cc", "gcc", "clang")]
    for compiler in compilers:
        if compiler is not None:
            command = [compiler, "-O2", "-shared", "-fPIC", "-o", str(library), str(_SOURCE)]
            done = subprocess.run(command, capture_output=True, check=False)
            return done.returncode == 0
    return False


def _try(directory: Path, machine: Path, parties: int, options: Sequence[str], library: Path) -> None:
    """Raise UnsupportedError unless a machine lets in peers with certificates, and none without."""
    for shown in (True, False):
        with scratch_directory(directory) as scratch:
            let_in = let_in_by(scratch, machine, parties, options, library, shown=shown)
        if let_in != shown:
            raise UnsupportedError(
                f"{_LETS_IN} by a library that {machine} does not use; build MP-SPDZ from source, "
                "with OpenSSL linked dynamically."
            )


def let_in_by(
    scratch: Path, machine: Path, parties: int, options: Sequence[str], library: Path | None, *, shown: bool
) -> bool:
    """Return whether a throw-away machine, as party 0, lets in stand-ins for all other parties.

    If `shown`, the stand-ins show the expected certificates, and a `library` must also note them. Else they
    show none.
    """
    data = scratch / DATA
    schedules = scratch / "Programs" / "Schedules"
    data.mkdir()
    schedules.mkdir(parents=True)
    create_file(schedules / "none.sch", _NO_PROGRAM)
    certificates = [make_key(data, f"P{party}", f"P{party}") for party in range(parties)]
    for certificate in certificates:
        trust(certificate, data, certificate.stem)
    arithmetic = () if "-P" in options else ("-R", "64")  # a given prime, else the ring of the other models
    environment = dict(os.environ)
    if library is not None:
        (scratch / LIBRARY).symlink_to(library)
        environment.update(ENVIRONMENT)
    environment.update(expecting(certificates))
    with free_ports(parties) as ports, ContextPool(2 * parties) as pool:
        create_file(scratch / "hosts", "".join(f"{LOOPBACK}:{port}\n" for port in ports).encode())
        process = subprocess.Popen(
            [machine, "-p", "0", "-ip", "hosts", *arithmetic, *options, "none"],
            cwd=scratch,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            links = []
            for certificate in certificates[1:]:
                for link in ("machine", "machinerecv"):  # MP-SPDZ's names of the two links to each peer
                    name = f"{link}{certificate.stem}"
                    links.append(pool.submit(_is_let_in, process, ports[0], name, certificate, shown=shown))
            let_in = [link.result() for link in links]
            # A machine shakes hands one link after the other, so each peer's first link is noted by now.
            due = {fingerprint(certificate.read_bytes()) for certificate in certificates[1:]}
            if all(answer is None for answer in let_in):
                raise UnsupportedError(f"{machine} ended before any peer could show a certificate.")
            if not shown:
                return any(let_in)
            are_noted = library is None or due.issubset(met(scratch))
            return all(let_in) and are_noted
        finally:
            process.kill()
            process.wait()


def _is_let_in(
    process: subprocess.Popen[bytes], port: int, name: str, certificate: Path, *, shown: bool
) -> bool | None:
    """Return whether a machine lets in a peer of this name; None if it did not answer."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if shown:
        context.load_cert_chain(certificate, certificate.with_suffix(".key"))
    try:
        with _connected(process, port) as plain:
            plain.sendall(struct.pack("<I", len(name)) + name.encode())  # MP-SPDZ wants it before TLS
            context.wrap_socket(plain).close()  # TLS 1.2: who finishes is accepted
    except ssl.SSLEOFError:
        return None
    except ssl.SSLError:
        return False
    except OSError:
        return None
    return True


def _connected(process: subprocess.Popen[bytes], port: int) -> socket.socket:
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            return socket.create_connection((LOOPBACK, port), _PATIENCE_S)
        except ConnectionRefusedError:
            if process.poll() is not None or time.monotonic() > deadline:
                raise
            time.sleep(_POLL_S)
