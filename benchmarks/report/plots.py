"""Figures of measured runs: Table 2, extrapolation, growth beside the paper's claims, networks, noise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.figures import panel, panels
from benchmarks.measure.samples import Summary
from benchmarks.papers import FigureClaim, privfairfl
from benchmarks.validation import Validation
from benchmarks.validation.cells import CellRuns, Measured
from benchmarks.validation.side_by_side import AS_PUBLISHED, Row
from benchmarks.validation.texts import TITLES
from harness.security_models import MODELS
from harness.views import parts
from harness.views.palette import COLOURS, GREY, MARKERS

_COLOUR = dict(zip(MODELS, COLOURS, strict=False))
_MARKER = dict(zip(MODELS, MARKERS, strict=False))
_STYLES = {"default": "-", "product": "--", "records": "-.", "published": ":"}
_VARIANTS = {
    "default": "default",
    "product": "product (published)",
    "records": "records counted by parties",
    "published": "as published",
}


def drawings(measured: Measured, found: Validation) -> Iterator[tuple[str, parts.Figure]]:
    """Yield the figures that there are runs for, each with the report's section that it is in."""
    if any(row.published or row.default for row in found.rows):
        yield (
            "table2",
            parts.Figure(
                "table2",
                table2_figure(found.rows),
                "Seconds of each model for weights and thresholds: the paper's, published protocol, default.",
                "Table 2 for ADS, 109 clients with 26,160 records. Bars: from the least to the most of the "
                "runs.",
            ),
        )
    if any(row.extrapolated for row in found.rows):
        yield (
            "extrapolation",
            parts.Figure(
                "extrapolation",
                extrapolation_figure(measured, found.rows),
                "Seconds against the number of thresholds, with a line for each model, out to 1,001.",
                "π_ROC as published on ADS: runs with some thresholds (filled), the line through them, where "
                "it ends (hollow), and the paper's figures (crosses).",
            ),
        )
    for name, claim in privfairfl().figures.items():
        cells = [
            cell
            for cell in measured.where("scale", protocol=claim.protocol)
            if cell.ok and cell.number(claim.factor)
        ]
        if cells:
            yield (
                "scale",
                parts.Figure(
                    name,
                    growth_figure(measured, cells, claim, found.rows),
                    f"Seconds against {claim.factor}, by variant and model.",
                    f"{claim.title} redrawn from our runs: medians, with the least and the most. Grey: what "
                    "the paper's text says of ring.",
                ),
            )
    networks = [cell for cell in measured.where("network") if cell.ok]
    if networks:
        yield (
            "network",
            parts.Figure(
                "network",
                network_figure(networks),
                "Seconds of each protocol and model on no network, lan and wan.",
                "Medians, with the least and the most, by network.",
            ),
        )
    noise = [cell for cell in measured.where("noise", protocol="pi_lap") if cell.ok]
    if noise:
        yield (
            "noise",
            parts.Figure(
                "noise",
                noise_figure(measured, noise),
                "Seconds a sample against the number of samples, by model.",
                "The default sampler at ε = 1, and the published one where it was run (hollow).",
            ),
        )


def table2_figure(rows: Sequence[Row]) -> Figure:
    """Draw the paper's, the published and the default seconds of each model, for ADS."""
    figure, (row_of_panels,) = panels(1, 2, (10.5, 3.4))
    for axes, protocol in zip(row_of_panels, AS_PUBLISHED, strict=True):
        of = [row for row in rows if (row.protocol, row.shape) == (protocol, "ads")]
        for y, row in enumerate(of):
            axes.axhline(y, color=GREY, alpha=0.25, linewidth=0.8)
            axes.plot(row.paper.seconds, y, "kx", markersize=8, label="PrivFairFL" if not y else None)
            if row.whole is not None:
                extrapolated = row.extrapolated is not None
                label = "published, run here" + (", extrapolated" if extrapolated else "")
                face = "none" if extrapolated else COLOURS[1]
                axes.plot(
                    row.whole,
                    y,
                    "s",
                    color=COLOURS[1],
                    markerfacecolor=face,
                    markersize=7,
                    label=None if any(r.whole is not None for r in of[:y]) else label,
                )
            if row.published is not None and row.extrapolated is None and row.whole is not None:
                _span(axes, row.published, y, COLOURS[1])
            if row.default is not None:
                first = not any(r.default for r in of[:y])
                _span(axes, row.default, y, COLOURS[0])
                label = "default" if first else ""
                axes.plot(row.default.median, y, "o", color=COLOURS[0], label=label or None)
        axes.set_xscale("log")
        axes.set_yticks(range(len(of)), [row.model for row in of])
        axes.set_ylim(len(of) - 0.5, -0.5)
        axes.tick_params(axis="y", length=0)
        axes.set(xlabel="seconds in the computation")
        axes.set_title(TITLES[protocol], loc="left")
        axes.grid(alpha=0.25, linewidth=0.6)
        axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(0, -0.22), ncols=3, fontsize="small")
    return figure


