"""A model's number of parties: which it takes, how many may collude, and that no place forgets the number."""

import ast
import json
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from msgspec import UNSET, UnsetType, to_builtins

from benchmarks.errors import ExperimentError
from benchmarks.measure.cell import model_of, request_of
from benchmarks.suites import Grid
from fairshares.harness.engines.execution import EngineResult
from fairshares.harness.engines.registry import choose_model
from fairshares.harness.errors import (
    HostsFileError,
    HostUnfitError,
    OptionError,
    PlanError,
    PolicyError,
    ShareError,
)
from fairshares.harness.forecast.operation_counts import Counts
from fairshares.harness.forecast.unit_costs import RECORDED, UNITS, read_units
from fairshares.harness.hosts.decision import Look, Refused, decide
from fairshares.harness.hosts.guard import Guard
from fairshares.harness.hosts.inventory import Host, default_model, hosts_for
from fairshares.harness.hosts.policy import POLICY_FILE, read_policy
from fairshares.harness.hosts.trials import ReleaseTrial
from fairshares.harness.inputs.federation_size import FederationSize
from fairshares.harness.inputs.record_schema import RecordDomain
from fairshares.harness.pipeline.manifest_of_run import computation_of
from fairshares.harness.pipeline.planning import event_of
from fairshares.harness.pipeline.preprocessing import joint_noise_of, terms_of
from fairshares.harness.pipeline.sources import check_task, read_terms, request_of_run, terms_of as told
from fairshares.harness.privacy.manifest import opened_by, read_manifest, read_statement
from fairshares.harness.privacy.statement import state_privacy
from fairshares.harness.releases.base import Answer, PreparedRelease, statistic_of
from fairshares.harness.releases.weights.request import WeightsRequest
from fairshares.harness.request.readers import parse_model
from fairshares.harness.request.request import Inputs, Trust
from fairshares.harness.security_models import MODELS, SecurityModel, get_model, model_titled
from fairshares.harness.training.session import SumSession
from fairshares.protocols.noise.added import NoiseDistribution
from fairshares.protocols.spec import CLIENTS, INPUT_FORMS, SHARES
from tests.benchmarks.measure.test_runner import SUITE
from tests.support.envelopes import made_task
from tests.support.requests import request_of as request_for

ROOT = Path(__file__).resolve().parents[2]
# How many may collude, by the number of parties: all but one, or fewer than half.
ALL_BUT_ONE = {parties: parties - 1 for parties in range(2, 17)}
FEWER_THAN_HALF = dict(zip(range(3, 17), (1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7), strict=True))
ODD = {parties: colluding for parties, colluding in FEWER_THAN_HALF.items() if parties % 2}
COLLUDE = {
    "semi2k": ALL_BUT_ONE,
    "spdz2k": ALL_BUT_ONE,
    "shamir": FEWER_THAN_HALF,
    "malicious-shamir": ODD,
    "mpyc": FEWER_THAN_HALF,
}
OF_FIVE = get_model("semi2k", 5)
SPLIT = INPUT_FORMS["split"].by(SHARES)


@pytest.mark.parametrize("name", MODELS)
def test_a_model_takes_its_numbers_of_parties_and_no_others(name: str) -> None:
    usual = MODELS[name]
    colluding = COLLUDE.get(name, {usual.parties: 1})
    for parties in range(1, 20):
        if parties in colluding:
            model = get_model(name, parties)
            assert (model.name, model.parties, model.corruptions) == (name, parties, colluding[parties])
            options = usual.compile_options
            if name == "semi2k" and parties > 2:
                options = ("-R", "64", "-Z", str(parties), "-E", "semi2k")
            assert model.compile_options == options
            same = replace(
                model,
                compile_options=usual.compile_options,
                parties=usual.parties,
                corruptions=usual.corruptions,
                statistical_security_bits=usual.statistical_security_bits,  # of masks: test_mpyc_masks.py
            )
            assert same == usual, "nothing else depends on the number"
            if name != "mpyc":
                assert model.statistical_security_bits == usual.statistical_security_bits
        else:
            numbers = f"{min(colluding)} to 16" if name in COLLUDE else usual.parties
            if colluding is ODD:
                numbers = "3, 5, 7, 9, 11, 13 or 15"
            with pytest.raises(OptionError, match=f"Model {name} takes {numbers} parties, not {parties};"):
                get_model(name, parties)


