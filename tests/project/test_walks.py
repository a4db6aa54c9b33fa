"""What a release's ε goes through, by a tracer: of these functions, few only rename, wrap or pack it.

docs/decisions/others.md, 0082, has the method and the counts.
"""

from fractions import Fraction
from pathlib import Path

import pandas as pd
from invoke import Collection

import fairshares as fs
from fairshares.harness.cli.app import Commands
from fairshares.harness.cli.user_commands import COMMANDS
from fairshares.protocols.accounting.calibration import (
    NeighboringRelation,
    Neighbors,
    each_cell_once,
    plan_noise,
)
from tests.support.command import read_json
from tests.support.walks import ASKED, Walk, walked

MOST = 8
PACKS_IN_BOTH = {
    "harness/request/fields.py:Options._hold",  # values by name become parts
    "harness/pipeline/run.py:prepare",  # a ready release: what was delivered, and its parties
    "harness/pipeline/run.py:ChargedRelease.go",  # what was revealed: the same, and the engine's result
    "harness/engines/execution.py:Job.named_arguments",  # the program's arguments by name
    "harness/engines/mpyc/engine.py:EmbeddedEngine._part",  # the same with the program's file
}
PACKS_IN_PYTHON = {
    "fairshares/_calls.py:weights",  # keywords become a mapping
    "fairshares/_results.py:result_of",  # a run becomes a result
}
PACKS_IN_COMMANDS = {
    "harness/cli/command_line.py:Command.__init__.<locals>.body",  # texts of flags become options
    "harness/stated_privacy.py:StatedPrivacy.exact",  # two fields become a guarantee
}
SHORT = {
    "harness/cli/app.py:Commands.run": "says that messages are for a shell",
    "harness/engines/execution.py:ReadyParties.go": "begins the charge, by which parties compute once",
    "harness/engines/mpyc/engine.py:EmbeddedEngine._program": "hashes the program",
    "harness/engines/mpyc/engine.py:EmbeddedEngine.program_hash": "refuses jobs without inputs or noise",
    "harness/privacy/ledger/charge.py:Entry.charge": "writes the ledger",
    "harness/privacy/ledger/populations.py:spent_text": "says ε and δ",
    "harness/privacy/statement.py:bounds_shown": "rounds",
    "harness/releases/base.py:statistic_of": "finds the release's module",
    "harness/releases/files.py:file_to_json": "makes JSON, with the privacy last",
    "harness/releases/weights/statistic.py:WeightsStatistic.read_opened": "reads what parties revealed",
    "harness/views/run_summary.py:in_short": "shows",
    "protocols/accounting/rounding.py:digits_up": "rounds",
}
"""Functions of a few calls that do more than to hand ε on: what each of them does."""


def check(walk: Walk, packs: set[str]) -> None:
    """Compare a walk's short hops with those that are known, and the number of those that only pack."""
    hops = {str(hop) for hop in walk.hops}
    assert packs <= hops, "Leave out here what is no longer on the way."
    assert len(packs) <= MOST
    short = {str(hop) for hop in walk.hops if hop.only_hands_on}
    assert short <= packs | SHORT.keys(), "Have its caller do what it does, or say here what that is."


def spends() -> Fraction:
    """Return the loss that follows from the ε that is asked for."""
    neighbors = Neighbors(NeighboringRelation.ADD_OR_REMOVE_ONE)
    return plan_noise(each_cell_once(4), neighbors, ASKED, Fraction(1, 2**40)).exact.epsilon


def test_a_call_hands_epsilon_through_few_functions_that_do_nothing_else(tmp_path: Path) -> None:
    table = pd.DataFrame(
        {"client_id": range(200), "group": ["a", "b"] * 100, "label": ["0", "1", "1", "0"] * 50}
    )
    with walked(ASKED, spends()) as walk:
        result = fs.weights(table, epsilon=ASKED, security="mpyc", ledger=tmp_path / "ledger.sqlite")
    assert result.privacy.epsilon_exact == spends()
    check(walk, PACKS_IN_BOTH | PACKS_IN_PYTHON)


def test_a_command_hands_epsilon_through_few_functions_that_do_nothing_else(tmp_path: Path) -> None:
    records = tmp_path / "x.csv"
    records.write_text("client_id,group,label\n" + "x,a,0\nx,b,1\nx,a,1\nx,b,0\n" * 50)
    out = tmp_path / "out"
    words = ["inv", "weights", "--records", str(records), "--epsilon", str(float(ASKED)), "--out", str(out)]
    words += ["--security", "mpyc", "--ledger", str(tmp_path / "ledger.sqlite")]
    with walked(ASKED, spends()) as walk:
        Commands(namespace=Collection(*COMMANDS)).run(words)
    assert read_json(out / "weights.json")["privacy"]["epsilon_exact"] == str(spends())
    check(walk, PACKS_IN_BOTH | PACKS_IN_COMMANDS)
