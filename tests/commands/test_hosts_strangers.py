"""What a coordinator of its own got hosts to do that they should not."""

import json
import socket
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from harness.engines.parties.certificates import make_key
from harness.engines.parties.supervisor import free_ports
from harness.errors import CertificateError
from harness.hosts import keys
from harness.inputs.shares.party import ANY
from tests.support.coordinator import LOOPBACK, Agent, Refused, agents, agreed, begun, fed, opened, ready
from tests.support.coordinators import asked, have_port, make_hosts, now
from tests.support.parties_on_hosts import charges


def list_of(one: Agent, party: int, run: dict[str, str]) -> dict[str, str]:
    one.ask("propose", asked=run)
    signed: dict[str, str] = one.ask("check_uploads", party=party, rules=ANY.to_json())
    return signed


def agreement(
    one: Agent, party: int, lists: dict[int, dict[str, str]], ports: Sequence[int], started: str
) -> dict[str, str]:
    for of, signed in lists.items():
        if of != party:
            one.ask("take_list", of=of, signed=signed)
    one.ask("aggregate", party=party)
    one.ask("prepare", run="0" * 32, party=party, addresses=[(LOOPBACK, port) for port in ports])
    nonces = [json.loads(lists[i]["said"])["nonce"] for i in range(len(ports))]
    signed_run: dict[str, str] = one.ask("agree", nonces=nonces, started=started)
    return signed_run


def test_no_two_hosts_begin_different_runs(tmp_path: Path) -> None:
    """Connections list uploads, and so give nonces away, before any has the turn."""
    hosts = make_hosts(tmp_path)
    one_run, other_run, started = asked(), asked(epsilon="2"), now().isoformat()
    began = []
    with free_ports(len(hosts)) as ports, agents(hosts) as (first, *rest), suppress(Refused):
        for host, port in zip(hosts, ports, strict=True):
            have_port(host, port)
        lists = {0: list_of(first, 0, one_run)}
        other_lists = {i: list_of(one, i, other_run) for i, one in enumerate(rest, 1)}
        with agents(hosts[1:]) as passing:
            lists |= {i: list_of(one, i, one_run) for i, one in enumerate(passing, 1)}
            signed = {i: agreement(one, i, lists, ports, started) for i, one in enumerate(passing, 1)}
        with agents(hosts[:1]) as (passing_first,):
            other_lists[0] = list_of(passing_first, 0, other_run)
            other_signed = {0: agreement(passing_first, 0, other_lists, ports, started)}
        signed[0] = agreement(first, 0, lists, ports, started)
        other_signed |= {i: agreement(one, i, other_lists, ports, started) for i, one in enumerate(rest, 1)}
        for one in (first, *rest):
            ready(one)
        for one, agreed_to in zip((first, *rest), (signed, other_signed, other_signed), strict=True):
            one.ask("go", agreed=agreed_to)
            began.append(one)
    assert not began


def test_a_pinned_certificate_brings_no_other_one(tmp_path: Path) -> None:
    """OpenSSL trusts all that a file holds; people compare the fingerprint of the first."""
    texts = []
    for party in (0, 1):
        texts.append(keys.make_keys(tmp_path / f"host-{party}", party, renew=False))
    more = make_key(tmp_path, "more", "P1").read_text()
    with pytest.raises(CertificateError):
        keys.pin(tmp_path / "host-0", 0, {name: {1: texts[1][name] + more} for name in texts[1]})


def test_no_request_frees_the_port_between_agreement_and_start(tmp_path: Path) -> None:
    hosts = make_hosts(tmp_path)
    with free_ports(len(hosts)) as ports, agents(hosts) as made:
        fed(made, asked())
        agreed(made, ports)
        made[0].ask("stop_listening")
        with pytest.raises(OSError, match="in use"):
            socket.create_server(("", ports[0])).close()


def test_a_host_begins_nothing_before_its_party_is_there(tmp_path: Path) -> None:
    """It would be charged; and no time would end the turn."""
    hosts = make_hosts(tmp_path)
    with free_ports(len(hosts)) as ports, agents(hosts) as made:
        fed(made, asked())
        signed = agreed(made, ports)
        with pytest.raises(Refused):
            made[0].ask("go", agreed=signed)
        assert charged(hosts[0]) == 0


def test_a_run_is_charged_once(tmp_path: Path) -> None:
    hosts = make_hosts(tmp_path)
    with free_ports(len(hosts)) as ports, agents(hosts) as made:
        fed(made, asked())
        signed = agreed(made, ports)
        begun(made, signed)
        opened(made)
        with pytest.raises(Refused):
            made[0].ask("go", agreed=signed)
        assert charged(hosts[0]) == 1


def charged(host: Path) -> int:
    return len(charges(host, "loans"))
