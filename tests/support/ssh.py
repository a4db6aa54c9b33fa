"""Hosts for tests: directories of this machine, each reached over ssh through an sshd of the tests' own."""

import getpass
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519

from fairshares.harness.engines.parties.supervisor import free_ports
from fairshares.harness.hosts.inventory import Host
from fairshares.harness.security_models import SecurityModel
from tests.conftest import PROJECT
from tests.support.command import succeed
from tests.support.planted import check_logs_below
from tests.support.running import until
from tests.support.sharing import to_hosts, trial_by_command

# Of an owner who takes part in all that these tests run.
POLICY = """
[[population]]
name = "*"
epsilon = 1000
delta = "2^-20"
epsilon_per_run = 20
delta_per_run = "2^-30"
"""
_CONFIG = """
ListenAddress {address}
Port {port}
HostKey {directory}/host_key
AuthorizedKeysFile {directory}/authorized_keys
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
Subsystem sftp internal-sftp
{more}
"""


@dataclass(frozen=True)
class Site:
    """Hosts of a few parties. `home` is where the machine that starts runs works."""

    hosts: tuple[Host, ...]
    home: Path
    ssh_directory: Path

    def directory(self, party: int) -> Path:
        """Return a host's own directory."""
        return Path(self.hosts[party].directory)

    def with_host(self, party: int, **changes: object) -> "Site":
        """Return the same hosts, one of them described otherwise, in `hosts.toml` too."""
        hosts = list(self.hosts)
        hosts[party] = replace(hosts[party], **changes)  # type: ignore[arg-type]
        changed = replace(self, hosts=tuple(hosts))
        changed.write()
        return changed

    def write(self) -> None:
        """Write `hosts.toml`."""
        text = ""
        for host in self.hosts:
            fields = {name: value for name, value in vars(host).items() if value is not None}
            lines = (
                f"{name} = {value}" if isinstance(value, int) else f'{name} = "{value}"'
                for name, value in fields.items()
            )
            text += "[[host]]\n" + "\n".join(lines) + "\n\n"
        (self.home / "hosts.toml").write_text(text)


def write_key(path: Path) -> str:
    """Draw an ssh key into a file; return its public half."""
    key = ed25519.Ed25519PrivateKey.generate()
    path.touch(mode=0o600)
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
        )
    )
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return public.decode()


@contextmanager
def site(directory: Path, parties: int) -> Iterator[Site]:
    """Yield hosts that are reached over an sshd which runs meanwhile; skip the test where there is none."""
    with ExitStack() as stack:
        # A whole block, so one is next to the other; the first is free.
        _, port, *ports = stack.enter_context(free_ports(15))
        of_clients = ports[parties::2]
        if parties > 4:
            of_clients = stack.enter_context(free_ports(15))[:-1:2]
        yield from _site(directory, port, ports[:parties], of_clients)


def _site(directory: Path, port: int, ports: list[int], client_ports: list[int]) -> Iterator[Site]:
    ssh, home = directory / "ssh", directory / "home"
    home.mkdir(mode=0o700)
    make_ssh_files(ssh, [f"[127.0.0.1]:{port}"])
    hosts = tuple(
        Host(
            party=i,
            address="127.0.0.1",
            directory=str(directory / f"host-{i}"),
            project=str(PROJECT),
            port=ports[i],
            client_port=client_ports[i],
            ssh_port=port,
            **reached_by(ssh),
        )
        for i in range(len(ports))
    )
    process = start_sshd(ssh, "127.0.0.1", port)
    try:
        made = Site(hosts, home, ssh)
        made.write()
        until(lambda: answers("127.0.0.1", port) or process.poll() is not None)
        assert process.poll() is None, (ssh / "log").read_text()
        yield made
    finally:
        process.terminate()
        process.wait()
    check_logs_below(directory)


def set_up(made: Site, model: SecurityModel, policy: str = POLICY) -> None:
    """Set a model's hosts up, by command, each with its shares of records: 30 of (a, 0), 20 of (b, 1)."""
    (made.home / "policy.toml").write_text(policy)
    succeed("hosts.setup", "--policy", "policy.toml", cwd=made.home)
    dealer = made.home.parent / "dealer"
    write_records(dealer)
    declared = ["--groups", "a,b", "--labels", "0,1", "--max-count", "5", "--epsilon", "20"]
    trial_by_command("shares", model, *declared, cwd=dealer)
    of_task = ("--task", "shares/task.json", "--records", "records.csv", "--out", "shares")
    succeed("share", *of_task, cwd=dealer)
    to_hosts(dealer / "shares", [made.directory(i) for i in range(model.parties)])


def write_records(dealer: Path) -> None:
    """Make a directory with records.csv, of 50 clients: 30 of (a, 0), 20 of (b, 1)."""
    dealer.mkdir()
    rows = (f"c{i},{'a,0' if i < 30 else 'b,1'}\n" for i in range(50))
    (dealer / "records.csv").write_text("client_id,group,label\n" + "".join(rows))


def make_ssh_files(ssh: Path, names: Iterable[str]) -> None:
    """Make keys of a user and of an sshd, which know each other. Args: names: by which it is reached."""
    ssh.mkdir(mode=0o700)
    public = write_key(ssh / "host_key")
    (ssh / "known_hosts").write_text("".join(f"{name} {public}\n" for name in names))
    (ssh / "authorized_keys").write_text(write_key(ssh / "key") + "\n")


def reached_by(ssh: Path) -> dict[str, str]:
    """Return what of a host's description says how ssh gets in with these files."""
    files = {"key_file": str(ssh / "key"), "known_hosts": str(ssh / "known_hosts")}
    return {"ssh_user": getpass.getuser(), **files}


def start_sshd(ssh: Path, address: str, port: int, more: str = "") -> subprocess.Popen[bytes]:
    """Start an sshd with these files; skip the test where there is none. Args: more: lines of its own."""
    sshd = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if sshd is None:
        pytest.skip("hosts are tried over ssh, and there is no sshd (of the package openssh-server)")
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)  # where it shuts parts of itself in, as root
    config = ssh / f"config-{address}"
    config.write_text(_CONFIG.format(address=address, port=port, directory=ssh, more=more))
    with (ssh / "log").open("ab") as log:
        return subprocess.Popen([sshd, "-D", "-e", "-f", config], stderr=log, start_new_session=True)


def copy_of_project(directory: Path, sitecustomize: str = "") -> Path:
    """Return a copy of the project's code, with this environment; what Python runs first there, if given."""
    for name in ("fairshares", "harness", "protocols", "Programs"):
        shutil.copytree(
            PROJECT / name, directory / name, symlinks=True
        )  # what is compiled, too: hosts write no bytecode
    (directory / "sitecustomize.py").write_text(sitecustomize)  # on the path, as the project is
    give_environment(directory)
    return directory


def give_environment(project: Path) -> None:
    """Have code in a directory run with the packages of this environment."""
    python = project / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o700)


def answers(address: str, port: int) -> bool:
    """Return whether something takes connections there."""
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex((address, port)) == 0