def test_a_refusal_names_the_models_of_so_many_parties() -> None:
    with pytest.raises(
        OptionError, match=r"of 5 parties with \S+: semi2k, spdz2k, shamir, malicious-shamir, mpyc\.$"
    ):
        get_model("ring", 5)
    with pytest.raises(
        OptionError, match=r"of 4 parties with \S+: semi2k, spdz2k, rep4-ring, shamir, mpyc\.$"
    ):
        get_model("ring", 4)
    with pytest.raises(OptionError, match=r"of 17 parties with \S+: there is none\.$"):
        get_model("semi2k", 17)


@pytest.mark.parametrize("model", MODELS.values(), ids=list(MODELS))
def test_a_usual_number_is_written_nowhere(model: SecurityModel) -> None:
    """So files and terms of runs by usual numbers are those of version 1.0."""
    named, by_number = Trust(security=model.name), Trust(security=model.name, parties=model.parties)
    assert named == by_number
    assert (by_number.security, by_number.parties, model.title) == (model, None, model.name)
    assert WeightsRequest(epsilon=1, security=model.name, parties=model.parties).to_json() == {
        **WeightsRequest(epsilon=1).to_json(),
        "security": model.name,
    }
    assert get_model(model.name, model.parties) == model == model_titled(model.title)


def test_a_machine_that_is_no_model_has_its_name_for_a_title() -> None:
    machine = replace(OF_FIVE, name="hemi-party.x", numbers=None, is_bare=True)
    assert (machine.title, machine.stated_parties) == ("hemi-party.x", None)


@pytest.mark.parametrize(
    ("asked", "changes", "model", "parties"),
    [
        ({"security": "semi2k", "parties": 5}, {}, OF_FIVE, 5),
        ({"parties": 5}, {}, None, 5),
        ({"parties": 5}, {"security": MODELS["semi2k"]}, OF_FIVE, 5),
        ({"parties": 5}, {"security": OF_FIVE}, OF_FIVE, 5),
        ({"security": "semi2k"}, {"security": OF_FIVE}, OF_FIVE, 5),
        ({"security": "semi2k"}, {"parties": 5}, OF_FIVE, 5),
        ({"security": "semi2k", "parties": 5}, {"security": MODELS["mpyc"]}, get_model("mpyc", 5), 5),
        ({"security": "semi2k", "parties": 5}, {"parties": 7}, get_model("semi2k", 7), 7),
        ({"security": "semi2k", "parties": 5}, {"security": get_model("mpyc", 7)}, get_model("mpyc", 7), 7),
        ({"security": "semi2k", "parties": 5}, {"parties": 2}, MODELS["semi2k"], None),
        ({"security": "semi2k", "parties": 5}, {"security": OF_FIVE, "parties": None}, OF_FIVE, 5),
    ],
)
def test_a_request_holds_a_model_of_its_number(
    asked: dict[str, object], changes: dict[str, object], model: SecurityModel | None, parties: int | None
) -> None:
    request = WeightsRequest(epsilon=1, **asked)
    for name, value in changes.items():
        request = request.but(request.declared[name], value)
    assert (request.security, request.trust.parties) == (model, parties)


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"security": "ring", "parties": 5}, "Model ring takes 3 parties, not 5"),
        ({"security": "mpyc", "parties": 2}, "Model mpyc takes 3 to 16 parties, not 2"),
        ({"security": "semi2k", "parties": 17}, "must be a whole number from 2 to 16; got '17'"),
        ({"security": "semi2k", "parties": 1}, "must be a whole number from 2 to 16; got '1'"),
    ],
)
def test_a_number_that_a_model_does_not_take_is_refused(asked: dict[str, object], says: str) -> None:
    with pytest.raises(OptionError, match=says):
        WeightsRequest(epsilon=1, **asked)
    if says.startswith("Model"):
        with pytest.raises(OptionError, match=says):
            WeightsRequest(epsilon=1, parties=asked["parties"]).but(
                Trust.security, parse_model(str(asked["security"]))
            )


