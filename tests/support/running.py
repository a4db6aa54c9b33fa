"""What tests of real runs share: the models that can run here, given bits, shares of given values."""

import contextlib
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from _pytest.mark import ParameterSet

from benchmarks.emulation import links
from benchmarks.measure.given_numbers import Given, engine_giving
from fairshares.harness.charged import BegunCharge, Chargeable, Charged
from fairshares.harness.engines.engine import Engine
from fairshares.harness.engines.execution import (
    PROGRAMS,
    VALUES_ELSEWHERE,
    ClientValues,
    Conditions,
    EngineResult,
    MadeUpJob,
    PrivateJob,
    ValueFiles,
)
from fairshares.harness.engines.registry import choose_model
from fairshares.harness.inputs.rings import RING, XOR
from fairshares.harness.inputs.shares import held_by, split_into_shares
from fairshares.harness.pipeline.sources import local_clients
from fairshares.harness.request.networks import NetworkProfile
from fairshares.harness.security_models import MODELS, SecurityModel, get_model
from fairshares.protocols import reference
from fairshares.protocols.circuits.coins import Coins, SymmetricCoins, coins_of_magnitude, design_noise
from fairshares.protocols.circuits.gaussian import JointGaussian, refinements
from fairshares.protocols.circuits.noise import fair_bits_per_sample
from fairshares.protocols.noise.truncated import largest_noise, smallest_noise, twice_center
from fairshares.protocols.spec import CLIENTS, REPLICATED, SHARES, InputForm, ProtocolSpec

TEST_PROGRAMS = Path(__file__).parents[1] / "programs" / "sources"
RUN_TIMEOUT_S = 600.0
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
QUICKEST = choose_model(None).name  # of the models that can run here: for what is the same in all
OF_OTHER_NUMBERS = tuple(
    get_model(name, parties)
    for name, parties in (
        ("semi2k", 3),
        ("semi2k", 5),
        ("spdz2k", 3),
        ("shamir", 5),
        ("malicious-shamir", 5),
        ("mpyc", 5),
    )
)
INPUT_WIDTH = 63  # bits per lane that one input takes: MP-SPDZ zeroes lanes from 64 on if there are more

Bits = npt.NDArray[np.bool_]  # shape (bits, lanes)


def model_parameters(
    *forms: InputForm, models: Iterable[SecurityModel] = MODELS.values()
) -> list[ParameterSet]:
    """Return pytest parameters: a model, after a form if there are any; skipped where it cannot run.

    Left out: forms that multiply clients' plain shares, in active models, which refuse them; clients that
    send while the parties run, in models that compute modulo a prime.
    """
    return [
        pytest.param(
            *form,
            model,
            id="-".join([*(_name(one) for one in form), *model.title.split()]),
            marks=pytest.mark.mpspdz(model.name) if model.virtual_machine else (),
        )
        for form in _each_or_none(forms)
        for model in models
        if not any(
            one.multiplies_client_values and model.active and not one.path.authenticated for one in form
        )
        and (model.ring is RING or all(one.path is not CLIENTS for one in form))
        and (model.virtual_machine or all(one.path.portable for one in form))
    ]


def _name(form: InputForm) -> str:
    return form.name if form.path is SHARES else f"{form.name}-by-{form.path.name}"


def _each_or_none(forms: tuple[InputForm, ...]) -> list[tuple[InputForm, ...]]:
    return [(form,) for form in forms] or [()]


@dataclass(frozen=True)
class Inputs:
    """What the parties feed in.

    Attributes: fair_bits: (width, lanes) of each block that they draw; given_bits: instead of these,
    per party, shape (bits, lanes); values: integers that they hold shares of; sent: what each client sends
    while they run; words: per party, its shares of what clients share bit by bit; files: per party, the file
    of its shares.
    """

    fair_bits: tuple[tuple[int, int], ...] = ()
    given_bits: Sequence[Bits] | None = None
    values: Sequence[int] | None = None
    sent: Sequence[npt.NDArray[np.int64]] | None = None
    words: Sequence[npt.NDArray[np.uint64]] = ()
    files: Sequence[Path] | None = None

    @property
    def given(self) -> Given | None:
        """The integers of the given bits."""
        return None if self.given_bits is None else [as_integers(bits) for bits in self.given_bits]


def run(
    spec: ProtocolSpec,
    source: Path,
    arguments: Sequence[object],
    inputs: Inputs,
    *,
    model: SecurityModel,
    work: Path,
    timeout_s: float = RUN_TIMEOUT_S,
) -> EngineResult:
    """Run a program once on new shares and bits; `work` is made and emptied."""
    job = make_job(spec, source, arguments, inputs, model=model, work=work)
    return run_job(job, model, work / "parties", timeout_s, given=inputs.given)


