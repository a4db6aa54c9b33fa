"""A training over hosts, round by round: the sums that it takes, what it costs, and what breaks off."""

import json
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest

from fairshares.harness.errors import (
    BudgetError,
    HostUnfitError,
    OptionError,
    ShareError,
    SignatureError,
)
from fairshares.harness.hosts.agent import Work
from fairshares.harness.hosts.policy import LEDGER
from fairshares.harness.hosts.runner import HostsSource
from fairshares.harness.hosts.signed_results import Statement, read_signed, sign, verify
from fairshares.harness.hosts.training import AwaitedRound, ReleasedWeights, TrainedAtHosts, TrainingAtHosts
from fairshares.harness.hosts.verified_training import verify_training
from fairshares.harness.inputs.record_schema import Cap, RecordDomain, RecordKind, VectorGrid
from fairshares.harness.inputs.records import ClientRecords
from fairshares.harness.pipeline.run import Run, RunSettings, run_release
from fairshares.harness.privacy.ledger.charge import Account
from fairshares.harness.privacy.ledger.entries import Ledger
from fairshares.harness.releases.base import Answer, Statistic
from fairshares.harness.releases.thresholds.request import ThresholdsRequest
from fairshares.harness.releases.thresholds.statistic import ThresholdsStatistic
from fairshares.harness.releases.weights.request import WeightsRequest
from fairshares.harness.releases.weights.statistic import WeightsStatistic
from fairshares.harness.request.request import Request
from fairshares.harness.system.documents import Refusal
from fairshares.harness.system.progress import nothing_said
from fairshares.harness.training.client_round import read_round, update_of
from fairshares.harness.training.declared_training import DeclaredTraining
from fairshares.harness.training.fairness import FairGrad
from fairshares.harness.training.features import Features, NumberInRange
from fairshares.harness.training.logistic import Descent, Examples, LogisticModel, fit
from fairshares.harness.uploads.signatures import Signed
from fairshares.harness.uploads.vectors import UpdateClient
from fairshares.protocols.accounting.calibration import PrivacyUnit
from fairshares.protocols.arrays import Floats
from fairshares.protocols.guarantee import Budget, Guarantee, compose
from tests.support.coordinators import MODEL, hosts_runner, write_rules
from tests.support.sharing import share, to_hosts
from tests.support.vectors import POPULATION, RULES, Reveals, RevealsOfTraining

R = TypeVar("R", bound=Answer)
REFUSED = Refusal(SignatureError, "it", "signed", "do not use it")
CLIENTS = 6
FAIRGRAD = FairGrad("equalized_odds", 2, 2, positive=1)
SHORT = Fraction(1, 10**12)
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


@dataclass(frozen=True)
class Trained:
    """A training of two rounds that is over. Attributes: hosts: whose it is; found: the model."""

    hosts: Federation
    found: TrainedAtHosts


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    hosts = Federation(tmp_path_factory.mktemp("federation"))
    found: AwaitedRound | TrainedAtHosts = hosts.round()
    for number in (1, 2):
        assert isinstance(found, AwaitedRound) and found.reveal == number
        hosts.send(found)
        found = hosts.go_on()  # each by a process of its own
    assert isinstance(found, TrainedAtHosts)
    return Trained(hosts, found)


def test_it_is_the_training_of_one_machine_on_the_revealed_sums(trained: Trained) -> None:
    """Each revealed sum is that of all clients' updates of this round's model, but for noise."""
    hosts, found = trained.hosts, trained.found
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
    assert LogisticModel.load(hosts.reveals.out).parameters == pytest.approx(expected)
    privacy = found.manifest.privacy
    (charge,) = hosts.made.charges()[-1]
    assert privacy.exact == charge.exact == hosts.reveals.plan.exact
    assert (
        privacy.revealed[0].startswith("2 noisy sums of 10 numbers each")
        and "by group" in privacy.revealed[0]
    )
    assert not (hosts.reveals.out / "round.json").exists()
    with pytest.raises(OptionError, match="has a model already"):
        hosts.go_on()


def test_a_model_is_worked_out_again_from_what_hosts_signed(trained: Trained) -> None:
    out = trained.hosts.reveals.out
    verified = verify_training(out)
    assert sorted(verified.reveals) == [1, 2] and not verified.lost and verified.clients == CLIENTS
    assert verified.last.privacy.exact == trained.found.manifest.privacy.exact
    known = [fingerprint for _, fingerprint in verified.last.signers]
    assert verify_training(out, known).rounds == 2
    with pytest.raises(SignatureError, match="other hosts signed than"):
        verify_training(out, known[::-1])


