"""Noise made ahead, in every model: its distribution, its one use, and what is said of it."""

import ast
import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairshares.harness.engines.execution import (
    PROGRAMS,
    DistributedNoiseInput,
    EngineResult,
    Job,
    PrivateJob,
    ValueFiles,
)
from fairshares.harness.engines.registry import engine_of
from fairshares.harness.errors import PartyFailedError
from fairshares.harness.inputs.record_schema import RecordDomain
from fairshares.harness.pipeline.preprocessing import joint_noise_of, noise_job, preprocess, taken, terms_of
from fairshares.harness.privacy.ledger.entries import Ledger
from fairshares.harness.privacy.statement import state_privacy
from fairshares.harness.privacy.stock import Piece, Stock
from fairshares.harness.releases.base import PreparedRelease
from fairshares.harness.releases.weights.request import WeightsRequest
from fairshares.harness.releases.weights.statistic import WeightsStatistic
from fairshares.harness.request.request import Protect
from fairshares.harness.security_models import MODELS, SecurityModel
from fairshares.protocols.circuits.coins import coins_of_magnitude
from fairshares.protocols.noise.truncated import probability_mass
from fairshares.protocols.spec import PI_SUM_OFFLINE
from tests.support.command import CODES, call, refused, succeed
from tests.support.distribution import distance, dkw_bound
from tests.support.running import QUICKEST, RUN_TIMEOUT_S, model_parameters, run_job
from tests.support.surroundings import scratch_below, small_disk

DOMAIN = RecordDomain(tuple(map(str, range(40))), tuple(map(str, range(50))))
RECORDS = "client_id,group,label,x\n" + "".join(
    f"{i},{'ab'[i % 2]},{i % 3 % 2},{i % 3 / 2}\n" for i in range(60)
)
REQUEST = ("weights", "--epsilon", "1", "--groups", "a,b", "--labels", "0,1", "--security", QUICKEST)
RUN = (*REQUEST, "--records", "records.csv", "--population", "people", "--offline")


TRAIN = ("train", "--features", "features.json", "--epsilon", "9", "--rounds", "2", "--security", QUICKEST)


def prepared_by(model: SecurityModel, domain: RecordDomain = DOMAIN) -> PreparedRelease[Any]:
    request = WeightsRequest(epsilon=1, security=model, offline=True)
    return WeightsStatistic().prepare(request, domain)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FAIRSHARES_LEDGER", str(tmp_path / "ledger.sqlite"))
    (tmp_path / "records.csv").write_text(RECORDS)
    (tmp_path / "features.json").write_text('{"x": {"low": 0, "high": 1}}')
    return tmp_path


def opened(model: SecurityModel, prepared: PreparedRelease[Any], piece: Piece, at: Path) -> list[int]:
    """Return the noise that a run with this piece adds to the columns of all parties."""
    nodes, columns = prepared.plan.nodes, []
    for party in range(model.parties):
        column = np.arange(nodes, dtype=np.int64) * (party + 1)
        (at / f"column-{party}").write_bytes(model.ring.to_bytes(model.ring.encode(column)))
        columns.append(at / f"column-{party}")
    job = PrivateJob(
        PI_SUM_OFFLINE,
        PROGRAMS / "pi_sum_offline.mpc",
        (str(model.parties), str(nodes)),
        ValueFiles(tuple(columns)),
        own=DistributedNoiseInput(nodes, nodes, tuple((node,) for node in range(nodes))),
        pieces=piece.parties,
    )
    sums = run_job(job, model, at / "run").outputs["sums"]
    return [total - at * sum(range(1, model.parties + 1)) for at, total in enumerate(sums)]


def piece_of(prepared: PreparedRelease[Any], at: Path, number: int = 1) -> list[Piece]:
    stock = Stock(at / "stock")
    noise = joint_noise_of(prepared)
    preprocess(noise, stock, number, RUN_TIMEOUT_S, print)
    return [taken(noise, stock, at / f"piece-{i}") for i in range(number)]