class ChargedToNobody(Charged):
    """What an engine asks for, without a charge: a test's records are nobody's."""

    def begin(self, waiting: Chargeable) -> BegunCharge:
        """Begin any run."""
        return BegunCharge()


def no_progress(_step: str) -> None:
    """Show nothing."""


def run_job(
    job: PrivateJob | MadeUpJob,
    model: SecurityModel,
    work: Path,
    timeout_s: float = RUN_TIMEOUT_S,
    *,
    engine: Engine | None = None,
    given: Given | None = None,
) -> EngineResult:
    """Run a job in a new directory, charged to nobody.

    Args: given: per party, numbers in place of those that it would draw.
    """
    chosen = engine or engine_giving(model, given)
    if isinstance(job, MadeUpJob):
        return chosen.run(job, model, Conditions(work, timeout_s, no_progress))
    with chosen.prepare(job, model, Conditions(work, timeout_s, no_progress)) as ready:
        return ready.go(ChargedToNobody())


def make_job(
    spec: ProtocolSpec,
    source: Path,
    arguments: Sequence[object],
    inputs: Inputs,
    *,
    model: SecurityModel,
    work: Path,
) -> PrivateJob:
    """Write the parties' input files into `work`, a new directory, and return the job."""
    work.mkdir()
    shares = inputs.files
    if inputs.values is not None:
        told = dict(zip(spec.arguments, map(str, arguments), strict=False))
        copies = model.parties - 1 if told.get("path") == REPLICATED.name else 1
        shares = share_values(inputs.values, model, work, copies)
    elif inputs.words:
        shares = [work / f"party-{i}.values" for i in range(model.parties)]
        for path, words in zip(shares, inputs.words, strict=True):
            path.write_bytes(XOR.to_bytes(words))
    return PrivateJob(
        spec=spec,
        source=source,
        arguments=tuple(map(str, arguments)),
        values=_values_of(inputs, shares, work),
        fair_bits=inputs.fair_bits,
    )


def _values_of(inputs: Inputs, shares: Sequence[Path] | None, work: Path) -> ClientValues:
    """Return where a job's values are."""
    if inputs.sent is not None:
        return local_clients(inputs.sent, {}, work, RUN_TIMEOUT_S)
    return ValueFiles(tuple(shares)) if shares else VALUES_ELSEWHERE


def program_spec(name: str, *outputs: str) -> ProtocolSpec:
    """Return the specification of a test program."""
    return ProtocolSpec(name, "a test program", (), {}, outputs, ("all of it",))


def copy_of_program(name: str, directory: Path) -> Path:
    """Copy a production program, to the letter, to a place where no noise is asked of its job."""
    copy = directory / f"{name}.mpc"
    copy.write_bytes((PROGRAMS / copy.name).read_bytes())
    return copy


def xor_shares(bits: Bits, parties: int, rng: np.random.Generator) -> list[Bits]:
    """Return one array per party, all but the last random, whose XOR is `bits`."""
    shares = [rng.integers(0, 2, bits.shape).astype(bool) for _ in range(parties - 1)]
    return [*shares, np.logical_xor.reduce([bits, *shares])]


def as_integers(bits: Bits) -> tuple[int, ...]:
    """Write bits as a party's input holds them: per 63 bits, an integer per lane, lowest bit first."""
    blocks = [bits[at : at + INPUT_WIDTH] for at in range(0, len(bits), INPUT_WIDTH)]
    return tuple(
        sum(int(bit) << i for i, bit in enumerate(lane)) for block in blocks for lane in block.T.tolist()
    )


def fair_bits(epsilon: object, delta_bits: object, samples: int, seed: int = 9) -> tuple[Bits, list[int]]:
    """Return bits for samples of joint noise, shape (bits, samples), and the noise that they make.

    A coin shows 1 if all of its bits are 0, so the first four are the largest sample, -1 or 0, the smallest
    sample and 0.
    """
    coins = design_noise(Fraction(str(epsilon)), int(str(delta_bits)))
    size = (fair_bits_per_sample(coins), samples)
    bits = np.random.default_rng(seed).integers(0, 2, size).astype(bool)
    bits[0, :4], bits[1:, :4] = [False, True, True, False][:samples], [False, True, False, True][:samples]
    noise = noise_of(coins, bits)
    no_coin_shown = twice_center(coins)  # with the sign
    assert noise[:4] == [largest_noise(coins), no_coin_shown, smallest_noise(coins), 0][:samples]
    return bits, noise


