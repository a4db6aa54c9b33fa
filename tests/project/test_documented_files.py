"""The page of files has every field that is written or read, and no other; so it is with variables."""

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, fields as fields_of, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec import to_builtins

import fairshares as fs
from benchmarks.emulation.links import as_measured
from fairshares.harness.charged import BegunCharge
from fairshares.harness.engines.mpspdz.engine import MpSpdzEngine
from fairshares.harness.evaluation.metrics import METRICS
from fairshares.harness.hosts import fleet
from fairshares.harness.hosts.health import look_at
from fairshares.harness.hosts.host_log import LOG_FILE, Event, HostLog
from fairshares.harness.hosts.inventory import Host
from fairshares.harness.hosts.local_host import LocalHost
from fairshares.harness.hosts.messages import Check
from fairshares.harness.hosts.policy import Policy, PopulationEntry
from fairshares.harness.hosts.setup import exported, set_up_here
from fairshares.harness.hosts.signed_results import (
    SCHEMA,
    InputSource,
    Intent,
    Statement,
    sign,
    what_hosts_ran,
)
from fairshares.harness.inputs import record_schema
from fairshares.harness.inputs.record_schema import RecordDomain, domain_from_json
from fairshares.harness.online.client import Invitations
from fairshares.harness.online.session import Server
from fairshares.harness.pipeline.sources import terms_of
from fairshares.harness.postprocessing.thresholds.predictor import GroupThresholdPredictor
from fairshares.harness.postprocessing.thresholds.rules import ThresholdRule
from fairshares.harness.privacy.ledger.entries import Ledger
from fairshares.harness.privacy.ledger.populations import AskedRun, PrivacyEvent
from fairshares.harness.privacy.statement import state_privacy
from fairshares.harness.releases.base import statistic_of
from fairshares.harness.releases.files import file_to_json
from fairshares.harness.releases.sums.request import RevealRequest
from fairshares.harness.request.networks import LAN
from fairshares.harness.security_models import get_model
from fairshares.harness.system.documents import as_json
from fairshares.harness.training.declared_training import DeclaredTraining
from fairshares.harness.training.fairness import FairGrad
from fairshares.harness.training.features import features_from_json
from fairshares.harness.training.logistic import Descent
from fairshares.harness.training.round_file import ROUND_FILE
from fairshares.harness.uploads.envelope_files import StoredFiles
from fairshares.harness.uploads.locked_keys import LockedKeys
from fairshares.harness.uploads.signatures import Signed
from fairshares.harness.views.ledger import to_json
from fairshares.protocols.accounting.calibration import NeighboringRelation, PrivacyUnit
from fairshares.protocols.guarantee import Guarantee
from fairshares.protocols.json_values import JsonValue
from fairshares.protocols.spec import SPLIT
from tests.conftest import PROJECT
from tests.support.command import call
from tests.support.requests import request_of
from tests.support.sharing import trial_by_command

REFERENCE = PROJECT / "docs" / "reference"
HEADING = re.compile(r"## (?:`(.+)`|.*)")
ROW = re.compile(r"\| (`[^`]+`(?:, `[^`]+`)*) \|")
RECORDS = ["a,0,.9,1,1", "a,1,.8,1,.5", "b,1,.7,1,1", "b,0,.1,0,.5"] * 5


def documented(page: str) -> dict[str, list[str]]:
    """Return the fields on the page, by the heading that they are below."""
    fields: dict[str, list[str]] = {}
    rows = fields.setdefault("", [])
    for line in page.splitlines():
        if heading := HEADING.fullmatch(line):
            rows = fields.setdefault(heading[1] or line, [])
        elif row := ROW.match(line):
            rows += re.findall("`([^`]+)`", row[1])
    return fields


