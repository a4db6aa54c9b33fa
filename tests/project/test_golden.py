"""Files of version 1.0, which every later version reads: tests/golden/1.0 is never written anew.

A result of each command, a task, its uploads with a party's keys, lists and aggregate, a policy, a ledger;
a ledger of trainings, the first of a declared number of runs, with their records; the directories of three
hosts after a run, and its signed results. The hosts' certificates last a hundred years, in place of one, so
that no test depends on the date. A trained model; curves of three labels; uploads of
values, of scores, of clients with several records, and in the form `product`, the last sealed by keys of
a curve alone; a file of shared records; a `domain.json`; a `hosts.toml` and a `fairshares.toml` as version
1.0's pages have them; all commands and names in Python, also those that version 1.1 promises.
"""

import inspect
import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pandas as pd
import pytest
from invoke import Collection
from invoke.parser import Parser
from msgspec import Struct

import fairshares as fs
from fairshares.harness.cli.command_line import fill_in
from fairshares.harness.cli.user_commands import COMMANDS, HOSTS as HOST_COMMANDS
from fairshares.harness.errors import HostUnfitError, SignatureError
from fairshares.harness.hosts.host_keys import RunKeys
from fairshares.harness.hosts.inventory import Host, read_hosts
from fairshares.harness.hosts.policy import read_policy
from fairshares.harness.hosts.runner import HostsSource
from fairshares.harness.hosts.signed_results import verify
from fairshares.harness.inputs.record_schema import RecordDomain, RecordKind, read_domain
from fairshares.harness.pipeline.run import RunSettings, run_release
from fairshares.harness.privacy.ledger.charge import Account
from fairshares.harness.privacy.ledger.entries import Ledger
from fairshares.harness.privacy.ledger.populations import Population
from fairshares.harness.releases.base import statistic_of
from fairshares.harness.releases.registry import request_from_json
from fairshares.harness.releases.weights.spec import PI_RW
from fairshares.harness.releases.weights.statistic import WeightsStatistic
from fairshares.harness.request.request import BY_EPSILON, Randomness, Request
from fairshares.harness.uploads.client import share as sealed
from fairshares.harness.uploads.task import read_task
from fairshares.protocols.accounting.rounding import float_up
from fairshares.protocols.circuits.coins import NoiseFamily
from fairshares.protocols.guarantee import Budget
from fairshares.protocols.spec import SHARES
from tests.support.command import read_json, refused, succeed
from tests.support.coordinators import MODEL, hosts_runner, records
from tests.support.requests import request_of

OF_1_0 = Path(__file__).parents[1] / "golden" / "1.0"
FINGERPRINT = "5f5e13b67ebff5ed"
HOSTS = [  # fingerprints of their owners' certificates
    "CE:68:F5:95:6B:CA:49:D7:29:01:80:35:5C:F3:9C:E7:38:71:D5:B3:E9:7A:44:73:54:5A:27:1E:C1:CE:41:A3",
    "5A:73:8F:8D:69:78:F2:FF:79:77:2C:B7:F8:26:68:31:1B:CA:B2:E0:BA:40:E0:20:5F:82:F2:C0:F3:94:56:A4",
    "E5:FF:DD:BF:8B:82:14:8C:84:4D:04:39:27:A6:02:BC:28:D1:C3:C5:72:4F:A7:08:01:2B:F8:61:A4:33:B4:B5",
]
FORM = PI_RW.input_forms["split"].by(SHARES)
RELEASE = request_of(MODEL, FORM, Fraction(1), Fraction(1, 2**40)).but(Request.population, "loans")
RESULTS: dict[str, tuple[Callable[[Any], float], float]] = {
    "weights": (lambda result: result.weights["women", "ill"], 1.2858394672274798),
    "confusion": (lambda result: result.rates.true_positive_rate["women", "ill"], 0.897163),
    "thresholds": (lambda result: result.rates.selection_rate["women"], 0.482574),
    "gap": (lambda result: result.gaps.gap["men", "women"], -0.051738),
    "count": (lambda result: result.counts["men", "healthy"], 172.547394),
    "cap": (lambda result: result.cap, 2),
}


