"""Runs that are charged, from the command line: they add up, stay charged, and stop where a budget does."""

import json
import os
import signal
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from fairshares.harness.engines.execution import PROGRAMS, MadeUpJob
from fairshares.harness.engines.parties.config import PartyConfig, VirtualMachine
from fairshares.harness.engines.parties.handle import PartySetup
from fairshares.harness.engines.parties.supervisor import waiting_parties
from fairshares.harness.engines.parties.working_directory import PEERS
from fairshares.harness.errors import BudgetError, LedgerError
from fairshares.harness.privacy.ledger.entries import Ledger, default_path
from fairshares.harness.privacy.ledger.populations import PrivacyEvent
from fairshares.harness.security_models import MODELS, SecurityModel
from fairshares.protocols.accounting.calibration import NeighboringRelation, PrivacyUnit
from fairshares.protocols.accounting.rounding import float_up
from fairshares.protocols.circuits.coins import design_noise
from fairshares.protocols.noise.truncated import guarantee
from fairshares.protocols.spec import PI_LAP
from tests.support.command import (
    CODES,
    call,
    command,
    files_below,
    finish,
    processes_below,
    read_json,
    refused,
    start,
    succeed,
)
from tests.support.envelopes import made_task, upload
from tests.support.midway import PARTY_0_BEGINS, ended, wait_until_stopped
from tests.support.running import QUICKEST, model_parameters, until
from tests.support.sharing import aggregates_by_command, trial_by_command
from tests.support.surroundings import Surroundings, small_disk

BOTH = model_parameters(models=[MODELS["ring"], MODELS["mpyc"]])
ON_BOTH_ENGINES = pytest.mark.parametrize("model", BOTH)
ONE_RUN = guarantee(design_noise(Fraction(1), 40))
IF_REPLACED = "ε = 3.989 and δ = 5.232e-13"  # of two runs: twice each ε, and (1 + e^ε) times each δ
RELEASE = PrivacyEvent(
    *("test", "ring", ONE_RUN, PrivacyUnit.RECORD, NeighboringRelation.ADD_OR_REMOVE_ONE, Path("out"))
)
SHARED = ("--task", "shares/task.json", "--records", "records.csv", "--out", "shares")
UNCOUNTED = "Not tracked. ε adds up over runs on the same people."


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "records.csv").write_text("client_id,group,label\nc0,a,0\nc1,b,1\nc2,b,1\n")
    (tmp_path / "domain.json").write_text('{"groups": ["a", "b"], "labels": ["0", "1"], "max_count": 9}')
    return tmp_path


def weights(model: SecurityModel, *more: str) -> tuple[str, ...]:
    records = () if "--shares" in more else ("--records", "records.csv")
    return ("weights", "--epsilon", "1", "--security", model.name, *records, *more)


def in_ledger(here: Path, *more: str) -> list[dict[str, Any]]:
    shown = json.loads(call("ledger", "--json", *more, cwd=here).stdout)
    assert set(shown) == {"schema", "ledger", "populations"}
    populations: list[dict[str, Any]] = shown["populations"]
    return populations


