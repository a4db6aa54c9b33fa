"""`cap` chooses a client's contribution bound."""

import shlex
from typing import Any

from harness.cli.commands.releases import conclude, released
from harness.errors import as_flag
from harness.request.releases import CAPPED_CURVES
from harness.views.parts import Line
from harness.views.releases import cap as view
from protocols.accounting.calibration import PrivacyUnit
from protocols.accounting.rounding import exact_text
from protocols.spec import ProtocolSpec


def cap(options: Any) -> None:
    """Run π_CAP, and show how to use the bound."""
    curves = options.request.curves
    run = released(options, view.STEPS)
    if run is not None:
        clients = run.manifest["inputs"]["clients"]
        following = _following(options, str(run.found.cap), run.manifest["security"], curves)
        conclude(options, run, view.cap(run.found, clients, following), "the cap")


def _following(options: Any, cap: str, model: str, curves: ProtocolSpec | None) -> list[Line]:
    task = options.release
    if task == "counts":
        return [
            Line("Next", f"name it where clients are the privacy unit: --privacy-unit client --cap {cap}")
        ]
    kept = options.written("security", "population", "ledger")
    unit = {"epsilon": exact_text(options.release_epsilon), "privacy_unit": str(PrivacyUnit.CLIENT)}
    form = {}
    if curves and options.variant and options.variant != CAPPED_CURVES[0]:
        unit["variant"] = options.variant
        form = {"input_form": next(iter(curves.input_forms))}
    if options.records:
        shared = options.written("records", "domain", "groups", "labels", "max_count")
        return [Line("Next", _line(task, {**shared, **kept, **unit, "cap": cap}))]
    again = {"records": "FILE", "domain": "FILE", "task": task, "security": model, "cap": cap}
    where = options.written("hosts") if options.hosts else {"shares": "SHARES"}
    return [
        Line(
            "Next, each client, as what it shared for this is a cap's only", _line("share", {**again, **form})
        ),
        Line("Then, the parties", _line(task, {**where, **kept, **unit})),
    ]


def _line(command: str, options: dict[str, str]) -> str:
    words = [word for name, value in options.items() if value for word in (as_flag(name), value)]
    return shlex.join(["./inv", command, *words])
