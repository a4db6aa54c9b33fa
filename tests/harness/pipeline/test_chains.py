"""Runs of a chain: what each counts and costs, what a failed one leaves, and their results added up.

Parties are stood in for by a sum in the clear, without noise: what is revealed is then the count itself.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairshares.harness.engines.execution import EngineResult, PrivateJob, ValueFiles
from fairshares.harness.errors import (
    OptionError,
    PartyFailedError,
    PopulationError,
    ResultFileError,
    SignatureError,
    UsedUploadsError,
)
from fairshares.harness.hosts.signed_results import signers_of
from fairshares.harness.inputs.record_schema import WEIGHT_ONE, Cap, RecordDomain, cap_from_json
from fairshares.harness.inputs.records import ClientRecords
from fairshares.harness.pipeline.chains import add_up
from fairshares.harness.pipeline.run import Run, RunSettings, run_release
from fairshares.harness.pipeline.sources import SharesSource
from fairshares.harness.privacy.ledger.charge import SPENT, Account
from fairshares.harness.privacy.ledger.entries import Ledger
from fairshares.harness.privacy.manifest import SIGNATURES, StatedInputs
from fairshares.harness.releases.weights.request import WeightsRequest
from fairshares.harness.releases.weights.statistic import Weights, WeightsStatistic
from fairshares.harness.request.request import BY_EPSILON, SIGNED, Randomness
from fairshares.harness.reweighing.formulas import REWEIGHINGS
from fairshares.harness.security_models import MODELS, SecurityModel
from fairshares.harness.uploads.reasons import COUNTED, UNCOVERED
from fairshares.protocols.accounting.calibration import PrivacyUnit
from fairshares.protocols.guarantee import Budget
from fairshares.protocols.noise.added import Several, mean_square_error, offset
from fairshares.protocols.spec import HONEST, SPLIT
from tests.support.distribution import singles
from tests.support.envelopes import counts as counted_by_all
from tests.support.rings import to_integers
from tests.support.runners import StandInRunner
from tests.support.sharing import allowing, share, trial

pytestmark = pytest.mark.usefixtures("in_shell")

MODEL = MODELS["mpyc"]
DOMAIN = RecordDomain(("a", "b"), ("0", "1"), 100)


@dataclass
class InTheClear(StandInRunner):
    """Parties that reveal the sums of their columns. Attributes: fails: after they started."""

    fails: bool = False
    counted: list[int] = field(default_factory=list)

    def opens(self, job: PrivateJob, model: SecurityModel) -> EngineResult:
        if self.fails:
            raise PartyFailedError("after")
        assert isinstance(job.values, ValueFiles)
        columns = [model.ring.from_bytes(path.read_bytes()) for path in job.values.files]
        total = columns[0]
        for column in columns[1:]:
            total = model.ring.add(total, column)
        values = tuple(to_integers(model.ring, total))
        self.counted.append(sum(values))
        return EngineResult(
            model=model,
            outputs={"counts": values},
            engine=model.engine,
            engine_version="rigged",
            program_hash="",
        )


class Place:
    """A directory in which uploads arrive, a ledger, and runs of a chain there."""

    def __init__(self, at: Path, chain: str = "monthly", **more: Any) -> None:
        self.at, self.runner, self.outs = at, InTheClear(), 0
        account = Account(Ledger(at / "ledger.sqlite", timeout_s=0.2), "people", Budget(Fraction(4)))
        asked = {"epsilon": 1, "chain": chain, "population": "people", "input_form": "split", **more}
        request = WeightsRequest(**asked, security=MODEL)
        self.settings = RunSettings(request, account=account, hosts=self.runner)

    def upload(self, cell: int, clients: int = 1, domain: RecordDomain = DOMAIN, **policy: Any) -> str:
        """Have clients arrive with a record each in a cell; return the last one's upload."""
        zero, form = np.zeros(1, dtype=np.int64), self.settings.release.form
        record = ClientRecords(domain, np.array(["c"]), zero, zero + cell // 2, zero + cell % 2)
        return [share(record, form, MODEL, self.at / "shares", **policy) for _ in range(clients)][-1]

    def run(self) -> Run[Weights]:
        self.outs += 1
        statistic, out = WeightsStatistic(), self.at / f"out-{self.outs}"
        return run_release(statistic, SharesSource(self.at / "shares"), self.settings, out, lambda step: None)

    @property
    def spent(self) -> list[Fraction]:
        return [population.spent.epsilon for population in self.settings.account.ledger.populations()]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def counts(run: Run[Weights]) -> list[float]:
    """Return a run's counts, less what makes up for noise, of which there is none here."""
    exact: list[float] = (run.found.counts.table - offset(run.found.counts.noise)).ravel().tolist()
    return exact


def test_runs_count_what_is_new_for_one_charge_and_add_up(place: Place) -> None:
    place.upload(0, 5)
    first = place.run()
    place.upload(1, 2)
    place.upload(3, 3)
    second = place.run()
    assert (counts(first), counts(second)) == ([5, 0, 0, 0], [0, 2, 0, 3])
    assert place.spent == [first.manifest.privacy.exact.epsilon]
    assert second.manifest.privacy == first.manifest.privacy
    assert second.manifest.inputs.excluded_because == {COUNTED: 5}
    added = add_up([first.out, second.out], {})
    total, manifest, files = added.weights, added.manifest, added.files
    assert not added.signed
    (one,) = singles(first.found.counts.noise)
    assert total.counts.noise == Several((one, one))
    assert mean_square_error(total.counts.noise) == 2 * mean_square_error(one)
    assert (total.counts.table - offset(total.counts.noise)).ravel().tolist() == [5, 2, 0, 3]
    alone = REWEIGHINGS["kamiran-calders"](total.counts)
    assert np.array_equal(total.weights.interval, alone.interval)
    assert manifest.inputs == StatedInputs(clients=10, uploads=10)
    assert manifest.privacy == first.manifest.privacy
    assert [file.privacy for file in files] == [manifest.privacy]
    with pytest.raises(UsedUploadsError, match=r"counted all 10 uploads .* others have arrived"):
        place.run()


def test_a_chain_that_version_1_0_began_goes_on_with_its_noise(tmp_path: Path) -> None:
    """Its manifests name no family: at this epsilon later runs have another one, unless they are told."""
    place = Place(tmp_path, epsilon=Fraction(4), noise_family=SIGNED)
    place.upload(0, 5)
    first = place.run()
    assert isinstance(first.found.counts.noise, tuple)
    manifest = json.loads((first.out / "manifest.json").read_text())
    assert manifest["request"].pop("noise_family") == SIGNED
    (first.out / "manifest.json").write_text(json.dumps(manifest))
    place.upload(1, 2)
    told = place.settings
    place.settings = replace(told, release=told.release.but(Randomness.noise_family, BY_EPSILON))
    with pytest.raises(PopulationError, match=r"another ε, δ or noise .* ran it, add --noise-family signed"):
        place.run()
    place.settings = told
    second = place.run()
    assert counts(second) == [0, 2, 0, 0]
    assert place.spent == [first.manifest.privacy.exact.epsilon]
    total = add_up([first.out, second.out], {}).weights.counts
    assert total.noise == Several((first.found.counts.noise,) * 2)
    assert offset(total.noise) == 1
    assert (total.table - 1).ravel().tolist() == [5, 2, 0, 0]


def test_a_run_that_fails_costs_its_own_uploads_only(place: Place) -> None:
    place.upload(0)
    place.run()
    place.upload(1)
    place.runner.fails = True
    with pytest.raises(PartyFailedError):
        place.run()
    assert "once for all runs of chain 'monthly'; this run's uploads go into no other" in SPENT[-1]
    place.runner.fails = False
    place.upload(2)
    assert counts(place.run()) == [0, 0, 1, 0]
    assert place.runner.counted == [1, 1] and place.spent == [place.spent[0]]


def test_policies_leave_out_what_they_do_not_cover(tmp_path: Path) -> None:
    place = Place(tmp_path, privacy_unit=PrivacyUnit.CLIENT)
    capped = replace(DOMAIN, cap=Cap(3))
    place.upload(0, domain=capped, policy=allowing(("weights",), "1", "1", PrivacyUnit.CLIENT))
    first = place.run()
    assert first.manifest.privacy.cap_kept_by == HONEST
    assert first.manifest.privacy.neighboring_relation == "zero_out_one"
    place.upload(1, domain=capped, policy=allowing(("weights",), "1", "1", PrivacyUnit.RECORD))
    place.upload(2, domain=capped, policy=allowing(("weights",), "1/2", "1", PrivacyUnit.CLIENT))
    assert place.run().manifest.inputs.excluded_because == {UNCOVERED: 1, COUNTED: 1}


def test_aggregates_of_counted_uploads_are_refused(place: Place) -> None:
    place.upload(0)
    place.run()
    shares, task = place.at / "shares", trial(DOMAIN, SPLIT, MODEL, place.at / "shares")
    for i, count in enumerate(counted_by_all(task, shares, shares=shares)):
        count.write(shares / f"party-{i}.aggregate", {})
    with pytest.raises(
        UsedUploadsError, match=r"1 of these 1 uploads went into a run of chain .* No party computed"
    ):
        place.run()


@pytest.mark.parametrize(
    ("changes", "cap", "said"),
    [
        ({"privacy_unit": PrivacyUnit.CLIENT, "noise": "distributed"}, Cap(2), "takes joint noise only"),
        (
            {"privacy_unit": PrivacyUnit.CLIENT},
            cap_from_json(WEIGHT_ONE, ""),
            "no uploads with --cap weight-one",
        ),
    ],
)
def test_what_is_not_worked_out_of_clients_is_refused(
    tmp_path: Path, changes: dict[str, Any], cap: Cap, said: str
) -> None:
    place = Place(tmp_path, **changes)
    place.upload(0, domain=replace(DOMAIN, cap=cap))
    with pytest.raises(OptionError, match=said):
        place.run()
    assert place.spent == []


def edited(name: str, change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    """Return what changes a field of a result file."""

    def edit(directory: Path) -> None:
        fields = json.loads((directory / name).read_text())
        change(fields)
        (directory / name).write_text(json.dumps(fields))

    return edit


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (edited("weights.json", lambda f: f.pop("noisy_counts")), "missing required field `noisy_counts`"),
        (edited("weights.json", lambda f: f["noisy_counts"].pop()), "is not the result of a run of a chain"),
        (
            edited("weights.json", lambda f: f["privacy"].update(delta=0)),
            "its delta is less than the exact one",
        ),
        (
            edited("weights.json", lambda f: f["privacy"].update(delta=0.5)),
            "is not the result of a run of a chain",
        ),
        (
            edited("manifest.json", lambda f: f["request"].pop("chain")),
            "is not the result of a run of a chain",
        ),
        (
            edited("manifest.json", lambda f: f["request"].update(epsilon="2")),
            "is not the result of a run of a",
        ),
        (edited("manifest.json", lambda f: f["request"].update(chain="other")), "is of another chain than"),
        (edited("manifest.json", lambda f: f["ledger"].update(charge=2)), "is of another chain than"),
        (edited("manifest.json", lambda f: f["inputs"].update(max_count=99)), "is of another chain than"),
    ],
)
def test_only_runs_of_one_chain_add_up(place: Place, damage: Callable[[Path], None], said: str) -> None:
    place.upload(0)
    first = place.run()
    place.upload(1)
    second = place.run()
    damage(second.out)
    with pytest.raises(ResultFileError, match=said):
        add_up([first.out, second.out], {})


def test_a_run_adds_up_once_and_what_hosts_signed_is_verified(place: Place) -> None:
    place.upload(0)
    first = place.run()
    copy = first.out.rename(place.at / "moved")
    with pytest.raises(ResultFileError, match="Two of these directories hold the same run"):
        add_up([copy, copy], {})
    (copy / SIGNATURES).write_text("{}")
    with pytest.raises(SignatureError, match="moved"):
        add_up([copy], {})  # nobody has checked who signed it
    with pytest.raises(SignatureError, match="moved"):
        signers_of([copy])