@ON_BOTH_ENGINES
def test_runs_add_up_until_the_budget_ends(model: SecurityModel, here: Path) -> None:
    run = weights(model, "--population", "loans", "--budget", "2")
    path = default_path()
    said = succeed(*run, "--out", "first", cwd=here)
    assert f"Charged to population 'loans' in {path}. Spent in 1 run: ε = 0.9971 and δ = " in said
    (here / "elsewhere").mkdir()  # where the budget is the same
    run = (*run[:6], "../records.csv", *run[7:])
    said = succeed(*run, "--out", str(here / "second"), cwd=here / "elsewhere")
    assert "Spent in 2 runs: ε = 1.995 and δ = 1.411e-13; left of its budget: ε = 0.005995. " in said
    second = f"That is for whether a record exists; for what it says, at most {IF_REPLACED}."
    assert second in " ".join(said.split())
    assert read_json(here / "second" / "manifest.json")["ledger"] == {
        "path": str(path),
        "population": "loans",
        "charge": 2,
        "runs": 2,
        "spent": {"epsilon": str(2 * ONE_RUN.epsilon), "delta": str(2 * ONE_RUN.delta)},
        "budget": {"epsilon": "2", "delta": None},
    }
    said = refused(*run, "--out", "third", cwd=here / "elsewhere")
    assert "has ε = 0.005995 left of its budget of 2, after 2 runs; this run needs ε = 0.9971" in said
    assert "No party computed anything." in said and processes_below(here) == {}

    (population,) = in_ledger(here)
    assert [charge["status"] for charge in population["charges"]] == ["done", "done"]
    outs = [str(here / name) for name in ("first", "second")]
    assert [charge["out"] for charge in population["charges"]] == outs
    assert Fraction(population["spent"]["epsilon"]) == 2 * ONE_RUN.epsilon
    two = population["spent_if_replaced"]
    assert two["epsilon"] == float_up(4 * ONE_RUN.epsilon)
    assert two["delta"] == pytest.approx(5.2315e-13, rel=1e-3, abs=0)
    assert Fraction(population["left"]["epsilon"]) == 2 - 2 * ONE_RUN.epsilon
    for numerical in population["for_information_only"]:
        assert 0 < numerical["epsilon"] <= float(2 * ONE_RUN.epsilon)
    said = succeed("ledger", cwd=here)
    assert "Spent: ε = 1.995 and δ = 1.411e-13, by basic composition. Budget: 2" in said
    assert second in " ".join(said.split())
    assert "For information, decides nothing: numerically (dp_accounting) ε = " in said


def test_whoever_forgets_the_name_is_stopped_where_there_are_budgets(here: Path) -> None:
    model = MODELS[QUICKEST]
    before = call(*weights(model, "--out", "before"), cwd=here).stdout
    assert f"{UNCOUNTED} --population NAME tracks it." in before
    assert call("ledger", "--population", "loans", "--budget", "3,1e-6", cwd=here).returncode == 0
    refusals = {
        (): f"{default_path()} holds budgets, for 'loans'. Say whose records these are",
        ("--population", "loasn"): f"{default_path()} has no population 'loasn', but budgets for 'loans'.",
        ("--population", "loans", "--budget", "4"): "Population 'loans' has a budget of 3,1e-6, not 4.",
    }
    for options, message in refusals.items():
        done = call(*weights(model, *options), cwd=here)
        assert done.returncode in CODES and done.stderr.splitlines()[-1].startswith(f"Error: {message}")
    assert in_ledger(here)[0]["charges"] == []
    done = call(*weights(model, "--population", "none", "--out", "after"), cwd=here)
    assert f"{UNCOUNTED}\n" in done.stdout and in_ledger(here)[0]["charges"] == []
    assert json.loads((here / "after" / "manifest.json").read_text())["ledger"] is None


def test_a_run_without_a_name_asks_about_populations_that_may_be_its_own(here: Path) -> None:
    """Not of a retired one, nor, where all records are at hand, of one of which only uploads were used."""
    model = MODELS[QUICKEST]
    trial_by_command("shares", MODELS["mpyc"], "--domain", "domain.json", cwd=here)
    succeed("share", *SHARED, cwd=here)
    of_uploads = ("--shares", "shares", "--population", "trial", "--budget", "3", "--out", "trial")
    succeed(*weights(MODELS["mpyc"], *of_uploads), cwd=here)
    succeed(*weights(model, "--out", "first"), cwd=here)
    assert "holds budgets, for 'trial'" in refused(*weights(MODELS["mpyc"], "--shares", "shares"), cwd=here)

    succeed("ledger", "--population", "loans", "--budget", "3", cwd=here)
    assert "holds budgets, for 'loans'. Say" in refused(*weights(model), cwd=here)
    said = succeed("ledger", "--retire", "LOANS", cwd=here)
    assert "Population 'loans', retired" in said and "Budget: 3" in said
    succeed(*weights(model, "--out", "second"), cwd=here)
    assert {population["population"]: population["retired"] for population in in_ledger(here)} == {
        "loans": True,
        "trial": False,
    }

    said = succeed(*weights(model, "--population", "loans", "--out", "third"), cwd=here)
    assert "left of its budget: ε = 2.0" in said  # which holds for whoever names it
    succeed("ledger", "--population", "loans", "--budget", "4", cwd=here)
    assert "holds budgets, for 'loans'. Say" in refused(*weights(model), cwd=here)
    assert "has no population 'other'" in refused("ledger", "--retire", "other", cwd=here)


