"""Hosts: checks, setup, leftovers and removals."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol

from fairshares.harness.computation import HostsRun
from fairshares.harness.engines.parties.certificates import fingerprint
from fairshares.harness.privacy.ledger.populations import Population, runs_text, spent_text
from fairshares.harness.privacy.manifest import StatedInputs, TrainingSettings, given
from fairshares.harness.releases.registry import OF_UPLOADS
from fairshares.harness.security_models import MODELS
from fairshares.harness.views.parts import Bad, Good, Line, Paragraph, Part, Sentences, Table
from fairshares.protocols.accounting.rounding import digits_down
from fairshares.protocols.guarantee import Guarantee

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


_RIGHT = Good("✓")
_WRONG = Bad("✗")
_NOT_CHECKED = "–"
_NUMBERS_SHOWN = 20


@dataclass(frozen=True)
class CheckedHost:
    """The findings of a check of one host.

    Attributes:
        marks: Whether each thing that was checked is right, by its name.
        faults: A sentence for each thing that is wrong.
        notices: Sentences that the host says of itself.
        party_can: The actions that code which took over the party's process could take on the host.
        engine_version: The version of its engine; "" if the host did not say.
    """

    party: int
    address: str
    marks: Mapping[str, bool]
    faults: Sequence[str]
    notices: Sequence[str]
    party_can: Sequence[str]
    engine_version: str


def findings(hosts: Sequence[CheckedHost], looked_at: Sequence[str], model: str) -> Iterator[Part]:
    """Show a row per host, with a mark for each thing that is looked at, and a sentence per fault."""
    columns = ["party", "host", *looked_at]
    rows = []
    for host in hosts:
        row = [str(host.party), host.address]
        for name in looked_at:
            if name not in host.marks:
                row.append(_NOT_CHECKED)
            elif host.marks[name]:
                row.append(_RIGHT)
            else:
                row.append(_WRONG)
        rows.append(row)
    yield Table(columns, rows, alignment="l" * len(columns))
    for host in hosts:
        if host.party_can:
            yield unprotected(host.party, host.address, host.party_can)
        for notice in host.notices:
            yield f"Host {host.address} (party {host.party}): {notice}"
    faults = [fault for host in hosts for fault in host.faults]
    for fault in faults:
        yield Paragraph(f"{_WRONG} {fault}", strong=_WRONG)
    if not faults:
        yield (
            f"All {len(hosts)} hosts can take their part in runs of model {model} "
            f"({hosts[0].engine_version})."
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


class Leftover(Protocol):
    """A run whose result nobody has read, as `fleet.LeftoverRun` has it."""

    @property
    def run(self) -> str:
        """The run's name."""

    @property
    def security(self) -> str:
        """The name of its model."""

    @property
    def task(self) -> str:
        """The name of its release."""

    @property
    def ended(self) -> str:
        """When it ended."""

    @property
    def parties(self) -> list[int]:
        """The parties whose hosts keep a statement of it."""

    @property
    def outputs(self) -> dict[str, list[int]] | None:
        """The values that all of the run's hosts signed alike."""


def leftover_runs(runs: Sequence[Leftover]) -> Table:
    """Show a row per unread run."""
    rows = []
    for run in runs:
        numbers = ", ".join(str(party) for party in run.parties)
        agreed = "" if run.outputs is None else " (agree)"
        rows.append([run.run, run.security, run.task, run.ended, numbers + agreed])
    return Table(
        ["run", "security", "task", "ended", "parties"],
        rows,
        "lllll",
        caption="These are the revealed values: noisy, differentially private, and charged. They stay on "
        "the hosts until ./inv hosts.clean.",
    )


def removed(by_host: Mapping[str, Mapping[str, int]]) -> Sentences:
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


def _counted(count: int, singular: str, plural: str) -> str:
    return f"{count} {singular if count == 1 else plural}"


class AllowedRuns(Protocol):
    """The runs that a host takes part in on one population, or on any by the name `*`."""

    @property
    def name(self) -> str:
        """The population's name."""

    @property
    def tasks(self) -> Sequence[str]:
        """The tasks that its runs may have."""

    @property
    def security(self) -> Sequence[str]:
        """The models in which they may run."""

    @property
    def unit(self) -> str | None:
        """The privacy unit that they have to protect; None for any."""

    @property
    def relation(self) -> str | None:
        """The neighboring relation that they have to use; None for any."""

    @property
    def chains(self) -> bool:
        """Whether the runs of a chain are charged once for all."""

    @property
    def per_run(self) -> Guarantee:
        """The most that one run spends."""

    @property
    def total(self) -> Guarantee:
        """The most that all of them spend."""


class ShownRules(Protocol):
    """A host's policy."""

    @property
    def coordinators(self) -> Sequence[str] | None:
        """The coordinators in whose runs it takes part; None for everybody's."""

    @property
    def benchmark(self) -> bool:
        """Whether it takes part in benchmark runs."""

    @property
    def models_of_benchmarks(self) -> Sequence[str]:
        """The models in which it takes part in them."""

    @property
    def rules(self) -> Sequence[AllowedRuns]:
        """The rules of the policy on each population."""