@pytest.fixture
def golden(tmp_path: Path) -> Path:
    """Return a copy, whose keys and policy are their owner's alone."""
    copy = shutil.copytree(OF_1_0, tmp_path / "1.0")
    for path in (copy, *copy.rglob("*")):
        path.chmod(0o700 if path.is_dir() else 0o600)
    for text in copy.rglob("ledger.sql"):
        with closing(sqlite3.connect(text.with_suffix(".sqlite"))) as ledger:
            ledger.executescript(text.read_text())
    return copy


@pytest.mark.parametrize("task", RESULTS)
def test_results_and_their_manifests_are_read(task: str) -> None:
    result, (value, expected) = fs.load(OF_1_0 / task), RESULTS[task]
    assert value(result) == pytest.approx(expected, abs=1e-6)
    assert result.manifest["task"] == task
    assert 0.99 < result.privacy.epsilon <= 1 or task == "count"


def test_uploads_are_opened_and_added_up_to_the_same_aggregate(golden: Path) -> None:
    """Which takes the task, the party's keys, and the signed lists of all parties."""
    given = ("--task", "task.json", "--party", "0", "--keys", "keys-0", "--shares", "party-0")
    said = succeed("aggregate", *given, "--uploads", "lists", "--out", "again.aggregate", cwd=golden)
    assert "Party 0: 3 uploads" in said and FINGERPRINT in said
    assert (golden / "again.aggregate").read_bytes() == (golden / "party-0.aggregate").read_bytes()


def test_a_policy_allows_what_it_did(golden: Path) -> None:
    policy = read_policy(golden)
    (rule,) = policy.host_rules.rules
    assert (policy.port, policy.client_port, policy.coordinators, policy.attempts) == (
        12100,
        12200,
        ["alice"],
        3,
    )
    assert rule.total.epsilon == 4 and rule.per_run.delta == Fraction(1, 2**40)
    assert rule.upload_tasks and rule.chains


def test_a_ledger_goes_on(golden: Path) -> None:
    spent = fs.ledger("clinics", ledger=golden / "ledger.sqlite").charges
    assert list(spent.task) == ["weights", "confusion", "thresholds", "count"]
    ledger = Ledger(golden / "ledger.sqlite")
    (clinics,) = ledger.populations("clinics")
    assert clinics.budget and clinics.budget.epsilon == 20
    ledger.set_budget("clinics", Budget(Fraction(30)))
    (clinics,) = ledger.populations("clinics")
    assert clinics.budget == Budget(Fraction(30))


def test_signed_results_are_verified_by_the_owners_certificates() -> None:
    """Which the links of 1.0 showed, too."""
    signers = verify(OF_1_0 / "signed", HOSTS)
    assert [statement.ran.run_certificate for statement, _ in signers] == [""] * 3
    assert signers[0][0].outputs["counts"] == [1, -1, 0, -2]


@pytest.mark.parametrize("field", ["weights", "noisy_counts", "floored"])
def test_signed_results_of_1_0_are_refused_if_a_figure_is_another(field: str, tmp_path: Path) -> None:
    """Intervals alone are not compared, as this version has closer ones."""
    results = tmp_path / "signed"
    shutil.copytree(OF_1_0 / "signed", results)
    weights = read_json(results / "weights.json")
    weights["weights_interval"] = [[[0, 9], [0, 9]], [[0, 9], [0, 9]]]
    (results / "weights.json").write_text(json.dumps(weights))
    verify(results, HOSTS)
    weights[field][0][0] = 7
    (results / "weights.json").write_text(json.dumps(weights))
    with pytest.raises(SignatureError, match=f"its '{field}' is another"):
        verify(results, HOSTS)


def run_on_hosts(hosts: list[Path], out: Path) -> None:
    with hosts_runner(hosts, MODEL, RELEASE) as runner:
        account = Account(Ledger(out.with_suffix(".sqlite")), "loans")
        settings = RunSettings(RELEASE, timeout_s=600, account=account, hosts=runner)
        run_release(WeightsStatistic(), HostsSource(runner.proposed), settings, out, lambda step: None)