@pytest.mark.parametrize("parties", range(2, 17))
def test_a_number_alone_chooses_a_model_that_takes_it(parties: int) -> None:
    chosen = choose_model(None, parties)
    assert chosen.parties == parties
    assert chosen.name in (("ring", "mpyc") if parties == 3 else ("semi2k", "mpyc"))


def prepared(*, parties: int | None = None, security: str = "mpyc") -> PreparedRelease[Answer]:
    """Return weights of two groups and labels by so many parties."""
    request = WeightsRequest(epsilon=1, security=security, parties=parties, offline=True)
    return statistic_of(request).prepare(request, RecordDomain(("a", "b"), ("0", "1"), 1))


def test_noise_made_ahead_is_for_its_number_of_parties() -> None:
    """And noise for the usual number is found by the terms that it has always had."""
    terms = {
        parties: terms_of(joint_noise_of(prepared(parties=parties))) for parties in (None, *range(3, 17))
    }
    assert terms[None] == terms[3]
    assert len({*terms.values()}) == 14


def test_a_ledgers_event_names_the_number() -> None:
    events = [event_of(prepared(parties=parties), "weights", Path("out")).model for parties in (None, 3, 5)]
    assert events == ["mpyc", "mpyc", "mpyc of 5 parties"]


def test_a_request_on_its_way_to_hosts_and_clients_keeps_its_number() -> None:
    asked = WeightsRequest(epsilon=1, security="semi2k", parties=5)
    assert request_of_run(asked.to_json()).model == OF_FIVE
    sent = asked.but(Inputs.input_path, CLIENTS)
    terms = told(sent, RecordDomain(("a", "b"), ("0", "1"), 1))
    assert read_terms(terms, "terms").request.model == OF_FIVE
    trial = ReleaseTrial(
        security="semi2k", parties=5, asked=asked.to_json(), federation=FederationSize(7, 23, 2, 2)
    )
    assert trial.model == OF_FIVE
    with pytest.raises(HostUnfitError, match="nothing that it knows"):
        ReleaseTrial(security="semi2k", asked=asked.to_json(), federation=trial.federation).job()


def hosts(number: int) -> list[Host]:
    """Return so many hosts."""
    return [Host(party, f"10.0.0.{party}", "/srv/h", "/srv/p", 9000) for party in range(number)]


def test_a_file_of_hosts_has_as_many_as_were_asked_for() -> None:
    path = Path("hosts.toml")
    assert len(hosts_for(OF_FIVE, hosts(5), path)) == 5
    with pytest.raises(HostsFileError, match="has hosts for 4 parties, model semi2k has 5;"):
        hosts_for(OF_FIVE, hosts(4), path)
    with pytest.raises(
        HostsFileError, match=r"has hosts for 6 parties, and 5 were asked for; choose \S*parties.6"
    ):
        hosts_for(OF_FIVE, hosts(6), path)
    assert len(hosts_for(MODELS["semi2k"], hosts(5), path)) == 2, "as in version 1.0"
    assert default_model(hosts(5)) == MODELS["ring"]
    assert default_model(hosts(5), 5) == OF_FIVE
    assert default_model(hosts(3), 3) == MODELS["ring"]


def allows(security: str, asked: str, place: Path) -> bool:
    """Return whether a policy that accepts models by these titles allows a run of a title."""
    policy = f'[[population]]\nname = "*"\nepsilon = 1\ndelta = "2^-30"\nsecurity = {security}\n'
    if not security:
        policy = policy.replace("security = \n", "")
    (place / POLICY_FILE).write_text(policy)
    rules = read_policy(place).host_rules
    return not isinstance(decide(rules, "", Look(asked)), Refused)


