"""Results that hosts signed: what follows from the signatures stands, anything else is refused."""

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET, structs

from fairshares.harness.engines.parties.certificates import fingerprint, make_key
from fairshares.harness.errors import SignatureError
from fairshares.harness.hosts.signed_results import (
    SCHEMA,
    InputSource,
    Intent,
    Statement,
    sign,
    verify,
)
from fairshares.harness.pipeline.sources import request_of_run
from fairshares.harness.privacy.manifest import SIGNATURES
from fairshares.harness.privacy.statement import state_privacy
from fairshares.harness.releases.base import statistic_of
from fairshares.harness.releases.files import files_to_json
from fairshares.harness.system.documents import as_json
from fairshares.harness.system.result_files import write_json
from tests.support.coordinators import DOMAIN, MODEL, asked

pytestmark = pytest.mark.usefixtures("in_shell")

COUNTS = [4, 7, 1, 12]
HASH = "0f" * 32
RUN, STARTED = "0" * 32, "2026-01-01T00:00:00+00:00"
INPUTS: dict[str, Any] = {"clients": 50, "uploads": 50, "max_count": DOMAIN.max_count}
Change = Callable[[dict[str, Any]], object]


@pytest.fixture
def keys(tmp_path: Path) -> list[Path]:
    return [make_key(tmp_path, f"P{i}", f"MPyC party {i}") for i in range(3)]


@pytest.fixture
def results(tmp_path: Path, keys: list[Path]) -> Path:
    """Return the directory of a run's results, as it is when all is well.

    Its hosts have no keys of runs, as in version 1.0, which did not state what a record's content costs.
    """
    return written_results(tmp_path / "results", keys, of_1_0=True)


def written_results(made: Path, keys: list[Path], *, of_1_0: bool) -> Path:
    made.mkdir()
    release = request_of_run(asked())
    statistic = statistic_of(release)
    prepared = statistic.prepare(release, DOMAIN)
    stated = state_privacy(prepared, 0).stated
    if of_1_0:
        stated = structs.replace(stated, if_replaced=UNSET)
    weights = prepared.read({"counts": tuple(COUNTS)}, 50)
    for name, fields in files_to_json(weights.files(stated)).items():
        write_json(made / name, fields)
    ran: dict[str, Any] = {
        "task": "weights",
        "security": "mpyc",
        "request": asked(),
        "engine": MODEL.engine,
        "engine_version": "MPyC",
    }
    hosts = {"run": RUN, "started": STARTED, "source": InputSource.UPLOADS, "population": "loans"}
    ran |= {"program_hash": HASH, "privacy": as_json(stated), "inputs": INPUTS, "hosts": hosts}
    ran |= {"mpc_s": 1.0, "schema": 1}
    write_json(made / "manifest.json", ran)
    write(made, [statement(i, keys) for i in range(3)], keys)
    return made


def statement(party: int, keys: list[Path], ran: dict[str, Any] | None = None, **changes: Any) -> Statement:
    """Return what a host signs. Args: ran: what it ran otherwise; changes: what else it says."""
    release = request_of_run(asked())
    statistic = statistic_of(release)
    spent = statistic.prepare(release, DOMAIN).plan.exact
    peers = {str(i): fingerprint(path.read_bytes()) for i, path in enumerate(keys) if i != party}
    intent = Intent(
        *(
            ["0", "1", "2"],
            party,
            RUN,
            STARTED,
            asked(),
            DOMAIN.to_json(),
            InputSource.UPLOADS,
            INPUTS,
            "aa",
            HASH,
        ),
        *("MPyC", 0),
    )
    made = Statement(
        *(
            replace(intent, **(ran or {})),
            peers,
            (str(spent.epsilon), str(spent.delta)),
            {"counts": COUNTS},
            {},
        ),
        f"2026-01-01T00:00:0{party}+00:00",
    )
    return replace(made, **changes)


def write(directory: Path, statements: list[Statement], keys: list[Path]) -> None:
    signed = [asdict(sign(unsigned, path)) for unsigned, path in zip(statements, keys, strict=True)]
    write_json(directory / SIGNATURES, {"schema": SCHEMA, "signed": signed})


def edit(path: Path, change: Change) -> None:
    fields = json.loads(path.read_text())
    change(fields)
    path.write_text(json.dumps(fields))


def of_the_first(**changes: str) -> Change:
    return lambda signatures: signatures["signed"][0].update(changes)


