"""The report on measured runs: Table 2 side by side, growth, networks, noise, every run, and where it ran."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from operator import attrgetter
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.literal.iterations import view
from benchmarks.measure.samples import FAILED, SKIPPED
from benchmarks.papers import privfairfl
from benchmarks.report.plots import drawings
from benchmarks.validation import texts
from benchmarks.validation.cells import CellRuns, Measured
from benchmarks.validation.checks import Validation
from benchmarks.validation.side_by_side import SCALE
from benchmarks.validation.texts import NONE
from harness.views.parts import Figure, Heading, Paragraph, Part, Sentences, Table
from harness.views.rendering.html import write_page

Drawings = Sequence[tuple[str, Figure]]  # each with the section that it is in
Columns = Sequence[tuple[str, Callable[[CellRuns], str]]]


def write(measured: Measured, found: Validation, directory: Path) -> None:
    """Write `report.html` and the figures into a directory that is there."""
    drawn = list(drawings(measured, found.rows))
    write_page(*titles(measured), report(measured, found, drawn), directory)


def titles(measured: Measured) -> tuple[str, str]:
    """Return the report's title and subtitle."""
    runs = [run for cell in measured.cells for run in cell.ok]
    versions = sorted({str(run.engine_version) for run in runs})
    cores = sorted({str(run.environment.get("cores")) for run in runs})
    days = sorted({run.time[:10] for run in runs})
    span = " to ".join(dict.fromkeys((days[0], days[-1]))) if days else "never"
    here = f"all parties on one machine with {' or '.join(cores)} cores"
    subtitle = (
        f"{len(runs):,} runs of {len(measured.cells):,} cells, {span}; {', '.join(versions)}; "
        f"{measured.over or here}"
    )
    return "What the protocols cost, beside PrivFairFL", subtitle


def report(measured: Measured, found: Validation, figures: Drawings) -> list[Part]:
    """View all sections of the report."""
    drawn = defaultdict[str, list[Part]](list)
    for section, figure in figures:
        drawn[section].append(figure)
    iterations = list(view([cell.runs for cell in measured.cells]))
    networks = [cell for cell in measured.where("network") if cell.ok]
    sending = [cell for cell in measured.where(input_path="clients") if cell.ok]
    noise = [cell for cell in measured.where("noise", protocol="pi_lap") if cell.ok]
    claims = [f"The paper, {claim.title}: {claim.text}." for claim in privfairfl().figures.values()]
    deviations = [
        [finding.check.key, str(finding.status), finding.check.found, finding.reason]
        for finding in texts.deviating(found.findings)
    ]
    of_networks = (
        "Round-trip time and bandwidth between each two parties, in each direction, emulated in user "
        "space: as wanted, and as measured in the run itself (medians of the runs)."
    )
    of_deviations = (
        "Every deviation. An explanation holds for a range of values only; beyond it the check fails."
    )
    return [
        Paragraph(f"{texts.counts(found.findings)}. ./inv bench.validate judges anew.", note=True),
        Heading("PrivFairFL's Table 2"),
        *drawn["table2"],
        *texts.table2_parts(found.rows, measured.over),
        "What is wrong with the published figures:",
        Sentences(privfairfl().caveats),
        *_where(
            iterations,
            Heading("An iteration of the literal protocols"),
            *iterations,
        ),
        *_where(
            measured.where(*SCALE, shape=""),
            Heading("Growing federations: Figures 1 and 2"),
            *drawn["scale"],
            Sentences(claims),
        ),
        *_where(
            networks,
            Heading("Networks between the parties"),
            *drawn["network"],
            _table(_NETWORK, [cell for cell in networks if cell.networks], caption=of_networks),
        ),
        *_where(
            noise,
            Heading("Noise"),
            *drawn["noise"],
            _table(_NOISE, [cell for cell in noise if cell.median_s and cell.number("samples")]),
        ),
        *_where(
            sending,
            Heading("Clients that send while the parties run"),
            _table(_RUN, sending, caption=_OF_SENDING),
        ),
        Heading("What was checked"),
        texts.by_kind(found.findings),
        *_where(deviations, Table(["check", "status", "found", "why"], deviations, caption=of_deviations)),
        *texts.unjudged(found.findings),
        *(part for suite in measured.suites for part in _every_run(measured, suite)),
        *_environment(measured),
    ]


def _where(some: Sequence[object], *parts: Part) -> Sequence[Part]:
    """Return parts if there is something that they are about."""
    return parts if some else ()


def _table(columns: Columns, cells: Sequence[CellRuns], **more: Any) -> Table:
    """Return a table with a row for each cell."""
    return Table([name for name, _ in columns], [[of(cell) for _, of in columns] for cell in cells], **more)


def _every_run(measured: Measured, suite: str) -> Iterator[Part]:
    cells, about = measured.where(suite), measured.abouts.get(suite, {})
    yield Heading(f"Every cell of {suite}")
    if about:
        finished = "finished" if about.get("finished") else "not finished"
        yield f"{about.get('title', suite)}. {about.get('command', '')}: {finished}."
    caption = (
        "Medians; of mpc_s also least and most, of compile_s the most, as a program is compiled "
        "once. Bytes and memory: of the party with most."
    )
    apart = [cell for cell in cells if cell.ok and cell["input_path"] != "clients"]  # others have a section
    yield from _where(apart, _table(_RUN, apart, caption=caption))
    for columns, others in (
        (_FAILED, [cell for cell in cells if cell.of(FAILED)]),
        (_SKIPPED, [cell for cell in cells if cell.of(SKIPPED)]),
    ):
        yield from _where(others, _table(columns, others))


