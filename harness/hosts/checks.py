"""Checks of every host before anything runs; each fault names its host."""

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, TypedDict

from harness.engines.base import Progress
from harness.engines.engine import Engine
from harness.engines.program_hash import sources_hash
from harness.engines.registry import engine_of
from harness.errors import FairSharesError, HostUnfitError, PolicyError
from harness.hosts.cleanup import RunName
from harness.hosts.connection import Connection
from harness.hosts.fleet import RENEW, ask_of_others, at_once
from harness.hosts.inventory import Host
from harness.hosts.links import reach
from harness.hosts.local_host import SOURCES
from harness.hosts.party_run import MAX_SKEW_S
from harness.security_models import SecurityModel

Facts = TypedDict(  # as `LocalHost.check` says them
    "Facts",
    {
        "time": float,
        "programs and circuits": str,
        "code": str,
        "commit": str,
        "environment": dict[str, Any],
        "machine": dict[str, Any],
        "free_bytes": int,
        "engine_version": str | None,
        "unavailable": str | None,
        "directory": str | None,
        "policy": str | None,
        "port": str | None,
        "clients": str | None,
        "keys": str | None,
        "fingerprints": dict[str, str],
    },
)
LEAST_FREE_BYTES = 1 << 29
SHOWN = 17  # of a fingerprint
LOOKED_AT = ("ssh", "project", "clock", "engine", "directory", "policy", "certificates", "port", "clients")


@dataclass
class Finding:
    """Findings about one host; without ssh it has no connection, without an answer no facts.

    Attributes:
        faults: Sentences, by names in `LOOKED_AT`.
        skew_s: Seconds that its clock is ahead at least, 0 if it may be right.
    """

    host: Host
    connection: Any = None
    faults: dict[str, str] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    skew_s: float = 0.0

    def marks(self) -> dict[str, bool | None]:
        """Return which of `LOOKED_AT` are right, None for those that were not looked at."""
        marks: dict[str, bool | None] = dict.fromkeys(LOOKED_AT, True if self.facts else None)
        marks["ssh"] = True
        if not self.host.client_port:
            marks["clients"] = None
        return marks | dict.fromkeys(self.faults, False)

    def to_json(self) -> dict[str, Any]:
        """Return the host's entry in `hosts.check --json`."""
        shown = ("commit", "engine_version", "free_bytes", "environment")
        return {
            "party": self.host.party,
            "address": self.host.address,
            "fit": not self.faults,
            "faults": self.faults,
            "clock_ahead_s": round(self.skew_s, 3),
            **{name: self.facts.get(name) for name in shown},
        }


def check_hosts(hosts: Sequence[Host], model: SecurityModel, progress: Progress) -> list[Finding]:
    """Look at every host, whatever is wrong with others; change nothing.

    It tries clients' ports from this machine, which is not where clients are.
    """
    with ExitStack() as stack:

        def connect(host: Host) -> Finding:
            try:
                connection = Connection(host)
            except FairSharesError as error:
                return Finding(host, faults={"ssh": str(error)})
            stack.callback(connection.close)
            return Finding(host, connection)

        progress("connect")
        findings = at_once(connect, hosts)
        check_connected([finding for finding in findings if finding.connection], model, progress)
        progress("clients")
        at_once(
            _reach_as_clients, [finding for finding in findings if finding.facts and finding.host.client_port]
        )
    return findings


def fit_hosts(
    connections: Sequence[Connection], model: SecurityModel, progress: Progress, otherwise: str = ""
) -> list[Finding]:
    """Return findings about hosts that are fit for a run.

    Raises:
        HostUnfitError: With all faults, and then `otherwise`.
    """
    findings = [Finding(one.host, one) for one in connections]
    check_connected(findings, model, progress)
    faults = [fault for finding in findings for fault in finding.faults.values()]
    if faults:
        raise HostUnfitError(f"{' '.join(faults)}{otherwise}")
    return findings


def check_connected(findings: Sequence[Finding], model: SecurityModel, progress: Progress) -> None:
    """Look at hosts that are connected."""
    progress("look")
    at_once(lambda finding: _look(finding, model), findings)
    answered = [finding for finding in findings if finding.facts]
    if answered:
        _compare_versions(answered)
        _compare_certificates(answered)
    progress("ports")
    with_policy = [finding for finding in answered if not {"directory", "policy"} & finding.faults.keys()]
    _reach_each_other(with_policy, engine_of(model))


def skew_s(asked: float, stated: float, answered: float) -> float:
    """Return how many seconds another clock is ahead of ours at least, 0 if it may be right.

    It `stated` its time between the times `asked` and `answered` by our clock.
    [test: tests/harness/hosts/test_connection.py]
    """
    return stated - answered if stated > answered else min(0.0, stated - asked)


