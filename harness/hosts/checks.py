"""What has to be right on every host, looked at before anything runs; every fault is named with its host."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import Any, TypedDict

from harness.engines.base import Progress
from harness.engines.engine import Engine
from harness.engines.parties.certificates import fingerprint
from harness.engines.program_hash import sources_hash
from harness.engines.registry import engine_of
from harness.errors import CertificateError, FairSharesError, PolicyError
from harness.hosts.connection import Connection
from harness.hosts.fleet import RENEW, at_once, check_own, listening
from harness.hosts.inventory import Host
from harness.hosts.links import reach
from harness.hosts.work import MAX_SKEW_S, SOURCES
from harness.security_models import Model

_Facts = TypedDict(  # as `Work.check` says them
    "_Facts",
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
        "certificates": dict[str, str],
        "pinned": dict[str, dict[str, str]],
    },
)
LEAST_FREE_BYTES = 1 << 29
SHOWN = 17  # of a fingerprint
LOOKED_AT = ("ssh", "project", "clock", "engine", "directory", "policy", "certificates", "port", "clients")


@dataclass
class Finding:
    """What was found about one host.

    Attributes: faults: a sentence for each thing that is wrong, by its name in `LOOKED_AT`; facts: what
    its agent said, empty if it said nothing; skew_s: how far its clock is ahead, 0 if it may be right.
    """

    host: Host
    faults: dict[str, str] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    skew_s: float = 0.0

    def marks(self) -> dict[str, bool | None]:
        """Return what of `LOOKED_AT` is right and what is wrong, None for what was not looked at."""
        found: dict[str, bool | None] = dict.fromkeys(LOOKED_AT, True if self.facts else None)
        found["ssh"] = True
        if not self.host.client_port:
            found["clients"] = None
        return found | dict.fromkeys(self.faults, False)

    def to_json(self) -> dict[str, Any]:
        """Return what `hosts.check --json` prints."""
        shown = ("commit", "engine_version", "free_bytes", "environment")
        return {
            "party": self.host.party,
            "address": self.host.address,
            "fit": not self.faults,
            "faults": self.faults,
            "clock_ahead_s": round(self.skew_s, 3),
            **{name: self.facts.get(name) for name in shown},
        }


def check_hosts(hosts: Sequence[Host], model: Model, progress: Progress) -> list[Finding]:
    """Look at every host, whatever is wrong with others; nothing is changed anywhere.

    Whether clients' ports are reached is seen from this machine, which is not where clients are; a run, by
    `check_connected`, asks only that they are free.
    """
    findings = [Finding(host) for host in hosts]
    with ExitStack() as stack:

        def connect(finding: Finding) -> Connection | None:
            try:
                connection = Connection(finding.host)
            except FairSharesError as error:
                finding.faults["ssh"] = str(error)
                return None
            stack.callback(connection.close)
            return connection

        progress("connect")
        connections = at_once(connect, findings)
        reached = [
            (finding, one) for finding, one in zip(findings, connections, strict=True) if one is not None
        ]
        check_connected(reached, model, progress)
        progress("clients")
        at_once(_reach_as_clients, [pair for pair in reached if pair[0].facts and pair[0].host.client_port])
    return findings


def check_connected(reached: Sequence[tuple[Finding, Connection]], model: Model, progress: Progress) -> None:
    """Look at hosts that are connected."""
    progress("look")
    at_once(lambda pair: _look(*pair, model), reached)
    answered = [(finding, connection) for finding, connection in reached if finding.facts]
    if answered:
        _compare_versions([finding for finding, _ in answered])
        _compare_certificates([finding for finding, _ in answered], engine_of(model))
    progress("ports")
    with_policy = [pair for pair in answered if not {"directory", "policy"} & pair[0].faults.keys()]
    _reach_each_other(with_policy, engine_of(model))


def skew_s(asked: float, said: float, answered: float) -> float:
    """Return how far another clock is ahead of ours at least, 0 if it may be right; seconds.

    Args: asked, answered: by our clock; said: by the other, at some time in between.
    [test: tests/harness/hosts/test_checks.py]
    """
    return said - answered if said > answered else min(0.0, said - asked)


def ask_facts(connection: Connection, model: Model) -> tuple[dict[str, Any], float]:
    """Return a host's facts, and how far its clock is ahead; see `skew_s`."""
    host, asked = connection.host, time.time()
    facts: dict[str, Any] = connection.ask(
        "check",
        kind=_Facts,
        party=host.party,
        model=model.name,
        port=host.port,
        client_ports=host.client_ports,
    )
    return facts, skew_s(asked, facts["time"], time.time())


