"""One party's process: claims its directory, makes its key, draws its bits or noise, becomes the engine.

It starts in the party's directory with the time in seconds since 1970. It reports `ReadyReport` when its
certificate is there, and goes on at `go`, when the others' are. Later output goes to `log`. No other process
sees its key, bits or noise. Before it reports, and so before it reads anything of other parties, it shuts
itself off from all that is not its run's (`sandbox`); the engine inherits that.
"""

import contextlib
import importlib
import importlib.util
import os
import resource
import secrets
import socket
import sys
from collections.abc import Iterable
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import NoReturn

from msgspec.structs import replace

from fairshares.harness.engines.parties import sandbox
from fairshares.harness.engines.parties.certificates import expecting, make_key, trust
from fairshares.harness.engines.parties.config import PartyConfig, VirtualMachine, read_config
from fairshares.harness.engines.parties.randomness import PartyRandomness, integers_as_text
from fairshares.harness.engines.parties.working_directory import (
    CLAIM,
    DATA,
    HOSTS_FILE,
    LOG,
    PEERS,
    PRINTED,
    bits_file,
    certificate_file,
    values_file,
)
from fairshares.harness.errors import FairSharesError, LostPeerError
from fairshares.harness.online.gateway_config import GatewayConfig
from fairshares.harness.party_reports import ReadyReport, line_of, line_of_failure, line_of_lost_peer
from fairshares.harness.system.processes import die_with_parent

GO = "go"  # the word that a party waits for on its standard input
CLAIMED_EXIT = 17
# Imported by name, since engines import this package.
_EMBEDDED_ENGINE = "fairshares.harness.engines.mpyc.party"


def main(randomness: PartyRandomness | None = None) -> int:
    """Run the party of the current directory; return its exit code.

    Args:
        randomness: The source from which the party draws; by default the operating system. Nothing in the
            directory or the environment changes that.
    """
    try:
        return _main(PartyRandomness() if randomness is None else randomness)
    except LostPeerError as error:
        print(line_of_lost_peer(str(error)), flush=True)
    except FairSharesError as error:
        print(line_of_failure(str(error)), flush=True)
    except OSError as error:  # most likely its disk is full, and so may be its log
        with contextlib.suppress(OSError):
            print(line_of_failure(str(error.strerror)), flush=True)
    return 1


def _main(randomness: PartyRandomness) -> int:
    die_with_parent()
    _dump_no_core()
    os.umask(0o077)
    config = read_config()
    try:
        os.close(os.open(CLAIM, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        return CLAIMED_EXIT
    make_key(Path(DATA), f"P{config.party}", config.common_names[config.party])
    config = replace(config, addresses=tuple((_numeric(host), port) for host, port in config.addresses))
    if isinstance(config.engine, VirtualMachine):
        Path(HOSTS_FILE).write_text("".join(f"{host}:{port}\n" for host, port in config.addresses))
    _write_bytecode(config.packages)
    _bound_files(config.most_file_bytes)
    sandbox.confine(_reach_of(config))
    if config.gateway is None:  # else its gateway ends its virtual machine
        sandbox.signal_only(os.getpid())
    print(line_of(ReadyReport()), flush=True)
    if os.read(0, len(GO) + 1).decode().strip() != GO:  # and no more: columns may follow
        return 1
    columns = os.dup(0)
    _redirect_output()
    for party, name in enumerate(config.common_names):
        place = DATA if party == config.party else PEERS
        trust(Path(place, certificate_file(party)), Path(DATA), name)
    if config.gateway is not None and isinstance(config.engine, VirtualMachine):
        return _run_with_gateway(config, config.gateway, config.engine, randomness)
    if config.rounds is None:
        _supply_inputs(config, randomness)
    else:
        from fairshares.harness.engines.parties import rounds  # a party of one round should not pay for it

        rounds.begin(config, config.rounds, columns, randomness)
    if isinstance(config.engine, VirtualMachine):
        if config.keeps_printed:  # from here on, so that this process's own reports are in the log
            os.dup2(_new_file(PRINTED), 1)
        _become(config.engine)
    return int(importlib.import_module(_EMBEDDED_ENGINE).run_party(config, config.engine))


def _reach_of(config: PartyConfig) -> sandbox.SandboxReach:
    """Return the files and ports that this run needs: the party's own, the peers' ports, and the engine."""
    libraries = map(Path, os.environ.get("LD_LIBRARY_PATH", "").split(":"))
    reads = [Path(place) for place in config.reads]
    reads += [place for place in libraries if place.is_absolute()]
    ports = [port for _, port in config.addresses]
    listens = [*ports[config.party : config.party + 1], *config.listens]
    calls = list(ports)
    if config.gateway is not None:
        listens += [config.gateway.port, config.gateway.machine_port]
        calls.append(config.gateway.machine_port)
    return sandbox.SandboxReach(
        directory=Path.cwd(),
        reads=tuple(reads),
        listens=tuple(listens),
        calls=tuple(calls),  # a machine of MP-SPDZ has a link to itself
    )


def _numeric(host: str) -> str:
    """Return the IPv4 address of a name, as the sandbox asks no name server; the name if none is known."""
    try:
        socket.inet_aton(host)
        return host
    except OSError:
        pass
    try:
        return socket.gethostbyname(host)
    except OSError:  # the engine will say that it finds nobody there
        return host


def _write_bytecode(packages: Iterable[str]) -> None:
    """Keep compiled modules of packages that parties alone import, as a party writes nothing there later."""
    if sys.dont_write_bytecode:
        return
    for package in packages:
        found = importlib.util.find_spec(package)
        places = None if found is None else found.submodule_search_locations
        for place in places or []:
            for source in Path(place).glob("*.py"):
                if not Path(importlib.util.cache_from_source(str(source))).exists():
                    name = f"{package}.{source.stem}"
                    SourceFileLoader(name, str(source)).get_code(name)


def _bound_files(most_bytes: int | None) -> None:
    """Have each file of this process end at so many bytes, where writing to it then fails."""
    if most_bytes is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))


