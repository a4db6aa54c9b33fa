"""`cap`: how many records of a client are to count, chosen with differential privacy."""

from __future__ import annotations

import shlex
from dataclasses import replace

from harness.cli.commands.releases import conclude, release, settings_of
from harness.cli.release_options import CAPPED_CURVES, CapOptions
from harness.views.parts import Line
from harness.views.releases import cap as view
from protocols.accounting.calibration import PrivacyUnit
from protocols.spec import PI_CAP, ProtocolSpec


def cap(options: CapOptions) -> None:
    """Run π_CAP on a records file or on shares."""
    form = options.input_form if options.hosts else None
    options = options.but(privacy_unit=PrivacyUnit.CLIENT, input_form=form)
    settings, curves = settings_of(options, PI_CAP), options.curves
    if curves:  # the model has to have these, too
        of_curves = replace(settings.release, form=next(iter(curves.input_forms.values())))
        replace(settings, release=of_curves).check_supported(curves)
    run, out = release(options, options.statistic(PI_CAP), settings, view.STEPS)
    chosen, manifest = run.found, run.manifest
    following = _following(options, str(chosen.cap), manifest["model"], curves)
    clients = manifest["inputs"]["clients"]
    conclude(options, run, out, view.cap(chosen, clients, following), "the cap")


def _following(options: CapOptions, cap: str, model: str, curves: ProtocolSpec | None) -> list[Line]:
    """Return what to do with the cap: the command line of each step."""
    task = options.release
    if task == "counts":
        return [
            Line("Next", f"name it where clients are the privacy unit: --privacy-unit client --cap {cap}")
        ]
    kept = options.given("model", "population", "ledger")
    unit = {
        "epsilon": options.given("release_epsilon")["release_epsilon"],
        "privacy-unit": str(PrivacyUnit.CLIENT),
    }
    form = {}
    if curves and options.variant and options.variant != CAPPED_CURVES[0]:
        unit["variant"] = options.variant
        form = {"input-form": next(iter(curves.input_forms))}
    if options.records:
        own = options.given("records", "domain", "groups", "labels", "max_count")
        return [Line("Next", _line(task, {**own, **kept, **unit, "cap": cap}))]
    again = {"records": "FILE", "domain": "FILE", "task": task, "model": model, "cap": cap}
    where, run = ({**options.given("hosts"), "task": task}, "hosts.run") if options.hosts else ({}, task)
    return [
        Line(
            "Next, each client, as what it shared for this is a cap's only", _line("share", {**again, **form})
        ),
        Line("Then, the parties", _line(run, {**where, "shares": "SHARES", **kept, **unit})),
    ]


def _line(command: str, options: dict[str, str]) -> str:
    words = [
        word for name, value in options.items() if value for word in (f"--{name.replace('_', '-')}", value)
    ]
    return shlex.join(["./inv", command, *words])
