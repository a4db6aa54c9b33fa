"""The quickstart's result, and the HTML file with pictures that shows it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.evaluation import before_after
from harness.evaluation.splits import Evaluation
from harness.pipeline.manifest import bounds_shown, privacy_statement
from harness.pipeline.run import Run
from harness.postprocessing.thresholds.rules import in_words
from harness.releases.score_curves import Thresholds
from harness.releases.weights import Weights
from harness.security_models import get_model
from harness.views.html import HtmlReport
from harness.views.plots import before_after_figure, rates_figure, roc_figure
from protocols.accounting.rounding import interval_shown


@dataclass(frozen=True)
class Quickstart:
    """What the quickstart shows: the private runs, and the evaluation in the clear beside them.

    Attributes: manifest: of both runs together; fallbacks: splits whose simulated curves allowed no
    thresholds, so that the model's own predictions were taken.
    """

    weights: Run[Weights]
    thresholds: Run[Thresholds]
    manifest: dict[str, Any]
    evaluation: Evaluation
    clients: int
    test_rows: int
    splits: int
    fallbacks: int


def write_report(shown: Quickstart, directory: Path) -> None:
    """Write `report.html`, and its figures as PNGs, into a directory that is there."""
    manifest = shown.manifest
    report = HtmlReport(
        "Fair weights and thresholds from secret shares",
        f"{shown.clients:,} mortgage applicants, each a client with one record; model {manifest['model']}, "
        f"{manifest['engine_version']}",
    )
    report.paragraph(
        "Every applicant splits a record (group, whether the loan was approved, the score of a model that "
        "was fitted without it) into shares, one for each computing party. The parties count on shares, add "
        "noise that none of them knows, and open noisy counts only. Sample weights and thresholds follow "
        "from these."
    )
    _weights(report, shown)
    _thresholds(report, shown)
    _before_after(report, shown)
    _privacy(report, manifest)
    _cost(report, manifest)
    report.write(directory)


def _weights(report: HtmlReport, shown: Quickstart) -> None:
    found = shown.weights.found.weights
    rows = []
    for s, group in enumerate(found.domain.groups):
        for y, label in enumerate(found.domain.labels):
            low, high = found.interval[s, y]
            counts = f"{found.noisy_counts[s, y]:,.1f}"
            rows.append([group, label, counts, f"{found.weights[s, y]:,.4f}", interval_shown(low, high, 4)])
    report.section("Sample weights")
    columns = [f"weight ({found.reweighing})", f"{float(found.confidence):.0%} interval"]
    report.table(
        ["group", "label", "noisy count", *columns],
        rows,
        "Label 1 is approved. The intervals are for the weights of the true counts, over the noise.",
    )


def _thresholds(report: HtmlReport, shown: Quickstart) -> None:
    found = shown.thresholds.found
    chosen = found.thresholds
    report.section("Thresholds for each group")
    report.figure(
        "roc",
        roc_figure(found.curves.curves, chosen),
        "ROC curve of each group with the band that the noise leaves, and the chosen operating points",
        "ROC curves from noisy counts. Bands: where the true points of all groups and thresholds are with "
        "95 % probability, over the noise.",
    )
    if chosen is None:
        report.paragraph(f"No thresholds follow from these curves: {found.problem}", note=True)
        return
    names = ("true_positive_rate", "false_positive_rate", "selection_rate")
    rows = []
    for i, (group, rule) in enumerate(chosen.rules.items()):
        ranges = [(chosen.rates[name][i], *chosen.intervals[name][i]) for name in names]
        rates = [f"{rate:.3f} ({interval_shown(low, high, 3)})" for rate, low, high in ranges]
        rows.append([group, rule.described(), *rates])
    report.figure(
        "rates",
        rates_figure(chosen),
        "each group's rates under its thresholds, with intervals",
        "What the chosen thresholds do: estimates, and intervals for the noise and the sample.",
    )
    low, high = chosen.gap_interval
    report.table(
        ["group", "approve if score ≥", *(name.replace("_", " ") for name in names)],
        rows,
        f"Under {in_words(chosen.constraint)}, at the best {in_words(chosen.objective)}. Estimates, and "
        f"intervals that hold all at once with {float(chosen.confidence):.0%} probability over the noise and "
        f"the sample, that of the largest difference between the groups too: {chosen.gap:.3f} ({low:.3f} – "
        f"{high:.3f}).",
    )


def _before_after(report: HtmlReport, shown: Quickstart) -> None:
    evaluation = shown.evaluation
    report.section("Before and after")
    report.paragraph(f"This is an {before_after.NO_GUARANTEE}.", note=True)
    report.paragraph(
        f"Logistic regression without the group, on the {shown.test_rows:,} applicants held out: "
        f"unmitigated; refitted with weights; with thresholds for each group. {shown.splits} splits; only "
        "the first one's weights and thresholds are those above, the others' come from the same releases "
        "simulated in the clear."
    )
    report.figure(
        "before_after",
        before_after_figure(evaluation),
        "balanced accuracy and differences between the groups, of each model",
        f"Mean and standard deviation over {shown.splits} splits.",
    )
    header = ["", *before_after.models(evaluation)]
    report.table(header, before_after.table(evaluation), before_after.HOW_TO_READ)
    report.bullets(before_after.changes(evaluation))


def _privacy(report: HtmlReport, manifest: dict[str, Any]) -> None:
    report.section("Privacy")
    model = get_model(manifest["model"])
    report.bullets(privacy_statement(manifest["privacy"], model))
    report.paragraph(before_after.GIVEN_SCORES, note=True)
    rows = []
    for name, part in manifest["parts"].items():
        privacy = part["privacy"]
        rows.append([name, privacy["epsilon_requested"], *bounds_shown(privacy)])
    caption = "They add up to the total above (basic composition)."
    report.table(["release", "ε requested", "ε", "δ"], rows, caption)


def _cost(report: HtmlReport, manifest: dict[str, Any]) -> None:
    report.section("Cost")
    rows = [
        [
            name,
            f"{part['mpc_s']:.3f} s",
            "–" if part["rounds"] is None else f"{part['rounds']}",
            f"{sum(part['sent_bytes']) / 1e3:,.0f} kB",
            f"{part['wall_s']:.2f} s",
        ]
        for name, part in manifest["parts"].items()
    ]
    report.table(
        ["release", "in the computation", "rounds", "sent by all parties", "from sharing to result"],
        rows,
        "All parties ran on one machine, which saw all records: that protects nothing against its owner.",
    )
