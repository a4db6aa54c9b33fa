"""Files of an earlier version are read as they were meant; the README beside them says what they are."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from fractions import Fraction
from functools import reduce
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from harness.clients.invitations import read_invitation
from harness.engines.base import PROJECT
from harness.hosts import keys, wire
from harness.inputs.aggregation import aggregate, check_aggregates, extract_values, read_lists
from harness.inputs.record_schema import read_domain
from harness.inputs.shares import SUFFIX
from harness.pipeline.terms import read_terms
from harness.postprocessing.reweighing.sample_weight import sample_weight
from harness.postprocessing.thresholds.predictor import GroupThresholdPredictor
from harness.privacy.ledger.entries import Ledger
from harness.privacy.ledger.populations import Status
from tests.support.command import succeed
from tests.support.rings import to_integers

FILES = PROJECT / "tests" / "fixtures" / "82bd230"

# What shares open to, as its rows; clients' rows come in any order.
# k0 has (a, 0), (a, 1); k1 (b, 1), (b, 0), (b, 1); k2 (a, 0), (a, 0): scores .1 .7, .9 .2 .4, .6 .3.
SCORED = [1, 3, 6, 18, 24, 37, 42]  # cells of groups, labels and 11 bins
OPENED = {
    "split-mpyc": {(3, 1, 1, 2)},
    "split-ring": {(3, 1, 1, 2)},
    "split-capped-ring": {(3, 1, 1, 1)},  # two records of k1
    "product-mpyc": {(1, 1, 1), (0, 1, 2), (1, 2, 0)},
    "slots-mpyc": {(1, 2), (3, 4), (1, 1)},
    "slots-ring": {(2, 1), (3, 4), (1, 1)},
    "scores-split-ring": {tuple(int(cell in SCORED) for cell in range(44))},
    "keys-ring": {(cell,) for cell in SCORED},
    "scores-ring": {(1, 1, 1), (1, 0, 7), (0, 0, 9), (0, 1, 2), (0, 0, 4), (1, 1, 6), (1, 1, 3)},
    "confusion-mpyc": {(2, 1, 0, 1, 1, 0, 1, 1)},
    "confusion-product-mpyc": {(1, 1, 1), (1, 0, 0), (0, 0, 0), (0, 1, 1), (0, 0, 1), (1, 1, 0)},
    "gap-mpyc": {(50, 200, 70, 100)},  # values .5, .75 of group a, .85 of b, in 100 steps to each side
    "gap-slots-ring": {(1 + 4 * 100,), (2 + 4 * 170,), (1 + 4 * 150,)},
    "cap-ring": {(1,), (2,)},  # 2, 3 and 2 records exceed so many caps
}


def opened(aggregates: list[Path], scratch: Path) -> set[tuple[int, ...]]:
    """Return the rows that the parties' aggregates add up to."""
    header = check_aggregates(aggregates)
    parts = [extract_values(path, scratch / f"{i}.values") for i, path in enumerate(aggregates)]
    total = reduce(header.domain.add, [header.domain.from_bytes(part.read_bytes()) for part in parts])
    table = np.array(to_integers(header.domain, total)).reshape(header.columns, -1)
    assert header.clients == 3
    return set(map(tuple, table.T.tolist()))


def test_each_directory_of_shares_is_known() -> None:
    assert {path.name for path in (FILES / "shares").iterdir()} == set(OPENED)


@pytest.mark.parametrize("name", OPENED)
def test_shares_of_every_form_add_up(name: str, tmp_path: Path) -> None:
    shares = FILES / "shares" / name
    aggregates = [tmp_path / f"{i}.aggregate" for i in range(len(list(shares.iterdir())))]
    for i, path in enumerate(aggregates):
        aggregate(i, shares / f"party-{i}", path)
    assert opened(aggregates, tmp_path) == OPENED[name]


@pytest.mark.parametrize("name", ["split-mpyc", "slots-ring"])
def test_aggregates_are_read_and_written_as_they_were(name: str, tmp_path: Path) -> None:
    before = [FILES / "aggregates" / name / f"party-{i}.aggregate" for i in range(3)]
    assert opened(before, tmp_path) == OPENED[name]
    for i, path in enumerate(before):
        aggregate(i, FILES / "shares" / name / f"party-{i}", tmp_path / path.name)
        assert (tmp_path / path.name).read_bytes() == path.read_bytes()


def test_lists_of_uploads_are_read_and_written_as_they_were(tmp_path: Path) -> None:
    lists = FILES / "uploads" / "slots-ring"
    agreement = read_lists(lists)
    names = {path.name.removesuffix(SUFFIX) for path in (FILES / "shares/slots-ring/party-0").iterdir()}
    assert agreement.taken == {f"{name}:1:0" for name in names} and not agreement.left_out
    shares = str(FILES / "shares" / "slots-ring" / "party-2")
    domain = str(FILES / "domain-capped.json")
    succeed("uploads", "--party=2", "--shares", shares, "--domain", domain, "--out", "2", cwd=tmp_path)
    assert json.loads((tmp_path / "2").read_text()) == json.loads((lists / "party-2.uploads").read_text())