def _span(axes: Axes, found: Summary, y: float, colour: str) -> None:
    axes.plot([found.low, found.high], [y, y], color=colour, linewidth=2.5, alpha=0.5)


def extrapolation_figure(measured: Measured, rows: Sequence[Row]) -> Figure:
    """Draw the runs with some thresholds, the line through them, and where it ends."""
    figure, axes = panel((6.6, 4.6))
    whole = privfairfl().thresholds
    for row in rows:
        if row.extrapolated is None or row.shape != "ads":
            continue
        colour, line = _COLOUR[row.model], row.extrapolated.line
        cells = measured.where(
            "table2", protocol="pi_roc", variant="published", shape=row.shape, model=row.model
        )
        _points(axes, cells, "thresholds", colour=colour, marker=_MARKER[row.model], linestyle="none")
        first = row.extrapolated.measured[0]
        xs = [first * (whole / first) ** (i / 60) for i in range(61)]
        axes.plot(xs, [line.at(x) for x in xs], color=colour, linewidth=1.2, label=row.model)
        axes.plot(whole, row.extrapolated.seconds, _MARKER[row.model], color=colour, markerfacecolor="none")
        axes.plot(whole, row.paper.seconds, "x", color=colour, markersize=8)
    axes.set(xscale="log", yscale="log", xlabel="thresholds", ylabel="seconds in the computation")
    axes.grid(alpha=0.25, linewidth=0.6)
    axes.legend(frameon=False)
    return figure


def growth_figure(
    measured: Measured, cells: Sequence[CellRuns], claim: FigureClaim, rows: Sequence[Row]
) -> Figure:
    """Draw seconds against a factor for each variant and model, with what the paper says."""
    figure, axes = panel((7.6, 4.6))
    also = ("records",) if claim.factor == "clients" else ()
    for series in measured.series(claim.factor, cells, also):
        first = series[0]
        model, variant = str(first["model"]), str(first["variant"])
        label = f"{model}, {_VARIANTS[variant]}"
        if variant == "published":
            label += f", {first.number('thresholds')} thresholds"
        _points(
            axes,
            series,
            claim.factor,
            colour=_COLOUR[model],
            marker=_MARKER[model],
            linestyle=_STYLES[variant],
            label=label,
        )
    low, high = claim.at
    if claim.factor == "records":
        _scaled_to_records(axes, rows, claim)
    style: dict[str, Any] = (
        {"marker": "x", "markersize": 9} if low == high else {"linewidth": 6, "alpha": 0.5}
    )
    axes.plot([low, high], [claim.seconds] * 2, color=GREY, solid_capstyle="butt", **style)
    axes.annotate(
        f"{claim.title}: about {_duration(claim.seconds)}",
        (low, claim.seconds),
        textcoords="offset points",
        xytext=(0, 8),
        ha="right" if low == high else "left",
        color="#555555",
        fontsize="small",
    )
    axes.set(xscale="log", yscale="log", xlabel=claim.factor, ylabel="seconds in the computation")
    axes.margins(y=0.12)
    axes.grid(alpha=0.25, linewidth=0.6)
    axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1), fontsize="small")
    return figure


