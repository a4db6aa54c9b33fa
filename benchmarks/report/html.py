"""The report on measured runs: Table 2 side by side, growth, networks, noise, every run, and where it ran."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median

from benchmarks.measure.samples import FAILED, SKIPPED, Sample
from benchmarks.papers import privfairfl
from benchmarks.report.markdown import markdown
from benchmarks.validation import Validation, texts
from benchmarks.validation.cells import CellRuns, Measured
from benchmarks.validation.findings import Status
from benchmarks.validation.side_by_side import AS_PUBLISHED
from harness.views.parts import Figure, Heading, Paragraph, Part, Sentences, Table
from harness.views.rendering.html import write_page

_NONE = "–"
_RUN_HEADER = [
    *("cell", "runs", "mpc_s", "online_s", "offline_s", "wall_s", "compile_s", "share_s", "rounds"),
    *("sent by a party", "from clients", "memory of a party", "program"),
]


Drawings = Sequence[tuple[str, Figure]]  # each with the section that it is in


def write(measured: Measured, found: Validation, drawings: Drawings, directory: Path) -> None:
    """Write `report.md`, `report.html` and the figures into a directory that is there."""
    view, (title, subtitle) = list(report(measured, found, drawings)), titles(measured)
    write_page(title, subtitle, view, directory)
    (directory / "report.md").write_text(markdown(title, subtitle, view), encoding="utf-8")


def titles(measured: Measured) -> tuple[str, str]:
    """Return the report's title and subtitle."""
    runs = [run for cell in measured.cells for run in cell.ok]
    versions = sorted({str(run.engine_version) for run in runs})
    cores = sorted({str(run.environment.get("cores")) for run in runs})
    days = sorted({run.time[:10] for run in runs})
    span = " to ".join(dict.fromkeys((days[0], days[-1]))) if days else "never"
    subtitle = (
        f"{len(runs):,} runs of {len(measured.cells):,} cells, {span}; {', '.join(versions)}; "
        f"all parties on one machine with {' or '.join(cores)} cores"
    )
    return "What the protocols cost, beside PrivFairFL", subtitle


def report(measured: Measured, found: Validation, drawings: Drawings) -> Iterator[Part]:
    """View all sections of the report."""

    def draw(section: str) -> Iterator[Part]:
        return (figure for its_section, figure in drawings if its_section == section)

    yield Paragraph(f"{texts.counts(found.findings)}. ./inv bench.validate judges anew.", note=True)
    yield from _table2(found, draw)
    yield from _growth(measured, draw)
    yield from _networks(measured, draw)
    yield from _noise(measured, draw)
    yield from _checks(found)
    yield from _every_run(measured)
    yield from _environment(measured)


Draw = Callable[[str], Iterator[Part]]


def _table2(found: Validation, draw: Draw) -> Iterator[Part]:
    yield Heading("PrivFairFL's Table 2")
    yield from draw("table2")
    for protocol in AS_PUBLISHED:
        for shape in privfairfl().shapes.values():
            size = f"{shape.clients:,} clients, {shape.records:,} records"
            yield Table(
                texts.table2_header(protocol),
                texts.table2_rows(found.rows, protocol, shape.name),
                caption=f"{texts.TITLES[protocol]}, {shape.title}: {size}.",
            )
        rows = [row for row in found.rows if row.protocol == protocol]
        yield Sentences(list(texts.table2_notes(rows, protocol)))
    yield "What is wrong with the published figures:"
    yield Sentences(privfairfl().caveats)
    lines = [row for row in found.rows if row.extrapolated is not None]
    if not lines:
        return
    yield Heading("From some thresholds to all")
    yield from draw("extrapolation")
    yield Table(
        [
            "model",
            "shape",
            "thresholds run",
            "constant",
            "each threshold",
            "off a run by at most",
            "at 1,001",
        ],
        [
            [
                row.model,
                row.shape,
                ", ".join(map(str, line.measured)),
                f"{texts.seconds(line.line.constant)} s",
                f"{texts.seconds(line.line.slope)} s",
                f"{line.line.residual:.1%}",
                f"{texts.seconds(line.seconds)} s",
            ]
            for row in lines
            if (line := row.extrapolated) is not None
        ],
        caption="π_ROC as published: a line through the medians, by least squares of relative errors, and "
        "how far it is off one of them at most. By the compiler's count each threshold takes as many "
        "operations, whether few are compared or all.",
    )


def _growth(measured: Measured, draw: Draw) -> Iterator[Part]:
    if not measured.where("scale"):
        return
    yield Heading("Growing federations: Figures 1 and 2")
    yield from draw("scale")
    claims = privfairfl().figures.values()
    yield Sentences([f"The paper, {claim.title}: {claim.text}." for claim in claims])


def _networks(measured: Measured, draw: Draw) -> Iterator[Part]:
    cells = [cell for cell in measured.where("network") if cell.ok]
    if not cells:
        return
    yield Heading("Networks between the parties")
    yield from draw("network")
    rows = []
    for cell in cells:
        found = [run.network for run in cell.ok if run.network is not None]
        if not found:
            continue
        rtt = _middle([network.get("measured_rtt_s") for network in found])
        rate = _middle([network.get("measured_bandwidth_bits_per_s") for network in found])
        rows.append(
            [
                cell.name,
                f"{found[0]['rtt_s'] * 1e3:g}",
                _NONE if rtt is None else f"{rtt * 1e3:.3g}",
                f"{found[0]['bandwidth_bits_per_s'] / 1e6:,.0f}",
                _NONE if rate is None else f"{rate / 1e6:,.0f}",
                texts.spread(cell.seconds()),
                _count(cell.rounds),
            ]
        )
    header = ["cell", "ms wanted", "measured", "Mbit/s wanted", "measured", "mpc_s", "rounds"]
    yield Table(
        header,
        rows,
        caption="Round-trip time and bandwidth between each two parties, in each direction, emulated in user "
        "space: as wanted, and as measured in the run itself (medians of the runs).",
    )