@pytest.mark.parametrize("model", model_parameters())
def test_sums_have_the_distribution_of_joint_noise(model: SecurityModel, tmp_path: Path) -> None:
    """The released values less the columns, of 2,000 values; DKW, 10^-9 of false alarms."""
    prepared = prepared_by(model)
    (piece,) = piece_of(prepared, tmp_path)
    noise = opened(model, prepared, piece, tmp_path)
    expected = {x: float(p) for x, p in probability_mass(prepared.plan.coins).items()}
    assert distance(noise, expected) < dkw_bound(prepared.plan.nodes)
    assert not any(file.is_file() for party in piece.parties for file in party.rglob("*"))


def test_noise_is_for_one_model_domain_and_guarantee() -> None:
    """And for one engine and program: their hash is among the terms."""
    model = MODELS[QUICKEST]
    first = prepared_by(model)
    others = [
        prepared_by(model, replace(DOMAIN, labels=DOMAIN.labels[1:])),
        WeightsStatistic().prepare(first.release.but(Protect.epsilon, Fraction(2)), DOMAIN),
        WeightsStatistic().prepare(first.release.but(Protect.delta, Fraction(1, 2**50)), DOMAIN),
    ]
    if model.name != "mpyc":
        others.append(prepared_by(MODELS["mpyc"]))
    assert len({terms_of(joint_noise_of(prepared)) for prepared in [first, *others]}) == 1 + len(others)
    assert terms_of(joint_noise_of(prepared_by(model))) == terms_of(joint_noise_of(first))


def test_failures_of_all_runs_count() -> None:
    """Of the release, and of each attempt to make its noise."""
    prepared = prepared_by(MODELS["spdz2k"])
    assert state_privacy(prepared, 0, 3).failure == 4 * state_privacy(prepared, 0).failure > 0
    full = " ".join(state_privacy(prepared, 0, 3).in_full())
    assert "made before the run" in full and state_privacy(prepared, 0, 3).stated.made_ahead
    assert "made before the run" not in " ".join(state_privacy(prepared, 0).in_full())


def test_what_fails_leaves_nothing_but_that_it_was_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(job: Job, *_: object) -> EngineResult:
        assert job.pieces is not None
        job.pieces[0].mkdir(parents=True)
        (job.pieces[0] / "key").write_text("of a check that failed")
        raise PartyFailedError("A check failed.")

    prepared, stock = prepared_by(MODELS[QUICKEST]), Stock(tmp_path / "stock")
    monkeypatch.setattr(type(engine_of(MODELS[QUICKEST])), "run", lambda _, *given: fail(*given))
    with pytest.raises(PartyFailedError):
        preprocess(joint_noise_of(prepared), stock, 1, RUN_TIMEOUT_S, print)
    assert [path.name for path in stock.directory.rglob("*") if path.is_file()] == ["attempts"]
    assert stock.next_attempt(terms_of(joint_noise_of(prepared))) == 2


def test_a_job_that_makes_noise_draws_the_bits_of_all_its_coins() -> None:
    prepared = prepared_by(MODELS["ring"])
    job = noise_job(joint_noise_of(prepared), [Path()] * 3)
    job.check_parties(MODELS["ring"])
    coins = coins_of_magnitude(prepared.plan.coins)
    assert isinstance(prepared.plan.coins, tuple), "there is no coin for zero"
    assert sum(width for width, _ in job.fair_bits) == 1 + sum(coin.bits for coin in coins)


def test_a_run_takes_a_piece_and_says_so(here: Path) -> None:
    told = json.loads(succeed(*REQUEST, "--preprocess", "2", "--json", cwd=here))
    assert [piece["attempts"] for piece in told["pieces"]] == [1, 1]
    (terms,) = (here / "stock").iterdir()
    succeed(*RUN, "--out", "first", cwd=here)
    manifest = json.loads((here / "first" / "manifest.json").read_text())
    assert manifest["preprocessing"]["mpc_s"] > 0 and manifest["privacy"]["made_ahead"]
    (left,) = (piece_left.name for piece_left in terms.iterdir())
    assert manifest["preprocessing"]["piece"] != left
    said = refused(*RUN, "--delta", "2^-50", "--out", "second", cwd=here)
    assert "no noise for this release" in said and len(list(terms.iterdir())) == 1