def test_hosts_go_on_with_their_keys_pins_uploads_and_ledgers(golden: Path) -> None:
    """And a ledger from before a run is noticed."""
    hosts = [golden / "hosts" / f"host-{i}" for i in range(3)]
    task = read_task(hosts[0] / "task.json")
    sealed(task, records(), golden / "more")
    for i, host in enumerate(hosts):
        shutil.copytree(golden / "more" / f"party-{i}", host / "shares", dirs_exist_ok=True)
    with closing(sqlite3.connect(hosts[0] / "ledger.sqlite")) as ledger:
        backup = "\n".join(ledger.iterdump())
    before = [Ledger(host / "ledger.sqlite").head() for host in hosts]
    run_on_hosts(hosts, golden / "out")
    signers = verify(golden / "out", HOSTS)
    assert [statement.ran.head for statement, _ in signers] == before and len({*before}) == 1
    assert before[0] and signers[0][0].ran.inputs["uploads"] == 4
    assert [RunKeys(host, MODEL).fingerprints(i) for i, host in enumerate(hosts)] == [
        {str(party): of_party for party, of_party in enumerate(HOSTS)}
    ] * 3
    (hosts[0] / "ledger.sqlite").unlink()
    with closing(sqlite3.connect(hosts[0] / "ledger.sqlite")) as ledger:
        ledger.executescript(f"PRAGMA application_id = 1179864135;\nPRAGMA user_version = 6;\n{backup}")
    sealed(task, records(), golden / "last")
    for i, host in enumerate(hosts):
        shutil.copytree(golden / "last" / f"party-{i}", host / "shares", dirs_exist_ok=True)
    with pytest.raises(HostUnfitError, match="The ledger of party 0 does not go on from what"):
        run_on_hosts(hosts, golden / "restored")


def test_a_request_of_1_0_had_signed_noise_at_every_epsilon() -> None:
    """It names no family, and its noise is what its results are read by."""
    manifest = json.loads((OF_1_0 / "weights" / "manifest.json").read_text())
    request = request_from_json({**manifest["request"], "epsilon": "4"})
    assert "noise_family" not in manifest["request"]
    assert request.randomness.family is NoiseFamily.SIGNED
    again = request_from_json(request.but(Randomness.noise_family, BY_EPSILON).to_json())
    assert again.randomness.family is None


def test_a_cap_of_1_0_is_verified_by_the_noise_that_it_had() -> None:
    """Its signed results have the loss of signed noise, here that which version 1.0 stated."""
    fields = {
        "task": "cap",
        "epsilon": "4",
        "delta": "2^-40",
        "input_path": "shares",
        "security": "ring",
        "release": "weights",
        "release_epsilon": "1",
    }
    request = request_from_json(fields)
    domain = RecordDomain(("a", "b"), ("0", "1"), 100, kind=RecordKind.SIZE)
    spent = statistic_of(request).prepare(request, domain).plan.exact
    assert float_up(spent.epsilon) == float_up(Fraction(248273830451, 62500000000))
    assert float_up(spent.delta) == float_up(Fraction(111321, 144115188075855872))


TRAININGS: dict[str, dict[str, Any]] = {
    "clinics": {"epsilon": 6, "with_": "weights", "weights_epsilon": 3},
    "patients": {"epsilon": 3},
}