def test_whole_results_say_who_signed_them(results: Path, keys: list[Path]) -> None:
    signers = verify(results)
    assert [signer.ran.party for signer, _ in signers] == [0, 1, 2]
    assert [text for _, text in signers] == [fingerprint(path.read_bytes()) for path in keys]


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("weights.json", lambda f: f["noisy_counts"][0].__setitem__(0, 5.5), "its 'noisy_counts' is another"),
        ("weights.json", lambda f: f["privacy"].update(epsilon=0.1), "its 'privacy' is another"),
        ("weights.json", lambda f: f["privacy"].update(end_to_end="No."), "its 'privacy' is another"),
        ("weights.json", lambda f: f.update(privacy=[]), "its 'privacy' is another"),
        ("weights.json", lambda f: f.update(more=1), "it has fields of its own"),
        ("weights.json", lambda f: f.pop("weights"), "its 'weights' is another"),
        ("manifest.json", lambda f: f.update(program_hash="1"), "its 'program_hash' is another"),
        ("manifest.json", lambda f: f.update(security="ring"), "its 'security' is another"),
        ("manifest.json", lambda f: f.update(task="gap"), "its 'task' is another"),
        ("manifest.json", lambda f: f["privacy"].update(epsilon_exact="1/10"), "its 'privacy' is another"),
        ("manifest.json", lambda f: f["inputs"].update(clients=10**9), "its 'inputs' is another"),
        ("manifest.json", lambda f: f["inputs"].update(uploads=51), "its 'inputs' is another"),
        ("manifest.json", lambda f: f["inputs"].update(excluded_because={}), "its 'inputs' is another"),
        ("manifest.json", lambda f: f["hosts"].update(population="others"), "its 'hosts' is another"),
        ("manifest.json", lambda f: f["hosts"].update(run="1" * 32), "its 'hosts' is another"),
        ("manifest.json", lambda f: f["hosts"].update(started="2027"), "its 'hosts' is another"),
        (
            "manifest.json",
            lambda f: f["hosts"].update(source=InputSource.AGGREGATE),
            "its 'hosts' is another",
        ),
        ("manifest.json", lambda f: f.update(schema=99), "its 'schema' is another"),
        ("manifest.json", lambda f: f.pop("inputs"), "its 'inputs' is another"),
        (SIGNATURES, lambda f: f["signed"].pop(), "met parties of other certificates"),
        (SIGNATURES, lambda f: f["signed"].clear(), "nobody signed"),
        (SIGNATURES, lambda f: f["signed"].append(f["signed"][0]), "not each of the 3 parties signed, once"),
        (SIGNATURES, of_the_first(signature="00"), "a signature is not its certificate's"),
        (SIGNATURES, of_the_first(signature="x"), "a signature is not its certificate's"),
        (SIGNATURES, of_the_first(certificate="x"), "a signature is not its certificate's"),
        (SIGNATURES, of_the_first(said="{}"), "a signature is not its certificate's"),
        (SIGNATURES, lambda f: f["signed"][0].update(f["signed"][1]), "certificates|once"),
        (SIGNATURES, lambda f: f.update(schema=2), "schema"),
    ],
)
def test_whatever_is_changed_is_refused(name: str, change: Change, said: str, results: Path) -> None:
    edit(results / name, change)
    with pytest.raises(SignatureError, match=said) as raised:
        verify(results)
    assert "do not use these results" in str(raised.value)


def test_every_byte_of_a_signed_statement_counts(results: Path) -> None:
    whole = (results / SIGNATURES).read_bytes()
    first = whole.index(b'"said"') + 9
    last = whole.index(b'"', whole.index(b"}", first))
    for place in range(first, last, 7):
        (results / SIGNATURES).write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(SignatureError):
            verify(results)


@pytest.mark.parametrize(
    ("parties", "changes", "said"),
    [
        ([1], {"outputs": {"counts": [5, 7, 1, 12]}}, "parties 0 and 1 signed different runs"),
        ([1], {"spent": ("1/100", "0")}, "parties 0 and 1 signed different runs"),
        ([1], {"ran": {"party": 1, "uploads": "bb"}}, "parties 0 and 1 signed different runs"),
        ([1], {"ran": {"party": 1, "program_hash": "1"}}, "parties 0 and 1 signed different runs"),
        ([1], {"ran": {"party": 1, "asked": asked(epsilon="2")}}, "parties 0 and 1 signed different runs"),
        ([1], {"met": {"0": "x", "2": "y"}}, "party 1 met parties of other certificates"),
        ([0, 1, 2], {"spent": ("1/100", "0")}, "another ε or δ than this version computes"),
        ([0, 1, 2], {"outputs": {"counts": [4, 7, 1]}}, "no result follows"),
        ([0, 1, 2], {"outputs": {}}, "no result follows"),
        ([0, 1, 2], {"ran": {"asked": asked(input_form="keys")}}, "no result follows"),
    ],
)
def test_what_hosts_sign_is_the_same_and_makes_a_result(
    parties: list[int], changes: dict[str, Any], said: str, results: Path, keys: list[Path]
) -> None:
    write(results, [statement(i, keys, **(changes if i in parties else {})) for i in range(3)], keys)
    with pytest.raises(SignatureError, match=said):
        verify(results)


