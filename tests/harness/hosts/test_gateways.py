"""Hosts behind gateways (`ProxyJump`): no key is taken on trust on the whole way, against two sshds."""

from collections.abc import Iterator
from functools import partial
from getpass import getuser
from pathlib import Path

import pytest

from fairshares.harness.engines.parties.supervisor import free_ports
from fairshares.harness.errors import HostUnreachableError
from fairshares.harness.hosts import connection
from fairshares.harness.hosts.inventory import Host
from tests.support.running import until
from tests.support.ssh import answers, make_ssh_files, reached_by, start_sshd, write_key

ADDRESS = "127.0.0.1"
GATEWAY = "localhost"  # another name, as nothing is its own gateway


@pytest.fixture
def behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Host, str]]:
    """Return a host that is reached through a gateway, and the line of that gateway's key.

    Only the host's own key is in the file of known hosts' keys.
    """
    home = tmp_path / "home"
    (home / ".ssh").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    with free_ports(2) as (port, at):
        make_ssh_files(tmp_path / "host", [f"[{ADDRESS}]:{port}"])
        make_ssh_files(tmp_path / "gateway", [f"[{GATEWAY}]:{at}"])
        (tmp_path / "gateway" / "key").rename(home / ".ssh" / "id_ed25519")
        (home / ".ssh" / "config").write_text(f"Host {ADDRESS}\n  ProxyJump {getuser()}@{GATEWAY}:{at}\n")
        servers = []
        try:
            for name, one in (("host", port), ("gateway", at)):
                servers.append(start_sshd(tmp_path / name, ADDRESS, one))
                until(partial(answers, ADDRESS, one))
            host = Host(
                party=0,
                address=ADDRESS,
                directory="/srv/fairshares",
                project="/srv/FairShares",
                port=9000,
                ssh_port=port,
                client_port=None,
                **reached_by(tmp_path / "host"),
            )
            yield host, (tmp_path / "gateway" / "known_hosts").read_text()
        finally:
            for server in servers:
                server.terminate()
                server.wait()


def add_known(host: Host, line: str) -> None:
    """Add a line to the host's file of known keys."""
    assert host.known_hosts is not None
    with Path(host.known_hosts).open("a") as known:
        known.write(line)


def test_a_gateway_is_entered_only_if_its_key_is_known(behind: tuple[Host, str], tmp_path: Path) -> None:
    host, gateways_key = behind
    with pytest.raises(
        HostUnreachableError,
        match=rf"^Host {ADDRESS} \(party 0\): the gateway {GATEWAY}'s ssh host key is not in .*known_hosts; "
        r"connect once by ssh and compare it\.$",
    ):
        connection._open(host)
    assert "Accepted" not in (tmp_path / "gateway" / "log").read_text()
    add_known(host, gateways_key)
    ssh = connection._open(host)
    try:
        assert ssh.is_connected and ssh.gateway is not None
    finally:
        ssh.close()
        ssh.gateway.close()


def test_a_gateway_with_another_key_than_the_known_one(behind: tuple[Host, str], tmp_path: Path) -> None:
    host, gateways_key = behind
    add_known(host, f"{gateways_key.split()[0]} {write_key(tmp_path / 'other')}\n")
    with pytest.raises(HostUnreachableError, match=rf"the gateway {GATEWAY}'s ssh host key is not the one"):
        connection._open(host)
    assert "Accepted" not in (tmp_path / "gateway" / "log").read_text()


def test_the_host_behind_a_known_gateway_has_to_be_known_too(
    behind: tuple[Host, str], tmp_path: Path
) -> None:
    host, gateways_key = behind
    assert host.known_hosts is not None
    Path(host.known_hosts).write_text(gateways_key)
    with pytest.raises(HostUnreachableError, match=r": its ssh host key is not in .*; connect once by ssh"):
        connection._open(host)
    assert "Accepted" not in (tmp_path / "host" / "log").read_text()
