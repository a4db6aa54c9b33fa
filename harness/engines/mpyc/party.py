"""One party of the embedded engine."""

import asyncio
import builtins
import os
import ssl
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

from fairshares.harness.engines.mpyc.connection import Peers
from fairshares.harness.engines.mpyc.exchange import Exchange
from fairshares.harness.engines.mpyc.installed import fault_of_installation
from fairshares.harness.engines.mpyc.interfaces import Runtime
from fairshares.harness.engines.mpyc.names import namespace, unsupported
from fairshares.harness.engines.mpyc.party_runtime import PartyRuntime, install_fast_splitting
from fairshares.harness.engines.parties.certificates import fingerprint
from fairshares.harness.engines.parties.config import Embedded, PartyConfig
from fairshares.harness.engines.parties.working_directory import DATA, LOOPBACK, MET, certificate_file
from fairshares.harness.errors import (
    CompileError,
    DomainOverflow,
    PartyFailedError,
    UnsupportedError,
    UnsupportedFeature,
)
from fairshares.harness.party_reports import Costs, line_of
from fairshares.protocols import circuits


def run_party(config: PartyConfig, engine: Embedded) -> int:
    """Run one party to the end in the current directory; return its exit code.

    Reveals: prints the program's `OUT` lines, and a report of costs.

    Raises a FairSharesError if the program or a peer is at fault.
    """
    parties = len(config.addresses)
    _lay_out_certificates(config.party, parties)
    mpc = _load_mpyc(config, engine)
    peers = Peers(mpc._loop, _certificates(parties))
    exchange = Exchange(mpc, peers)
    exchange.run(mpc.start())
    _check_peers(mpc, peers)
    started = time.perf_counter()
    execute(Path(engine.program), engine.arguments, PartyRuntime(mpc, Path(DATA), exchange.run))
    seconds = time.perf_counter() - started
    sent = sum(peer.protocol.nbytes_sent for peer in mpc.parties if peer.pid != mpc.pid)
    exchange.end()
    print(line_of(Costs(seconds=seconds, sent_bytes=sent)), flush=True)
    return 0


def _lay_out_certificates(party: int, parties: int) -> None:
    """Link the party's key and all certificates to where MPyC reads them."""
    data = Path(DATA)
    config = Path(".config")
    config.mkdir(mode=0o700)
    (config / f"party_{party}.crt").symlink_to(Path("..") / data / f"P{party}.pem")
    (config / f"party_{party}.key").symlink_to(Path("..") / data / f"P{party}.key")
    authority = config / "mpyc_ca.crt"
    authority.write_text("".join((data / certificate_file(i)).read_text() for i in range(parties)))
    # MPyC also trusts the system's authorities, so these are replaced by the parties.
    os.environ |= {"SSL_CERT_FILE": str(authority), "SSL_CERT_DIR": os.devnull}


def _load_mpyc(config: PartyConfig, engine: Embedded) -> Runtime:
    """Import MPyC, which reads options from `sys.argv` and the environment as it loads.

    Raises UnsupportedError if the installed MPyC is not the known one.
    """
    if (fault := fault_of_installation()) is not None:
        raise UnsupportedError(fault)
    for name in [name for name in os.environ if name.startswith("MPYC_")]:
        del os.environ[name]
    sys.argv = ["fairshares", "--no-log", "--no-uvloop", "--ssl"]
    sys.argv += ["-K", str(engine.security_bits)]
    sys.argv += ["-T", str(engine.threshold)]
    sys.argv += ["-I", str(config.party)]
    for host, port in config.addresses:
        sys.argv += ["-P", f"{host}:{port}"]
    from mpyc import runtime

    mpc: Runtime = runtime.mpc
    install_fast_splitting()
    if all(host == LOOPBACK for host, _ in config.addresses):
        listen_on_loopback(mpc._loop)
    return mpc


def _certificates(parties: int) -> dict[int, bytes]:
    """Return the certificate of each party, in DER."""
    paths = [Path(DATA, certificate_file(party)) for party in range(parties)]
    return {party: ssl.PEM_cert_to_DER_cert(path.read_text()) for party, path in enumerate(paths)}


def listen_on_loopback(loop: asyncio.AbstractEventLoop) -> None:
    """Have the event loop bind servers to 127.0.0.1; MPyC means every interface."""
    bind = loop.create_server

    async def create_server(
        factory: Callable[[], asyncio.Protocol], port: int, ssl: ssl.SSLContext | None
    ) -> asyncio.Server:
        return await bind(factory, host=LOOPBACK, port=port, ssl=ssl)

    vars(loop)["create_server"] = create_server


def _check_peers(mpc: Runtime, peers: Peers) -> None:
    """Check that each peer has the certificate of its number, which MPyC takes on trust."""
    for peer in (party for party in mpc.parties if party.pid != mpc.pid):
        if peers.party_of(peer.protocol.transport) != peer.pid:
            raise PartyFailedError(f"Who connected as party {peer.pid} has another party's certificate.")
        with Path(MET).open("a") as notes:
            notes.write(f"{fingerprint(Path(DATA, certificate_file(peer.pid)).read_bytes())}\n")


def execute(path: Path, arguments: Sequence[str], machine: PartyRuntime) -> None:
    """Run the program to its end; `arguments` begin with its name.

    Raises UnsupportedFeature, DomainOverflow or CompileError, with file:line, or ShareError for wrong input.
    """
    try:
        exec(
            builtins.compile(path.read_text(encoding="utf-8"), str(path), "exec"),
            namespace(machine, arguments),
        )
        machine.check_inputs_used()
    except (UnsupportedFeature, DomainOverflow) as error:
        raise type(error)(f"{_where(error, path)}: {error}") from error
    except (AttributeError, NameError, TypeError) as error:
        what = unsupported(str(error.name)) if isinstance(error, NameError) else error
        raise UnsupportedFeature(f"{_where(error, path)}: {what}") from error
    except SyntaxError as error:
        raise CompileError(f"{path.name}:{error.lineno}: {error.msg}.") from error
    except (ArithmeticError, AssertionError, LookupError, ValueError) as error:
        raise CompileError(
            f"{_where(error, path)}: the program ended with {type(error).__name__}."
        ) from error


def _where(error: BaseException, path: Path) -> str:
    ours = (path, *Path(circuits.__path__[0]).glob("*.py"))
    steps = [frame for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename) in ours]
    return f"{Path(steps[-1].filename).name}:{steps[-1].lineno}" if steps else path.name
