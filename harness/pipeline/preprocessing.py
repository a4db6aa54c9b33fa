"""The offline phase, which makes joint noise before inputs exist."""

import hashlib
import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from msgspec import UNSET, Struct, UnsetType

from fairshares.harness.bounds import PerParty, Seconds
from fairshares.harness.engines.execution import PROGRAMS, Conditions, EngineResult, MadeUpJob, Progress
from fairshares.harness.engines.registry import engine_of
from fairshares.harness.errors import FairSharesError, StockError, UsedNoiseError
from fairshares.harness.privacy.stock import Piece, PieceRecord, Stock, new_name, shares_of
from fairshares.harness.releases.base import Answer, PreparedRelease
from fairshares.harness.security_models import SecurityModel
from fairshares.harness.system.documents import as_json
from fairshares.harness.system.files import scratch_directory
from fairshares.protocols.circuits.coins import family_of
from fairshares.protocols.circuits.noise import fair_bits_per_sample, input_widths, noise_arguments
from fairshares.protocols.json_values import JsonObject
from fairshares.protocols.noise.added import DistributedNoise
from fairshares.protocols.spec import PI_PREPROCESS, PI_PREPROCESS_ROUNDS, ProtocolSpec


class MadePiece(Struct, frozen=True, kw_only=True):
    """A piece of noise that was made, with its costs.

    Attributes:
        mpc_s: The seconds that the piece took.
        sent_bytes: The bytes that each party sent for it.
        attempts: How many runs began to make it.
        piece: The piece's name, if hosts made it.
    """

    mpc_s: Seconds
    sent_bytes: PerParty
    attempts: int
    piece: str | UnsetType = UNSET

    @classmethod
    def by(cls, result: EngineResult, attempts: int, piece: str | UnsetType = UNSET) -> Self:
        """Return the piece that an engine has made, in one of so many attempts."""
        seconds = result.times["mpc_s"]
        assert seconds is not None  # an engine measures each run
        return cls(mpc_s=seconds, sent_bytes=list(result.sent_bytes), attempts=attempts, piece=piece)


@dataclass(frozen=True)
class MadeNoise:
    """Noise that was made ahead.

    Attributes:
        place: The place of the noise, for people.
        pieces: The pieces, in the order in which they were made.
    """

    place: str
    pieces: list[MadePiece]

    @property
    def seconds(self) -> list[float]:
        """The seconds of each piece."""
        return [piece.mpc_s for piece in self.pieces]

    @property
    def sent_bytes(self) -> list[int]:
        """The bytes that all parties sent for each piece."""
        return [sum(piece.sent_bytes) for piece in self.pieces]

    def to_json(self) -> JsonObject:
        """Return the fields that a command prints as JSON."""
        return {"stock": self.place, "pieces": [as_json(piece) for piece in self.pieces]}


@dataclass(frozen=True)
class NoiseToMake:
    """The noise in a piece.

    Attributes:
        security: The model whose parties make and use it.
        values: The number of samples.
        law: The samples' distribution, as arguments of the program.
        fair_bits: The random bits that each party draws per sample.
        program: The program that makes the noise.
    """

    security: SecurityModel
    values: int
    law: tuple[str, ...]
    fair_bits: int
    program: ProtocolSpec


def joint_noise_of(prepared: PreparedRelease[Answer]) -> NoiseToMake:
    """Return the joint noise that a release needs."""
    plan = prepared.plan
    if plan.rounds is not None:
        noise = plan.rounds.noise
        assert not isinstance(noise, DistributedNoise)  # which each party draws in the run
        return NoiseToMake(
            prepared.release.model, plan.nodes, plan.rounds.arguments, noise.bits, PI_PREPROCESS_ROUNDS
        )
    return NoiseToMake(
        prepared.release.model,
        plan.nodes,
        noise_arguments(plan.node_epsilon, plan.node_delta_bits, family_of(plan.coins)),
        fair_bits_per_sample(plan.coins),
        PI_PREPROCESS,
    )


def preprocess(
    noise: NoiseToMake, stock: Stock, runs: int, timeout_s: float, progress: Progress
) -> list[MadePiece]:
    """Make a piece of noise for each of `runs` runs; return the pieces.

    Guarantees: a piece enters the stock only after every party has ended well. A failed piece leaves neither
    shares nor keys, and earlier pieces stay.  [test: tests/harness/pipeline/test_preprocessing.py]
    """
    model = noise.security
    engine = engine_of(model)
    terms = terms_of(noise)
    pieces: list[MadePiece] = []
    for number in range(runs):
        progress(f"piece {number + 1}")
        try:
            attempts = stock.begin(terms)
            with scratch_directory(stock.directory) as scratch:
                job = noise_job(noise, shares_of(scratch / "piece", model.parties))
                result = engine.run(job, model, Conditions(scratch / "parties", timeout_s, progress))
                made = MadePiece.by(result, attempts)
                record = PieceRecord(mpc_s=made.mpc_s, sent_bytes=made.sent_bytes, attempts=made.attempts)
                stock.keep(terms, new_name(terms, [secrets.token_hex(32)]), scratch / "piece", record)
        except OSError as error:
            raise StockError(
                f"Cannot write noise to {stock.directory}: {error.strerror}; {number} of {runs} pieces were "
                "made, and nothing of another one was left."
            ) from None
        pieces.append(made)
    return pieces


def noise_job(noise: NoiseToMake, directories: Sequence[Path]) -> MadeUpJob:
    """Return the job that makes a piece, with each party's directory."""
    return MadeUpJob(
        spec=noise.program,
        source=PROGRAMS / f"{noise.program.name}.mpc",
        arguments=(str(noise.security.parties), str(noise.values), *noise.law),
        fair_bits=tuple((width, noise.values) for width in input_widths(noise.fair_bits)),
        pieces=tuple(directories),
    )


def terms_of(noise: NoiseToMake, certificates: Mapping[str, str] | None = None) -> str:
    """Return the name of this noise: a hash of its program, arguments, engine, model and certificates.

    `certificates` belong to the hosts that make it; there are none on one machine.
    """
    model = noise.security
    program_hash = engine_of(model).program_hash(noise_job(noise, [Path()] * model.parties), model)
    of_hosts = sorted((certificates or {}).items())
    terms = [model.name, program_hash, *of_hosts]
    return hashlib.sha256(json.dumps(terms).encode()).hexdigest()


def taken(noise: NoiseToMake, stock: Stock, target: Path) -> Piece:
    """Move a piece of this noise out of the stock, or raise StockError."""
    return stock.take(terms_of(noise), noise.security.parties, target)


@contextmanager
def charging_for(stock: Stock, piece: str | None) -> Iterator[None]:
    """Wrap the charge of a run that has taken this piece, so that errors say that the piece is gone.

    The name is None if the run has taken none. If the ledger says that the piece was used before, the whole
    stock is destroyed.
    """
    try:
        yield
    except UsedNoiseError as error:
        stock.destroy()
        raise UsedNoiseError(f"{error} All of it was removed; make new noise.") from None
    except FairSharesError as error:
        if piece is not None:
            error.args = (f"{error} The noise made ahead that it had taken was removed.",)
        raise