@pytest.mark.parametrize("population", TRAININGS)
def test_a_declared_number_of_trainings_goes_on(population: str, golden: Path) -> None:
    """As the refusal of the same options says: rounds are noisier since, and so is joint noise of counts.

    The guarantee is what was declared: all of its runs lose no more than the first, of which so many fit.
    """
    place = golden / "trainings"
    options: dict[str, Any] = TRAININGS[population] | {
        "features": json.loads((place / "features.json").read_text()),
        "rounds": 2,
        "security": "mpyc",
        "population": population,
        "ledger": place / "ledger.sqlite",
    }

    def declared() -> Population:
        (chosen,) = Ledger(place / "ledger.sqlite").populations(population)
        return chosen

    before = declared()
    (first,) = before.charges
    again: dict[str, Any] = {"noise_family": "signed", "delta": 9e-6}  # in place of 1e-5
    refused: list[dict[str, Any]] = [{}, {"noise_family": "signed"}]
    if "with_" in options:
        refused.append({"delta": 9e-6})  # with symmetric noise of the weights, whose ε is another
    for changes in refused:
        ways = "take a delta= that is a tenth smaller"
        if "with_" in options and "noise_family" not in changes:
            ways = f'add noise_family="signed", and {ways}'
        said = r"for 3 runs with the noise of the first; after 1 run .* If version 1\.0 ran it, "
        with pytest.raises(fs.BudgetError, match=said + ways):
            fs.train(place / "records.csv", **options, **changes)
        assert declared() == before
    trained = fs.train(place / "records.csv", **options, **again)
    after = declared()
    assert after.charges[:1] == (first,) and after.budget == before.budget
    _, last = after.charges
    assert last.loss.is_at_most(first.loss)
    assert after.accountant is not None and after.accountant.kept
    stated = trained.privacy
    assert (stated.epsilon_exact, stated.delta_exact) == (last.exact.epsilon, last.exact.delta)
    assert last.exact.within(first.exact)


def test_a_trained_model_predicts_as_it_did() -> None:
    """By its parameters, which version 1.0 printed; its result has the weights that were revealed with it."""
    model = fs.LogisticModel.load(OF_1_0 / "model")
    x, sector = 0.75, "t"  # 0.75 of a range from 0 to 1 is half of the way from its middle to its high end
    log_odds = 1.2664583333333335 / 2 - 0.11833333333333332 - 0.011458333333333341
    given = pd.DataFrame({"x": [x], "sector": [sector]})
    assert model.predict_proba(given)[0, 1] == pytest.approx(1 / (1 + np.exp(-log_odds)), abs=1e-12)
    assert list(model.classes_) == [0, 1]
    trained = fs.load(OF_1_0 / "model")
    assert isinstance(trained, fs.TrainResult)
    assert trained.weights is not None
    assert trained.weights.noisy_counts["a", 0] == 16.5
    assert trained.privacy.epsilon_exact == Fraction(2999490723007, 500000000000)


def test_curves_of_three_labels_are_read() -> None:
    result = fs.load(OF_1_0 / "three")
    assert isinstance(result, fs.ThresholdsResult)
    assert result.curves.loc["a"].true_positives.tolist() == [49, 24.5, 1, 1.5]
    assert result.rates.selection_rate["a"] == 0


FORMS = {  # the party's keys, and the fingerprint of three uploads
    "values": ("keys-0", "2e4285712df4bbb2"),
    "scores": ("keys-0", "5b77d01f5db487e4"),
    "visits": ("keys-0", "04eab6bdfebd6629"),
    "product": ("keys-0-x25519", "c0a21b68f4afea90"),
}


@pytest.mark.parametrize("form", FORMS)
def test_uploads_of_each_form_are_opened_by_keys_of_both_kinds(form: str, golden: Path) -> None:
    """And added up to the aggregate that version 1.0 wrote, byte by byte."""
    place, (keys, fingerprint) = golden / "forms" / form, FORMS[form]
    given = ("--task", "task.json", "--party", "0", "--keys", f"../{keys}", "--shares", "party-0")
    said = succeed("aggregate", *given, "--uploads", "lists", "--out", "again.aggregate", cwd=place)
    assert "Party 0: 3 uploads" in said and fingerprint in said
    assert (place / "again.aggregate").read_bytes() == (place / "party-0.aggregate").read_bytes()


def test_a_file_of_shared_records_still_refuses_them(golden: Path) -> None:
    visits = golden / "forms" / "visits"
    given = ("--task", "task.json", "--records", "records.csv", "--counted", "../../counted.json")
    assert "records.csv was shared before, by ../../counted.json" in refused(
        "share", *given, "--out", "again", cwd=visits
    )
    assert not (visits / "again").exists()


