"""Sums of vectors: a reveal has noise for all declared ones together, and files say what was revealed."""

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from fairshares.harness.errors import OptionError, OutputError, RecordDomainError, ShareError
from fairshares.harness.inputs.record_schema import RecordDomain, RecordKind, VectorGrid, domain_from_json
from fairshares.harness.privacy.statement import state_privacy
from fairshares.harness.releases.base import statistic_of
from fairshares.harness.releases.registry import request_from_json
from fairshares.harness.releases.sums.request import RevealRequest
from fairshares.harness.releases.sums.statistic import NoisySum, SumsStatistic
from fairshares.harness.request.request import RevealInSeries
from fairshares.harness.security_models import get_model
from fairshares.protocols.circuits.gaussian import JointGaussian
from fairshares.protocols.guarantee import Guarantee
from fairshares.protocols.noise.added import DistributedNoise

GRID = VectorGrid(coordinates=3, clip=2.0, reveals=4, units=32)
DELTA = 1e-5


def domain(grid: VectorGrid = GRID) -> RecordDomain:
    return RecordDomain((), (), 1, kind=RecordKind.VECTOR, vectors=grid)


def request(**changes: Any) -> RevealRequest:
    asked = {"epsilon": "2", "security": "mpyc", "noise": "distributed", "upload_task": "0" * 64, "reveal": 1}
    return RevealRequest(**{**asked, **changes})


@pytest.mark.parametrize("reveals", [1, 4, 20])
@pytest.mark.parametrize("noise", ["joint", "distributed"])
def test_the_noise_is_as_much_as_all_reveals_need_and_hardly_more(noise: str, reveals: int) -> None:
    """Against the analytic Gaussian mechanism (Balle and Wang 2018), for all reveals of one client together.

    A client moves each sum by its norm of 32 units, and by 1 in each coordinate, which is rounded. The square
    of the norm of whole numbers is a whole number.
    """
    release = request(noise=noise)
    plan = statistic_of(release).prepare(release, domain(replace(GRID, reveals=reveals))).plan
    assert plan.rounds is not None
    found = plan.rounds.noise
    if isinstance(found, DistributedNoise):
        variance = 1 / (2 * float(found.rate))
    else:
        assert isinstance(found, JointGaussian)
        weights = np.array([weight / 2**found.bits for weight in found.weights])
        variance = float(weights @ (np.arange(len(weights)) - found.largest) ** 2)
    squares = math.floor((32 + math.sqrt(3)) ** 2)
    moved = math.sqrt(reveals * squares / variance)
    delta = norm.cdf(moved / 2 - 2 / moved) - math.exp(2) * norm.cdf(-moved / 2 - 2 / moved)
    assert 0.7 * DELTA < delta < 1.001 * DELTA
    assert plan.exact.epsilon == 2 and float(plan.exact.delta) <= DELTA


def test_the_loss_is_of_all_reveals_and_each_has_the_same_noise() -> None:
    statistic = SumsStatistic()
    plans = [
        statistic.prepare(request(reveal=number), domain(replace(GRID, reveal=number))).plan
        for number in (1, 2, 4)
    ]
    assert plans[0] == plans[1] == plans[2]
    with pytest.raises(ShareError, match="sealed for reveal 2, and this is reveal 1"):
        statistic.prepare(request(), domain(replace(GRID, reveal=2)))
    with pytest.raises(OptionError, match="No noise fits"):
        statistic.prepare(request(epsilon="1/1000000"), domain())


@pytest.mark.parametrize(("coordinates", "epsilon", "units"), [(3, 4, 64), (1000, 4, 1024), (1000, 1, 512)])
def test_a_task_has_a_grid_for_which_there_is_noise(coordinates: int, epsilon: int, units: int) -> None:
    """Of 20 reveals: rounding adds at most sqrt(1000) to 1024 units, and no noise is as large at ε = 1."""
    declared = domain(VectorGrid(coordinates=coordinates, clip=1.0, reveals=20))
    most = Guarantee(Fraction(epsilon), Fraction(1, 10**5))
    chosen = SumsStatistic.domain_of_task(declared, most, get_model("ring"))
    assert chosen.vectors is not None and chosen.vectors.units == units
    for noise in ("joint", "distributed"):
        release = request(security="ring", noise=noise, epsilon=str(epsilon))
        statistic_of(release).prepare(release, chosen)
    stated = domain(replace(GRID, units=7))
    assert SumsStatistic.domain_of_task(stated, most, get_model("ring")) == stated
    too_fine = domain(replace(GRID, units=2**30))
    with pytest.raises(OptionError, match="1073741824 units needs; declare fewer units"):
        SumsStatistic.domain_of_task(too_fine, most, get_model("ring"))
    with pytest.raises(OptionError, match="There is no noise for 20 reveals"):
        SumsStatistic.domain_of_task(declared, Guarantee(Fraction(1, 10**7), most.delta), get_model("ring"))


def test_a_reveal_s_chance_to_fail_counts_for_all_declared_ones() -> None:
    """mpyc's engine cannot fail here, and that of spdz2k fails with a probability of 2^-40 in each run."""
    release = request(security="spdz2k")
    for reveals, bits in ((1, 40), (4, 38)):
        prepared = statistic_of(release).prepare(release, domain(replace(GRID, reveals=reveals)))
        assert state_privacy(prepared, 0).stated.mpc_statistical_security_bits == bits


