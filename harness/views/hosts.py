"""Hosts: checks, setup, leftovers and removals."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from harness.engines.parties.certificates import fingerprint
from harness.privacy.ledger.populations import Population, runs_text, spent_text
from harness.releases.registry import REQUESTS
from harness.security_models import MODELS
from harness.views.parts import Bad, Good, Line, Paragraph, Part, Sentences, Table
from protocols.accounting.rounding import digits_down
from protocols.guarantee import Guarantee

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


def findings(
    facts_by_host: Sequence[Mapping[str, Any]], marks: Sequence[Mapping[str, bool | None]], model: str
) -> Iterator[Part]:
    """Show a row per host, and a sentence per fault; None marks a missing check."""
    yield Table(
        ["party", "host", *marks[0]],
        [
            [
                str(host["party"]),
                host["address"],
                *({True: Good("✓"), False: Bad("✗"), None: "–"}[mark] for mark in looked_at.values()),
            ]
            for host, looked_at in zip(facts_by_host, marks, strict=True)
        ],
        "l" * (2 + len(marks[0])),
    )
    for host in facts_by_host:
        if host["party_can"]:
            yield unprotected(host["party"], host["address"], host["party_can"])
        for notice in host["notices"]:
            yield f"Host {host['address']} (party {host['party']}): {notice}"
    faults = [fault for host in facts_by_host for fault in host["faults"].values()]
    for fault in faults:
        yield Paragraph(f"✗ {fault}", strong=Bad("✗"))
    if not faults:
        yield (
            f"All {len(facts_by_host)} hosts can take their part in runs of model {model} "
            f"({facts_by_host[0]['engine_version']})."
        )


def unprotected(party: int, address: str, can: Sequence[str]) -> str:
    """Say what a party's process can do on its host that it cannot do where the kernel offers all."""
    return (
        f"Party {party} ({address}): code that took over its process could {'; '.join(can)}. Linux 6.7 or "
        "later prevents this, on x86-64 and 64-bit ARM, with Landlock and seccomp switched on, and in a "
        "container that allows both."
    )


_SET_UP = (
    "Each host made its own key, which stays there, and accepts these certificates from now on. They passed "
    "through this machine: if you do not trust it with this, let each host's owner compare them. What a host "
    "takes part in is in its policy.toml; see ./inv hosts.policy."
)
_SET_UP_HERE = (
    "These are the certificates that this host accepts. Give {} to the other hosts' owners, who name it by "
    "--pin, and compare the SHA-256 with them. What this host takes part in is in its policy.toml; see "
    "./inv hosts.policy."
)


def certificates(
    addresses: Mapping[int, str],
    fingerprints_by_party: Mapping[str, Mapping[int, str]],
    exported: Path | None = None,
) -> Table:
    """Show fingerprints, by which owners detect exchanged certificates."""
    return Table(
        ["party", "host", "engine", "SHA-256 of its certificate"],
        [
            [str(party), address, engine, fingerprint(texts[party].encode())]
            for party, address in addresses.items()
            for engine, texts in fingerprints_by_party.items()
        ],
        "llll",
        caption=_SET_UP if exported is None else _SET_UP_HERE.format(exported),
    )


def leftover_runs(runs: Sequence[Mapping[str, Any]]) -> Table:
    """Show a row per unread run."""
    columns = ["run", "security", "task", "ended"]
    return Table(
        [*columns, "parties"],
        [
            [
                *(str(run[name]) for name in columns),
                ", ".join(map(str, run["parties"])) + ("" if run["outputs"] is None else " (agree)"),
            ]
            for run in runs
        ],
        "lllll",
        caption="These are the revealed values: noisy, differentially private, and charged. They stay on "
        "the hosts until ./inv hosts.clean.",
    )


def removed(by_host: Mapping[str, Mapping[str, Any]]) -> Sentences:
    """Show the numbers of removed items by host."""
    return Sentences(
        [
            f"{host}: {_counted(counts['processes'], 'process', 'processes')} ended, "
            f"{_counted(counts['directories'], 'directory', 'directories')} removed, "
            f"{_counted(counts['records'], 'record', 'records')} removed; its keys and its directory shares "
            "stay."
            for host, counts in by_host.items()
        ]
    )