def _noise(measured: Measured, draw: Draw) -> Iterator[Part]:
    cells = [cell for cell in measured.where("noise", protocol="pi_lap") if cell.ok]
    if not cells:
        return
    yield Heading("Noise")
    yield from draw("noise")
    rows = []
    for cell in cells:
        found, samples = cell.seconds(), cell.number("samples")
        if found is None or not samples:
            continue
        sent = cell.sent_bytes
        rows.append(
            [
                cell.name,
                texts.spread(found),
                f"{texts.seconds(found.median / samples * 1e6)} µs",
                _NONE if sent is None else f"{sent / samples:,.0f}",
                _count(cell.rounds),
            ]
        )
    yield Table(["cell", "mpc_s", "a sample", "bytes a sample, sent by all", "rounds"], rows)


def _checks(found: Validation) -> Iterator[Part]:
    yield Heading("What was checked")
    yield Table(["checks", *map(str, Status)], texts.by_kind(found.findings))
    deviations = texts.deviations(found.findings)
    if deviations:
        yield Table(
            ["check", "status", "found", "why"],
            [[key, status, what, why] for status, key, what, why in deviations],
            caption="Every deviation. An explanation holds for a range of values only; beyond it the check "
            "fails.",
        )
    unjudged = texts.unjudged(found.findings)
    if unjudged:
        yield Table(["not judged, because", "checks", "for example"], unjudged)


def _every_run(measured: Measured) -> Iterator[Part]:
    for suite in measured.suites:
        cells = measured.where(suite)
        about = measured.abouts.get(suite, {})
        yield Heading(f"Every cell of {suite}")
        if about:
            finished = "finished" if about.get("finished") else "not finished"
            yield f"{about.get('title', suite)}. {about.get('command', '')}: {finished}."
        yield Table(
            _RUN_HEADER,
            [_run_row(cell) for cell in cells if cell.ok],
            caption="Medians; of mpc_s also least and most, of compile_s the most, as a program is compiled "
            "once. Bytes and memory: of the party with most.",
        )
        failed = [[cell.name, str(len(cell.of(FAILED))), cell.reason] for cell in cells if cell.of(FAILED)]
        if failed:
            yield Table(["failed", "runs", "reason"], failed)
        skipped = [[cell.name, cell.reason] for cell in cells if cell.of(SKIPPED)]
        if skipped:
            yield Table(["skipped", "reason"], skipped)


def _run_row(cell: CellRuns) -> list[str]:
    first = cell.ok[0]

    def seconds(name: str) -> str:
        found = cell.seconds(f"{name}_s")
        if found is None:
            return _NONE
        return texts.seconds(found.high if name == "compile" else found.median)  # it is compiled once

    others = [seconds(name) for name in ("online", "offline", "wall", "compile", "share")]
    return [
        cell.name,
        str(len(cell.ok)),
        texts.spread(cell.seconds()),
        *others,
        _count(cell.rounds),
        _size(cell, lambda run: run.sent_bytes),
        _size(cell, lambda run: run.client_sent_bytes or ()),
        _size(cell, lambda run: run.peak_memory_bytes),
        (first.program_hash or _NONE)[:8],
    ]


def _size(cell: CellRuns, of: Callable[[Sample], tuple[int, ...]]) -> str:
    most = _middle([max(of(run)) for run in cell.ok if of(run)])
    if most is None:
        return _NONE
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if most >= size:
            return f"{most / size:.3g} {unit}"
    return f"{most:.0f} B"


def _environment(measured: Measured) -> Iterator[Part]:
    runs = [run for cell in measured.cells for run in cell.ok]
    if not runs:
        return
    yield Heading("Where it ran")
    loads = [float(run.environment["load_average"][0]) for run in runs if "load_average" in run.environment]
    facts = dict(_facts(runs))
    if loads:
        facts["load average (1 min) after a run"] = f"{min(loads):.2f} to {max(loads):.2f}"
    facts["programs (hashes)"] = f"{len({run.program_hash for run in runs}):,}"
    yield Table(["", ""], [[name, value] for name, value in facts.items()])
    options: dict[str, set[str]] = {}
    for cell in measured.cells:
        for run in cell.ok:
            options.setdefault(str(cell["model"]), set()).add(" ".join(run.compile_options) or _NONE)
    rows = [[model, " or ".join(sorted(each))] for model, each in options.items()]
    yield Table(["model", "compile options"], rows)


def _facts(runs: list[Sample]) -> Iterator[tuple[str, str]]:
    yield "engines", ", ".join(sorted({str(run.engine_version) for run in runs}))
    for name, key in (
        ("MP-SPDZ's commit", "mp_spdz_commit"),
        ("cores", "cores"),
        ("platform", "platform"),
        ("Python", "python"),
        ("packages", "packages"),
    ):
        values = sorted({_fact(run.environment.get(key)) for run in runs} - {""})
        if values:
            yield name, "; ".join(values)


def _fact(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {version}" for name, version in value.items())
    return "" if value is None else str(value)


def _middle(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def _count(number: int | None) -> str:
    return _NONE if number is None else f"{number:,}"
