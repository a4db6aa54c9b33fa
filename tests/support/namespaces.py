"""Hosts for tests, each with a network, sshd, home and firewall of its own (Linux, as root)."""

import ctypes
import ipaddress
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

import pytest

from fairshares.harness.engines.mpspdz.compiler import Installation, find_installation
from fairshares.harness.hosts.inventory import Host
from fairshares.harness.security_models import SecurityModel
from tests.conftest import PROJECT
from tests.support import delaying
from tests.support.running import until
from tests.support.ssh import Site, answers, make_ssh_files, reached_by, start_sshd

PORT, CLIENT_PORT, SSH_PORT = 12000, 12100, 22  # the same at every host, as each has its own address
_RELAYED = 20_000  # plus a party, where the coordinator's network relays to it
COORDINATOR, CLIENT = "coordinator", "client"
_ADDRESSES = {COORDINATOR: "10.77.0.254", CLIENT: "10.77.0.253"}
_BRIDGE, _CARD = "bridge", "eth0"
_PREFIX = "fairshares"  # of namespaces' names; then follows the process that made them
_NAMES = Path("/run/netns")  # where `ip` keeps namespaces by name
_NUMBERS = count()
_CLONE_NEWNET = 0x40000000
_LIBC = ctypes.CDLL(None, use_errno=True)

Rule = tuple[str | None, int]  # from which address, None for any; to which port


