"""What a command says of a step that takes long, and `./inv test`: no check that failed is forgotten."""

import json
import subprocess
from contextlib import nullcontext

import pytest

from fairshares.harness.cli import terminal
from fairshares.harness.cli.project_checks import DEFAULT_ONLY, STATIC_CHECKS, TYPES, run_checks
from fairshares.harness.errors import (
    KINDS,
    USUAL_EXIT,
    BudgetError,
    CertificateError,
    FairSharesError,
    HostUnfitError,
    HostUnreachableError,
    LedgerError,
    LostPeerError,
    OptionError,
    PartyFailedError,
    PolicyError,
    SignatureError,
    StockError,
    UsedNoiseError,
    WriteError,
)
from fairshares.harness.views.parts import Line, Table
from tests.conftest import PROJECT


@pytest.mark.parametrize("output", [terminal.Output(json=True), terminal.Output(quiet=True)])
def test_no_progress_where_none_is_wanted(
    output: terminal.Output, capsys: pytest.CaptureFixture[str]
) -> None:
    with terminal.ending_well(output), terminal.steps({}) as begin:
        begin("share")
        begin.detail("half")
        begin.tell_log()
    assert capsys.readouterr().err == ""


# Clears the screen, goes back on a line, sets a title, turns text around, rings, and ends lines elsewhere.
CONTROLS = "\x1b[2J\r\x9b31m\x1b]0;title\x07\u202e\u2066\x7f\x85\u2028"


@pytest.mark.parametrize("as_json", [True, False])
@pytest.mark.parametrize("kind", ["name", "error", "announcement"])
def test_nobody_controls_a_terminal_by_names(
    kind: str, as_json: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """Names come from results, tasks, hosts and their errors."""
    name = f"a{CONTROLS}[red]b\n\N{NO-BREAK SPACE}ü😀"

    def act() -> None:
        with terminal.ending_well(terminal.Output(json=as_json)):
            if kind == "name":
                terminal.show_or_print({name: [name]}, name, Line(name, name), Table([name], [[name]]))
            elif kind == "announcement":
                terminal.announce(name)
            else:
                raise HostUnfitError(name)

    with pytest.raises(SystemExit) if kind == "error" else nullcontext():
        act()
    captured = capsys.readouterr()
    printed = captured.out + captured.err
    assert printed and not [c for c in printed if not c.isprintable() and c not in "\n\N{NO-BREAK SPACE}"]
    assert "b" in printed and "ü" in printed and "😀" in printed
    if as_json and kind == "name":
        assert json.loads(captured.out) == {name: [name]}


CODES = [
    (BudgetError, 3),
    (UsedNoiseError, 3),
    (PolicyError, 3),
    (HostUnreachableError, 4),
    (HostUnfitError, 4),
    (PartyFailedError, 5),
    (LostPeerError, 5),
    (WriteError, 6),
    (LedgerError, 6),
    (SignatureError, 7),
    (CertificateError, 7),
    (OptionError, 1),
    (StockError, 1),
]


@pytest.mark.parametrize(("error", "code"), CODES)
def test_a_command_ends_with_the_code_of_the_errors_kind(error: type[FairSharesError], code: int) -> None:
    with pytest.raises(SystemExit) as ended, terminal.ending_well(terminal.Output()):
        raise error("It is so.")
    assert ended.value.code == code


def test_the_page_has_the_table_of_exit_codes() -> None:
    """All of it, with the words that the code has; no class is of two kinds."""
    page = (PROJECT / "docs" / "reference" / "commands.md").read_text()
    rows = [f"| {kind.code} | {kind.meaning} | {kind.way_out} |" for kind in KINDS]
    assert "\n".join(rows) in page
    assert f"\n| {USUAL_EXIT} | " in page and f"\n| {terminal.INTERRUPTED_EXIT} | " in page
    codes = [USUAL_EXIT, *(kind.code for kind in KINDS), terminal.INTERRUPTED_EXIT]
    assert len({*codes}) == len(codes) and 2 not in codes  # which a shell's own commands have
    classes = [error for kind in KINDS for error in kind.errors]
    assert len({*classes}) == len(classes)


STATIC = {**STATIC_CHECKS, **TYPES}


def played(failing: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """Have the checks that are named fail, without running any; return what was started, by name."""
    started: dict[str, list[str]] = {}

    def play(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        name = next((name for name, static in STATIC.items() if command[1:] == [*static]), "pytest")
        started[name] = command
        return subprocess.CompletedProcess(command, failing.get(name, 0), f"{name} has said this\n")

    monkeypatch.setattr(subprocess, "run", play)
    return started


@pytest.mark.parametrize("everything", [False, True])
def test_exhaustive_tests_run_on_demand_only(everything: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    started = played({}, monkeypatch)
    run_checks(everything=everything)
    assert (" ".join(DEFAULT_ONLY) in " ".join(started["pytest"])) is not everything


@pytest.mark.parametrize(
    ("failing", "code"),
    [
        ({}, 0),
        ({"ruff check": 1}, 1),
        ({"mypy": 2}, 1),
        ({"import-linter": 1}, 1),
        ({"pytest": 5}, 5),
        ({"ruff format": 1, "pytest": 2}, 2),
    ],
)
def test_all_run_and_the_worst_counts(
    failing: dict[str, int],
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    started = played(failing, monkeypatch)
    assert run_checks(["-k", "some"]) == code
    assert started.keys() == {*STATIC, "pytest"} and started["pytest"][-2:] == ["-k", "some"]
    said = capfd.readouterr().out.splitlines()
    in_order = [*STATIC_CHECKS, "pytest", *TYPES]
    assert [line for line in said if line.startswith("--- ")] == [f"--- {name}" for name in in_order]
    early = ", ".join(name for name in STATIC_CHECKS if name in failing)
    assert (f"Failed so far: {early}. The tests run all the same." in said) == bool(early)
    assert said[-3] == "mypy has said this"  # what ran beside the tests comes after theirs
    failed = ", ".join(name for name in in_order if name in failing)
    assert said[-1] == (f"Failed: {failed}." if failing else "All checks passed.")