def test_a_policy_allows_a_usual_number_unless_it_names_another(tmp_path: Path) -> None:
    """So a policy of version 1.0 allows no more than it did."""
    for security in ("", '["semi2k", "mpyc"]'):
        assert allows(security, "semi2k", tmp_path) and allows(security, "mpyc", tmp_path)
        assert not allows(security, OF_FIVE.title, tmp_path)
    assert allows('["semi2k of 5 parties"]', OF_FIVE.title, tmp_path)
    assert not allows('["semi2k of 5 parties"]', "semi2k", tmp_path)
    assert not allows('["semi2k of 5 parties"]', get_model("semi2k", 4).title, tmp_path)
    for wrong in (
        "semi2k of 2 parties",
        "ring of 5 parties",
        "semi2k of 17 parties",
        "semi2k of five parties",
    ):
        with pytest.raises(PolicyError, match=f"There is no security model '{wrong}'"):
            allows(f'["{wrong}"]', "semi2k", tmp_path)


@pytest.mark.parametrize(("number", "is_allowed"), [(None, True), (5, False)])
def test_a_proposed_run_is_of_a_number_that_the_policy_names(
    number: int | None, is_allowed: bool, tmp_path: Path
) -> None:
    (tmp_path / POLICY_FILE).write_text(
        '[[population]]\nname = "*"\nepsilon = 1\ndelta = "2^-30"\nsecurity = ["mpyc"]\n'
    )
    asked = WeightsRequest(epsilon=1, security="mpyc", parties=number).to_json()
    trial = ReleaseTrial(security="mpyc", parties=number, asked=asked, federation=FederationSize(7, 23, 2, 2))
    assert trial.title == trial.model.title
    if is_allowed:
        assert Guard.of_run(tmp_path, asked, "").release.model == MODELS["mpyc"]
    else:
        with pytest.raises(PolicyError, match="does not allow 'mpyc of 5 parties'"):
            Guard.of_run(tmp_path, asked, "")


def test_a_task_says_how_many_parties_its_model_has(tmp_path: Path) -> None:
    task = made_task(tmp_path, "split", "shares", "semi2k", parties=5)
    assert task.model == OF_FIVE
    check_task(task, SPLIT, OF_FIVE)
    with pytest.raises(ShareError, match=r"shared for 5 parties; this run would be of 2.* by \S*parties.5"):
        check_task(task, SPLIT, MODELS["semi2k"])
    with pytest.raises(ShareError, match="is for 5 parties, and its model ring takes 3;"):
        _ = replace(task, security="ring").model


def test_a_cell_has_its_number_of_parties() -> None:
    cell = {
        "protocol": "pi_rw",
        "security": "semi2k",
        "variant": "default",
        "epsilon": "1",
        "network": "none",
    }
    cell |= {"input_path": "shares"}
    assert model_of(cell) == request_of(cell).model == MODELS["semi2k"]
    assert model_of({**cell, "parties": 5}) == request_of({**cell, "parties": 5}).model == OF_FIVE
    grid = SUITE.grid[0].factors
    sized = replace(SUITE, grid=[Grid({**grid, "security": "semi2k", "parties": [2, 5]})], excluded=[])
    assert [model_of(planned.cell).parties for planned in sized.plan()] == [2, 5]
    of_ring = Grid({**grid, "security": "ring", "parties": 5})
    with pytest.raises(ExperimentError, match="parties: Model ring takes 3 parties, not 5"):
        replace(sized, grid=[of_ring])


def test_unit_costs_are_of_a_number_of_parties(tmp_path: Path) -> None:
    fields = json.loads((RECORDED / UNITS).read_text())
    known = read_units(RECORDED)
    with pytest.raises(PlanError, match="No unit costs of semi2k of 5 parties are on file"):
        known.predict(OF_FIVE, Counts())
    fields["models"] = {"semi2k of 5 parties": fields["models"]["semi2k"]}
    (tmp_path / UNITS).write_text(json.dumps(fields))
    measured = read_units(tmp_path)
    counts = Counts(inputs=5, ands=100)
    assert measured.predict(OF_FIVE, counts) == known.predict(MODELS["semi2k"], counts)
    with pytest.raises(PlanError, match="No unit costs of semi2k are on file"):
        measured.predict(MODELS["semi2k"], counts)