def written_in(value: Any, place: str = "") -> Iterator[str]:
    """Yield the fields of a document, as the page writes them."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from written_in(inner, f"{place}.{name}" if place else name)
    elif isinstance(value, list) and any(isinstance(item, dict) for item in value):
        for item in value:
            yield from written_in(item, f"{place}[]")
    else:
        yield place


def pattern(field: str) -> re.Pattern[str]:
    """Return what a field on the page stands for: `<group>` for any name, `.*` at its end for all below."""
    text = re.sub(r"<\w+>", "[^.]+", re.escape(field.removesuffix(".*")))
    return re.compile(text + (r"[.\[].+" if field.endswith(".*") else ""))


def missing(written: Iterable[str], listed: Iterable[str]) -> set[str]:
    """Return the fields that are written and not listed."""
    patterns = [pattern(field) for field in listed]
    return {
        field for field in written if not any(listed_pattern.fullmatch(field) for listed_pattern in patterns)
    }


def in_vain(written: Iterable[str], listed: Iterable[str]) -> set[str]:
    """Return the fields that are listed and not written."""
    fields = list(written)
    return {
        field
        for field in listed
        if not any(pattern(field).fullmatch(written_field) for written_field in fields)
    }


LISTED = documented((REFERENCE / "files.md").read_text(encoding="utf-8"))
HERE = not any(MpSpdzEngine().availability(get_model(model)) for model in ("ring", "rep4-ring"))
MODEL: Any = "ring" if HERE else "mpyc"  # which takes longer


def made(place: Path, *words: str) -> None:
    """Run a command, which has to work."""
    done = call(*words, cwd=place)
    assert done.returncode == 0, done.stderr


def release(place: Path, task: str, *options: str, security: str = MODEL) -> Path:
    """Run a release; return the directory of its files."""
    out = place / f"run-{len(list(place.iterdir()))}"
    given = () if "--shares" in options else ("--records", "records.csv")
    made(place, task, *given, "--epsilon", "9", "--security", security, "--out", str(out), *options)
    return out


def run_all(place: Path) -> Iterator[Path]:
    """Run what together writes every field that can be written here; yield the directories."""
    capped = ("--privacy-unit", "client", "--max-count", "10")
    charged = ("--ledger", "ledger.sqlite", "--population")
    yield (
        chosen := release(place, "weights", *capped, "--cap", "auto", *charged, "others")
    )  # without a budget
    yield chosen.with_name(f"{chosen.name}-cap")
    yield release(
        place, "weights", "--groups", "a,b", "--labels", "0,1", "--max-count", "1",
        "--neighboring-relation", "add_or_remove_one", *charged, "people", "--budget", "20,1e-6",
    )  # fmt: skip
    rule = ("--budget", "20,1e-6,renyi")
    yield release(place, "confusion", "--input-form", "product", *charged, "filtered", *rule)
    fs.weights(group=[0, 1] * 9, label=[0, 0, 1] * 6, epsilon=9, security=MODEL, out=place / "numbers")
    yield place / "numbers"
    yield (curves := release(place, "thresholds", "--tolerance", "1", "--domain", "domain.json"))
    made(place, "thresholds", "--curves", str(curves), "--tolerance", "1", "--out", "again")
    yield place / "again"
    yield release(
        place, "thresholds", "--tolerance", "1", "--domain", "domain.json", "--noise", "distributed"
    )
    rows = [f"c,{'ab'[i % 2]},{i % 3},0.{i % 7},0.{i % 8},0.{i % 9}" for i in range(600)]
    header = "client_id,group,label,score_0,score_1,score_2"
    (place / "three.csv").write_text("\n".join([header, *rows]))
    (place / "three.json").write_text('{"groups": ["a", "b"], "labels": ["0", "1", "2"], "thresholds": 3}')
    made(place, "thresholds", "--records", "three.csv", "--domain", "three.json", "--tolerance", "1",
         "--epsilon", "9", "--security", MODEL, "--out", "three")  # fmt: skip
    yield place / "three"
    rule = ("--budget", "20,1e-6,2")
    yield release(place, "gap", "--groups", "a,b", "--range", "0,1", *charged, "declared", *rule)
    with_domain = ("--groups", "a,b", "--labels", "0,1", "--stock", "stock")
    made(place, "weights", *with_domain, "--epsilon", "9", "--security", MODEL, "--preprocess", "1")
    yield release(place, "weights", *with_domain, "--offline", "--ledger", "of-pieces.sqlite")
    yield release(place, "count", "--error-to", "200", security="mpyc")
    (place / "features.json").write_text(
        '{"score": {"low": 0, "high": 1}, "group2": {"categories": ["a", "b"]}}'
    )
    rows = (place / "records.csv").read_text().splitlines()
    groups = ["group2", *(row.split(",")[1] for row in rows[1:])]
    (place / "features.csv").write_text("\n".join(map(",".join, zip(rows, groups, strict=True))))
    made(place, "train", "--records", "features.csv", "--features", "features.json", "--epsilon", "9",
         "--rounds", "2", "--with", "fairgrad", "--security", MODEL, "--out", "train")  # fmt: skip
    yield place / "train"
    of_five = ("--security", "mpyc", "--parties", "5")
    made(place, "noise", "--n", "1", "--epsilon", "1", *of_five, "--out", "noise")
    yield place / "noise"
    made(place, "audit", "--sampler", "default", "--out", "audit")
    yield place / "audit"
    if HERE:
        yield release(place, "weights", "--input-path", "clients")
        yield release(place, "weights", *capped, "--cap", "2", security="rep4-ring")


def shared(place: Path) -> Iterator[tuple[str, Any]]:
    """Take the steps of clients and parties; yield what they write, by its name on the page."""
    declared = ("--groups", "a,b", "--labels", "0,1", "--cap", "1", "--max-count", "10")
    trial_by_command("shares", get_model(MODEL), *declared, "--epsilon", "20", cwd=place)
    for k in range(2):
        (place / "one.csv").write_text(f"client_id,group,label\nc{k},a,0\n")
        made(
            place, "share", "--task", "shares/task.json", "--records", "one.csv", "--out", "shares",
            "--counted", "counted.json",
        )  # fmt: skip
    own = place / "shares" / "party-0"
    _, damaged = sorted(own.iterdir())
    damaged.write_bytes(b"?")
    for i in (2, 1, 0):
        keys = ("--party", str(i), "--keys", f"shares/keys-{i}")
        party = ("--task", "shares/task.json", *keys, "--shares", "shares")
        made(place, "uploads", *party, "--out", f"lists/party-{i}.uploads")
    listed = place / "lists" / "party-0.uploads"
    yield "party-<i>.uploads", json.loads(listed.read_text().splitlines()[0])
    made(place, "aggregate", *party, "--uploads", "lists", "--out", "added-up")
    yield "<name>.aggregate", json.loads((place / "added-up").read_bytes().splitlines()[0])
    out = release(
        place, "weights", "--shares", "shares", "--privacy-unit", "client", "--ledger", "used.sqlite"
    )
    yield "manifest.json", json.loads((out / "manifest.json").read_text())
    yield "<counted>.json", json.loads((place / "counted.json").read_text())
    chain = release(
        place, "weights", "--shares", "shares", "--privacy-unit", "client", "--ledger", "chain.sqlite",
        "--chain", "monthly", "--population", "people",
    )  # fmt: skip
    made(place, "weights", "--add", str(chain), "--out", "added")
    yield "manifest.json", json.loads((place / "added" / "manifest.json").read_text())


def others(place: Path) -> Iterator[tuple[str, Any]]:
    """Yield what is written in the course of runs that would take long, by the functions that write it."""
    declared: dict[str, JsonValue] = {"groups": ["a", "b"], "labels": ["0", "1"], "max_count": 1}
    domain = domain_from_json(declared, "here")
    asked = request_of(
        get_model("ring"),
        SPLIT,
        Fraction(1),
        Fraction(1, 2**40),
        relation=NeighboringRelation.REPLACE_ONE,
        unit=PrivacyUnit.RECORD,
    )
    server = Server("h", 1, "c", Signed("said", "signature", "certificate"))
    with Invitations([("certificate", "key")], terms_of(asked, domain), place).begin([server], BegunCharge()):
        yield "client-<k>.json", json.loads((place / "client-0.json").read_text())
    yield "manifest.json", {"network": to_builtins(as_measured(LAN, 0.001, 1e9))}
    run = asked.to_json()
    counts: dict[str, JsonValue] = {"clients": 1, "uploads": 1}
    intent = Intent(
        ["n"], 0, "", "", run, domain.to_json(), InputSource.UPLOADS, counts, "", "", "", 0, {"0": ""}
    )
    intent = replace(intent, seen={"1": "0"}, had=["0"])
    statement = Statement(intent, {"1": ""}, ("1", "0"), {"counts": [1]}, {"why": 1}, "")
    others = [replace(statement, ran=replace(intent, party=i)) for i in (1, 2)]
    kept = [fleet.KeptStatement(said, asked) for said in (statement, *others)]
    yield "<run>.json", to_builtins(fleet.leftover_run(kept))
    yield "<run>.json", to_builtins(fleet.leftover_run(kept[:1]))
    loss = Guarantee(Fraction(1), Fraction(0))
    event = PrivacyEvent("weights", "ring", loss, PrivacyUnit.RECORD, NeighboringRelation.REPLACE_ONE, place)
    ledger = Ledger(place / "ledger-of-a-host.sqlite")
    ledger.charge("people", None, replace(event, asked_by=AskedRun("0" * 32, "alice")))
    yield "ledger --json", to_json(ledger.path, ledger.populations())
    set_up_here(place / "host", 0, renew=False, policy_text=None, others=[], models=["ring"])
    HostLog(place / "host", "").write(Event.REFUSED, "propose", "why")
    for line in (place / "host" / LOG_FILE).read_text().splitlines():
        yield "log.jsonl", json.loads(line)
    yield "keys.locked", to_builtins(LockedKeys(salt="", nonce="", sealed=""))
    broken = fleet.Finding(Host(party=0, address="h", directory="/d", project="/p", port=1), {"ssh": "why"})
    facts = LocalHost(place / "host", ExitStack(), "").check(
        Check(party=0, security="mpyc", parties=None, port=0, client_ports=[])
    )
    sound = fleet.Finding(broken.host, {}, fleet.HostAnswer(facts, 0.0))
    yield "hosts.check --json", [broken.to_json(), sound.to_json()]
    found = replace(look_at(place / "host"), uploads=StoredFiles(1, 1, 1, 0), faults={"log": "why"})
    yield "hosts.check --directory --json", found.to_json()
    own = place / "host" / "keys" / "embedded" / "P0.pem"
    yield "manifest.json", {"hosts": to_builtins(what_hosts_ran(intent))}
    signed = sign(statement, own)
    yield "signatures.json", {"schema": SCHEMA, "signed": [asdict(signed)]}
    yield "signatures.json", {"said": json.loads(signed.said)}
    yield "party-<i>.certificates", json.loads(exported(place / "host", 0).read_text())
    set_up_here(place / "host", 0, renew=True, policy_text=None, others=[], models=["mpyc"])
    renewed = json.loads(exported(place / "host", 0).read_text())
    yield "party-<i>.certificates", renewed
    (of_engine, *_) = renewed["successors"].values()
    yield "party-<i>.certificates", {"said": json.loads(of_engine[0]["said"])}
    yield "P<i>.history", json.loads((place / "host" / "keys" / "embedded" / "P0.history").read_text())
    reveal = RevealRequest(epsilon=9, security="mpyc", noise="distributed", upload_task="0" * 64, reveal=1)
    vectors = {"coordinates": 1, "clip": 1.0, "reveals": 2, "participations": 1, "reveal": 1}
    sums = statistic_of(reveal).prepare(reveal, domain_from_json({"vectors": vectors}, "here"))
    of_sums = state_privacy(sums, 0).stated
    yield "manifest.json", {"privacy": as_json(of_sums)}
    for file in sums.read({"sums": (1,)}, 1).files(of_sums):
        yield file.file_name, file_to_json(file)
    features = features_from_json(
        {"age": {"low": 0, "high": 1}, "sector": {"categories": ["a", "b"]}}, "here"
    )
    fairgrad = FairGrad("equalized_odds", 2, 2, 1)
    training = DeclaredTraining(RecordDomain(("a", "b"), ("0", "1")), features, Descent(1), fairgrad)
    state = replace(training.begun(), weights=np.ones((2, 2)))
    yield ROUND_FILE, json.loads(training.round_text("0" * 64, 1, state, None))
    GroupThresholdPredictor({"a": ThresholdRule((0.0, 0.5, 1.0), (0.25, 0.5, 0.25))}).save(place)
    yield "thresholds.json", json.loads((place / "thresholds.json").read_text())
    yield "thresholds.json", {"thresholds": {"a": ThresholdRule((0.0, 1.0), (0.5, 0.5)).to_json()}}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """Return the fields that are written here, by file."""
    place = tmp_path_factory.mktemp("documented")
    rows = [f"c{k},{row}" for k, row in enumerate(RECORDS)]
    (place / "records.csv").write_text("\n".join(["client_id,group,label,score,prediction,value", *rows]))
    (place / "domain.json").write_text('{"groups": ["a", "b"], "labels": ["0", "1"], "thresholds": 11}')
    fields: dict[str, set[str]] = {}
    for directory in run_all(place):
        for file in directory.glob("*.json"):
            fields.setdefault(file.name, set()).update(written_in(json.loads(file.read_text())))
    for name, value in [*shared(place), *others(place)]:
        fields.setdefault(name, set()).update(written_in(value))
    ledger = call("ledger", "--json", "--ledger", "ledger.sqlite", cwd=place)
    fields.setdefault("ledger --json", set()).update(written_in(json.loads(ledger.stdout)))
    return fields


def test_every_field_that_is_written_is_on_the_page(written: dict[str, set[str]]) -> None:
    assert {
        name: missed for name, fields in written.items() if (missed := missing(fields, LISTED.get(name, [])))
    } == {}


@pytest.mark.mpspdz("ring", "rep4-ring")
def test_every_field_on_the_page_is_written(written: dict[str, set[str]]) -> None:
    read = {
        "domain.json",
        "hosts.toml",
        "policy.toml",
        "evaluation.csv",
        "fairshares.toml",
        "",
    }
    assert {
        name: vain
        for name, fields in LISTED.items()
        if name not in read and (vain := in_vain(written.get(name, set()), fields))
    } == {}, "no run in `run_all` writes these fields: add one, or take them off the page"


def test_fields_that_are_read() -> None:
    assert {field.partition(".")[0] for field in LISTED["domain.json"]} == {
        field.name for field in fields_of(record_schema._Declared)
    }
    rules = {f"population[].{name}" for name in PopulationEntry.__annotations__}
    assert set(LISTED["policy.toml"]) == {*(rule.name for rule in fields_of(Policy)), *rules} - {"population"}
    assert set(LISTED["hosts.toml"]) == {field.name for field in fields_of(Host)}
    assert LISTED["evaluation.csv"] == ["split", "model", *METRICS]


def test_variables() -> None:
    """Those that the code asks for, and those of the libraries that a user may need."""
    page = (REFERENCE / "environment.md").read_text(encoding="utf-8")
    sources = [*PROJECT.glob("harness/**/*.py"), *PROJECT.glob("fairshares/*.py")]
    code = "\n".join(source.read_text(encoding="utf-8") for source in sources)
    asked = {
        name or re.findall(rf'^{constant} = "(\w+)"', code, re.MULTILINE)[0]
        for name, constant in re.findall(r'environ(?:\.get\(|\[)(?:"(\w+)"|([A-Z]\w+))', code)
    }
    assert set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)) == asked


@pytest.mark.parametrize(
    ("document", "page", "missed", "vain"),
    [
        ({"a": {"x": {"n": 1}}, "b": [{"c": 1}, {"d": 2}]}, "| `a.<g>.n`, `b[].c` | `d` |", {"b[].d"}, set()),
        ({"a": None}, "| `a.*` | as there |\n| `e` | |", {"a"}, {"a.*", "e"}),
        ({"a": {"b": 1}, "p": {"q": {"r": 1}}}, "| `a` | |\n| `p.*` | |", {"a.b"}, {"a"}),
    ],
)  # fmt: skip
def test_differences_are_noticed(document: Any, page: str, missed: set[str], vain: set[str]) -> None:
    listed = documented(f"## `x.json`\n\n{page}")["x.json"]
    assert (missing(written_in(document), listed), in_vain(written_in(document), listed)) == (missed, vain)