@pytest.mark.parametrize(
    ("source", "form"), [("shares/product-mpyc", "product"), ("aggregates/split-mpyc", "split")]
)
def test_a_run_takes_shares_and_aggregates(source: str, form: str, tmp_path: Path) -> None:
    chosen = ("--model=mpyc", "--epsilon=1", f"--input-form={form}", "--out=run")
    succeed("weights", "--shares", str(FILES / source), *chosen, cwd=tmp_path)
    inputs = json.loads((tmp_path / "run" / "manifest.json").read_text())["inputs"]
    assert inputs == {"clients": 3, "uploads": 3, "max_count": 10}


@pytest.mark.parametrize("path", sorted(FILES.glob("domain*.json")), ids=lambda path: path.stem)
def test_domains_are_read_and_written_as_they_were(path: Path) -> None:
    """Headers of shares hold them so; what a person leaves out is there written out."""
    written = read_domain(path).to_json()
    declared = json.loads(path.read_text())
    assert {name: written[name] for name in declared} == declared
    heads = [next(party.glob(f"*{SUFFIX}")) for party in (FILES / "shares").glob("*/party-0")]
    domains = [json.loads(head.read_bytes().partition(b"\n")[0])["record_domain"] for head in heads]
    assert written in domains or path.stem == "domain-values-capped"


def test_the_ledger_has_the_same_sums(tmp_path: Path) -> None:
    shutil.copy(FILES / "ledger.sqlite", tmp_path)
    (population,) = Ledger(tmp_path / "ledger.sqlite").populations()
    assert population.name == "loans" and population.budget is not None
    assert population.budget.epsilon == 3 and population.budget.delta is None
    assert population.spent.epsilon == 3 * Fraction(498501056129, 500000000000)
    assert population.spent.delta == 3 * Fraction(40641, 576460752303423488)
    assert [charge.status for charge in population.charges] == [Status.DONE] * 3


def test_results_are_loaded() -> None:
    rows = pd.DataFrame({"group": ["a", "b", "a"], "label": [0, 1, 1]})
    weights = sample_weight(FILES / "results" / "weights", rows["group"], rows["label"])
    assert weights.tolist() == [0.85, 0.6071428571428571, 2.125]
    predictor = GroupThresholdPredictor.load(FILES / "results" / "thresholds")
    assert predictor.predict([0.49, 0.61, 0.59, 0.71], sensitive_features=list("aabb")).tolist() == [
        0,
        1,
        0,
        1,
    ]


def test_curves_are_chosen_on_again(tmp_path: Path) -> None:
    shutil.copytree(FILES / "results" / "thresholds", tmp_path / "old")
    again = ("--curves=old", "--constraint=equalized_odds", "--objective=accuracy_score", "--out=new")
    succeed("thresholds", *again, cwd=tmp_path)
    old, new = (json.loads((tmp_path / name / "thresholds.json").read_text()) for name in ("old", "new"))
    assert new["thresholds"] == old["thresholds"]


def test_an_invitation_is_read() -> None:
    invitation = read_invitation(FILES / "client-0.json")
    assert invitation.client == 0 and [server.port for server in invitation.servers] == [*range(9000, 9004)]
    terms = read_terms(invitation.terms, "It")
    assert terms.domain == read_domain(FILES / "domain.json")
    assert terms.release.epsilon == 1 and terms.release.delta == Fraction(1, 10**9)


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """Return a copy of the host's directory, with keys that only their owner reads, as git keeps none."""
    directory = tmp_path / "host"
    shutil.copytree(FILES / "hosts" / "0", directory)
    directory.chmod(0o700)
    for key in directory.glob("keys/*/*.key"):
        key.chmod(0o600)
    return directory


def test_a_host_keeps_its_keys_and_those_that_it_holds_on_to(host: Path) -> None:
    own, pinned = keys.own_certificates(host, 0), keys.pinned(host)
    assert set(own) == set(pinned) and all(set(others) == {1} for others in pinned.values())
    assert keys.make_keys(host, 0, renew=False) == own


def test_the_line_in_authorized_keys_starts_the_agent(host: Path) -> None:
    line = (FILES / "authorized_keys").read_text()
    match = re.fullmatch('restrict,command="(.*)" ssh-ed25519 .*\n', line)
    assert match is not None
    command = match[1].replace(".venv/bin/python", sys.executable)
    command = command.replace("/srv/FairShares", str(PROJECT)).replace("/srv/fairshares", str(host))
    done = subprocess.run(
        ["sh", "-c", command],
        input=wire.encode({"do": "bye"}),
        stdout=subprocess.PIPE,
        env=os.environ,
        check=True,
    )
    assert wire.encode({"agent": wire.VERSION}) in done.stdout.splitlines(keepends=True)