def test_a_sessions_parties_are_as_many_as_were_asked_for() -> None:
    session = SumSession(
        "mpyc", clients=9, coordinates=2, rounds=1, clip=1, epsilon=1, parties=5, population="none"
    )
    assert session.model == get_model("mpyc", 5)


def test_a_manifest_without_a_number_is_of_the_usual_one(tmp_path: Path) -> None:
    fields = json.loads((ROOT / "tests/golden/1.0/weights/manifest.json").read_text())
    assert "parties" not in fields
    place = tmp_path / "manifest.json"
    for number in (None, 5):
        place.write_text(
            json.dumps(fields if number is None else {**fields, "security": "mpyc", "parties": number})
        )
        model = read_statement(opened_by(read_manifest(tmp_path))).model
        assert model == (MODELS[fields["security"]] if number is None else get_model("mpyc", 5))


@pytest.mark.parametrize(("model", "number"), [(MODELS["semi2k"], UNSET), (OF_FIVE, 5)])
def test_a_manifest_has_a_number_that_is_not_the_usual_one(
    model: SecurityModel, number: int | UnsetType
) -> None:
    result = EngineResult(model=model, outputs={}, engine="", engine_version="", program_hash="")
    stated = computation_of(result, 1.0, 0.0)
    assert stated.parties == number
    assert ("parties" in to_builtins(stated)) is (number == 5)


@pytest.mark.parametrize(
    ("model", "distribution", "trust", "learn"),
    [
        (
            OF_FIVE,
            None,
            "5 parties, semi-honest, no 5 of 5 collude (semi2k)",
            "as long as at least one of the 5 parties is honest, the others learn nothing more together if "
            "they follow the protocol",
        ),
        (
            get_model("spdz2k", 3),
            None,
            "3 parties, malicious, no 3 of 3 collude (spdz2k)",
            "as long as at least one of the 3 parties is honest, the others learn nothing more together even "
            "if they deviate",
        ),
        (
            get_model("mpyc", 5),
            NoiseDistribution.LAPLACE,
            "5 parties, semi-honest, no 3 of 5 collude (mpyc)",
            "as long as at least 3 of the 5 parties are honest, the others learn nothing more together, but "
            "what their own noise in it tells them, if they follow the protocol",
        ),
    ],
)
def test_statements_say_how_many_have_to_be_honest(
    model: SecurityModel, distribution: NoiseDistribution | None, trust: str, learn: str
) -> None:
    request = request_for(model, SPLIT, Fraction(1), distribution=distribution)
    prepared_release = statistic_of(request).prepare(request, RecordDomain(("a", "b"), ("0", "1"), 1))
    statement = state_privacy(prepared_release, compared=0)
    assert any(line.startswith(f"Trust: {trust}") for line in statement.in_short())
    assert any(learn in line for line in statement.in_full())
    honest = model.parties - model.corruptions
    controlled = f"controls up to {model.corruptions} of {model.parties} parties"
    assert controlled in statement.stated.end_to_end
    if distribution is not None:
        assert f"the guarantee counts that of {honest} of {model.parties}" in " ".join(statement.in_full())


def calls_of(name: str) -> Iterator[tuple[Path, ast.Call]]:
    """Yield the production code's calls of a function."""
    for folder in ("harness", "benchmarks", "fairshares"):
        for path in sorted((ROOT / folder).glob("**/*.py")):
            if path.is_relative_to(ROOT / "fairshares" / "harness"):
                continue
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name:
                    yield path, node


def test_no_place_makes_a_model_from_a_name_alone() -> None:
    """But for constants, the option's reader, whose number `Trust` adds, and a task, which counts its own."""
    alone = [
        path.relative_to(ROOT).as_posix()
        for path, call in calls_of("get_model")
        if len(call.args) == 1 and not (isinstance(call.args[0], ast.Name) and call.args[0].id.isupper())
        if not isinstance(call.args[0], ast.Constant)
    ]
    assert sorted(alone) == ["harness/request/readers.py", "harness/uploads/task.py"]