@ON_BOTH_ENGINES
def test_uploads_run_again_only_when_they_are_charged(model: SecurityModel, here: Path) -> None:
    """Also when the second run takes them aggregated, listed beside a ledger that lacks the first."""
    trial_by_command("shares", model, "--domain", "domain.json", "--epsilon", "3", cwd=here)
    succeed("share", *SHARED, cwd=here)
    succeed(*weights(model, "--shares", "shares", "--out", "first"), cwd=here)
    old = {path.stem for path in (here / "shares" / "party-0").iterdir()}
    succeed("share", *SHARED, cwd=here)
    aggregates_by_command("shares", model, "all", here, "--ledger", "another.sqlite")
    again = weights(model, "--shares", "all", "--out", "again")
    said = refused(*again, cwd=here)
    assert f"3 of these 6 uploads went into a run before ({here / 'first'})" in said
    assert f"sent an old upload again, as {min(old)} may be" in said and "No party computed anything." in said
    assert in_ledger(here) == []
    succeed(*again, "--population", "loans", cwd=here)
    done = call(*weights(model, "--shares", "all", "--population", "others"), cwd=here)
    assert "Some of these uploads were charged to 'loans', not to 'others'" in done.stderr
    done = call(*weights(model, "--shares", "shares", "--population", "others"), cwd=here)
    assert "Earlier runs counted all 6 uploads that are sound at party 0" in done.stderr
    (population,) = in_ledger(here)
    assert (population["population"], len(population["charges"])) == (
        "loans",
        2,
    )  # the first run, too, by now


@pytest.mark.parametrize(
    ("number", "model"),
    [
        *(
            pytest.param(signal.SIGKILL, *case.values, id=f"SIGKILL-{case.id}", marks=case.marks)
            for case in BOTH
        ),
        pytest.param(signal.SIGINT, MODELS["mpyc"], id="SIGINT-mpyc"),
    ],
)
@pytest.mark.skipif(not Path("/proc/self/cwd").exists(), reason="finds parties in /proc")
def test_a_run_that_was_stopped_stays_charged(
    number: signal.Signals, model: SecurityModel, here: Path, around: Surroundings
) -> None:
    """The charge is there as soon as a party is; it counts against the budget of the next run."""
    around.stop_where(PARTY_0_BEGINS)
    run = weights(model, "--population", "loans", "--budget", "1")
    process = start(*run, cwd=here, environment=around.environment)
    wait_until_stopped(here, ended(process))
    (population,) = in_ledger(here)
    assert [charge["status"] for charge in population["charges"]] == ["running"]
    if number is signal.SIGKILL:
        process.kill()
    else:
        os.killpg(process.pid, number)
    finish(process)
    (population,) = in_ledger(here)
    assert [charge["status"] for charge in population["charges"]] == ["aborted"]
    until(lambda: processes_below(here) == {})
    assert "Runs that were aborted" in call("ledger", cwd=here).stdout
    done = call(*weights(model, "--population", "loans"), cwd=here)
    assert done.returncode in CODES and "left of its budget of 1, after 1 run; this run" in done.stderr


@pytest.mark.mpspdz("ring")
def test_a_run_that_no_party_saw_is_not_charged(here: Path) -> None:
    """Its program cannot be compiled, as there is no place for what comes out."""
    run = weights(MODELS["ring"], "--population", "loans", "--budget", "1")
    done = command(*run, cwd=here, environment={"XDG_CACHE_HOME": str(here / "records.csv")})
    assert (
        done.returncode in CODES and "set XDG_CACHE_HOME to another" in done.stderr and in_ledger(here) == []
    )