def noise_of(coins: Coins, bits: Bits) -> list[int]:
    """Return the noise that bits make, a sample per lane, as the reference has it."""
    design = [(coin.numerator, coin.bits) for coin in coins_of_magnitude(coins)]
    nonzero = None
    if isinstance(coins, SymmetricCoins):
        nonzero = (coins.nonzero.numerator, coins.nonzero.bits)
    return [reference.noise_of_bits(design, lane, nonzero) for lane in bits.T.astype(int).tolist()]


def gaussian_of(noise: JointGaussian, bits: Bits) -> list[int]:
    """Return the joint Gaussian noise that bits make, a sample per lane, in plain integers."""
    design, added = [(coin.numerator, coin.bits) for coin in noise.coins], refinements(noise.levels)
    return [reference.gaussian_of_bits(design, added, lane) for lane in bits.T.astype(int).tolist()]


def opened_with(
    bits: Bits,
    spec: ProtocolSpec,
    arguments: Sequence[object],
    model: SecurityModel,
    directory: Path,
    **fed: Any,
) -> list[int]:
    """Run a production program's own text on bits that its parties hold together; return what it opens.

    Args: fed: what else reaches the parties: `values`, `sent`, `words` or `files` of `Inputs`.
    """
    given = xor_shares(bits, model.parties, np.random.default_rng(len(bits)))
    program = copy_of_program(spec.name, directory)
    result = run(
        spec, program, arguments, Inputs(given_bits=given, **fed), model=model, work=directory / "run"
    )
    assert len(result.sent_bytes) == model.parties and min(result.sent_bytes) > 0
    assert not (directory / "run" / "parties").exists()
    (opened,) = result.outputs.values()
    return list(opened)


def opened_less_noise(
    spec: ProtocolSpec,
    arguments: Sequence[object],
    cells: int,
    model: SecurityModel,
    directory: Path,
    **fed: Any,
) -> list[int]:
    """Run a production program's own text; return what it opens less the noise that its given bits make."""
    named = dict(zip(spec.arguments, arguments, strict=True))
    bits, noise = fair_bits(named["epsilon"], named["delta_bits"], cells)
    opened = opened_with(bits, spec, arguments, model, directory, **fed)
    return [value - x for value, x in zip(opened, noise, strict=True)]


def share_values(values: Sequence[int], model: SecurityModel, directory: Path, copies: int = 1) -> list[Path]:
    """Share integers over the model's ring; return a file per party, as engines read them.

    Args: copies: how many parties have each share.
    """
    ring = model.ring
    encoded = ring.encode(np.array(values, dtype=np.int64))
    shares = [share for _, share in split_into_shares(encoded, ring, model.parties)]
    paths = [directory / f"party-{i}.values" for i in range(model.parties)]
    for party, path in enumerate(paths):
        held = held_by(party, model.parties, copies)
        path.write_bytes(b"".join(ring.to_bytes(shares[number]) for number in held))
    return paths


def until(condition: Callable[[], bool], timeout_s: float = 600.0) -> None:
    """Wait for a condition; fail when it takes so long that it will never hold, on a busy machine either."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "what a test waits for did not happen"
        time.sleep(0.002)


def in_time(seconds: Callable[[], float], limit: float, tries: int = 5) -> bool:
    """Return whether it takes less than that at least once: a fault always delays it, a busy machine may."""
    return any(seconds() < limit for _ in range(tries))


def slowness() -> float:
    """Return how many times slower this machine is than the one that limits on processor time are for."""
    started = time.process_time()
    sum(i * i for i in range(2_000_000))
    return max(1.0, (time.process_time() - started) / 0.1)


@contextlib.contextmanager
def signals_not_ignored() -> Iterator[None]:
    """Have processes that are started meanwhile take signals that this one, in the background, ignores."""
    previous = {number: signal.signal(number, signal.default_int_handler) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def captured_relays(monkeypatch: pytest.MonkeyPatch) -> list[subprocess.Popen[str]]:
    """Return a list that will hold the processes of the relays that are started."""
    started: list[subprocess.Popen[str]] = []
    start = links._start

    def capturing(network: NetworkProfile, reached: list[tuple[int, int, int]]) -> subprocess.Popen[str]:
        started.append(start(network, reached))
        return started[-1]

    monkeypatch.setattr(links, "_start", capturing)
    return started