def _scaled_to_records(axes: Axes, rows: Sequence[Row], claim: FigureClaim) -> None:
    """Draw what all thresholds would take as published: ADS's extrapolation, scaled by records."""
    for row in rows:
        if (row.protocol, row.shape, row.model) == (claim.protocol, "ads", claim.model) and row.extrapolated:
            seconds = row.extrapolated.seconds * claim.at[0] / privfairfl().shapes[row.shape].records
            label = f"{row.model}, as published, extrapolated to {privfairfl().thresholds:,}"
            style: dict[str, Any] = {
                "color": _COLOUR[row.model],
                "markerfacecolor": "none",
                "linestyle": "none",
            }
            axes.plot(claim.at[0], seconds, marker=_MARKER[row.model], label=label, **style)


def _duration(seconds: float) -> str:
    return f"{seconds / 3600:.0f} hours" if seconds >= 7200 else f"{seconds:g} s"


def network_figure(cells: Sequence[CellRuns]) -> Figure:
    """Draw each protocol's seconds by network, a line for each model."""
    protocols = list(dict.fromkeys(str(cell["protocol"]) for cell in cells))
    networks = list(dict.fromkeys(str(cell["network"]) for cell in cells))
    figure, (row,) = panels(1, len(protocols), (2.6 * len(protocols) + 1.4, 3.6), sharey=True)
    for axes, protocol in zip(row, protocols, strict=True):
        models = dict.fromkeys(str(cell["model"]) for cell in cells if cell["protocol"] == protocol)
        for model in models:
            found = {
                networks.index(str(cell["network"])): seconds
                for cell in cells
                if (cell["protocol"], cell["model"]) == (protocol, model) and (seconds := cell.seconds())
            }
            xs = sorted(found)
            axes.errorbar(
                xs,
                [found[x].median for x in xs],
                yerr=_errors([found[x] for x in xs]),
                label=model,
                color=_COLOUR[model],
                marker=_MARKER[model],
                capsize=2,
                linewidth=1.3,
            )
        axes.set(yscale="log", xticks=range(len(networks)), xticklabels=networks)
        axes.set_title(protocol.replace("pi_", "π_").upper().replace("Π", "π"), loc="left")
        axes.grid(alpha=0.25, linewidth=0.6)
    row[0].set_ylabel("seconds in the computation")
    row[-1].legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1), fontsize="small")
    return figure


def noise_figure(measured: Measured, cells: Sequence[CellRuns]) -> Figure:
    """Draw seconds a sample against samples, of the default and of the published sampler at ε = 1."""
    figure, axes = panel((6.6, 4.4))
    for series in measured.series("samples", [cell for cell in cells if cell["epsilon"] == "1"]):
        model, variant = str(series[0]["model"]), str(series[0]["variant"])
        if variant not in _STYLES:
            continue
        found = [(cell.number("samples"), seconds) for cell in series if (seconds := cell.seconds())]
        axes.plot(
            [samples for samples, _ in found],
            [seconds.median / samples for samples, seconds in found],
            color=_COLOUR[model],
            marker=_MARKER[model],
            markerfacecolor="none" if variant == "published" else None,
            linestyle=_STYLES[variant],
            label=f"{model}, published" if variant == "published" else model,
        )
    axes.set(xscale="log", yscale="log", xlabel="samples", ylabel="seconds a sample")
    axes.grid(alpha=0.25, linewidth=0.6)
    axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1), fontsize="small")
    return figure


def _points(axes: Axes, cells: Sequence[CellRuns], factor: str, *, colour: str, **style: Any) -> None:
    found = [(cell.number(factor), seconds) for cell in cells if (seconds := cell.seconds())]
    if found:
        axes.errorbar(
            [level for level, _ in found],
            [seconds.median for _, seconds in found],
            yerr=_errors([seconds for _, seconds in found]),
            color=colour,
            capsize=2,
            linewidth=1.3,
            markersize=5,
            **style,
        )


def _errors(found: Sequence[Summary]) -> list[list[float]]:
    return [[each.median - each.low for each in found], [each.high - each.median for each in found]]
