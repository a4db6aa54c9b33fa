"""A series of epochs: what each counts, what is charged, what a lost one leaves, and what is refused.

Parties are stood in for by a sum in the clear, without noise: what is revealed is then the count itself.
"""

import json
import math
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from shutil import copytree
from typing import Any

import numpy as np
import pytest

from harness.engines.base import EngineResult, Job, Runner
from harness.errors import (
    FairSharesError,
    LedgerError,
    OptionError,
    PartyFailedError,
    ResultFileError,
    ShareError,
    UsedUploadsError,
)
from harness.inputs.record_schema import WEIGHT_ONE, Cap, RecordDomain, cap_from_json
from harness.inputs.records import ClientRecords
from harness.inputs.shares.file_format import ClientPolicy
from harness.pipeline import arrivals
from harness.pipeline.arrivals import EPOCH, STATE, Arrivals, alone, read_arrivals, run_epoch
from harness.pipeline.run import Run, RunSettings
from harness.pipeline.sources import SharesSource
from harness.privacy.ledger.charge import SPENT, Account
from harness.privacy.ledger.entries import Ledger
from harness.privacy.ledger.populations import Status
from harness.releases.weights import Weights, WeightsSeries, WeightsStatistic, expected_weight_error
from harness.security_models import MODELS, SecurityModel
from protocols.accounting.calibration import PrivacyUnit
from protocols.guarantee import Budget, Guarantee, compose
from protocols.mechanisms.counts_so_far import Part, Schedule, best_schedule
from protocols.noise.added import NoiseDistribution, mean_square_error, offset
from protocols.spec import HONEST, PI_RW, SPLIT, ProtocolSpec
from tests.support.requests import request_of
from tests.support.rings import to_integers
from tests.support.sharing import allowing, share

MODEL = MODELS["mpyc"]
DOMAIN = RecordDomain(("a", "b"), ("0", "1"), 100)
THREE = Schedule((Part(0, Fraction(1, 2)), Part(0, Fraction(1, 4)), Part(2, Fraction(1))))


@dataclass
class InTheClear(Runner):
    """Parties that reveal the sums of their columns. Attributes: fails: before or after they start."""

    fails: str = ""
    counted: list[int] = field(default_factory=list)

    def supports(self, *_: object) -> str | None:
        return None

    def run(self, job: Job, model: SecurityModel, *_: object, **given: Any) -> EngineResult:
        if self.fails == "before":
            raise PartyFailedError("before")
        given["starting"]()
        if self.fails == "after":
            raise PartyFailedError("after")
        over = model.domain
        columns = [over.from_bytes(path.read_bytes()) for path in job.party_inputs if path]
        total = columns[0]
        for column in columns[1:]:
            total = over.add(total, column)
        values = tuple(to_integers(over, total))
        self.counted.append(sum(values))
        return EngineResult(model, {"counts": values}, program_hash="")