def _dump_no_core() -> None:
    """Prevent core dumps of secrets; at a limit of 0 Linux would still pass them to a collecting program."""
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0) if hard == 0 else (1, 1))


def _run_with_gateway(
    config: PartyConfig, gateway: GatewayConfig, engine: VirtualMachine, randomness: PartyRandomness
) -> int:
    """Talk to clients here, with the virtual machine as a child; neither outlives the other."""
    from fairshares.harness.online.gateway import (  # a party without clients should not pay
        GatewayPlace,
        run_gateway,
    )

    data = Path(DATA)
    number = secrets.randbelow(1 << 31)
    trust(make_key(data, f"C{number}", f"C{number}"), data, f"C{number}")
    machine = os.fork()
    if machine == 0:
        die_with_parent()
        sandbox.signal_only(os.getpid())
        _supply_inputs(config, randomness)
        port = gateway.machine_port - config.party  # the virtual machine adds the party's number
        _become(engine, str(port), str(number))
    sandbox.signal_only(os.getpid(), machine)
    place = GatewayPlace(
        party=config.party,
        parties=len(config.common_names),
        number=number,
        data=data,
        started=float(sys.argv[1]),
    )
    return run_gateway(gateway, place, machine)


def _become(engine: VirtualMachine, *more: str) -> NoReturn:
    os.execve(
        engine.argv[0],
        [*engine.argv, *more],
        {**os.environ, **engine.environment, **expecting(Path(DATA).glob("*.pem"))},
    )


def _redirect_output() -> None:
    log = _new_file(LOG)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(log, 1)
    os.dup2(log, 2)


def _new_file(name: str) -> int:
    return os.open(name, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)


def _supply_inputs(config: PartyConfig, randomness: PartyRandomness) -> None:
    """Put values as the engine reads them, shares of clients' bits, and own bits in memory for the engine.

    Values that it reads as they lie stay in their file, unless the party adds noise to them.
    """
    if config.own_noise is not None or not config.engine.reads_elements:
        column = config.shares.column(config.party)
        if config.own_noise is not None:
            column = config.own_noise.with_noise(column, config.own_noise.drawn(randomness))
        if column:
            _link_to_memory(Path(DATA, values_file(config.party)), config.engine.as_read(column))
    own_bits = integers_as_text(randomness.integers(config.fair_bits))
    _link_to_memory(Path(DATA, bits_file(config.party)), config.shares.bits() + own_bits)


def _link_to_memory(place: Path, content: bytes) -> None:
    descriptor = os.memfd_create("secrets")
    with os.fdopen(os.dup(descriptor), "wb") as file:
        file.write(content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    os.set_inheritable(descriptor, True)
    place.unlink(missing_ok=True)
    place.symlink_to(f"/dev/fd/{descriptor}")


if __name__ == "__main__":
    sys.exit(main())