def policy(
    directory: Path, allowed: ShownRules, notices: Sequence[str], spent: Sequence[Population]
) -> Iterator[Part]:
    """Show a host's policy and spending."""
    whose = "everybody who can start the agent"
    if allowed.coordinators is not None:
        whose = ", ".join(allowed.coordinators) or "nobody"
    if allowed.benchmark:
        models = _all_or(allowed.models_of_benchmarks, MODELS) or "no model"
        whose += f"; with benchmark runs in {models}"
    yield Line("Policy", f"{directory / 'policy.toml'}, for runs of {whose}")
    yield Table(
        ["population", "tasks", "models", "unit", "relation", "ε, δ per run", "ε, δ in total"],
        [
            [
                rule.name,
                _all_or(rule.tasks, OF_UPLOADS) + ("; in chains" if rule.chains else ""),
                _all_or(rule.security, MODELS),
                rule.unit or "any",
                rule.relation or "any",
                _limits(rule.per_run),
                _limits(rule.total),
            ]
            for rule in allowed.rules
        ],
        "lllllll",
        caption="Nothing is run on a population that no line is for; * is for any.",
    )
    yield from notices
    for population in spent:
        yield (
            f"Population {population.name!r} has spent {spent_text(population.spent)} "
            f"in {runs_text(population.charges)}."
        )
    if not spent:
        yield "Nothing has been spent yet."


class ShownExpiry(Protocol):
    """Something that is valid up to a time."""

    @property
    def kind(self) -> str:
        """The kind of thing that expires."""

    @property
    def name(self) -> str:
        """The name of the thing that expires."""

    @property
    def ends(self) -> datetime:
        """The end of its validity, in UTC."""


class ShownUploads(Protocol):
    """The uploads that a host stores."""

    @property
    def files(self) -> int:
        """The number of files."""

    @property
    def envelopes(self) -> int:
        """The number of envelopes in them."""

    @property
    def garbage_files(self) -> int:
        """The number of files that hold no upload."""


class ShownLedger(Protocol):
    """The numbers of entries in a host's ledger."""

    @property
    def charges(self) -> int:
        """The number of charges."""

    @property
    def uploads(self) -> int:
        """The number of uploads that runs have counted."""


class ShownHealth(Protocol):
    """The facts that an owner was told of its host."""

    @property
    def directory(self) -> Path:
        """The host's own directory."""

    @property
    def faults(self) -> Mapping[str, str]:
        """A sentence for each thing that keeps runs from their end."""

    @property
    def notices(self) -> Sequence[str]:
        """Sentences on what will need care."""

    @property
    def expiries(self) -> Sequence[ShownExpiry]:
        """The things that expire, the first to end first."""

    @property
    def free_bytes(self) -> int:
        """The free bytes of the disk."""

    @property
    def ledger_bytes(self) -> int:
        """The bytes of the ledger's file."""

    @property
    def ledger(self) -> ShownLedger:
        """The numbers of entries in the ledger."""

    @property
    def uploads(self) -> ShownUploads | None:
        """The uploads there; None without a task."""


def health(found: ShownHealth) -> Iterator[Part]:
    """Show what an owner is told of its host: figures, what expires, and a sentence per fault."""
    yield Line("Host", str(found.directory))
    rows = [
        ["free on its disk", f"{found.free_bytes / 1e9:.1f} GB"],
        ["ledger", f"{found.ledger_bytes / 1e6:.1f} MB"],
        ["charges in it", f"{found.ledger.charges:,}"],
        ["uploads that runs have counted", f"{found.ledger.uploads:,}"],
    ]
    if found.uploads is not None:
        stored = f"{found.uploads.envelopes:,} in {_counted(found.uploads.files, 'file', 'files')}"
        rows += [["uploads there", stored], ["other files among them", f"{found.uploads.garbage_files:,}"]]
    yield Table(["what", "how much"], rows, "ll")
    if found.expiries:
        yield Table(
            ["expires (UTC)", "what", "which"],
            [
                [f"{expiry.ends:%Y-%m-%d}", expiry.kind.replace("_", " "), expiry.name]
                for expiry in found.expiries
            ],
            "lll",
        )
    yield from found.notices
    for fault in found.faults.values():
        yield Paragraph(f"{_WRONG} {fault}", strong=_WRONG)
    if not found.faults:
        yield "Nothing that is looked at on this host keeps runs from their end."


class ShownLogLine(Protocol):
    """An event at a host."""

    @property
    def time(self) -> str:
        """When it happened, in UTC and ISO 8601."""

    @property
    def event(self) -> str:
        """The kind of event."""

    @property
    def coordinator(self) -> str:
        """The coordinator of the run."""

    @property
    def run(self) -> str:
        """The name of the run, "" without one."""

    @property
    def request(self) -> str:
        """The request that the host was answering."""

    @property
    def said(self) -> str:
        """The action, or the reason, as the host or the party said it."""


_SHOWN_OF_RUN = 8  # characters of a run's name