@pytest.mark.parametrize(
    ("ran", "said"),
    [
        ({"inputs": {**INPUTS, "clients": "x"}}, "expected `int`, got `str` at .clients"),
        ({"inputs": {**INPUTS, "clients": True}}, "expected `int`, got `bool` at .clients"),
        ({"inputs": {**INPUTS, "clients": 1e308}}, "expected `int`, got `float` at .clients"),
        ({"inputs": {**INPUTS, "clients": -5}}, "expected `int` >= 0 at .clients"),
        ({"inputs": {**INPUTS, "clients": 10**90}}, "expected `int` <= 9223372036854775807 at .clients"),
        ({"inputs": {**INPUTS, "excluded_because": 5}}, "expected `object`, got `int` at .excluded_because"),
        ({"inputs": {**INPUTS, "excluded_because": {"late": "x"}}}, "expected `int`, got `str`"),
        (
            {"inputs": {**INPUTS, "excluded_because": {"late": -1}}},
            "expected `int` >= 0 at .excluded_because",
        ),
        ({"inputs": {}}, "object missing required field `clients`"),
        ({"source": "x"}, "a source of inputs that this version does not know"),
        ({"compared": "x"}, "expected `int`, got `str` at .ran.compared"),
        ({"compared": 1.5}, "expected `int`, got `float` at .ran.compared"),
        ({"compared": -1}, "its numbers of comparisons and attempts cannot be"),
        ({"attempts": 10**7}, "its numbers of comparisons and attempts cannot be"),
        ({"attempts": [1]}, "expected `int`, got `array` at .ran.attempts"),
    ],
)
def test_what_hosts_sign_of_another_type_or_size_is_refused_in_one_sentence(
    ran: dict[str, Any], said: str, results: Path, keys: list[Path]
) -> None:
    write(results, [statement(i, keys, {"party": i, **ran}) for i in range(3)], keys)
    with pytest.raises(SignatureError, match=rf"{said}.*; do not use these results") as raised:
        verify(results)
    assert len(str(raised.value)) < 1000


def test_a_starter_that_signs_itself_has_other_certificates(
    results: Path, keys: list[Path], tmp_path: Path
) -> None:
    """Its keys fit its words; so the fingerprints have to be those that the hosts' owners say."""
    (tmp_path / "own").mkdir()
    own = [make_key(tmp_path / "own", f"P{i}", f"MPyC party {i}") for i in range(3)]
    write(results, [statement(i, own) for i in range(3)], own)
    known = {fingerprint(path.read_bytes()) for path in keys}
    assert not known & {text for _, text in verify(results)}


def test_what_is_signed_before_a_run_is_no_result(results: Path, keys: list[Path]) -> None:
    signed = [asdict(sign(statement(i, keys).ran, path)) for i, path in enumerate(keys)]
    said = [json.dumps(asdict(statement(i, keys)), sort_keys=True) for i in range(3)]
    forged = [{**one, "said": text} for one, text in zip(signed, said, strict=True)]
    for wrong in (signed, forged):
        write_json(results / SIGNATURES, {"schema": SCHEMA, "signed": wrong})
        with pytest.raises(SignatureError, match="a signature is not its certificate's"):
            verify(results)


def test_a_result_that_nobody_signed_beside_others(results: Path) -> None:
    write_json(results / "thresholds.json", {"schema": 1})
    with pytest.raises(SignatureError, match=r"they signed nothing that gives thresholds\.json"):
        verify(results)


def test_other_hosts_than_the_known_ones(results: Path, keys: list[Path]) -> None:
    known = [fingerprint(path.read_bytes()) for path in keys]
    assert len(verify(results, known)) == 3
    for others in (known[::-1], known[:2], []):
        with pytest.raises(SignatureError, match="other hosts signed than --fingerprints names"):
            verify(results, others)


def with_run_certificates(keys: list[Path], place: Path) -> list[Statement]:
    """Return what hosts sign whose parties had keys of the run."""
    place.mkdir()
    shown = [make_key(place, f"P{i}", f"MPyC party {i}").read_text() for i in range(3)]
    names = [fingerprint(text.encode()) for text in shown]
    return [
        statement(
            i,
            keys,
            {"party": i, "run_certificate": shown[i]},
            met={str(j): name for j, name in enumerate(names) if j != i},
        )
        for i in range(3)
    ]


def test_links_met_the_keys_that_the_owners_certified_for_the_run(keys: list[Path], tmp_path: Path) -> None:
    """Signers have the certificates that their owners tell. In results of 1.0 the links met those."""
    results = written_results(tmp_path / "results", keys, of_1_0=False)
    known = [fingerprint(path.read_bytes()) for path in keys]
    made = with_run_certificates(keys, tmp_path / "run")
    write(results, made, keys)
    assert [text for _, text in verify(results, known)] == known
    by_owners = [replace(one, met=statement(i, keys).met) for i, one in enumerate(made)]
    another = with_run_certificates(keys, tmp_path / "another")
    for wrong, said in (
        (by_owners, "party 0 met parties of other certificates"),
        ([*made[:2], another[2]], "party 0 met parties of other certificates"),
        ([*made[:2], statement(2, keys)], "not each of them names the certificate of its key for the run"),
    ):
        write(results, wrong, keys)
        with pytest.raises(SignatureError, match=said):
            verify(results, known)