def test_a_training_takes_a_piece_and_says_so(here: Path) -> None:
    """Once; one of another δ has none."""
    declared, ran = ("--groups", "a,b", "--labels", "0,1"), ("--records", "records.csv", "--offline")
    told = json.loads(succeed(*TRAIN, *declared, "--preprocess", "1", "--json", cwd=here))
    (terms,) = Path(told["stock"]).iterdir()
    assert "no noise for this release" in refused(*TRAIN, *ran, "--delta", "1e-6", cwd=here)
    succeed(*TRAIN, *ran, "--population", "people", "--out", "out", cwd=here)
    manifest = json.loads((here / "out" / "manifest.json").read_text())
    assert manifest["preprocessing"]["attempts"] == 1 and manifest["privacy"]["made_ahead"]
    assert list(terms.iterdir()) == [] and len(Ledger(here / "ledger.sqlite").populations()) == 1
    assert "make some beforehand by --preprocess" in refused(*TRAIN, *ran, cwd=here)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((*REQUEST, "--preprocess", "1", "--records", "records.csv"), "leave out --records"),
        (("weights", "--epsilon", "1", "--preprocess", "1"), "Noise depends on the domain"),
        ((*REQUEST, "--preprocess", "0"), "--preprocess must be"),
        ((*RUN, "--noise", "distributed"), "--offline is for joint noise"),
        ((*RUN, "--privacy-unit", "client", "--cap", "auto"), "--cap auto divides ε; leave that out"),
        ((*REQUEST, "--preprocess", "1", "--cap", "auto"), "--cap auto divides ε; leave that out"),
        ((*TRAIN, "--preprocess", "1", "--records", "records.csv"), "leave out --records"),
        ((*TRAIN, "--preprocess", "1"), "Noise depends on the domain"),
        ((*TRAIN, "--records", "records.csv", "--offline", "--noise", "distributed"), "only joint noise"),
        (RUN, "make some beforehand by --preprocess"),
    ],
)
def test_mistakes(options: tuple[str, ...], said: str, here: Path) -> None:
    assert said in refused(*options, cwd=here)


def statements(name: str) -> list[str]:
    tree = ast.parse((PROGRAMS / f"{name}.mpc").read_text(encoding="utf-8"))
    return [ast.unparse(node) for node in tree.body if not isinstance(node, ast.ImportFrom)]


def test_programs_are_these() -> None:
    """No value is opened without noise, no noise is opened, and checks come before what they guard."""
    assert statements("pi_preprocess") == [
        "_, parties, nodes, *law = program.args",
        "parties, nodes = (int(parties), int(nodes))",
        "noise = noise_by_law(sint, sbitvec, parties, nodes, *law)",
        "check_point()",
        "sint.write_to_file(noise)",
        "print_ln('OUT made %s', cint(nodes))",
    ]
    assert statements("pi_sum_offline") == [
        "_, parties, nodes = program.args",
        "parties, nodes = (int(parties), int(nodes))",
        "sums = input_columns(sint, parties, nodes)",
        "_, (noise,) = sint.read_from_file(0, size=nodes)",
        "noisy = sums + noise",
        "check_point()",
        "print_ln('OUT sums %s', noisy.reveal())",
    ]


def test_disks_that_are_full_or_other_ones(here: Path) -> None:
    """No piece is made where there is no room; results may be on another disk than the stock."""
    disk, spent = here / "disk", Ledger(here / "ledger.sqlite")
    with small_disk(disk, 16):
        done = call(*REQUEST, "--preprocess", "2", "--stock", "disk/stock", cwd=here)
        assert (
            done.returncode in CODES and done.stderr.count("Error: ") == 1 and "Traceback" not in done.stderr
        )
        assert "No space left on device" in done.stderr and scratch_below(here) == []
        assert [path.name for path in disk.rglob("*") if path.is_file()] in ([], ["attempts"])
    with small_disk(disk, 1024):
        succeed(*REQUEST, "--preprocess", "1", cwd=here)
        assert not spent.populations()
        succeed(*RUN, "--out", "disk/out", cwd=here)
        assert (disk / "out" / "manifest.json").exists()
    assert list(here.glob("stock/*/*")) == [] and len(spent.populations()) == 1
