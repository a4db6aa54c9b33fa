"""What the terminal shows of hosts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness.cli.terminal import out, plain, say
from harness.engines.parties.certificates import fingerprint
from harness.hosts.checks import LOOKED_AT, Finding
from harness.hosts.inventory import Host
from harness.security_models import Model
from harness.views.weights import table_of

CHECK_STEPS = {
    "connect": "Connecting",
    "look": "Looking at each host",
    "ports": "Reaching each other",
    "clients": "Reaching them as clients would",
}
SETUP_STEPS = {
    "environments": "Looking at each host",
    "keys": "Each host makes its key",
    "certificates": "Certificates to all hosts",
}
COLLECT_STEPS = {"connect": "Connecting", "collect": "Collecting"}
CLEAN_STEPS = {"connect": "Connecting", "clean": "Cleaning"}


def findings(found: Sequence[Finding], model: Model) -> None:
    """Print a row per host, and a sentence per fault."""
    table = table_of("party", "host", *LOOKED_AT)
    for finding in found:
        marks = [_mark(finding, name) for name in LOOKED_AT]
        table.add_row(str(finding.host.party), plain(finding.host.address), *marks)
    out.print(table)
    for finding in found:
        for fault in finding.faults.values():
            say(f"[red]✗[/] {plain(fault)}")
    if not any(finding.faults for finding in found):
        version = plain(str(found[0].facts["engine_version"]))
        say(f"All {len(found)} hosts can take their part in runs of model {model.name} ({version}).")


def certificates(hosts: Sequence[Host], found: Mapping[str, Mapping[int, str]]) -> None:
    """Print the fingerprints by which the hosts' owners can tell that nobody exchanged a certificate."""
    table = table_of("party", "host", "engine", "SHA-256 of its certificate")
    for host in hosts:
        for engine, texts in found.items():
            table.add_row(
                str(host.party), plain(host.address), engine, fingerprint(texts[host.party].encode())
            )
    out.print(table)
    say(
        "Every host made its keys itself, and they stay there; it takes these certificates from now on. "
        "They came by way of this machine: to rely on no trust in it, let each host's owner compare them."
    )


def leftover_runs(runs: Sequence[Mapping[str, Any]]) -> None:
    """Print a row per run that nobody has read."""
    table = table_of("run", "model", "protocol", "ended", "parties")
    for run in runs:
        parties = ", ".join(run["parties"]) + ("" if run["outputs"] is None else " (agree)")
        table.add_row(*(plain(str(run[name])) for name in ("run", "model", "protocol", "ended")), parties)
    out.print(table)
    say(
        "These values are as they were opened: noisy, private, and paid for. They stay on the hosts until "
        "./inv hosts.clean."
    )


def removed(hosts: Sequence[Host], found: Sequence[Mapping[str, int]]) -> None:
    """Print what was removed, a line per host."""
    for host, counts in zip(hosts, found, strict=True):
        what = (
            _counted(counts["processes"], "process", "processes") + " ended",
            _counted(counts["directories"], "directory", "directories") + " removed",
            _counted(counts["records"], "record", "records") + " removed",
        )
        say(f"{plain(host.title)}: {', '.join(what)}; its keys and its directory shares stay.")


def _counted(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"


def _mark(finding: Finding, name: str) -> str:
    if name in finding.faults:
        return "[red]✗[/]"
    if name == "clients" and not finding.host.client_port:
        return "–"
    return "[green]✓[/]" if finding.facts or (name == "ssh" and "ssh" not in finding.faults) else "–"
