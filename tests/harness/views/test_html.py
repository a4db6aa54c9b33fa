"""Views on a terminal and as a page: text stays text, tables are never cut, a page is self-contained."""

import base64
import io
from collections.abc import Callable, Iterable
from dataclasses import replace
from fractions import Fraction
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.axes import Axes
from rich.console import Console

from benchmarks.papers.audits import audit_published, audit_published_m_r
from fairshares.harness.engines.registry import security_models
from fairshares.harness.inputs.record_schema import RecordDomain, RecordKind, ValueGrid
from fairshares.harness.postprocessing.thresholds.choose import choose_thresholds
from fairshares.harness.privacy.audit.releases import AUDIT_TARGETS, audit_command
from fairshares.harness.privacy.audit.samplers import Audited, audit_sampler
from fairshares.harness.privacy.ledger.populations import Charge, Population, Status
from fairshares.harness.releases.base import Statistic
from fairshares.harness.releases.cap import view as cap
from fairshares.harness.releases.cap.statistic import ChosenCap
from fairshares.harness.releases.confusion import view as confusion
from fairshares.harness.releases.confusion.statistic import ConfusionStatistic
from fairshares.harness.releases.count import view as counts
from fairshares.harness.releases.count.statistic import CountStatistic
from fairshares.harness.releases.gap import view as gaps
from fairshares.harness.releases.gap.statistic import GapStatistic
from fairshares.harness.releases.thresholds import view as thresholds
from fairshares.harness.releases.weights import view as weights
from fairshares.harness.releases.weights.statistic import WeightsStatistic
from fairshares.harness.security_models import MODELS
from fairshares.harness.views import ledger as ledger_view, run_summary as run_view
from fairshares.harness.views.audit import audit
from fairshares.harness.views.palette import INK
from fairshares.harness.views.parts import (
    Bad,
    Findings,
    Good,
    Heading,
    Line,
    Paragraph,
    Part,
    Picture,
    Sentences,
    Stacked,
    Table,
)
from fairshares.harness.views.rendering.html import write_page
from fairshares.harness.views.rendering.plots import intervals, matrices, with_ends
from fairshares.harness.views.rendering.text import render
from fairshares.protocols.accounting.calibration import NeighboringRelation, PrivacyUnit
from fairshares.protocols.guarantee import Budget, Guarantee
from fairshares.protocols.mechanisms.shifted_log import ErrorTarget
from tests.harness.views.test_plots import curves
from tests.support.plans import show_plan
from tests.support.requests import request_of

VOID = {"meta", "img", "br"}
PNG = b"\x89PNG\r\n"