class Place:
    """A directory with uploads, a folder, a ledger, and who runs epochs there."""

    def __init__(self, at: Path, schedule: Schedule = THREE, **release: Any) -> None:
        self.at, self.folder, self.runner, self.outs = at, at / "series", InTheClear(), 0
        self.ledger = Ledger(at / "ledger.sqlite", timeout_s=0.2)
        self.account = Account(self.ledger, "people", Budget(Fraction(1)))
        chosen = {"model": MODEL, "form": SPLIT, "epsilon": Fraction(1), "delta": Fraction(1, 1 << 30)}
        self.release, self.schedule = request_of(**{**chosen, **release}), schedule

    def upload(self, cell: int, rows: int = 1, domain: RecordDomain = DOMAIN, **policy: Any) -> str:
        """Have a client arrive with so many records in a cell."""
        zeros = np.zeros(rows, dtype=np.int64)
        records = ClientRecords(domain, np.array(["c"]), zeros, zeros + cell // 2, zeros + cell % 2)
        return share(records, self.release.form, MODEL, self.at / "shares", **policy)

    def epoch(self, spec: ProtocolSpec = PI_RW) -> Run[Weights]:
        series = WeightsSeries(spec=spec, schedule=self.schedule)
        settings = RunSettings(self.release, account=self.account, hosts=self.runner)
        with alone(self.folder) as folder:
            before, self.outs = read_arrivals(folder) or Arrivals({}, self.schedule.to_json()), self.outs + 1
            return run_epoch(
                series,
                SharesSource(self.at / "shares"),
                settings,
                folder,
                before,
                self.at / f"out-{self.outs}",
                lambda step: None,
            )

    def lose(self) -> None:
        self.runner.fails = "after"
        with pytest.raises(PartyFailedError):
            self.epoch()
        self.runner.fails = ""

    @property
    def charges(self) -> Sequence[tuple[Fraction, Status]]:
        return [(c.exact.epsilon, c.status) for each in self.ledger.populations() for c in each.charges]

    @property
    def state(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / STATE).read_text())
        return found


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def counts(run: Run[Weights]) -> list[float]:
    """Return the counts so far, less what makes up for noise, of which there is none here."""
    exact: list[float] = (run.found.counts.table - offset(run.found.counts.noise)).ravel().tolist()
    return exact


def test_counts_so_far_are_of_all_that_arrived_under_one_charge(place: Place) -> None:
    place.upload(0, 5)
    first = place.epoch()
    assert counts(first) == [5, 0, 0, 0] and first.manifest["arrivals"]["epoch"] == 1
    place.upload(1, 2)
    place.upload(3, 3)
    assert counts(place.epoch()) == [5, 2, 0, 3]
    place.upload(0, 1)
    third = place.epoch()
    assert counts(third) == [6, 2, 0, 3] and place.runner.counted == [5, 10, 1]
    (charge,) = place.charges
    assert charge[1] is Status.DONE and Fraction(9, 10) < charge[0] <= 1
    for run in (first, third):
        assert Fraction(run.manifest["privacy"]["epsilon_exact"]) == charge[0]
        assert run.manifest["privacy"]["epsilon_requested"] == "1"
        assert "in each of 3 epochs" in run.manifest["privacy"]["revealed"][0]
        assert run.manifest["ledger"]["charge"] == 1
    assert third.manifest["arrivals"] == {
        "folder": str(place.folder),
        "epoch": 3,
        "horizon": 3,
        "counts_from": 3,
        "missing": [],
    }
    assert third.manifest["inputs"]["uploads"] == 1
    alone_there = json.loads((place.at / "out-3" / EPOCH / "manifest.json").read_text())
    assert Fraction(alone_there["privacy"]["epsilon_exact"]) <= charge[0]
    assert set(place.ledger.spent_on(place.state["epochs"][2]["uploads"]).values()) == {
        Guarantee(charge[0], Fraction(third.manifest["privacy"]["delta_exact"]))
    }


@pytest.mark.parametrize("schedule", [THREE, best_schedule(12)])
def test_the_charge_is_the_most_that_an_epoch_is_released_with(tmp_path: Path, schedule: Schedule) -> None:
    """Worked out here part by part, from each release's own plan."""
    place = Place(tmp_path, schedule)
    place.upload(0)
    privacy = place.epoch().manifest["privacy"]

    def spent(part: Part) -> Guarantee:
        epsilon, delta = place.release.epsilon * part.share, place.release.delta * part.share
        release = place.release.but(epsilon=epsilon, delta=delta)
        plan = WeightsStatistic().prepare(release, DOMAIN).plan
        assert WeightsSeries(schedule=schedule).part(part.share, place.release, DOMAIN).plan == plan
        return plan.exact

    every = enumerate(schedule.parts)
    releases = [(t, part.first, spent(part)) for t, part in every]
    sums = [compose(s for t, first, s in releases if first <= e <= t) for e in range(len(releases))]
    most = max(one.epsilon for one in sums)
    assert [epsilon for epsilon, _ in place.charges] == [most] and most <= 1
    assert Fraction(privacy["delta_exact"]) == max(one.delta for one in sums) <= place.release.delta