def _look(finding: Finding, connection: Connection, model: Model) -> None:
    host, faults = finding.host, finding.faults
    try:
        facts, finding.skew_s = ask_facts(connection, model)
    except FairSharesError as error:
        faults["policy" if isinstance(error, PolicyError) else "directory"] = str(error)
        return
    finding.facts = facts
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
    said_by = {"engine": "unavailable"} | {name: name for name in ("directory", "policy", "port", "clients")}
    for name, said in said_by.items():
        if facts[said] is not None:
            faults[name] = f"{host.title}: {facts[said]}"
    if facts["free_bytes"] < LEAST_FREE_BYTES and "directory" not in faults:
        faults["directory"] = (
            f"{host.title}: {facts['free_bytes'] // 10**6} MB are free for {host.directory}, less than "
            f"{LEAST_FREE_BYTES / 1e6:.0f} MB."
        )


def _compare_versions(findings: Sequence[Finding]) -> None:
    """Parties of different versions of an engine may not understand, or worse, misunderstand each other."""
    first, *others = [finding for finding in findings if "engine" not in finding.faults] or [findings[0]]
    for other in others:
        versions = [one.facts["engine_version"] for one in (other, first)]
        if versions[0] != versions[1]:
            other.faults["engine"] = (
                f"{other.host.title} has {versions[0]}, {first.host.name} has {versions[1]}; all hosts need "
                "the same."
            )


def _compare_certificates(findings: Sequence[Finding], engine: Engine) -> None:
    for finding in findings:
        host, own = finding.host, finding.facts["certificates"].get(engine.name)
        if finding.facts["directory"] is not None:  # as is said already
            continue
        if own is None:
            finding.faults["certificates"] = f"{host.title} has no keys yet; ./inv hosts.setup makes them."
            continue
        try:
            check_own(host, engine, own)
        except CertificateError as error:
            finding.faults["certificates"] = str(error)
            continue
        for other in findings:
            held = other.facts["pinned"].get(engine.name, {}).get(str(host.party))
            if other is not finding and other.facts["directory"] is None and held != own:
                other.faults.setdefault("certificates", _wrong(other.host, host, held, own))


def _wrong(holder: Host, host: Host, held: str | None, own: str) -> str:
    if held is None:
        return f"{holder.title} has no certificate of party {host.party}; run ./inv hosts.setup."
    return (
        f"{holder.title} holds another certificate of party {host.party} ({_shown(held)}) than {host.name} "
        f"has ({_shown(own)}); if that host has new keys, {RENEW}, if not, somebody is in its place."
    )


def _shown(certificate: str) -> str:
    with suppress(ValueError):
        return f"{fingerprint(certificate.encode())[:SHOWN]}…"
    return "which is none"


def _reach_as_clients(pair: tuple[Finding, Connection]) -> None:
    finding, connection = pair
    host = finding.host
    if {"clients", "directory", "policy"} & finding.faults.keys():
        return
    greeting = listening(connection, host.client_port)
    address, port = host.client_reached
    fault = reach(address, port, greeting)
    connection.ask("stop_listening")
    if fault is not None:
        finding.faults["clients"] = (
            f"{host.title}: this machine cannot reach it for clients at {address}:{port}: {fault}; open the "
            "port to clients, or correct client_reached_at in hosts.toml."
        )


def _reach_each_other(pairs: Sequence[tuple[Finding, Connection]], engine: Engine) -> None:
    """Have each agent listen where its party will, and all come whose parties will connect to it."""
    able = [number for number, (finding, _) in enumerate(pairs) if "port" not in finding.faults]
    listened = at_once(lambda number: listening(pairs[number][1], pairs[number][0].host.port), able)
    greetings = dict(zip(able, listened, strict=True))

    def reach(number: int) -> None:
        finding, connection = pairs[number]
        there_are = range(number) if engine.connects_down else range(number + 1, len(pairs))
        others = [other for other in there_are if other in greetings]
        wanted = [(*pairs[other][0].host.reached, greetings[other]) for other in others]
        kind = tuple.__class_getitem__((str | None,) * len(wanted))
        faults = connection.ask("reach", kind=kind, others=wanted)
        for other, fault in zip(others, faults, strict=True):
            if fault is not None:
                there = pairs[other][0].host
                address, port = there.reached
                pairs[other][0].faults.setdefault(
                    "port",
                    f"{there.title}: {finding.host.name} cannot reach it at {address}:{port}: {fault}; "
                    "open the port to it, or correct reached_at in hosts.toml.",
                )

    at_once(reach, range(len(pairs)))
    at_once(lambda pair: pair[1].ask("stop_listening"), pairs)