class Page(HTMLParser):
    """Reads a page; notes its tags, texts and what it refers to. Tags have to be closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.texts: list[str] = []
        self.references: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.references += [value or "" for name, value in attrs if name in ("src", "href", "srcset", "data")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def written(title: str, subtitle: str, view: list[Part], directory: Path) -> Page:
    write_page(title, subtitle, view, directory)
    return Page((directory / "report.html").read_text(encoding="utf-8"))


def drawn(axes: Axes) -> None:
    axes.plot([0, 1], "o")


def test_a_report_is_well_formed_and_refers_to_nothing_outside(tmp_path: Path) -> None:
    rows = [["a", "1.0"], [], [Good("b"), Stacked("2.0\n3.0")]]
    view: list[Part] = [
        Findings(["It is 2.0."]),
        Heading("One", ", of two"),
        Paragraph("Prose.", note=True),
        Paragraph("Read this.", strong="Read"),
        Sentences(["first", "second"]),
        Table(["group", "weight"], rows, title="a title", caption="a caption"),
        Line("Results", "runs/1"),
        Picture("curve", drawn, "a line", "One line.", 2.0),
        Picture("dots", drawn, "dots", "Two dots.", 2.0),
    ]
    page = written("Title", "subtitle", view, tmp_path)
    assert page.open == [] and page.tags.count("td") == 5 and page.tags.count("tr") == 4
    assert page.tags.count("strong") == 1 and page.tags.count("br") == 1
    assert page.texts.index("It is 2.0.") < page.texts.index("One") and page.texts.count("It is 2.0.") == 1
    picture, of_dots = page.references
    for name, reference in (("curve", picture), ("dots", of_dots)):
        assert (tmp_path / f"{name}.png").read_bytes().startswith(PNG)
        head, _, data = reference.partition(",")
        assert head == "data:image/svg+xml;base64"
        svg = ElementTree.fromstring(base64.b64decode(data))
        outside = [
            value for element in svg.iter() for name, value in element.attrib.items() if name.endswith("href")
        ]
        assert svg.tag == "{http://www.w3.org/2000/svg}svg" and all(target[0] == "#" for target in outside)
        text = base64.b64decode(data).decode()
        assert "prefers-color-scheme:dark" in text and "currentColor" in text
        assert "#000000" not in text and "#ffffff" not in text  # neither ink nor paper of one color scheme
    assert "url(" not in (tmp_path / "report.html").read_text() and "@import" not in page.texts[0]


def test_numbers_on_a_shade_are_dark_on_a_dark_page_too(tmp_path: Path) -> None:
    counts = np.array([[[50.0, 1.0], [2.0, 60.0]]])
    page = written("t", "", [matrices(["a"], ["0", "1"], counts)], tmp_path)
    svg = ElementTree.fromstring(base64.b64decode(page.references[0].partition(",")[2]))
    styles = {
        element.text: element.attrib["style"] for element in svg.iter("{http://www.w3.org/2000/svg}text")
    }
    assert all(f"fill: {INK}" in styles[f"{count}"] for count in counts.ravel())


def test_prose_has_code_and_powers_instead_of_signs(tmp_path: Path) -> None:
    page = written("t", "", ["`balanced` weighs e^ε, 2^-40 and a^b", Paragraph("at 10^6 `x`")], tmp_path)
    assert page.tags.count("code") == 2 and page.tags.count("sup") == 2
    assert "".join(page.texts).count("balanced weighs eε, 2^-40 and a^b") == 1


HOSTILE = '<script>alert("x")</script>&\'"'


def test_text_stays_text(tmp_path: Path) -> None:
    view: list[Part] = [
        HOSTILE,
        Findings([HOSTILE]),
        Heading(HOSTILE, HOSTILE),
        Paragraph(HOSTILE, strong=HOSTILE),
        Sentences([HOSTILE]),
        Line(HOSTILE, HOSTILE),
        Table([HOSTILE], [[HOSTILE], [Bad(HOSTILE)], [Stacked(f"{HOSTILE}\n{HOSTILE}")]], caption=HOSTILE),
        Picture("curve", lambda _: None, HOSTILE, HOSTILE, 2.0),
    ]
    page = written(HOSTILE, HOSTILE, view, tmp_path)
    assert "script" not in page.tags and page.open == [] and "".join(page.texts).count(HOSTILE) == 18


def test_a_name_that_no_font_has_is_drawn_without_a_warning(tmp_path: Path) -> None:
    """Warnings are errors here; the name is in the page as it is."""
    rows = ["\N{CJK UNIFIED IDEOGRAPH-7FA4}", "\N{ARABIC LETTER ALEF}"]
    picture = intervals("x", rows, {"": with_ends([1, 2], None)}, "count", "")
    page = written("", "", [picture, Table(["group"], [[row] for row in rows])], tmp_path)
    assert set(rows) <= set(page.texts)


IN_TERMINALS = "[bold]a\x1b[31m\nb\\"
SHOWN = "[bold]a\N{REPLACEMENT CHARACTER}[31m\N{REPLACEMENT CHARACTER}b\\"


def shown(*view: Part, width: int = 120, colours: bool = False) -> str:
    file = io.StringIO()
    render(view, Console(file=file, width=width, highlight=False, force_terminal=colours, emoji=False))
    return file.getvalue()


def test_text_stays_text_on_a_terminal() -> None:
    rows = [[IN_TERMINALS, Good(IN_TERMINALS)], [], [Bad(IN_TERMINALS), IN_TERMINALS]]
    text = shown(
        IN_TERMINALS,
        Heading(IN_TERMINALS, IN_TERMINALS),
        Paragraph(IN_TERMINALS, strong=IN_TERMINALS),
        Sentences([IN_TERMINALS]),
        Line(IN_TERMINALS, IN_TERMINALS),
        Table([IN_TERMINALS, "x"], rows, title=IN_TERMINALS, caption=IN_TERMINALS),
    )
    assert text.count(SHOWN) == 14 and "\x1b" not in text


@pytest.mark.parametrize("width", [30, 80, 120])
def test_a_narrow_terminal_breaks_cells_and_cuts_nothing(width: int) -> None:
    text = shown(Table(["group", "count"], [["x" * 40, "1" * 30]]), width=width)
    assert (text.count("x"), text.count("1")) == (40, 30)


def test_names_of_columns_break_before_rows_do() -> None:
    table = Table(["group", "weight (kamiran-calders)", "interval"], [["a", "1", "0.4008 – 0.4858"]])
    assert "0.4008 – 0.4858" in shown(table, width=50) and "weight (" not in shown(table, width=50)
    assert "weight (kamiran-calders)" in shown(table, width=57)


def test_columns_that_a_narrow_terminal_goes_without() -> None:
    table = Table(["of", "ε", "max"], [["weights", "1", "2,048"]], if_wide=["max"])
    assert "2,048" in shown(table, width=23)
    narrow = shown(table, width=22)
    assert "2,048" not in narrow and narrow.endswith("shows also: max.\n")


def test_what_fits_no_table_is_a_list() -> None:
    """No word is broken, no number cut; a width of 1 less than the words take makes lists of the rows."""
    table = Table(
        ["group", "rate"], [["x" * 20, Stacked("0.5\n0.4 – 0.6")], [], [Bad("y"), "1"]], title="Rates"
    )
    assert shown(table, width=31).count("┃") == 3
    lists = "Rates\ngroup: " + "x" * 20 + "\nrate: 0.5, 0.4 – 0.6\n\ngroup: y\nrate: 1\n\n"
    assert shown(table, width=30) == lists


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
        audit_command(
            name, {"thresholds": 5}, AUDIT_TARGETS[name].relations[0], epsilon=Fraction(1), delta=DELTA
        ),
        audit_published_m_r(Fraction(1)),
    ]


def of_plan(**options: str) -> Iterable[Part]:
    shown: list[Part] = []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("fairshares.harness.cli.terminal.show", lambda *parts: shown.extend(parts))
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
    "cap": lambda: cap.cap(ChosenCap((1, 2, 3), 1, above=47, noise=17), 1000),
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
    for table in tables:
        file = io.StringIO()
        render([replace(table, caption="")], Console(file=file, width=80, highlight=False, emoji=False))
        shown = file.getvalue()
        assert shown.startswith("┏") and "…" not in shown.replace("… ", "")
        assert max(map(len, shown.splitlines())) <= 80
        shown, narrow, _ = shown.partition("A wider terminal shows also: ")
        seen = set(shown.replace("│", " ").replace("┃", " ").split())
        left_out = {table.columns.index(one) for one in table.if_wide if narrow}
        for row in (table.columns, *table.rows):
            kept = [cell for k, cell in enumerate(row) if k not in left_out]
            assert {word for cell in kept for word in cell.split()} <= seen
