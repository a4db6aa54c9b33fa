"""A training over hosts, round by round: the sums that it takes, what it costs, and what breaks off."""

import json
import tempfile
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairshares.harness.errors import BudgetError, HostUnfitError, OptionError, ShareError
from fairshares.harness.hosts.agent import Work
from fairshares.harness.hosts.policy import LEDGER
from fairshares.harness.hosts.runner import HostsSource
from fairshares.harness.hosts.training import AwaitedRound, ReleasedWeights, TrainedAtHosts, TrainingAtHosts
from fairshares.harness.inputs.record_schema import Cap, RecordDomain, VectorGrid
from fairshares.harness.inputs.records import ClientRecords
from fairshares.harness.pipeline.run import RunSettings, run_release
from fairshares.harness.privacy.ledger.charge import Account
from fairshares.harness.privacy.ledger.entries import Ledger
from fairshares.harness.releases.weights.request import WeightsRequest
from fairshares.harness.releases.weights.statistic import WeightsStatistic
from fairshares.harness.system.progress import nothing_said
from fairshares.harness.training.client_round import read_round, update_of
from fairshares.harness.training.declared_training import DeclaredTraining
from fairshares.harness.training.fairness import FairGrad
from fairshares.harness.training.features import Features, NumberInRange
from fairshares.harness.training.logistic import Descent, Examples, LogisticModel, fit
from fairshares.harness.uploads.vectors import UpdateClient
from fairshares.protocols.accounting.calibration import PrivacyUnit
from fairshares.protocols.arrays import Floats
from fairshares.protocols.guarantee import Budget, compose
from fairshares.protocols.spec import SLOTS
from tests.support.coordinators import MODEL, hosts_runner
from tests.support.sharing import share, to_hosts
from tests.support.vectors import POPULATION, RULES, Reveals, RevealsOfTraining

CLIENTS = 6
FAIRGRAD = FairGrad("equalized_odds", 2, 2, positive=1)
FAR = 12  # beyond noise of a standard deviation of 1.5 with a probability below 1e-14


class Federation:
    """A training, its hosts, and clients who have a record each.

    Attributes: declared: the training; made: its hosts; reveals: of the training.
    """

    def __init__(
        self, at: Path, rounds: int = 2, rules: str = RULES, fairgrad: FairGrad | None = FAIRGRAD
    ) -> None:
        self.declared = DeclaredTraining(
            RecordDomain(("a", "b"), ("no", "yes")),
            Features({"age": NumberInRange(0, 10)}),
            Descent(rounds, largest_weight=1.25),
            fairgrad,
        )
        bounds = self.declared.bounds
        self.at = at
        self.made = Reveals(
            at, grid=VectorGrid(bounds.coordinates, bounds.norm, rounds, units=64), rules=rules
        )
        self.reveals = RevealsOfTraining(self.made, at / "trained")
        self.records = [
            {"group": "ab"[i % 2], "label": ["no", "yes"][i % 3 > 0], "age": i} for i in range(CLIENTS)
        ]

    def training(self, said: list[str] | None = None) -> TrainingAtHosts:
        """Return the training as a new process of its coordinator has it."""
        told: list[str] = [] if said is None else said
        return TrainingAtHosts(self.declared, self.reveals, CLIENTS, say=told.append)

    def send(self, awaited: AwaitedRound) -> None:
        """Have each client seal its update for a round."""
        for i, record in enumerate(self.records):
            file = self.at / f"records-{i}.csv"
            file.write_text(",".join(record) + "\n" + ",".join(map(str, record.values())) + "\n")
            asked = read_round(awaited.file)
            client = UpdateClient(self.made.task, self.at / f"client-{i}")
            self.made.put(client.seal(asked.reveal, update_of(asked, file, nothing_said)))

    def go_on(self) -> AwaitedRound | TrainedAtHosts:
        return self.training().go_on(nothing_said)

    def round(self) -> AwaitedRound:
        """Publish the next round, and return it."""
        awaited = self.go_on()
        assert isinstance(awaited, AwaitedRound)
        return awaited


def revealed(hosts: Federation, number: int) -> Floats:
    """Return a reveal's noisy sum, as its file has it."""
    file = hosts.reveals.out / f"reveal-{number}" / "sums.json"
    return np.array(json.loads(file.read_text())["noisy_sum"])


def test_it_is_the_training_of_one_machine_on_the_revealed_sums(tmp_path: Path) -> None:
    """Each revealed sum is that of all clients' updates of this round's model, but for noise."""
    hosts = Federation(tmp_path)
    found: AwaitedRound | TrainedAtHosts = hosts.round()
    for number in (1, 2):
        assert isinstance(found, AwaitedRound) and found.reveal == number
        hosts.send(found)
        found = hosts.go_on()  # each by a process of its own
    assert isinstance(found, TrainedAtHosts)
    sums = [revealed(hosts, number) for number in (1, 2)]

    def noisy(updates: Floats) -> Floats:
        next_one = sums.pop(0)
        assert np.abs(next_one - updates.sum(axis=0)).max() < FAR
        return next_one

    declared = hosts.declared
    domain = declared.domain
    examples = Examples(
        declared.features.encode({"age": [str(record["age"]) for record in hosts.records]}),
        np.array([domain.labels.index(str(record["label"])) for record in hosts.records]),
        np.arange(CLIENTS),
        CLIENTS,
        2,
        group=np.array([domain.groups.index(str(record["group"])) for record in hosts.records]),
    )
    expected = fit(examples, noisy, declared.descent, PrivacyUnit.CLIENT, declared.fairgrad)
    assert found.model.parameters == pytest.approx(expected)
    assert LogisticModel.load(tmp_path / "trained").parameters == pytest.approx(expected)
    privacy = found.manifest.privacy
    (charge,) = hosts.made.charges()[-1]
    assert privacy.exact == charge.exact == hosts.reveals.plan.exact
    assert (
        privacy.revealed[0].startswith("2 noisy sums of 10 numbers each")
        and "by group" in privacy.revealed[0]
    )
    assert not (tmp_path / "trained/round.json").exists()
    with pytest.raises(OptionError, match="has a model already"):
        hosts.go_on()