def _counted(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"


def policy(directory: Path, fields: Mapping[str, Any], spent: Sequence[Population]) -> Iterator[Part]:
    """Show a host's policy and spending."""
    coordinators = fields["coordinators"]
    whose = (
        "everybody who can start the agent" if coordinators is None else ", ".join(coordinators) or "nobody"
    )
    if fields["benchmark"]:
        whose += f"; with benchmark runs in {_all_or(fields['benchmark_security'], MODELS) or 'no model'}"
    yield Line("Policy", f"{directory / 'policy.toml'}, for runs of {whose}")
    yield Table(
        ["population", "tasks", "models", "unit", "relation", "ε, δ per run", "ε, δ in total"],
        [
            [
                rule["name"],
                _all_or(rule["tasks"], REQUESTS) + "; in chains" * rule["chains"],
                _all_or(rule["security"], MODELS),
                rule["unit"] or "any",
                rule["relation"] or "any",
                _limits(rule, "_per_run"),
                _limits(rule, ""),
            ]
            for rule in fields["population"]
        ],
        "lllllll",
        caption="Nothing is run on a population that no line is for; * is for any.",
    )
    yield from fields["notices"]
    for population in spent:
        yield (
            f"Population {population.name!r} has spent {spent_text(population.spent)} "
            f"in {runs_text(population.charges)}."
        )
    if not spent:
        yield "Nothing has been spent yet."


def log(
    file: Path, events: Sequence[Mapping[str, Any]], most: int, unreadable: int, *, is_open: bool
) -> Iterator[Part]:
    """Show the last events of a host's log, the latest last.

    Args:
        file: The log.
        events: All lines of it, by field.
        most: How many are shown.
        unreadable: How many more lines it has.
        is_open: Whether others than its owner can open it.
    """
    if is_open:
        yield (
            f"Others can open {file}, so the host writes nothing to it; make it its owner's alone, by "
            f"chmod 600 {file}."
        )
    if not events:
        yield f"{file} names nothing that was refused or failed."
    else:
        yield Table(
            ["time (UTC)", "event", "coordinator", "request", "why"],
            [
                [
                    event["time"][:19].replace("T", " "),
                    event["event"],
                    event["coordinator"],
                    event["request"],
                    event["said"],
                ]
                for event in events[-most:]
            ],
            "lllll",
            caption=f"{min(most, len(events))} of {_counted(len(events), 'event', 'events')} in {file}.",
        )
    if unreadable:
        yield f"{_counted(unreadable, 'line', 'lines')} of it could not be read."


def signers(
    statements: Sequence[Mapping[str, Any]],
    what: str,
    *,
    spent: Guarantee,
    ran: Mapping[str, Any],
    source: str,
    compared: bool,
) -> Iterator[Part]:
    """Show a run's signers; `compared` tells whether their certificates are known."""
    yield f"All {len(statements)} hosts signed these results: {what}, {spent_text(spent)}."
    yield Line("Run", f"{ran['run']}, started {ran['started']}")
    yield Line("Population", ran["population"] or "none was named")
    yield Line("Inputs", f"{ran['clients']} clients, {ran['uploads']} uploads: {source}")
    for why, many in ran.get("excluded_because", {}).items():
        yield Line("Left out", f"{many} uploads {why}")
    yield Table(
        ["party", "ended (UTC)", "SHA-256 of its certificate"],
        [[str(statement["party"]), statement["ended"], statement["sha256"]] for statement in statements],
        "lll",
        caption="These are the certificates that --fingerprints names."
        if compared
        else "Compare these with what each host's owner says of its certificate, or name a file by "
        "--fingerprints.",
    )
    yield (
        "Nobody signed what else manifest.json says, as times, sizes and the coordinator's ledger, nor "
        "pictures and reports."
    )


def _limits(rule: Mapping[str, Any], which: str) -> str:
    return ", ".join(digits_down(Fraction(rule[f"{name}{which}"]), 4) for name in ("epsilon", "delta"))


def _all_or(names: Sequence[str], every: Collection[str]) -> str:
    return "all" if set(names) == set(every) else ", ".join(names)