def test_revealed_integers_are_the_sum_in_the_vectors_own_units() -> None:
    """A unit of the grid is 2 / 32."""
    release = request(reveal=3)
    prepared = SumsStatistic().prepare(release, domain(replace(GRID, reveal=3)))
    found = prepared.read({"sums": (16, -32, 0)}, 5)
    assert found.noisy_sum.tolist() == [1.0, -2.0, 0.0] and found.vectors == 5
    (file,) = found.files(state_privacy(prepared, 0).stated)
    read = SumsStatistic.read_files([file])
    assert isinstance(read, NoisySum)
    assert (read.declared, read.vectors, read.noisy_sum.tolist()) == (
        found.declared,
        5,
        found.noisy_sum.tolist(),
    )
    with pytest.raises(OutputError, match="2 sums where 3 belong"):
        prepared.read({"sums": (1, 2)}, 5)


def test_an_impossible_sum_is_cut_to_what_clients_and_noise_allow() -> None:
    prepared = SumsStatistic().prepare(request(), domain(replace(GRID, reveal=1)))
    noise = prepared.plan.rounds.noise if prepared.plan.rounds else None
    assert isinstance(noise, DistributedNoise)
    most = 5 * 33 + 3 * noise.largest
    with pytest.warns(UserWarning, match="beyond what the clients' declared maximum"):
        found = prepared.read({"sums": (most + 1, -(2**62), 0)}, 5)
    assert found.noisy_sum.tolist() == [most / 16, -most / 16, 0]


def test_a_request_is_read_as_it_was_written_and_names_a_task() -> None:
    release = request(reveal=7)
    assert request_from_json(release.to_json()) == release
    assert release.protect.of_clients
    assert release.charged_with == "0" * 64 and release.series == RevealInSeries("0" * 64, 7)
    for changes in ({"upload_task": "0" * 63}, {"reveal": 0}, {"reveal": 10**6}, {"noise": "laplace"}):
        with pytest.raises(OptionError):
            request(**changes)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"coordinates": 0}, "1 to 16777216 coordinates, not 0"),
        ({"clip": 0}, "positive number, not 0"),
        ({"reveals": 0}, "1 to 100000 reveals, not 0"),
        ({"units": 1 << 41}, "units per clipping norm"),
        ({"largest_weight": 0}, "largest weight"),
        ({"reveal": 3}, "declares 2 reveals, and 3 is none"),
        ({"participations": 3}, "takes part in 1 to 2 of 2 reveals, not 3"),
        ({"participations": -1}, "takes part in 1 to 2 of 2 reveals, not -1"),
    ],
)
def test_what_is_no_declaration_of_vectors_is_refused(changes: dict[str, Any], sentence: str) -> None:
    declared = {"coordinates": 2, "clip": 1, "reveals": 2}
    assert domain_from_json({"vectors": declared}, "it").reveals == 2
    with pytest.raises(RecordDomainError, match=sentence):
        domain_from_json({"vectors": {**declared, **changes}}, "it")


def test_vectors_go_with_no_other_records() -> None:
    declared = {"coordinates": 2, "clip": 1, "reveals": 2}
    read = domain_from_json({"vectors": declared}, "it")
    assert domain_from_json(read.to_json(), "it").to_json() == read.to_json()
    assert read.of_reveal(2).in_all_reveals.to_json() == read.to_json()
    for more in (
        {"groups": ["a", "b"], "labels": ["0", "1"]},
        {"cap": 1},
        {"thresholds": 3},
        {"sizes": True},
    ):
        with pytest.raises(RecordDomainError):
            domain_from_json({"vectors": declared, **more}, "it")
    with pytest.raises(RecordDomainError, match="numbered from 1"):
        read.of_reveal(0)


def test_noise_is_for_as_many_reveals_as_a_client_is_in() -> None:
    """Two of four reveals have the noise of two, and the failures of four computations."""
    release = request(security="spdz2k")
    some = domain(replace(GRID, participations=2))
    prepared = SumsStatistic().prepare(release, some)
    assert prepared.plan == SumsStatistic().prepare(release, domain(replace(GRID, reveals=2))).plan
    assert prepared.plan != SumsStatistic().prepare(release, domain()).plan
    stated = state_privacy(prepared, 0)
    assert stated.stated.participations == 2 and stated.stated.mpc_statistical_security_bits == 38
    assert "each client's own program, to keep it to 2 reveals" in stated.in_short()[-1]
    (sentence,) = [one for one in stated.in_full() if one.startswith("Reveals: ")]
    assert "takes part in at most 2 of them. Its own program keeps it to that; hosts cannot tell" in sentence
    in_all = state_privacy(SumsStatistic().prepare(release, domain()), 0)
    assert not in_all.stated.participations
    assert not any("own program" in one for one in (*in_all.in_short(), *in_all.in_full()))


def test_files_say_in_how_many_reveals_a_client_is() -> None:
    declared = {"coordinates": 2, "clip": 1, "reveals": 3, "participations": 2}
    read = domain_from_json({"vectors": declared}, "it")
    assert domain_from_json(read.to_json(), "it").to_json() == read.to_json()
    assert read.of_reveal(3).in_all_reveals == read
    assert read.vectors is not None and read.vectors.to_json()["participations"] == 2
    some = domain(replace(GRID, participations=2, reveal=1))
    prepared = SumsStatistic().prepare(request(), some)
    (file,) = prepared.read({"sums": (16, -32, 0)}, 5).files(state_privacy(prepared, 0).stated)
    assert file.participations == 2 and SumsStatistic.read_files([file]).declared == some.vectors