def test_a_domain_is_read() -> None:
    domain = read_domain(OF_1_0 / "domain.json")
    assert (domain.groups, domain.labels, domain.max_count) == (("men", "women"), ("healthy", "ill"), 50)
    assert domain.thresholds == (0, 0.25, 0.5, 0.75, 1)


def test_hosts_are_read() -> None:
    first, second, third = read_hosts(OF_1_0 / "hosts.toml")
    assert first == Host(
        party=0,
        address="10.0.0.10",
        directory="/srv/fairshares",
        project="/srv/FairShares",
        port=12000,
        ssh_user="fairshares",
        ssh_port=2222,
        key_file="~/.ssh/fairshares",
        known_hosts="hosts/known",
        mp_spdz_home="/opt/builds/MP-SPDZ",
        reached_at="203.0.113.7:12002",
        client_port=12100,
        client_reached_at="203.0.113.7:443",
    )
    assert (second.party, third.address, third.client_port) == (1, "10.0.0.12", None)


def test_options_in_a_file_are_read(golden: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(golden)
    commands = Collection(*COMMANDS, hosts=HOST_COMMANDS)
    filled = {name: commands[name] for name in commands.task_names}
    for words, flags in (
        (["weights"], {"--security": "ring", "--population": "loans", "--groups": "a,b"}),
        (["hosts.check"], {"--hosts": "our-hosts.toml"}),
    ):
        given = Parser(contexts=commands.to_contexts()).parse_argv(words)
        fill_in(given, filled)
        assert {flag: given[0].flags[flag].value for flag in flags} == flags


# What the changelog of 1.1.0 says is gone: errors of benchmarks, and what `SumSession` had for its own use.
GONE = {"ExperimentError", "MixedResultsError", "RelayError"}
GONE |= {"SumSession.event", "SumSession.job", "SumSession.take"}
GONE_PARAMETERS = {"SumSession": {"starting"}}


class Names(Struct, frozen=True, forbid_unknown_fields=True):
    """The names of a version: options of commands, bases of errors, and parameters of names in Python."""

    commands: dict[str, list[str]]
    errors: dict[str, list[str]]
    python: dict[str, list[str]]


NAMES = {
    version: msgspec.json.decode((OF_1_0.parent / version / "names.json").read_bytes(), type=Names)
    for version in ("1.0", "1.1")
}
IN_PYTHON = [(version, name) for version, names in NAMES.items() for name in names.python if name not in GONE]
ERRORS = [(version, name) for version, names in NAMES.items() for name in names.errors if name not in GONE]


@pytest.mark.parametrize("version", NAMES)
def test_commands_and_options_are_there(version: str) -> None:
    there = {command.name: command for command in COMMANDS}
    there |= {f"hosts.{name}": command for name, command in HOST_COMMANDS.tasks.items()}
    for name, options in NAMES[version].commands.items():
        assert {*options} <= {option.flag for option in there[name].options.values()}, name


@pytest.mark.parametrize(("version", "name"), IN_PYTHON)
def test_names_in_python_and_their_parameters_are_there(version: str, name: str) -> None:
    """Parameters stay in their order, as calls may give them by place."""
    owner, _, attribute = name.partition(".")
    there = getattr(fs, owner)
    parameters = NAMES[version].python[name]
    if attribute:
        assert attribute in dir(there) or attribute in inspect.signature(there).parameters
        there = getattr(there, attribute, None)
    if parameters:
        now = [parameter for parameter in inspect.signature(there).parameters if parameter in parameters]
        assert now == [one for one in parameters if one not in GONE_PARAMETERS.get(name, set())]


@pytest.mark.parametrize(("version", "name"), ERRORS)
def test_errors_are_there_and_are_caught_as_they_were(version: str, name: str) -> None:
    bases = {base.__name__ for base in getattr(fs, name).__mro__}
    assert {*NAMES[version].errors[name]} <= bases
