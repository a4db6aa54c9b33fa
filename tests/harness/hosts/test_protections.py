"""What a host says of its kernel, where a party's process cannot be shut off from all else there."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from fairshares.harness.cli.commands.hosts import checked
from fairshares.harness.engines.parties.sandbox import Protection
from fairshares.harness.errors import HostUnfitError
from fairshares.harness.hosts import local_host
from fairshares.harness.hosts.agent import Work
from fairshares.harness.hosts.fleet import LOOKED_AT, Finding, HostAnswer
from fairshares.harness.hosts.inventory import Host
from fairshares.harness.hosts.messages import Check, HostFacts
from fairshares.harness.system.documents import Refusal, as_type
from fairshares.harness.views.hosts import findings
from fairshares.harness.views.parts import Bad, Table
from tests.support.coordinators import MODEL, as_sent

LACKS = {
    "all": (),
    "ports": (Protection.PORTS,),
    "everything": tuple(Protection),
}


def host_at(directory: Path, client_port: int | None = None) -> Host:
    return Host(0, "10.0.0.1", str(directory), "/srv/FairShares", 12000, client_port=client_port)


def answer_of(directory: Path) -> HostAnswer:
    with ExitStack() as stack:
        check = Check(party=0, security=MODEL.name, port=0, client_ports=[])
        told = as_sent(Work(directory, stack).host.check(check))
    facts = as_type(HostFacts, told, Refusal(HostUnfitError, "It", "facts", "none"))
    return HostAnswer(facts, skew_s=0.0)


@pytest.mark.parametrize("lacks", LACKS.values(), ids=LACKS)
def test_a_host_tells_what_its_partys_process_could_do(
    lacks: tuple[Protection, ...], hosts: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is said, also in JSON, and is no fault: the run's links and shares are protected as before."""
    monkeypatch.setattr(local_host, "missing", lambda: lacks)
    finding = Finding(host_at(hosts[0]), answer=answer_of(hosts[0]))
    row = finding.to_json()
    assert row["party_can"] == [protection.value for protection in lacks] and row["fit"]
    shown = [part for part in findings([checked(finding)], LOOKED_AT, MODEL.name) if isinstance(part, str)]
    said = [part for part in shown if part.startswith("Party 0 (10.0.0.1): code that took over its process")]
    assert len(said) == bool(lacks)
    assert all(protection.value in said[0] for protection in lacks)


def row_of(finding: Finding) -> dict[str, str]:
    """Return a host's row in the table of findings, by column."""
    table = next(iter(findings([checked(finding)], LOOKED_AT, MODEL.name)))
    assert isinstance(table, Table)
    return dict(zip(table.columns, table.rows[0], strict=True))


def test_what_was_not_checked_has_no_mark(hosts: list[Path]) -> None:
    """An unreached host has one mark; a host without a port for clients has none for it."""
    unreached = row_of(Finding(host_at(hosts[0], 12010), faults={"ssh": "It has no key."}))
    assert isinstance(unreached["ssh"], Bad)
    assert {unreached[name] for name in LOOKED_AT if name != "ssh"} == {"–"}
    answer = answer_of(hosts[0])
    fit = row_of(Finding(host_at(hosts[0], 12010), answer=answer))
    assert {fit[name] for name in LOOKED_AT} == {"✓"}
    late = row_of(Finding(host_at(hosts[0]), faults={"clock": "It is late."}, answer=answer))
    assert isinstance(late["clock"], Bad) and late["clients"] == "–" and late["port"] == "✓"