def log(
    file: Path, events: Sequence[ShownLogLine], most: int, unreadable: int, *, is_open: bool
) -> Iterator[Part]:
    """Show the last events of a host's log, the latest last.

    Args:
        file: The log.
        events: All lines of it.
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
        yield f"{file} has no events."
    else:
        yield Table(
            ["time (UTC)", "event", "coordinator", "run", "request", "what or why"],
            [
                [
                    event.time[:19].replace("T", " "),
                    event.event,
                    event.coordinator,
                    event.run[:_SHOWN_OF_RUN],
                    event.request,
                    event.said,
                ]
                for event in events[-most:]
            ],
            "llllll",
            caption=f"{min(most, len(events))} of {_counted(len(events), 'event', 'events')} in {file}.",
        )
    if unreadable:
        yield f"{_counted(unreadable, 'line', 'lines')} of it could not be read."


@dataclass(frozen=True)
class Signer:
    """A party's host that signed a run's end: when that was, and the SHA-256 of its certificate."""

    party: int
    sha256: str
    ended: str


def signers(
    statements: Sequence[Signer],
    what: str,
    *,
    spent: Guarantee,
    inputs: StatedInputs,
    ran: HostsRun,
    source: str,
    compared: bool,
    by_1_0: bool,
) -> Iterator[Part]:
    """Show a run's signers.

    Args:
        statements: The facts that are shown of each signer.
        what: The release and the model.
        spent: The guarantee that the run was charged.
        inputs: The public numbers of its inputs.
        ran: The statement of the run that hosts signed.
        source: The source of the run's inputs, in words.
        compared: Whether the signers' certificates are known.
        by_1_0: Whether hosts of version 1.0 ran it.
    """
    yield f"All {len(statements)} hosts signed these results: {what}, {spent_text(spent)}."
    yield Line("Run", f"{ran.run}, started {ran.started}")
    yield Line("Population", ran.population or "none was named")
    yield Line("Inputs", f"{inputs.clients} clients, {inputs.uploads} uploads: {source}")
    left_out = given(inputs.excluded_because) or {}
    for why, uploads in left_out.items():
        yield Line("Left out", f"{uploads} uploads {why}")
    yield _certificates(statements, compared=compared)
    if by_1_0:
        yield (
            "Version 1.0 ran this. Its intervals were wider than this version's for the same counts, and are "
            "not checked."
        )
    yield (
        "Nobody signed what else manifest.json says, as times, sizes and the coordinator's ledger, nor "
        "pictures and reports."
    )


def trained(
    statements: Sequence[Signer],
    what: str,
    *,
    spent: Guarantee,
    ran: HostsRun,
    reveals: int,
    lost: Sequence[int],
    clients: int,
    settings: TrainingSettings,
    compared: bool,
) -> Iterator[Part]:
    """Show who signed the sums of a training, and what of its model follows from them.

    Args:
        statements: The facts that are shown of each signer of the last reveal.
        what: The release and the model of security.
        spent: The guarantee that all reveals were charged.
        ran: The statement of the last reveal that hosts signed.
        reveals: The number of signed sums.
        lost: The numbers of the rounds that count as lost.
        clients: The number by which sums were divided.
        settings: How the model was trained.
        compared: Whether the signers' certificates are known.
    """
    yield (
        f"The model follows from {reveals} sums that all {len(statements)} hosts signed: {what}, "
        f"{spent_text(spent)} for all of them."
    )
    yield Line("Last run", f"{ran.run}, started {ran.started}")
    yield Line("Population", ran.population or "none was named")
    if lost:
        yield Line("Lost", f"{_counted(len(lost), 'round', 'rounds')} without a signed sum: {_some(lost)}")
    yield _certificates(statements, compared=compared)
    yield (
        f"Nobody signed by what the coordinator trains on the sums: {clients} clients, the learning rate "
        f"{settings.learning_rate:g}, the momentum {settings.momentum:g}, features and labels; nor what else "
        "manifest.json says, as times and sizes."
    )


def _some(numbers: Sequence[int]) -> str:
    """Return the first of some numbers in words."""
    first = ", ".join(map(str, numbers[:_NUMBERS_SHOWN]))
    return f"{first}, …" if len(numbers) > _NUMBERS_SHOWN else first


def _certificates(statements: Sequence[Signer], *, compared: bool) -> Table:
    """Return the table of signers. Args: compared: Whether their certificates are known."""
    if compared:
        caption = "These are the certificates that --fingerprints names."
    else:
        caption = (
            "Compare these with what each host's owner says of its certificate, or name a file by "
            "--fingerprints."
        )
    return Table(
        ["party", "ended (UTC)", "SHA-256 of its certificate"],
        [[str(statement.party), statement.ended, statement.sha256] for statement in statements],
        "lll",
        caption=caption,
    )


def _limits(most: Guarantee) -> str:
    return f"{digits_down(most.epsilon, 4)}, {digits_down(most.delta, 4)}"


def _all_or(names: Sequence[str], every: Collection[str]) -> str:
    """Return names, or "all" if there are no others."""
    return "all" if set(names) == set(every) else ", ".join(names)
