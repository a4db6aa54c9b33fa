"""Hosts: what was found there, what was set up, left and removed; and how these steps are called."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from harness.engines.parties.certificates import fingerprint
from harness.views.parts import Bad, Good, Paragraph, Part, Sentences, Table

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
_MARKS = {True: Good("✓"), False: Bad("✗"), None: "–"}


def findings(
    found: Sequence[Mapping[str, Any]], marks: Sequence[Mapping[str, bool | None]], model: str
) -> Iterator[Part]:
    """View a row per host, and a sentence per fault.

    Args: found: as `hosts.check --json` prints it; marks: what is right and what is wrong on each host, None
    for what was not looked at.
    """
    rows = [
        [str(host["party"]), host["address"], *(_MARKS[mark] for mark in each.values())]
        for host, each in zip(found, marks, strict=True)
    ]
    columns = ["party", "host", *marks[0]]
    yield Table(columns, rows, "l" * len(columns))
    faults = [fault for host in found for fault in host["faults"].values()]
    for fault in faults:
        yield Paragraph(f"✗ {fault}", strong=Bad("✗"))
    if not faults:
        version = found[0]["engine_version"]
        yield f"All {len(found)} hosts can take their part in runs of model {model} ({version})."


def certificates(addresses: Mapping[int, str], found: Mapping[str, Mapping[int, str]]) -> Table:
    """View the fingerprints by which the hosts' owners can tell that nobody exchanged a certificate.

    Args: addresses: of the hosts, by party; found: certificates (PEM) by engine and party.
    """
    rows = [
        [str(party), address, engine, fingerprint(texts[party].encode())]
        for party, address in addresses.items()
        for engine, texts in found.items()
    ]
    return Table(
        ["party", "host", "engine", "SHA-256 of its certificate"],
        rows,
        "llll",
        caption="Each host made its own key, which stays there, and accepts these certificates from now "
        "on. They passed through this machine: if you do not trust it with this, let each host's "
        "owner compare them.",
    )


def leftover_runs(runs: Sequence[Mapping[str, Any]]) -> Table:
    """View a row per run that nobody has read."""
    columns = ["run", "model", "protocol", "ended"]
    return Table(
        [*columns, "parties"],
        [
            [
                *(str(run[name]) for name in columns),
                ", ".join(run["parties"]) + ("" if run["outputs"] is None else " (agree)"),
            ]
            for run in runs
        ],
        "lllll",
        caption="These are the revealed values: noisy, differentially private, and charged. They stay on "
        "the hosts until ./inv hosts.clean.",
    )


def removed(found: Mapping[str, Mapping[str, int]]) -> Sentences:
    """View what was removed, a line per host. Args: found: how many of what, by the host's title."""
    return Sentences(
        [
            f"{host}: {_counted(counts['processes'], 'process', 'processes')} ended, "
            f"{_counted(counts['directories'], 'directory', 'directories')} removed, "
            f"{_counted(counts['records'], 'record', 'records')} removed; its keys and its directory shares "
            "stay."
            for host, counts in found.items()
        ]
    )


def _counted(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"
