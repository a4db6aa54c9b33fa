"""`hosts.toml`: each party's host, and how it is reached."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from fairshares.harness.bounds import HOST_NAME
from fairshares.harness.errors import HostsFileError, named
from fairshares.harness.security_models import SecurityModel, get_model
from fairshares.harness.system.documents import Refusal, TomlValue, as_type, read_toml

_REACHED = re.compile(r"(?:([A-Za-z0-9_][A-Za-z0-9_.-]*):)?([0-9]{1,5})")
_PORTS = frozenset(range(1, 1 << 16))


@dataclass(frozen=True)
class Host:
    """One party's host; docs/how-to/hosts.md explains the fields.

    `reached_at` differs from the own address and port behind NAT. The port after `client_port` is the virtual
    machine's.
    """

    party: int
    address: str
    directory: str
    project: str
    port: int
    ssh_user: str | None = None
    ssh_port: int | None = None
    key_file: str | None = None
    known_hosts: str | None = None
    mp_spdz_home: str | None = None
    reached_at: str | None = None
    client_port: int | None = None
    client_reached_at: str | None = None

    def __post_init__(self) -> None:
        for is_right, fault in (
            (
                HOST_NAME.fullmatch(self.address),
                f"address must be a name or an IPv4 address; got {self.address!r}",
            ),
            (_is_path(self.directory), f"directory must be an absolute path; got {self.directory!r}"),
            (_is_path(self.project), f"project must be an absolute path; got {self.project!r}"),
            (
                {self.port, self.port if self.ssh_port is None else self.ssh_port} <= _PORTS,
                f"a port is a number from 1 to {max(_PORTS)}",
            ),
            (
                {*self.client_ports} <= _PORTS - {self.port},
                f"client_port, and the port after it, must be from 1 to {max(_PORTS)} and other ones than "
                f"port; got {self.client_port}",
            ),
            (
                self.client_port is not None or self.client_reached_at is None,
                "client_reached_at needs client_port",
            ),
            (
                _is_reached_at(self.reached_at),
                f"reached_at must be address:port, or a port; got {self.reached_at!r}",
            ),
            (
                _is_reached_at(self.client_reached_at),
                f"client_reached_at must be address:port, or a port; got {self.client_reached_at!r}",
            ),
        ):
            if not is_right:
                raise HostsFileError(f"the host of party {self.party}: {fault}.")

    @property
    def name(self) -> str:
        """The host's name in messages."""
        return f"host {self.address} (party {self.party})"

    @property
    def title(self) -> str:
        """The host's name at the beginning of a sentence."""
        return self.name.replace("host", "Host", 1)

    @property
    def reached(self) -> tuple[str, int]:
        """Address and port for other parties."""
        return self._at(self.reached_at, self.port)

    @property
    def client_reached(self) -> tuple[str, int]:
        """Address and port for clients. Raises HostsFileError for a host without a port for them."""
        if self.client_port is None:
            raise HostsFileError(f"{self.title} has no client_port in the list of hosts; give it one.")
        return self._at(self.client_reached_at, self.client_port)

    @property
    def client_ports(self) -> tuple[int, ...]:
        """Ports of its gateway and its virtual machine, if any."""
        return () if self.client_port is None else (self.client_port, self.client_port + 1)

    def _at(self, at: str | None, port: int) -> tuple[str, int]:
        match = None if at is None else _REACHED.fullmatch(at)
        return ((match[1] or self.address), int(match[2])) if match else (self.address, port)


def _is_path(text: str) -> bool:
    return PurePosixPath(text).is_absolute() and text.isprintable()


def _is_reached_at(text: str | None) -> bool:
    if text is None:
        return True
    match = _REACHED.fullmatch(text)
    return match is not None and int(match[2]) in _PORTS


_NOTHING: dict[str, TomlValue] = {
    "ssh_user": "",
    "ssh_port": 0,
    "key_file": "",
    "known_hosts": "",
    "mp_spdz_home": "",
    "reached_at": "",
    "client_port": 0,
    "client_reached_at": "",
}
"""What the file may say of a host in place of leaving the field out."""


@dataclass(frozen=True)
class _Inventory:
    host: list[Host]


def _without_empty(table: Mapping[str, TomlValue]) -> dict[str, TomlValue]:
    """Return a host's table without fields that say nothing.

    Version 1.0 took "" and 0 for none, too. All other code says None.
    """
    given: dict[str, TomlValue] = {}
    for name, value in table.items():
        nothing: TomlValue = _NOTHING.get(name)
        if nothing is None or type(value) is not type(nothing) or value != nothing:
            given[name] = value
    return given


def read_hosts(path: Path) -> list[Host]:
    """Return the hosts in a file, in the parties' order, or raise HostsFileError."""
    way_out = (
        "the page on several hosts in the documentation shows what it says of each host, and "
        f"{named('hosts')} names another file"
    )
    refusal = Refusal(HostsFileError, str(path), "a list of hosts", way_out)
    fields = read_toml(path, refusal)
    tables = fields.get("host")
    if isinstance(tables, list):
        fields["host"] = [_without_empty(table) if isinstance(table, dict) else table for table in tables]
    hosts = sorted(as_type(_Inventory, fields, refusal).host, key=lambda host: host.party)
    if [host.party for host in hosts] != list(range(len(hosts))):
        raise HostsFileError(f"{path} must number its parties 0, 1, 2 …, each once.")
    return hosts


def hosts_for(model: SecurityModel, hosts: Sequence[Host], path: Path) -> list[Host]:
    """Return the hosts of the model's parties.

    Raises HostsFileError for too few, or for more where the model's number of parties was chosen.
    """
    if model.stated_parties is not None and len(hosts) > model.parties:
        raise HostsFileError(
            f"{path} has hosts for {len(hosts)} parties, and {model.parties} were asked for; choose "
            f"{named('parties', len(hosts))}, or name a file of {model.parties} hosts."
        )
    if len(hosts) < model.parties:
        raise HostsFileError(
            f"{path} has hosts for {len(hosts)} parties, model {model.name} has {model.parties}; "
            f"add hosts, or choose another model with {named('security')}."
        )
    return list(hosts[: model.parties])


def default_model(hosts: Sequence[Host], parties: int | None = None) -> SecurityModel:
    """Return MP-SPDZ's model for so many hosts: ring, or semi2k for two.

    If a number of parties is asked for, it is the first of the two that takes this number.
    """
    ring = get_model("ring")
    if parties is None:
        return ring if len(hosts) >= ring.parties else get_model("semi2k")
    return ring if ring.takes(parties) else get_model("semi2k", parties)