@pytest.mark.parametrize("changes", [{}, {"distribution": NoiseDistribution.LAPLACE}])
def test_what_is_planned_is_the_noise_that_every_epoch_s_counts_have(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    """And its guarantee is what is charged."""
    schedule = Schedule((*THREE.parts[:2], Part(2, Fraction(2, 3)), Part(2, Fraction(1, 3))))
    place = Place(tmp_path, schedule, **changes)
    series = WeightsSeries(schedule=schedule)
    sizes = np.array([[40.0, 80.0], [20.0, 10.0]])
    prepared = series.prepare(place.release, DOMAIN)
    planned = series.expected_error(prepared, sizes)
    for number, (count, worst) in enumerate(planned.epochs, 1):
        place.upload(0)
        noisy = place.epoch().found.counts
        assert count == math.sqrt(mean_square_error(noisy.noise))
        alone = expected_weight_error(noisy.noise, DOMAIN, sizes * number / 4, series.reweighing)
        assert worst == pytest.approx(alone.worst)
        if number == 4:
            assert (alone.count, alone.each) == (planned.count, planned.each)
    assert [epsilon for epsilon, _ in place.charges] == [prepared.plan.exact.epsilon]


def test_an_epoch_that_fails_before_it_starts_is_none(place: Place) -> None:
    place.upload(0)
    place.runner.fails = "before"
    with pytest.raises(PartyFailedError):
        place.epoch()
    assert not place.folder.exists() and place.charges == []
    place.runner.fails = ""
    assert counts(place.epoch()) == [1, 0, 0, 0]


def test_a_lost_epoch_is_not_repeated_and_comes_back_where_a_later_one_counts_it(
    place: Place,
) -> None:
    said = len(SPENT)
    place.upload(0)
    place.lose()
    assert "Epoch 1 of 3" in SPENT[-1] and "Spent: ε = " in SPENT[-2] and len(SPENT) == said + 2
    assert place.charges[0][1] is Status.ABORTED and len(place.charges) == 1
    with pytest.raises(UsedUploadsError):  # nothing of what was to be revealed is made a second time
        place.epoch()
    place.upload(1)
    second = place.epoch()  # which counts the first epoch, too
    assert counts(second) == [1, 1, 0, 0] and second.manifest["arrivals"]["missing"] == []
    place.upload(2)
    place.lose()
    with pytest.raises(OptionError, match=r"All 3 epochs of .*/series are over"):
        place.epoch()
    assert place.runner.counted == [2] and len(place.charges) == 1


def test_what_a_lost_epoch_was_the_first_to_count_is_missing(place: Place) -> None:
    place.upload(0)
    place.epoch()
    place.upload(1)
    place.lose()
    place.upload(2)
    third = place.epoch()
    assert counts(third) == [1, 0, 1, 0] and third.manifest["arrivals"]["missing"] == [2]


def test_a_folder_that_is_older_than_the_ledger_is_refused(place: Place) -> None:
    """The same uploads would be released again, with other noise."""
    place.upload(0)
    place.epoch()
    before = (place.folder / STATE).read_bytes()
    known = place.upload(1)
    place.epoch()
    (place.folder / STATE).write_bytes(before)
    for new in ((), (2,)):  # with the upload that the ledger knows, and without
        if new:
            for file in (place.at / "shares").rglob(f"{known}*"):
                file.unlink()
            place.upload(*new)
        with pytest.raises(
            LedgerError, match=r"a copy from before it; go on with the latest one\. No party was"
        ):
            place.epoch()
        assert (place.folder / STATE).read_bytes().split() == before.split()  # as it was: no epoch has begun
    assert place.runner.counted == [1, 2]


def test_of_two_copies_of_a_folder_one_goes_on(place: Place) -> None:
    """Wherever it lies; the other one knows nothing of the epoch that began."""
    place.upload(0)
    place.epoch()
    copytree(place.folder, place.at / "copy")
    place.folder.rename(place.at / "moved")
    place.folder = place.at / "moved"
    place.upload(1)
    assert counts(place.epoch()) == [1, 1, 0, 0]
    place.folder = place.at / "copy"
    with pytest.raises(LedgerError, match=r"an epoch began that .*/copy does not know"):
        place.epoch()


def test_a_folder_goes_on_with_its_own_ledger_alone(place: Place) -> None:
    place.upload(0)
    place.epoch()
    place.upload(1)
    place.account = Account(Ledger(place.at / "other.sqlite", timeout_s=0.2), "people", Budget(Fraction(1)))
    with pytest.raises(LedgerError, match=r"it has no charge of .* for the series in .*/series; go on with"):
        place.epoch()
    assert len(place.state["epochs"]) == 1 and place.runner.counted == [1]


def test_what_is_refused_begins_nothing(place: Place) -> None:
    folder, account, aggregate = place.folder, place.account, place.at / "shares" / "party-0.aggregate"
    place.upload(0)
    place.account = replace(account, budget=Budget(Fraction(1, 2)))
    with pytest.raises(FairSharesError, match=r"has ε = 0\.5 left of its budget"):
        place.epoch()
    place.account = account
    aggregate.touch()
    with pytest.raises(ShareError, match=r"has aggregates, and --arrivals needs the uploads"):
        place.epoch()
    aggregate.unlink()
    with alone(folder), pytest.raises(OptionError, match=r"Another epoch of .*/series is going on"):
        place.epoch()
    place.folder = place.at / "nowhere" / "series"
    with pytest.raises(OptionError, match=r"Cannot use --arrivals .*/nowhere/series: No such file"):
        place.epoch()
    place.folder = folder
    assert not folder.exists() and counts(place.epoch()) == [1, 0, 0, 0]


def test_a_series_of_more_uploads_than_its_folder_holds_is_refused_beforehand(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not by the next epoch, which could not read it when ε is spent; up to there it is read."""
    place.upload(0)
    place.epoch()
    size, epoch = ((place.folder / STATE).stat().st_size, len(json.dumps(place.state["epochs"][0])))
    monkeypatch.setattr(arrivals, "MOST_BYTES", size + epoch + 1)
    place.upload(0)
    place.epoch()
    place.upload(0)
    with pytest.raises(
        OptionError, match=r"identities of 3 uploads, more than its 0 MiB hold; begin another"
    ):
        place.epoch()
    assert len(place.state["epochs"]) == 2 and place.charges[0][1] is Status.DONE
    monkeypatch.undo()
    assert counts(place.epoch()) == [3, 0, 0, 0]


def test_uploads_that_are_counted_again_have_to_be_there(place: Place) -> None:
    gone = place.upload(0)
    place.epoch()
    place.upload(1)
    for file in (place.at / "shares").rglob(f"{gone}*"):
        file.unlink()
    with pytest.raises(ShareError, match=rf"1 uploads that this epoch counts again .*; {gone} is one"):
        place.epoch()


def test_later_uploads_are_of_the_same_domain(place: Place) -> None:
    place.upload(0)
    place.epoch()
    place.upload(1)
    place.epoch()  # the third epoch does not count these
    shutil.rmtree(place.at / "shares")
    place.upload(0, domain=RecordDomain(("a", "c"), ("0", "1"), 100))
    with pytest.raises(ShareError, match="of another domain"):
        place.epoch()


def test_clients_whose_policy_does_not_cover_all_epochs_are_left_out(place: Place) -> None:
    def policy(epsilon: str) -> ClientPolicy:
        return allowing(("weights",), epsilon, "1", PrivacyUnit.RECORD)

    place.upload(0, policy=policy("1"))
    place.upload(1, policy=policy("1/2"))  # what the first epoch alone spends
    assert counts(place.epoch()) == [1, 0, 0, 0]
    place.upload(2, policy=policy("1"))
    assert counts(place.epoch()) == [1, 0, 1, 0]


def test_a_cap_of_clients_is_theirs_to_keep_over_all_epochs(tmp_path: Path) -> None:
    place = Place(tmp_path, form=SPLIT, unit=PrivacyUnit.CLIENT)
    place.upload(0, domain=replace(DOMAIN, cap=Cap(3)))
    epoch = place.epoch()
    assert epoch.manifest["privacy"]["cap_kept_by"] == HONEST and counts(epoch) == [1, 0, 0, 0]
    assert epoch.manifest["privacy"]["neighboring_relation"] == "zero_out_one"


@pytest.mark.parametrize(
    ("changes", "cap", "said"),
    [
        (
            {"unit": PrivacyUnit.CLIENT, "distribution": NoiseDistribution.LAPLACE},
            Cap(2),
            "takes joint noise only",
        ),
        ({"unit": PrivacyUnit.CLIENT}, cap_from_json(WEIGHT_ONE, ""), "no uploads with --cap weight-one"),
    ],
)
def test_what_is_not_worked_out_of_clients_is_refused(
    tmp_path: Path, changes: dict[str, Any], cap: Cap, said: str
) -> None:
    place = Place(tmp_path, **changes)
    place.upload(0, domain=replace(DOMAIN, cap=cap))
    with pytest.raises(OptionError, match=said):
        place.epoch()
    assert not place.folder.exists()


@pytest.mark.parametrize(
    "damage",
    [
        lambda state: {**state, "schema": 2},
        lambda state: {**state, "more": 1},
        lambda state: {name: value for name, value in state.items() if name != "domain"},
        lambda state: {**state, "domain": {"groups": []}},
        lambda state: {**state, "parts": [[0, "1"], [0, "1"], [2, "1"]]},  # more than all of ε
        lambda state: {**state, "parts": [[0, "1/0"]]},
        lambda state: {**state, "parts": [[0, 1]]},
        lambda state: {**state, "parts": []},
        lambda state: {**state, "epochs": state["epochs"] * 2},
        lambda state: {
            **state,
            "epochs": [{"id": str(i), "uploads": [str(i)], "counts": None} for i in range(4)],
        },
        lambda state: {**state, "epochs": [{**state["epochs"][0], "counts": [1.0]}]},
        lambda state: {**state, "epochs": [{**state["epochs"][0], "counts": ["1"] * 4}]},
        lambda state: None,
    ],
)
def test_a_damaged_folder_is_refused(place: Place, damage: Callable[[dict[str, Any]], Any]) -> None:
    place.upload(0)
    place.epoch()
    (place.folder / STATE).write_text(json.dumps(damage(place.state)))
    with pytest.raises(ResultFileError, match=r"arrivals\.json is not as an epoch left it: .*; restore it"):
        place.epoch()
    assert place.runner.counted == [1]


def test_a_kill_right_after_the_start_leaves_the_epoch_begun(place: Place, monkeypatch: Any) -> None:
    """The folder is told before the ledger, and both before any party starts."""
    order: list[str] = []
    save, add = Arrivals.save, Ledger.add

    def told(who: str, then: Callable[..., Any]) -> Callable[..., Any]:
        def tell(*given: Any) -> Any:
            order.append(who)
            return then(*given)

        return tell

    monkeypatch.setattr(Arrivals, "save", told("folder", save))
    monkeypatch.setattr(Ledger, "add", told("ledger", add))
    place.upload(0)
    place.epoch()
    order.clear()
    place.upload(1)
    place.lose()
    assert order == ["folder", "ledger"] and place.state["epochs"][1]["counts"] is None
