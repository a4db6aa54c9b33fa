"""Every view's tables on a terminal of 80 columns: tables still, with no header cut and no word broken."""

import io
from collections.abc import Callable, Iterable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from harness.engines.registry import security_models
from harness.inputs.record_schema import RecordDomain, RecordKind, ValueGrid
from harness.postprocessing.thresholds.choose import choose_thresholds
from harness.privacy.audit.releases import RELEASES, audit_command
from harness.privacy.audit.samplers import Audited, audit_m_r, audit_published, audit_sampler
from harness.privacy.ledger.populations import Charge, Population, Status
from harness.releases.base import Statistic
from harness.releases.confusion import ConfusionStatistic
from harness.releases.contribution_cap import ChosenCap
from harness.releases.counts import CountStatistic
from harness.releases.gaps import GapStatistic
from harness.releases.weights import WeightsStatistic
from harness.security_models import MODELS
from harness.views import ledger as ledger_view, run as run_view
from harness.views.audit import audit
from harness.views.parts import Part, Table
from harness.views.releases import cap, confusion, counts, gaps, thresholds, weights
from harness.views.rendering.text import render
from protocols.accounting.calibration import NeighboringRelation, PrivacyUnit
from protocols.guarantee import Budget, Guarantee
from protocols.mechanisms.shifted_log import ErrorTarget
from tests.harness.views.test_plots import curves
from tests.support.plans import show_plan
from tests.support.requests import request_of

GROUPS = ("African American", "Asian", "Native Hawaiian or Pacific")
LABELS = ("approved", "denied")
DELTA = Fraction(1, 2**40)


def read(statistic: Statistic[Any], kind: RecordKind, labels: tuple[str, ...], each: int, **more: Any) -> Any:
    """Return what a statistic makes of opened values that are all alike."""
    domain = RecordDomain(GROUPS, labels, 1 if more else 2**31, kind=kind, **more)
    form = next(iter(statistic.spec.input_forms.values()))
    prepared = statistic.prepare(request_of(MODELS["ring"], form, Fraction(1), DELTA), domain)
    (name,) = statistic.spec.outputs
    cells = prepared.plan.nodes
    return prepared.read({name: (each,) * cells}, 10**6)


def of_ledger() -> Iterable[Part]:
    spent = Guarantee(Fraction(997002, 10**6), Fraction(1, 2**41))
    record, relation = PrivacyUnit.RECORD, NeighboringRelation.ADD_OR_REMOVE_ONE
    time, out = "2026-11-22T08:00:00+00:00", Path("runs/thresholds-20261122-080330-303901")
    run = ("thresholds", "sy-rep-ring", spent, record, relation, out)
    charge = Charge(*run, id=1, time=time, status=Status.ABORTED)
    return ledger_view.ledger(Path("ledger"), [Population("loans", Budget(Fraction(3), None), (charge,) * 2)])


def of_audit() -> list[Audited]:
    """Return the longest names there are."""
    name = "thresholds-of-clients-active"
    return [
        audit_sampler(Fraction(1, 3), DELTA, 1),
        audit_published(Fraction(1), "ideal", rounded=True, subject="rounded"),
        audit_command(name, {"thresholds": 5}, RELEASES[name].relations[0], Fraction(1), DELTA),
        audit_m_r("1", Fraction(1), repaired=False),
    ]


def of_plan(**options: str) -> Iterable[Part]:
    shown: list[Part] = []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("harness.cli.report.show", lambda *parts: shown.extend(parts))
        show_plan(clients="10000", groups="2", epsilon="1", **options)
    return shown


VIEWS: dict[str, Callable[[], Iterable[Part]]] = {
    "weights": lambda: weights.weights(
        read(WeightsStatistic("kamiran-calders"), RecordKind.NONE, LABELS, 123456).weights
    ),
    "few": lambda: weights.weights(read(WeightsStatistic(), RecordKind.NONE, LABELS, -30).weights),
    "confusion": lambda: confusion.confusion(read(ConfusionStatistic(), RecordKind.PREDICTION, LABELS, 5432)),
    "of three labels": lambda: confusion.confusion(
        read(ConfusionStatistic(), RecordKind.PREDICTION, (*LABELS, "withdrawn"), 5432)
    ),
    "gap": lambda: gaps.gaps(read(GapStatistic(), RecordKind.VALUE, (), 5432, values=ValueGrid(0, 1, 1000))),
    "count": lambda: counts.counts(
        read(CountStatistic(ErrorTarget(0.1, 100, 2000)), RecordKind.NONE, LABELS, 100)
    ),
    "thresholds": lambda: thresholds.rules(choose_thresholds(curves(GROUPS)), 0.5),
    "cap": lambda: cap.cap(ChosenCap((1, 2, 3), 1, above=47, noise=17), 1000, []),
    "plan": of_plan,
    "plan of counts": lambda: of_plan(task="count"),
    "security": lambda: run_view.security_models(security_models()),
    "ledger": of_ledger,
    "audit": lambda: audit(of_audit()),
}


@pytest.mark.parametrize("name", VIEWS)
def test_tables_hold_at_80_columns(name: str) -> None:
    tables = [part for part in VIEWS[name]() if isinstance(part, Table)]
    assert tables
    for each in tables:
        file = io.StringIO()
        render([replace(each, caption="")], Console(file=file, width=80, highlight=False, emoji=False))
        shown = file.getvalue()
        assert shown.startswith("┏") and "…" not in shown.replace("… ", "")
        assert max(map(len, shown.splitlines())) <= 80
        shown, narrow, _ = shown.partition("A wider terminal shows also: ")
        seen = set(shown.replace("│", " ").replace("┃", " ").split())
        left_out = {each.columns.index(one) for one in each.if_wide if narrow}
        for row in (each.columns, *each.rows):
            kept = [cell for k, cell in enumerate(row) if k not in left_out]
            assert {word for cell in kept for word in cell.split()} <= seen