def _seconds(cell: CellRuns, time: str) -> str:
    found = cell.seconds(time)
    if found is None:
        return NONE
    return texts.seconds(found.high if time == "compile_s" else found.median)  # it is compiled once


def _size(cell: CellRuns, what: str) -> str:
    most = _middle([max(of, default=None) for run in cell.ok if (of := getattr(run, what))])
    if most is None:
        return NONE
    sizes = (("GB", 1e9), ("MB", 1e6), ("kB", 1e3))
    return next((f"{most / size:.3g} {unit}" for unit, size in sizes if most >= size), f"{most:.0f} B")


def _middle(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def _count(number: float | None) -> str:
    return NONE if number is None else f"{number:,.0f}"


def _network(cell: CellRuns, what: str, per_unit: float, digits: str) -> str:
    value = _middle([network.get(what) for network in cell.networks])
    return NONE if value is None else f"{value * per_unit:{digits}}"


_SPREAD = ("mpc_s", lambda cell: texts.spread(cell.seconds()))
_ROUNDS = ("rounds", lambda cell: _count(cell.rounds))
_NETWORK: Columns = [
    ("cell", attrgetter("name")),
    ("ms wanted", partial(_network, what="rtt_s", per_unit=1e3, digits="g")),
    ("measured", partial(_network, what="measured_rtt_s", per_unit=1e3, digits=".3g")),
    ("Mbit/s wanted", partial(_network, what="bandwidth_bits_per_s", per_unit=1e-6, digits=",.0f")),
    ("measured", partial(_network, what="measured_bandwidth_bits_per_s", per_unit=1e-6, digits=",.0f")),
    _SPREAD,
    _ROUNDS,
]
_OF_SENDING = "Most of these seconds are clients' TLS connections to all parties, no part of the protocol."
_NOISE: Columns = [
    ("cell", attrgetter("name")),
    _SPREAD,
    ("a sample", lambda cell: f"{texts.seconds((cell.median_s or 0) / cell.number('samples') * 1e6)} µs"),
    (
        "bytes a sample, sent by all",
        lambda cell: _count(None if cell.sent_bytes is None else cell.sent_bytes / cell.number("samples")),
    ),
    _ROUNDS,
]
_RUN: Columns = [
    ("cell", attrgetter("name")),
    ("runs", lambda cell: str(len(cell.ok))),
    _SPREAD,
    *(
        (time, partial(_seconds, time=time))
        for time in ("online_s", "offline_s", "wall_s", "compile_s", "share_s")
    ),
    _ROUNDS,
    ("sent by a party", partial(_size, what="sent_bytes")),
    ("from clients", partial(_size, what="client_sent_bytes")),
    ("memory of a party", partial(_size, what="peak_memory_bytes")),
    ("program", lambda cell: (cell.ok[0].program_hash or NONE)[:8]),
]


_REASON = ("reason", attrgetter("reason"))
_FAILED: Columns = [
    ("failed", attrgetter("name")),
    ("runs", lambda cell: str(len(cell.of(FAILED)))),
    _REASON,
]
_SKIPPED: Columns = [("skipped", attrgetter("name")), _REASON]


def _environment(measured: Measured) -> Iterator[Part]:
    """View what runs say of where they ran, each thing in all the ways that occur."""
    runs = [(str(cell["security"]), run) for cell in measured.cells for run in cell.ok]
    if not runs:
        return
    yield Heading("Where it ran")
    keys = {"MP-SPDZ's commit": "mp_spdz_commit", "cores": "cores", "platform": "platform"}
    facts = {"engines": ", ".join(sorted({str(run.engine_version) for _, run in runs}))} | {
        name: "; ".join(sorted({_fact(run.environment.get(key)) for _, run in runs} - {""}))
        for name, key in {**keys, "Python": "python", "packages": "packages"}.items()
    }
    if hosts := {str(host["name"]): host for _, run in runs for host in run.hosts}:
        columns = ["host", "processor", "cores", "memory", "platform"]
        yield Table(columns, [[name, *_of_host(host)] for name, host in sorted(hosts.items())])
    loads = [run.environment["load_average"][0] for _, run in runs if "load_average" in run.environment]
    if loads:
        facts["load average (1 min) after a run"] = f"{min(loads):.2f} to {max(loads):.2f}"
    facts["programs (hashes)"] = f"{len({run.program_hash for _, run in runs}):,}"
    yield Table(["", ""], [[name, value] for name, value in facts.items() if value])
    options = dict.fromkeys((model, " ".join(run.compile_options) or NONE) for model, run in runs)
    rows = [
        [model, " or ".join(sorted(given for of, given in options if of == model))]
        for model in dict.fromkeys(model for model, _ in options)
    ]
    yield Table(["security model", "compile options"], rows)


def _of_host(host: Mapping[str, Any]) -> list[str]:
    there = host["environment"]
    memory = f"{host['memory_bytes'] / 1e9:.0f} GB"
    return [str(host["processor"]), str(there["cores"]), memory, str(there["platform"])]


def _fact(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {version}" for name, version in value.items())
    return "" if value is None else str(value)
