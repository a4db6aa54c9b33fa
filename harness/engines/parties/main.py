"""One party's process: claims its directory, makes its key, draws its bits or noise, becomes the engine.

It starts in the party's directory with the time in seconds since 1970, prints `ready` when its certificate is
there, and goes on at `go`, when the others' are. Later output goes to `log`. No other process sees its key,
bits or noise. Before `ready`, and so before it reads anything of other parties, it shuts itself off from all
that is not its run's (`sandbox`); the engine inherits that.
"""

import contextlib
import importlib
import importlib.util
import json
import os
import resource
import secrets
import socket
import sys
from collections.abc import Iterable
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any, NoReturn

from harness.engines.parties import sandbox
from harness.engines.parties.certificates import expecting, make_key, trust
from harness.engines.parties.working_directory import (
    CLAIM,
    CONFIG,
    DATA,
    GIVEN_BITS,
    HOSTS,
    LOG,
    PEERS,
    SHARED_BITS,
    bits_file,
    certificate_file,
    values_file,
)
from harness.errors import FairSharesError
from harness.system.processes import die_with_parent

READY, GO = "ready", "go"
CLAIMED_EXIT = 17


def main() -> int:
    """Run the party of the current directory; return its exit code."""
    try:
        return _main()
    except FairSharesError as error:
        print("fairshares:", " ".join(str(error).split()), flush=True)
    except OSError as error:  # most likely its disk is full, and so may be its log
        with contextlib.suppress(OSError):
            print("fairshares:", error.strerror, flush=True)
    return 1


def _main() -> int:
    die_with_parent()
    _dump_no_core()
    os.umask(0o077)
    config: dict[str, Any] = json.loads(Path(CONFIG).read_text())
    try:
        os.close(os.open(CLAIM, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        return CLAIMED_EXIT
    data, names, stem = Path(DATA), config["common_names"], f"P{config['party']}"
    make_key(data, stem, names[config["party"]])
    importlib.import_module("protocols")  # from the project's root, which the sandbox does not read
    config["addresses"] = [(_numeric(host), port) for host, port in config.get("addresses", [])]
    if "argv" in config:
        Path(HOSTS).write_text("".join(f"{host}:{port}\n" for host, port in config["addresses"]))
    _write_bytecode(config.get("packages", []))
    sandbox.confine(_reach_of(config))
    if "front" not in config:  # else its gateway ends its virtual machine
        sandbox.signal_only(os.getpid())
    print(READY, flush=True)
    if os.read(0, len(GO) + 1).decode().strip() != GO:  # and no more: columns may follow
        return 1
    columns = os.dup(0)
    _redirect_output()
    for i, name in enumerate(names):
        trust(Path(DATA if i == config["party"] else PEERS, certificate_file(i)), data, name)
    if "front" in config:
        return _run_with_front(config, float(sys.argv[1]))
    if "rounds" in config:
        from harness.engines.parties import inputs  # a party of one round should not pay for it

        inputs.begin(config, columns)
    else:
        _supply_secrets(config)
    if "argv" in config:
        _become(config)
    return int(importlib.import_module(config["module"]).run_party(config))


def _reach_of(config: dict[str, Any]) -> sandbox.Reach:
    """Return what this run needs: its own directory and port, the other parties' ports, and the engine."""
    libraries = map(Path, os.environ.get("LD_LIBRARY_PATH", "").split(":"))
    ports = [port for _, port in config["addresses"]]
    own = config["party"]
    front = config.get("front")
    of_clients = [] if front is None else [front["port"], front["machine_port"]]
    return sandbox.Reach(
        directory=Path.cwd(),
        reads=(
            *map(Path, config.get("reads", [])),
            *(place for place in libraries if place.is_absolute()),
        ),
        listens=(*ports[own : own + 1], *of_clients, *config.get("listens", [])),
        calls=(*ports, *of_clients[1:]),  # a machine of MP-SPDZ has a link to itself
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


def _dump_no_core() -> None:
    """Prevent core dumps of secrets; at a limit of 0 Linux would still pass them to a collecting program."""
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0) if hard == 0 else (1, 1))


def _run_with_front(config: dict[str, Any], started: float) -> int:
    """Talk to clients here, with the virtual machine as a child; neither outlives the other."""
    from harness.online import gateway as front  # a party without clients should not pay for it

    data, party, number = Path(DATA), config["party"], secrets.randbelow(1 << 31)
    trust(make_key(data, f"C{number}", f"C{number}"), data, f"C{number}")
    port = config["front"]["machine_port"] - party  # the virtual machine adds the party's number
    machine = os.fork()
    if machine == 0:
        die_with_parent()
        sandbox.signal_only(os.getpid())
        _supply_secrets(config)
        _become(config, str(port), str(number))
    sandbox.signal_only(os.getpid(), machine)
    of_front = {**config["front"], "started": started, "parties": len(config["common_names"])}
    return front.main(of_front, party, number, data, machine)


def _become(config: dict[str, Any], *more: str) -> NoReturn:
    os.execve(
        config["argv"][0],
        [*config["argv"], *more],
        {**os.environ, **config.get("environment", {}), **expecting(Path(DATA).glob("*.pem"))},
    )


def _redirect_output() -> None:
    log = os.open(LOG, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(log, 1)
    os.dup2(log, 2)


def _supply_secrets(config: dict[str, Any]) -> None:
    """Put shares of clients' bits, own bits, and values with own noise in memory for the engine.

    Bits and noise come fresh from the operating system, but for a test program's.
    """
    data, party, own = Path(DATA), config["party"], config.get("distributed_noise")
    shared, file = data / SHARED_BITS, data / GIVEN_BITS
    given = [int(word) for word in file.read_text().split()] if file.exists() else None
    if own:
        from harness.engines.parties import inputs  # a party without distributed noise should not pay for it

        values = data / values_file(party)
        column = values.read_bytes() if values.exists() else b""
        _link_to_memory(
            values, inputs.with_noise(own, column, inputs.noise_of(own) if given is None else given)
        )
    bits = given
    if bits is None or own:
        bits = [secrets.randbits(width) for width, lanes in config["fair_bits"] for _ in range(lanes)]
    of_clients = shared.read_bytes() if shared.exists() else b""
    _link_to_memory(data / bits_file(party), of_clients + "".join(f"{value}\n" for value in bits).encode())


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