@dataclass(frozen=True)
class NetworkedSite(Site):
    """Hosts, a coordinator and a client, each in a network namespace; this machine's network stays as it is.

    Attributes: model: whose parties are there; name: with which the namespaces' names begin.
    """

    model: SecurityModel
    name: str
    sshds: dict[int, subprocess.Popen[bytes]]

    @contextmanager
    def inside(self, who: int | str) -> Iterator[None]:
        """Have this thread, and what it starts, on the network of a host, the coordinator or the client."""
        before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        wanted = os.open(_NAMES / self.namespace(who), os.O_RDONLY)
        try:
            _enter(wanted)
            yield
        finally:
            _enter(before)
            os.close(wanted)
            os.close(before)

    def namespace(self, who: int | str) -> str:
        """Return the name of a host's namespace, the coordinator's or the client's."""
        return f"{self.name}-{who}"

    def documented(self, i: int) -> set[Rule]:
        """Return which ports of a host the documentation says are open, and to whom."""
        connect = self.hosts[i + 1 :] if self.model.virtual_machine else self.hosts[:i]
        parties = {(host.address, PORT) for host in connect}
        return {(_ADDRESSES[COORDINATOR], SSH_PORT), (None, CLIENT_PORT), *parties}

    def open_only(self, i: int, rules: Iterable[Rule]) -> None:
        """Let connections begin to a host by these rules only, whatever listens there."""
        _filter(self.namespace(i), _CARD, rules)

    @contextmanager
    def far_apart(self, delay_s: float) -> Iterator[None]:
        """Have hosts reach each other through the coordinator's network alone, which delays what they send.

        Args:
            delay_s: The delay of each direction, in seconds.
        """
        ways, relayed = [], list(self.hosts)
        for host in self.hosts:
            port = _RELAYED + host.party
            ways.append(f"{port}:{host.address}:{PORT}")
            relayed[host.party] = replace(host, reached_at=f"{_ADDRESSES[COORDINATOR]}:{port}")
            through = {(_ADDRESSES[COORDINATOR], port) for port in (SSH_PORT, PORT)}
            self.open_only(host.party, {*through, (None, CLIENT_PORT)})
        _filter(self.namespace(COORDINATOR), _BRIDGE, [(None, _RELAYED + host.party) for host in self.hosts])
        with self.inside(COORDINATOR):
            relay = subprocess.Popen(
                [sys.executable, "-m", delaying.__name__, str(delay_s), _ADDRESSES[COORDINATOR], *ways],
                cwd=PROJECT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
        try:
            assert relay.stdout is not None and relay.stdout.readline() == b"ready\n"
            replace(self, hosts=tuple(relayed)).write()
            yield
        finally:
            relay.kill()
            relay.communicate()
            self.write()

    def boot(self, i: int) -> None:
        """Connect a host to the network, and start its sshd, by which its user has a home of its own."""
        address = self.hosts[i].address
        _join(self, i, address)
        self.open_only(i, self.documented(i))
        home = self.home.parent / f"home-{i}"
        home.mkdir(mode=0o700, exist_ok=True)
        with self.inside(i):
            sshd = start_sshd(self.ssh_directory, address, SSH_PORT, f"SetEnv HOME={home}")
        self.sshds[i] = sshd
        with self.inside(COORDINATOR):
            until(lambda: answers(address, SSH_PORT) or sshd.poll() is not None)
        assert sshd.poll() is None, (self.ssh_directory / "log").read_text()

    def cut_power(self, i: int) -> None:
        """Take a host away as it is: nothing that runs there says goodbye to anybody."""
        _ip("-n", self.namespace(COORDINATOR), "link", "delete", f"to-{i}")
        _remove(self.namespace(i))
        self.sshds[i].wait()


@contextmanager
def networked_site(directory: Path, model: SecurityModel) -> Iterator[NetworkedSite]:
    """Yield hosts whose documented ports alone are open; skip the test where there can be none.

    Guarantees: afterwards no process and no namespace is left; what a killed test left is removed first.
    """
    ssh, home = directory / "ssh", directory / "home"
    home.mkdir(mode=0o700)
    installation = find_installation()
    addresses = [f"10.77.0.{i + 1}" for i in range(model.parties)]
    make_ssh_files(ssh, addresses)
    hosts = tuple(
        Host(
            party=i,
            address=address,
            directory=str(directory / f"host-{i}"),
            project=str(PROJECT),
            port=PORT,
            client_port=CLIENT_PORT,
            ssh_port=SSH_PORT,
            mp_spdz_home=str(installation.home) if isinstance(installation, Installation) else "",
            **reached_by(ssh),
        )
        for i, address in enumerate(addresses)
    )
    made = NetworkedSite(hosts, home, ssh, model, f"{_PREFIX}-{os.getpid()}-{next(_NUMBERS)}", {})
    made.write()
    _remove_leftovers()
    try:
        _connect(made)
        for i in range(model.parties):
            made.boot(i)
        yield made
    finally:
        for name in _names():
            if name.startswith(f"{made.name}-"):
                _remove(name)
        for sshd in made.sshds.values():
            sshd.wait()


def _connect(site: NetworkedSite) -> None:
    """Make the coordinator's network, which has the bridge, and the client's; skip where that is refused."""
    coordinator = site.namespace(COORDINATOR)
    try:
        _ip("netns", "add", coordinator)
        _ip("-n", coordinator, "link", "set", "lo", "up")
        _ip("-n", coordinator, "link", "add", _BRIDGE, "type", "bridge")
        _ip("-n", coordinator, "addr", "add", f"{_ADDRESSES[COORDINATOR]}/24", "dev", _BRIDGE)
        _ip("-n", coordinator, "link", "set", _BRIDGE, "up")
        _filter(coordinator, _BRIDGE, ())
        _join(site, CLIENT, _ADDRESSES[CLIENT])
        _filter(site.namespace(CLIENT), _CARD, ())
    except (FileNotFoundError, subprocess.CalledProcessError) as error:
        said = getattr(error, "stderr", "").strip() or error
        pytest.skip(
            f"networks of hosts' own take root, iproute2, and a kernel with bridges and filters: {said}"
        )


def _join(site: NetworkedSite, who: int | str, address: str) -> None:
    """Make a namespace with a network card that the bridge connects."""
    name, card = site.namespace(who), f"to-{who}"
    number = address.rpartition(".")[2]
    _ip("netns", "add", name)
    peer = ("peer", "name", _CARD, "address", f"02:00:00:00:00:{int(number):02x}", "netns", name)
    _ip("-n", site.namespace(COORDINATOR), "link", "add", card, "type", "veth", *peer)
    _ip("-n", site.namespace(COORDINATOR), "link", "set", card, "master", _BRIDGE, "up")
    _ip("-n", name, "addr", "add", f"{address}/24", "dev", _CARD)
    for device in ("lo", _CARD):
        _ip("-n", name, "link", "set", device, "up")


def _filter(namespace: str, device: str, rules: Iterable[Rule]) -> None:
    """Drop what comes in and is not ARP or TCP, or begins a connection that no rule allows.

    In classic BPF, as (code, jump if true, jump if false, operand): that takes no firewall to be installed.
    """
    accept, drop = (6, 0, 0, 0), (6, 0, 0, 2)
    program = [(40, 0, 0, 12), (21, 0, 1, 0x806), accept, (21, 1, 0, 0x800), drop]  # Ethernet's type
    program += [(48, 0, 0, 23), (21, 1, 0, 6), drop]  # the protocol
    # Of TCP's flags SYN and ACK: the first packet of a connection has SYN only.
    program += [(177, 0, 0, 14), (80, 0, 0, 27), (84, 0, 0, 0x12), (21, 1, 0, 2), accept]
    for source, port in rules:
        if source is None:
            program += [(72, 0, 0, 16), (21, 0, 1, port), accept]
        else:
            number = int(ipaddress.IPv4Address(source))
            program += [(72, 0, 0, 16), (21, 0, 3, port), (32, 0, 0, 26), (21, 0, 1, number), accept]
    program.append(drop)
    text = ",".join([str(len(program)), *(" ".join(map(str, instruction)) for instruction in program)])
    bpf = ("bpf", "direct-action", "bytecode", text)
    _run("tc", "-n", namespace, "qdisc", "replace", "dev", device, "clsact")
    _run(
        "tc", "-n", namespace, "filter", "replace", "dev", device, "ingress", "pref", "1", "handle", "1", *bpf
    )


def _remove_leftovers() -> None:
    """Remove what was made by tests that were killed."""
    for name in _names():
        prefix, _, rest = name.partition("-")
        if prefix == _PREFIX and not Path("/proc", rest.partition("-")[0]).exists():
            _remove(name)


def _remove(namespace: str) -> None:
    """End all that runs in a namespace, and the namespace."""

    def is_empty() -> bool:
        left = _processes(namespace)
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return not left

    until(is_empty)
    _ip("netns", "delete", namespace)


def _names() -> list[str]:
    return [path.name for path in _NAMES.iterdir()] if _NAMES.exists() else []


def _processes(namespace: str) -> list[int]:
    return [int(pid) for pid in _ip("netns", "pids", namespace).split()]


def _ip(*arguments: str) -> str:
    return _run("ip", *arguments)


def _run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def _enter(namespace: int) -> None:
    if _LIBC.setns(namespace, _CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")