def edit(path: Path, *keys: str | int, value: Any) -> None:
    """Change one value of a JSON file, which has the keys on the way to it."""
    content = json.loads(path.read_text())
    place = content
    for key in keys[:-1]:
        place = place[key]
    assert place[keys[-1]] != value
    place[keys[-1]] = value
    path.write_text(json.dumps(content))


def swap_reveals(out: Path) -> None:
    (out / "reveal-1").rename(out / "aside")
    (out / "reveal-2").rename(out / "reveal-1")
    (out / "aside").rename(out / "reveal-2")


def remove_reveals(out: Path, *numbers: int) -> None:
    for number in numbers:
        shutil.rmtree(out / f"reveal-{number}")


CHANGES: dict[str, tuple[Callable[[Path], None], str]] = {
    "a parameter": (
        lambda out: edit(out / "model.json", "parameters", 0, 0, value=0.5),
        "it has other parameters",
    ),
    "a sum": (
        lambda out: edit(out / "reveal-1/sums.json", "noisy_sum", 0, value=0.5),
        "its 'noisy_sum' is another",
    ),
    "the learning rate": (
        lambda out: edit(out / "manifest.json", "training", "learning_rate", value=0.5),
        "it has other parameters",
    ),
    "the number of clients": (
        lambda out: edit(out / "manifest.json", "inputs", "clients", value=CLIENTS + 1),
        "it has other parameters",
    ),
    "the number of rounds": (
        lambda out: edit(out / "manifest.json", "training", "rounds", value=3),
        "sums of other updates, or another number of reveals",
    ),
    "the clipping norm": (
        lambda out: edit(out / "manifest.json", "training", "clip", value=0.5),
        "sums of other updates",
    ),
    "the loss of all": (
        lambda out: edit(out / "manifest.json", "privacy", "epsilon_exact", value="1"),
        "it states another loss",
    ),
    "the loss of its rounds": (
        lambda out: edit(out / "manifest.json", "parts", "training", "privacy", "epsilon_exact", value="1"),
        "it states another loss",
    ),
    "the loss of the model": (
        lambda out: edit(out / "model.json", "privacy", "epsilon_exact", value="1"),
        "it states another loss",
    ),
    "no sum of a round": (lambda out: remove_reveals(out, 2), "it has other parameters"),
    "no sums": (lambda out: remove_reveals(out, 1, 2), "they signed none"),
    "sums of other rounds": (swap_reveals, "in reveal-1 they signed another reveal"),
    "no signatures": (
        lambda out: (out / "reveal-2/signatures.json").unlink(),
        "has no signatures.json",
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_model_that_does_not_follow_from_what_hosts_signed_is_refused(
    name: str, trained: Trained, tmp_path: Path
) -> None:
    change, sentence = CHANGES[name]
    out = tmp_path / "trained"
    shutil.copytree(trained.hosts.reveals.out, out)
    change(out)
    with pytest.raises(SignatureError, match=sentence):
        verify_training(out)


def test_sums_of_another_population_are_of_another_training(trained: Trained, tmp_path: Path) -> None:
    """Which the same hosts signed, and which are right by themselves."""
    out = tmp_path / "trained"
    shutil.copytree(trained.hosts.reveals.out, out)
    place = out / "reveal-2"
    content = json.loads((place / "signatures.json").read_text())
    for party, signed in enumerate(content["signed"]):
        statement = read_signed(Statement, Signed(**signed), REFUSED)
        ran = replace(statement.ran, asked={**statement.ran.asked, "population": "others"})
        own = trained.hosts.made.hosts[party] / "keys" / "embedded" / f"P{party}.pem"
        content["signed"][party] = asdict(sign(replace(statement, ran=ran), own))
    (place / "signatures.json").write_text(json.dumps(content))
    for keys in (("request", "population"), ("hosts", "population")):
        edit(place / "manifest.json", *keys, value="others")
    verify(place)
    with pytest.raises(SignatureError, match="reveals 1 and 2 are of different tasks, populations or hosts"):
        verify_training(out)


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
    assert verify_training(hosts.reveals.out).lost == [2]
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


def test_weights_rounds_and_thresholds_are_charged_to_one_budget(tmp_path: Path) -> None:
    """In one ledger by one sum, which the manifest states of weights and rounds, by which clients weigh.

    A budget that is short by 10^-12 is refused at the coordinator and at a host, before anything is revealed.
    """
    rules = RULES.replace("epsilon = 8", "epsilon = 13")
    hosts = Federation(tmp_path, rounds=1, rules=rules, fairgrad=None)
    made = hosts.made
    ledgers = [made.own, *(Ledger(host / LEDGER) for host in made.hosts)]
    domain = replace(hosts.declared.domain, max_count=1, cap=Cap(1))
    zero = np.zeros(1, dtype=np.int64)
    asked = WeightsRequest(
        epsilon=2, security=MODEL, population=POPULATION, privacy_unit="client", noise="distributed"
    )
    of_client = ClientRecords(domain, np.array(["c"]), zero, zero, zero)
    weights = released(made, WeightsStatistic.for_request(asked), asked, of_client, tmp_path / "weights")
    training = replace(
        hosts.training(),
        released=ReleasedWeights.read(tmp_path / "weights", hosts.declared, POPULATION),
    )
    awaited = training.go_on(nothing_said)
    assert isinstance(awaited, AwaitedRound)
    assert json.loads(awaited.file.read_text())["weights"] == weights.found.weights.weights.tolist()
    hosts.send(awaited)
    before = compose([weights.manifest.privacy.exact, hosts.reveals.plan.exact])
    made.own.set_budget(POPULATION, Budget(before.epsilon - SHORT, None))
    with pytest.raises(BudgetError):
        training.go_on(nothing_said)
    made.own.set_budget(POPULATION, Budget(before.epsilon, None))
    found = training.go_on(nothing_said)
    assert isinstance(found, TrainedAtHosts)
    assert 9 < before.epsilon <= 10 and found.manifest.privacy.exact == before
    assert list(found.manifest.releases) == ["weights", "training"]
    assert [spent(ledger) for ledger in ledgers] == [before] * 4
    assert verify_training(tmp_path / "trained").clients == CLIENTS
    with pytest.raises(OptionError, match="was charged to another population than 'others'"):
        ReleasedWeights.read(tmp_path / "weights", hosts.declared, "others")

    score = found.model.predict_proba(np.array([[3.0]]))[0, 1]
    grid = (0.0, 0.5, 1.0)
    of_scores = ClientRecords(
        replace(domain.with_kind(RecordKind.SCORE, grid)),
        np.array(["c"]),
        zero,
        zero,
        zero,
        detail=np.searchsorted(grid, [score], side="right") - 1,
    )
    of_thresholds = ThresholdsRequest(
        epsilon=3, security=MODEL, population=POPULATION, privacy_unit="client", noise="distributed"
    )
    statistic = ThresholdsStatistic.for_request(of_thresholds)
    plan = statistic.prepare(of_thresholds, of_scores.domain).plan
    whole = compose([before, plan.exact])
    for at_host in (False, True):
        made.own.set_budget(POPULATION, Budget(whole.epsilon - SHORT * (not at_host), None))
        write_rules(made.hosts[0], rules.replace("= 13", f"= {float(whole.epsilon - SHORT * at_host)!r}"))
        with pytest.raises(BudgetError):
            released(made, statistic, of_thresholds, of_scores, tmp_path / f"refused-{at_host}")
        assert [spent(ledger) for ledger in ledgers] == [before] * 4
        assert not (tmp_path / f"refused-{at_host}").exists()
    write_rules(made.hosts[0], rules)
    released(made, statistic, of_thresholds, of_scores, tmp_path / "thresholds")
    assert [spent(ledger) for ledger in ledgers] == [whole] * 4 and 12 < whole.epsilon <= 13


def spent(ledger: Ledger) -> Guarantee:
    """Return what the only population of a ledger has spent."""
    (population,) = ledger.populations()
    return population.spent


def released(
    made: Reveals, statistic: Statistic[R], request: Request, records: ClientRecords, out: Path
) -> Run[R]:
    """Have hosts release a statistic of records, whose task takes the place of that of vectors meanwhile."""
    owners_files = [put_aside(host) for host in made.hosts]
    try:
        uploads = Path(tempfile.mkdtemp(dir=out.parent))
        share(records, request.form, MODEL, uploads)
        to_hosts(uploads, made.hosts)
        with hosts_runner(made.hosts, MODEL, request) as runner:
            settings = RunSettings(request, account=Account(made.own, POPULATION), hosts=runner)
            return run_release(statistic, HostsSource(runner.proposed), settings, out, nothing_said)
    finally:
        for host, aside in zip(made.hosts, owners_files, strict=True):
            put_aside(host)
            for path in aside.iterdir():
                path.rename(host / path.name)


def put_aside(host: Path) -> Path:
    """Have a host's owner take task, keys and uploads away, for another task; return where they are."""
    aside = Path(tempfile.mkdtemp(dir=host.parent))
    for name in ("task.json", "sealing", "shares"):
        (host / name).rename(aside / name)
    return aside
