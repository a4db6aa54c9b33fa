"""`hosts.toml`: which host is which party, how this machine reaches it, how the other parties do."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from harness.errors import HostsFileError
from harness.security_models import Model, get_model
from harness.system.documents import Refusal, as_type, read_toml

ADDRESS = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_REACHED = re.compile(r"(?:([A-Za-z0-9_][A-Za-z0-9_.-]*):)?([0-9]{1,5})")
_PORTS = range(1, 1 << 16)
_WAY_OUT = "docs/how-to/hosts.md shows what it says of each host, and --hosts names another file"


@dataclass(frozen=True)
class Host:
    """One party's host.

    Attributes: address: where ssh reaches it; directory: its own, for key, certificates, shares and runs;
    project: where FairShares is there; port: where its party listens; key_file, known_hosts: of this
    machine, empty for ssh's usual ones; mp_spdz_home: of the host, empty for where it is usually looked
    for; reached_at: address and port by which other parties reach it, where these differ (NAT);
    client_port: where it takes clients that send while the parties run, 0 if it takes none; the next port
    is its virtual machine's own; client_reached_at: as reached_at, for clients.
    """

    party: int
    address: str
    directory: str
    project: str
    port: int
    ssh_user: str = ""
    ssh_port: int = 0
    key_file: str = ""
    known_hosts: str = ""
    mp_spdz_home: str = ""
    reached_at: str = ""
    client_port: int = 0
    client_reached_at: str = ""

    def __post_init__(self) -> None:
        where = f"the host of party {self.party}"
        if not ADDRESS.fullmatch(self.address):
            raise HostsFileError(f"{where}: address must be a name or an IPv4 address; got {self.address!r}.")
        for name in ("directory", "project"):
            path = getattr(self, name)
            if not PurePosixPath(path).is_absolute() or not path.isprintable():
                raise HostsFileError(f"{where}: {name} must be an absolute path; got {path!r}.")
        if self.port not in _PORTS or (self.ssh_port and self.ssh_port not in _PORTS):
            raise HostsFileError(f"{where}: a port is a number from 1 to {_PORTS[-1]}.")
        if self.client_port and not {*self.client_ports} <= {*_PORTS} - {self.port}:
            raise HostsFileError(
                f"{where}: client_port, and the port after it, must be from 1 to {_PORTS[-1]} and other ones "
                f"than port; got {self.client_port}."
            )
        if self.client_reached_at and not self.client_port:
            raise HostsFileError(f"{where}: client_reached_at needs client_port.")
        for name in ("reached_at", "client_reached_at"):
            text = getattr(self, name)
            match = _REACHED.fullmatch(text)
            if text and (match is None or int(match[2]) not in _PORTS):
                raise HostsFileError(f"{where}: {name} must be address:port, or a port; got {text!r}.")

    @property
    def name(self) -> str:
        """What messages call it."""
        return f"host {self.address} (party {self.party})"

    @property
    def title(self) -> str:
        """Its name at the beginning of a sentence."""
        return self.name.replace("host", "Host", 1)

    @property
    def reached(self) -> tuple[str, int]:
        """Address and port by which other parties reach it."""
        return self._reached(self.reached_at, self.port)

    @property
    def client_reached(self) -> tuple[str, int]:
        """Address and port by which clients reach it."""
        return self._reached(self.client_reached_at, self.client_port)

    @property
    def client_ports(self) -> tuple[int, ...]:
        """Where its gateway and its virtual machine listen for clients, if it takes any."""
        return (self.client_port, self.client_port + 1) if self.client_port else ()

    def _reached(self, at: str, port: int) -> tuple[str, int]:
        match = _REACHED.fullmatch(at)
        return ((match[1] or self.address), int(match[2])) if match else (self.address, port)


@dataclass(frozen=True)
class _Inventory:
    """What the file holds: a table [[host]] for each party."""

    host: list[Host]


def read_hosts(path: Path) -> list[Host]:
    """Return the hosts in a file, in the order of their parties.

    Raises: HostsFileError: it cannot be read, or parties are missing, doubled, or described wrongly.
    """
    refusal = Refusal(HostsFileError, str(path), "a list of hosts", _WAY_OUT)
    found = as_type(_Inventory, read_toml(path, refusal), refusal)
    hosts = sorted(found.host, key=lambda host: host.party)
    if [host.party for host in hosts] != list(range(len(hosts))):
        raise HostsFileError(f"{path} must number its parties 0, 1, 2 …, each once.")
    return hosts


def hosts_for(model: Model, hosts: Sequence[Host], path: Path) -> list[Host]:
    """Return the hosts of the model's parties. Raises: HostsFileError: there are too few."""
    if len(hosts) < model.parties:
        raise HostsFileError(
            f"{path} has hosts for {len(hosts)} parties, model {model.name} has {model.parties}; "
            "add hosts, or choose another model with --model."
        )
    return list(hosts[: model.parties])


def default_model(hosts: Sequence[Host]) -> Model:
    """Return the model of MP-SPDZ that runs on so many hosts: ring on three or more, else one for two."""
    return get_model("ring" if len(hosts) >= get_model("ring").parties else "semi2k")
