"""Noise of a party's own: drawn by its process from the operating system, into what it inputs alone."""

import os
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec import convert

from fairshares.harness.engines.execution import PROGRAMS, DistributedNoiseInput, MadeUpJob
from fairshares.harness.engines.mpyc.engine import EmbeddedEngine
from fairshares.harness.engines.parties import main as party
from fairshares.harness.engines.parties.config import PartyConfig, VirtualMachine
from fairshares.harness.engines.parties.layouts import (
    AdditiveShares,
    NoiseBehindColumn,
    RingName,
    SumsOfColumn,
)
from fairshares.harness.engines.parties.noise_terms import NoiseTerms
from fairshares.harness.engines.parties.randomness import PartyRandomness
from fairshares.harness.engines.parties.working_directory import DATA
from fairshares.harness.errors import OptionError, ShareError, UnsupportedError
from fairshares.harness.inputs.rings import FIELD, RING, Ring
from fairshares.harness.releases.cap.spec import PI_CAP
from fairshares.harness.releases.count.spec import PI_COUNT
from fairshares.harness.releases.weights.spec import PI_RW
from fairshares.harness.request.request import Randomness
from fairshares.harness.security_models import MODELS
from fairshares.protocols.noise.added import BITS, DistributedNoise, NoiseDistribution
from fairshares.protocols.spec import PI_LAP, PI_SUM, PRODUCT, with_distributed_noise
from tests.support.requests import request_of
from tests.support.rings import to_integers

NOISE = DistributedNoise(NoiseDistribution.LAPLACE, Fraction(1, 2), 40, 3, 2)
EACH_OF_FOUR = ((0,), (1,), (2,), (3,))
RING_NAMES: dict[Ring, RingName] = {RING: "ring64", FIELD: "field127"}
DOMAINS = pytest.mark.parametrize("domain", [RING, FIELD], ids=lambda domain: domain.name)


TERMS = convert(NOISE.to_json(), NoiseTerms)


def column(domain: Ring, values: list[int]) -> bytes:
    return domain.to_bytes(domain.encode(np.array(values, dtype=np.int64)))


def integers(domain: Ring, held: bytes) -> list[int]:
    return to_integers(domain, domain.from_bytes(held))


def behind(domain: Ring, values: int) -> NoiseBehindColumn:
    """Return two noises behind so many values."""
    return NoiseBehindColumn(ring=RING_NAMES[domain], values=values, samples=2, noise=TERMS)


@DOMAINS
def test_noise_is_in_the_sums_of_a_column(domain: Ring) -> None:
    """Bins 0 to 4 of two histograms, then blocks of up to three from the highest bin down."""
    values = column(domain, [1, 2, 3, 4, 5, -1, 0, 2**40, 0, 7])
    noise = np.array([*range(10), 10, -20, 30, 2**50])
    sums = [3, 12, -1, 2**40 + 7]
    with_sums = SumsOfColumn(
        ring=RING_NAMES[domain],
        values=10,
        sums=(*((value,) for value in range(10)), (0, 1), (2, 3, 4), (5, 6), (7, 8, 9)),
        noise=TERMS,
    ).with_noise(values, noise)
    expected = [*[1, 2, 3, 4, 5, -1, 0, 2**40, 0, 7], *sums]
    assert integers(domain, with_sums) == [
        value + x for value, x in zip(expected, noise.tolist(), strict=True)
    ]


@DOMAINS
def test_noise_stands_after_other_values_or_alone(domain: Ring) -> None:
    noise = np.array([-3, 4])
    entered = behind(domain, 3).with_noise(column(domain, [7, 8, 9]), noise)
    assert integers(domain, entered) == [7, 8, 9, -3, 4]
    assert integers(domain, behind(domain, 0).with_noise(b"", noise)) == [-3, 4]


@DOMAINS
def test_other_numbers_of_values_or_samples_are_refused(domain: Ring) -> None:
    for size in (0, 2, 4):
        with pytest.raises(ShareError, match=f"holds {size} values, not the 3 that are to be counted"):
            behind(domain, 3).with_noise(column(domain, [1] * size), np.array([1, 2]))
    sums = SumsOfColumn(ring=RING_NAMES[domain], values=4, sums=EACH_OF_FOUR, noise=TERMS)
    with pytest.raises(ShareError, match="This party has 4 sums, and drew noise for 1"):
        sums.with_noise(column(domain, [0, 1, 2, 3]), np.array([7]))
    with pytest.raises(ShareError, match="holds 3 values, not the 4 that are to be counted"):
        sums.with_noise(column(domain, [0, 1, 2]), np.zeros(4, dtype=np.int64))


def test_sums_that_get_joint_noise_get_none_of_the_partys_own() -> None:
    sums = SumsOfColumn(ring="ring64", values=2, sums=((0,), (0, 1)), noise=None)
    entered = sums.with_noise(column(RING, [5, -7]), sums.drawn(PartyRandomness()))
    assert integers(RING, entered) == [5, -2]


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Be in a party's directory, with a column of two values."""
    monkeypatch.chdir(tmp_path)
    Path(DATA).mkdir()
    Path(DATA, "Input-Binary-P1-0").write_bytes(column(RING, [100, 200]))
    return tmp_path