def _look(finding: Finding, model: SecurityModel) -> None:
    host, faults, asked = finding.host, finding.faults, time.time()
    whom = {"party": host.party, "port": host.port, "client_ports": host.client_ports}
    try:
        facts = finding.connection.ask("check", kind=Facts, security=model.name, **whom)
    except FairSharesError as error:
        faults["policy" if isinstance(error, PolicyError) else "directory"] = str(error)
        return
    finding.facts, finding.skew_s = facts, skew_s(asked, facts["time"], time.time())
    for what, directories in SOURCES.items():
        if facts[what] != sources_hash(*directories) and "project" not in faults:
            faults["project"] = (
                f"{host.title}: the {what} in {host.project} (commit {facts['commit'][:12]}) are not "
                "those here; bring both to the same commit, without changes of their own."
            )
    if abs(finding.skew_s) > MAX_SKEW_S:
        how = "ahead of" if finding.skew_s > 0 else "behind"
        faults["clock"] = (
            f"{host.title}: its clock is {abs(finding.skew_s):.0f} s {how} this machine's; "
            "set both, by NTP for example."
        )
    said_by = {"engine": "unavailable", "certificates": "keys"} | {
        name: name for name in ("directory", "policy", "port", "clients")
    }
    for name, fact in said_by.items():
        if facts[fact] is not None:
            faults[name] = f"{host.title}: {facts[fact]}"
    if facts["free_bytes"] < LEAST_FREE_BYTES and "directory" not in faults:
        faults["directory"] = (
            f"{host.title}: {facts['free_bytes'] // 10**6} MB are free for {host.directory}, less than "
            f"{LEAST_FREE_BYTES / 1e6:.0f} MB."
        )


def _compare_versions(findings: Sequence[Finding]) -> None:
    first = next((finding for finding in findings if "engine" not in finding.faults), findings[0])
    for other in findings:
        versions = [one.facts["engine_version"] for one in (other, first)]
        if "engine" not in other.faults and versions[0] != versions[1]:
            other.faults["engine"] = (
                f"{other.host.title} has {versions[0]}, {first.host.name} has {versions[1]}; all hosts need "
                "the same."
            )


def _compare_certificates(findings: Sequence[Finding]) -> None:
    for finding in findings:
        host, party = finding.host, str(finding.host.party)
        own = finding.facts["fingerprints"].get(party, "")
        for other in findings:
            fingerprint = other.facts["fingerprints"].get(party, own)
            if own and fingerprint != own:
                other.faults.setdefault(
                    "certificates",
                    f"{other.host.title} holds another certificate of party {party} ({fingerprint[:SHOWN]}…) "
                    "than "
                    f"{host.name} has ({own[:SHOWN]}…); if that host has new keys, {RENEW}, if not, somebody "
                    "is in its place.",
                )


def _reach_as_clients(finding: Finding) -> None:
    host = finding.host
    if {"clients", "directory", "policy"} & finding.faults.keys():
        return
    address, port = host.client_reached
    fault = reach(address, port, finding.connection.ask("listen", kind=RunName, port=host.client_port))
    finding.connection.ask("stop_listening")
    if fault is not None:
        finding.faults["clients"] = (
            f"{host.title}: this machine cannot reach it for clients at {address}:{port}: {fault}; open the "
            "port to clients, or correct client_reached_at in hosts.toml."
        )


def _reach_each_other(findings: Sequence[Finding], engine: Engine) -> None:
    """Have agents listen where their parties will, and connect like them."""
    able = [number for number, finding in enumerate(findings) if "port" not in finding.faults]
    greetings = at_once(
        lambda i: findings[i].connection.ask("listen", kind=RunName, port=findings[i].host.port), able
    )
    listened = [(number, findings[number], text) for number, text in zip(able, greetings, strict=True)]

    def reach(number: int) -> None:
        finding = findings[number]
        others = [
            (other, text)
            for i, other, text in listened
            if i != number and (i < number) == engine.connects_down
        ]
        wanted = [(other.host, text) for other, text in others]
        faults = ask_of_others(finding.connection, "reach", str | None, wanted)
        for (there, _), fault in zip(others, faults, strict=True):
            if fault is not None:
                address, port = there.host.reached
                there.faults.setdefault(
                    "port",
                    f"{there.host.title}: {finding.host.name} cannot reach it at {address}:{port}: {fault}; "
                    "open the port to it, or correct reached_at in hosts.toml.",
                )

    at_once(reach, range(len(findings)))
    at_once(lambda finding: finding.connection.ask("stop_listening"), findings)
