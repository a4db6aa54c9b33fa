"""What a host says of its kernel, where a party's process cannot be shut off from all else there."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from fairshares.harness.cli.commands.hosts import checked
from fairshares.harness.engines.parties.sandbox import Protection
from fairshares.harness.errors import HostUnfitError
from fairshares.harness.hosts import local_host
from fairshares.harness.hosts.agent import Work
from fairshares.harness.hosts.fleet import Finding
from fairshares.harness.hosts.inventory import Host
from fairshares.harness.hosts.messages import Check, HostFacts
from fairshares.harness.system.documents import Refusal, as_type
from fairshares.harness.views.hosts import findings
from tests.support.coordinators import MODEL, as_sent

LACKS = {
    "all": (),
    "ports": (Protection.PORTS,),
    "everything": tuple(Protection),
}


@pytest.mark.parametrize("lacks", LACKS.values(), ids=LACKS)
def test_a_host_tells_what_its_partys_process_could_do(
    lacks: tuple[Protection, ...], hosts: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is said, also in JSON, and is no fault: the run's links and shares are protected as before."""
    monkeypatch.setattr(local_host, "missing", lambda: lacks)
    with ExitStack() as stack:
        check = Check(party=0, security=MODEL.name, port=0, client_ports=[])
        told = as_sent(Work(hosts[0], stack).host.check(check))
    facts = as_type(HostFacts, told, Refusal(HostUnfitError, "It", "facts", "none"))
    finding = Finding(Host(0, "10.0.0.1", str(hosts[0]), "/srv/FairShares", 12000), facts=facts)
    row = finding.to_json()
    assert row["party_can"] == [protection.value for protection in lacks] and row["fit"]
    shown = [part for part in findings([checked(finding)], MODEL.name) if isinstance(part, str)]
    said = [part for part in shown if part.startswith("Party 0 (10.0.0.1): code that took over its process")]
    assert len(said) == bool(lacks)
    assert all(protection.value in said[0] for protection in lacks)