def test_a_party_draws_from_the_operating_system_into_memory(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []

    def urandom(size: int) -> bytes:
        sizes.append(size)
        return bytes(size)

    monkeypatch.setattr(os, "urandom", urandom)  # of zeros: the lowest value of the table
    config = PartyConfig(
        party=1,
        common_names=("P0", "P1"),
        engine=VirtualMachine(argv=("/bin/false",)),
        shares=AdditiveShares(),
        own_noise=SumsOfColumn(ring="ring64", values=2, sums=((0,), (1,)), noise=TERMS),
    )
    party._supply_inputs(config, PartyRandomness())
    assert sizes == [2 * BITS // 8]
    link = Path(DATA, "Input-Binary-P1-0")
    assert integers(RING, link.read_bytes()) == [60, 160]
    assert link.is_symlink() and str(link.readlink()).startswith("/dev/fd/")
    assert not any(path.is_file() and not path.is_symlink() for path in directory.rglob("*"))


# What a production program may be asked for.

ARGUMENTS = ("3", "4", "laplace", "1/2", "40")


FOUR = DistributedNoiseInput(4)


def job(arguments: tuple[str, ...] = ARGUMENTS, own: DistributedNoiseInput | None = FOUR) -> MadeUpJob:
    return MadeUpJob(PI_SUM, PROGRAMS / "pi_sum.mpc", arguments, own=own)


def test_the_noise_follows_from_the_programs_arguments_and_the_model() -> None:
    """Nobody who asks for a job can say another distribution than that which its program is named by."""
    for name, parties, honest in (("ring", 3, 2), ("semi2k", 2, 1)):
        assert job().distributed_noise(MODELS[name]) == DistributedNoise(
            NoiseDistribution.LAPLACE, Fraction(1, 2), 40, parties, honest
        )
    without = MadeUpJob(PI_LAP, PROGRAMS / "pi_lap.mpc", ("3", "2", "1", "40"))
    assert without.distributed_noise(MODELS["ring"]) is None
    engine = EmbeddedEngine()
    prepared = engine.prepared(job(), MODELS["mpyc"])
    entry = engine.setup(prepared, 0, [("127.0.0.1", 1)] * 3).config.own_noise
    assert isinstance(entry, NoiseBehindColumn)
    assert entry.noise.noise() == job().distributed_noise(MODELS["mpyc"])
    assert (entry.samples, entry.values, entry.ring) == (4, 0, FIELD.name)


@pytest.mark.parametrize(
    ("own", "message"),
    [
        (None, "draw another number of samples"),
        (DistributedNoiseInput(3), "draw another number of samples"),
        (DistributedNoiseInput(5), "draw another number of samples"),
        (DistributedNoiseInput(4, 4), "put noise elsewhere than it is read"),
        (DistributedNoiseInput(4, 0, EACH_OF_FOUR), "put noise elsewhere than it is read"),
    ],
)
def test_a_production_program_has_a_sample_in_each_sum_that_is_opened(
    own: DistributedNoiseInput | None, message: str
) -> None:
    """Behind the sums noise would not be read, and the values themselves be opened."""
    with pytest.raises(UnsupportedError, match=f"pi_sum was told to {message}"):
        job(own=own).check_parties(MODELS["ring"])
    job(own=DistributedNoiseInput(4, 4, EACH_OF_FOUR)).check_parties(MODELS["ring"])


@pytest.mark.parametrize(
    "wrong",
    [
        ("3", "4", "uniform", "1/2", "40"),
        ("3", "4", "laplace", "1/0", "40"),
        ("3", "4", "laplace", "-1", "40"),
        ("3", "4", "laplace", "21", "40"),
        ("3", "4", "laplace", "1/2", "0"),
        ("3", "4", "laplace", "1/2", "many"),
    ],
)
def test_arguments_that_are_no_distribution_are_refused(wrong: tuple[str, ...]) -> None:
    with pytest.raises(UnsupportedError, match="pi_sum has no noise for its arguments"):
        job(wrong).check_parties(MODELS["ring"])


def test_noise_of_a_copy_has_to_be_as_long_as_its_program_says() -> None:
    own = with_distributed_noise(PI_RW, PRODUCT)
    assert own is not None
    named = ("product", "shares", "3", "5", "0", "2", "2", "laplace", "1", "40")
    copy_job = MadeUpJob(own, PROGRAMS / "pi_rw.mpc", named, own=DistributedNoiseInput(4, 15))
    copy_job.check_parties(MODELS["ring"])
    with pytest.raises(UnsupportedError, match="pi_rw was told to draw another number of samples"):
        replace(copy_job, own=DistributedNoiseInput(3, 15)).check_parties(MODELS["ring"])


@pytest.mark.parametrize("spec", [PI_COUNT, PI_CAP], ids=lambda one: one.name)
def test_others_are_refused_by_name(spec: Any) -> None:
    form = next(iter(spec.input_forms.values()))
    release = request_of(
        MODELS["ring"], form, Fraction(1), Fraction(1, 2**40), distribution=NoiseDistribution.LAPLACE
    )
    with pytest.raises(OptionError, match=f"{spec.name} has no place for distributed noise"):
        release.program_of(spec)
    assert release.but(Randomness.noise, "joint").program_of(spec) is spec