def fails_at_go(request: str, _work: Work, answer: Any) -> Any:
    if request == "go":
        raise HostUnfitError("It went away.")
    return answer


def test_a_round_that_breaks_off_is_lost_and_one_that_is_refused_is_begun_again(tmp_path: Path) -> None:
    """Of two rounds the first is refused at first, as nobody has sent, and the second breaks off."""
    hosts = Federation(tmp_path)
    first = hosts.round()
    with pytest.raises(ShareError, match="upload"):
        hosts.go_on()
    assert hosts.made.charges() == [()] * 4 and hosts.reveals.next_reveal == 1
    hosts.send(first)
    second = hosts.round()
    assert second.reveal == 2
    hosts.send(second)
    hosts.reveals.after[2] = {2: fails_at_go}
    said: list[str] = []
    found = hosts.training(said).go_on(nothing_said)
    assert isinstance(found, TrainedAtHosts)
    assert len(said) == 1 and said[0].startswith("Reveal 2 is used, and its round is lost: ")
    step = revealed(hosts, 1)[: found.model.parameters.size] / CLIENTS
    assert found.model.parameters.ravel() == pytest.approx(-step)  # the model after both rounds
    for charges in hosts.made.charges():
        assert [charge.exact for charge in charges] == [found.manifest.privacy.exact]


def test_a_training_goes_on_with_its_own_options_and_sums_alone(tmp_path: Path) -> None:
    hosts = Federation(tmp_path)
    hosts.round()
    other = replace(hosts.declared, descent=replace(hosts.declared.descent, clip=2.0, largest_weight=0.625))
    with pytest.raises(OptionError, match="began with another task or other options"):
        replace(hosts.training(), declared=other).go_on(nothing_said)
    longer = replace(hosts.declared, descent=replace(hosts.declared.descent, rounds=3))
    with pytest.raises(
        OptionError, match=r"2 reveals and weights up to 1, and this training has 10, .*, 3 and 1"
    ):
        replace(hosts.training(), declared=longer).go_on(nothing_said)
    assert hosts.made.charges() == [()] * 4


def test_weights_and_rounds_are_charged_to_one_budget_and_stated_together(tmp_path: Path) -> None:
    """In one ledger by one sum, which the manifest states. Clients weigh by what was released."""
    rules = RULES.replace("epsilon = 8", "epsilon = 10")
    hosts = Federation(tmp_path, rounds=1, rules=rules, fairgrad=None)
    made = hosts.made
    domain = replace(hosts.declared.domain, max_count=1, cap=Cap(1))
    zero = np.zeros(1, dtype=np.int64)
    owners_files = [put_aside(host) for host in made.hosts]
    share(ClientRecords(domain, np.array(["c"]), zero, zero, zero), SLOTS, MODEL, tmp_path / "of-records")
    to_hosts(tmp_path / "of-records", made.hosts)
    request = WeightsRequest(
        epsilon=2, security=MODEL, population=POPULATION, privacy_unit="client", noise="distributed"
    )

    with hosts_runner(made.hosts, MODEL, request) as runner:
        settings = RunSettings(request, account=Account(made.own, POPULATION), hosts=runner)
        statistic = WeightsStatistic.for_request(request)
        weights = run_release(
            statistic, HostsSource(runner.proposed), settings, tmp_path / "weights", nothing_said
        )
    for host, aside in zip(made.hosts, owners_files, strict=True):
        put_aside(host)
        for path in aside.iterdir():
            path.rename(host / path.name)
    released = ReleasedWeights.read(tmp_path / "weights", hosts.declared, POPULATION)
    training = replace(hosts.training(), released=released)
    awaited = training.go_on(nothing_said)
    assert isinstance(awaited, AwaitedRound)
    assert json.loads(awaited.file.read_text())["weights"] == weights.found.weights.weights.tolist()
    hosts.send(awaited)
    whole = compose([weights.manifest.privacy.exact, hosts.reveals.plan.exact])
    made.own.set_budget(POPULATION, Budget(whole.epsilon - Fraction(1, 10**12), None))
    with pytest.raises(BudgetError):
        training.go_on(nothing_said)
    made.own.set_budget(POPULATION, Budget(whole.epsilon, None))
    found = training.go_on(nothing_said)
    assert isinstance(found, TrainedAtHosts)
    assert 9 < whole.epsilon <= 10 and found.manifest.privacy.exact == whole
    assert list(found.manifest.releases) == ["weights", "training"]
    for ledger in (made.own, *(Ledger(host / LEDGER) for host in made.hosts)):
        (population,) = ledger.populations()
        assert population.spent == whole
    with pytest.raises(OptionError, match="was charged to another population than 'others'"):
        ReleasedWeights.read(tmp_path / "weights", hosts.declared, "others")


def put_aside(host: Path) -> Path:
    """Have a host's owner take task, keys and uploads away, for another task; return where they are."""
    aside = Path(tempfile.mkdtemp(dir=host.parent))
    for name in ("task.json", "sealing", "shares"):
        (host / name).rename(aside / name)
    return aside