def test_the_ledger_may_be_anywhere(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = weights(MODELS[QUICKEST], "--population", "loans")
    path = here / "mine" / "l.db"
    done = call("ledger", "--population", "loans", "--budget", "3", "--ledger", "mine/l.db", cwd=here)
    assert f"New population 'loans' in {path}.\n" in done.stderr
    monkeypatch.setenv("FAIRSHARES_LEDGER", str(path))
    succeed(*run, cwd=here)
    monkeypatch.delenv("FAIRSHARES_LEDGER")
    assert not default_path().exists()
    (population,) = in_ledger(here, "--ledger", "mine/l.db")
    assert len(population["charges"]) == 1 and population["budget"]["epsilon"] == "3"
    path.write_text("no database")
    assert f"Cannot use the ledger {path}" in refused(*run, "--ledger", "mine/l.db", cwd=here)


def test_a_full_disk_refuses_a_charge_and_loses_none(here: Path) -> None:
    """Also the disk that has no room for an empty ledger, on which nothing is left."""
    with small_disk(here / "disk", 128):
        ledger = Ledger(here / "disk" / "ledger.sqlite")
        charged = 0
        with pytest.raises(LedgerError, match="the disk is full; make room, then run again"):  # noqa: PT012
            while charged < 10_000:
                ledger.charge("loans", None, RELEASE)
                charged += 1
        (population,) = ledger.populations()
        assert charged == len(population.charges) > 0
    with small_disk(here / "disk", 8):
        with pytest.raises(LedgerError, match="the disk is full"):
            Ledger(here / "disk" / "ledger.sqlite").charge("loans", None, RELEASE)
        assert files_below(here / "disk") == set()


def test_an_engine_charges_once_its_parties_wait_and_before_one_computes(here: Path) -> None:
    """If that is refused, none of them has computed anything, and none is left."""
    job = MadeUpJob(PI_LAP, PROGRAMS / "pi_lap.mpc", ())
    setups = [
        PartySetup(
            config=PartyConfig(
                party=party,
                common_names=("P0", "P1"),
                engine=VirtualMachine(argv=("/bin/sh", "-c", "echo OUT x 1")),
            )
        )
        for party in range(2)
    ]

    def has_gone(party: int) -> bool:
        """Return whether it may go, by the other's certificate, which it waits for."""
        return any((here / "work" / f"party-{party}" / PEERS).iterdir())

    with waiting_parties(job, setups, here / "work", 600.0) as waiting:
        assert len(processes_below(here)) == 2 and not any(map(has_gone, range(2)))
        states = waiting.finish(job)
    assert [state.lines for state in states] == [("OUT x 1",)] * 2

    def refused() -> None:
        with waiting_parties(job, setups, here / "work", 600.0):
            assert not any(map(has_gone, range(2)))
            raise BudgetError("refused")

    with pytest.raises(BudgetError, match="refused"):
        refused()
    assert processes_below(here) == {} and not (here / "work").exists()


def test_a_task_that_is_over_is_closed_and_no_list_takes_its_uploads(tmp_path: Path) -> None:
    made = made_task(tmp_path)
    shares = tmp_path / "shares"
    name = upload(made, [1, 0, 0, 0], shares)
    (tmp_path / "task.json").write_bytes(made.text)
    over = replace(made, until="2020-01-01")
    (tmp_path / "over.json").write_bytes(over.text)
    ledger = Ledger(tmp_path / "ledger.sqlite")
    ledger.charge("people", None, replace(RELEASE, uploads=(name,), upload_task=over.name))
    close = ("ledger", "--ledger", "ledger.sqlite", "--close-task")
    said = refused(*close, "task.json", cwd=tmp_path)
    assert f"The task takes uploads until {made.until}" in said and ledger.size().uploads == 1
    done = call(*close, "over.json", cwd=tmp_path)
    said = " ".join(done.stderr.split())
    assert (
        f"Task {over.name[:16]} is closed in " in said and "It forgot 1 upload that runs had counted" in said
    )
    assert ledger.size().uploads == 0
    (people,) = ledger.populations("people")
    assert people.spent == ONE_RUN
    given = ("--party", "0", "--keys", "keys-0", "--shares", "shares/party-0", "--ledger", "ledger.sqlite")
    listed = call("uploads", "--task", "over.json", *given, "--out", "list", cwd=tmp_path)
    assert listed.returncode == 3 and "so no run takes any" in " ".join(listed.stderr.split())
    assert not (tmp_path / "list").exists()
