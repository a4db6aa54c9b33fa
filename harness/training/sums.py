"""Rounds of noisy sums, from value to value: planned, allowed, ready, charged, open, revealed.

Each step takes the value of the step before, as a release's steps do (`harness/pipeline/run.py`). All rounds
together have one charge, which may belong to a larger run.
"""

import math
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from fairshares.harness.engines.engine import ReadyRounds, RoundsShape
from fairshares.harness.engines.execution import EngineResult, PrivateJob, times_of
from fairshares.harness.engines.parties.supervisor import Rounds
from fairshares.harness.engines.registry import engine_of
from fairshares.harness.errors import FairSharesError, OptionError
from fairshares.harness.inputs.shares import split_into_shares
from fairshares.harness.pipeline.preprocessing import charging_for, taken
from fairshares.harness.privacy.ledger.charge import Account, ChargedRun, Entry, entry
from fairshares.harness.privacy.ledger.populations import PrivacyEvent
from fairshares.harness.privacy.stock import Piece, Stock
from fairshares.harness.security_models import SecurityModel
from fairshares.harness.system.files import working_directory
from fairshares.harness.training.session_plan import PlannedSums
from fairshares.protocols.arrays import Floats, Integers

_VALUES_AT_A_TIME = 1 << 22  # values that are split into shares at a time, to bound memory


@dataclass(frozen=True)
class AllowedSums:
    """Planned rounds that their ledger would charge now.

    Attributes:
        planned: The rounds.
        piece: The noise of the rounds, which is out of the stock for good; None if parties make it in the
            rounds.
    """

    planned: PlannedSums
    piece: Piece | None

    @property
    def event(self) -> PrivacyEvent:
        """The loss of all rounds, with the name of their noise if it was made ahead."""
        return replace(self.planned.event, piece=self.piece_name)

    @property
    def piece_name(self) -> str | None:
        """The name of the noise made ahead; None without such noise."""
        return self.piece.name if self.piece else None

    @property
    def job(self) -> PrivateJob:
        """The parties' program and arguments, with the places of their noise if it was made ahead."""
        return replace(self.planned.job, pieces=self.piece.parties if self.piece else None)


@dataclass(frozen=True)
class ReadySums:
    """Allowed rounds whose parties have started and wait: they have got no column."""

    allowed: AllowedSums
    parties: ReadyRounds


@dataclass(frozen=True)
class ChargedSums:
    """Ready rounds whose charge is on disk, for good: their own, or the charge of the larger run.

    It is made by `charge` alone, and lets its own parties begin.
    """

    ready: ReadySums
    charge: ChargedRun

    @contextmanager
    def begun(self) -> Iterator["OpenSums"]:
        """Let the parties begin, once, and yield their rounds; LedgerError for a second time."""
        with self.ready.parties.go(self.charge) as rounds:
            yield OpenSums(self.ready.allowed, rounds)


@dataclass(frozen=True)
class OpenSums:
    """Charged rounds whose parties are up. After an error of a party its rounds are over.

    Attributes:
        allowed: The rounds.
        rounds: The parties.
        seconds: The time of each round so far, without the clients' work.
    """

    allowed: AllowedSums
    rounds: Rounds
    seconds: list[float] = field(default_factory=list)

    def add(self, updates: Floats, weights: Floats | None = None) -> Floats:
        """Return the noisy sum of one round's vectors; see `SumSession.add`."""
        return self.reveal(self.columns(updates, weights))

    def columns(self, updates: Floats, weights: Floats | None = None) -> list[bytes]:
        """Return each party's sum of shares of the next round's vectors, clipped, weighed and rounded.

        Raises OptionError if all rounds were used, for too many rows, and for another shape.
        """
        wanted = self.allowed.planned.wanted
        if len(self.seconds) >= wanted.rounds:
            raise OptionError(f"All {wanted.rounds} rounds were used; declare more for another session.")
        encoded = self.allowed.planned.rule.encode(updates, weights)
        if len(encoded) > wanted.clients:
            raise OptionError(
                f"{len(encoded)} rows are more than the {wanted.clients} clients that were declared."
            )
        return columns_of_parties(encoded, self.allowed.planned.model)

    def reveal(self, columns: list[bytes]) -> Floats:
        """Have the parties reveal the noisy sum of the next round's columns.

        Raises PartyFailedError, PartyTimeoutError or OutputError, after which no other round can be.
        """
        planned = self.allowed.planned
        started = time.monotonic()
        try:
            sums = self.rounds.open(columns)["sums"]
        except FairSharesError as error:
            number = len(self.seconds) + 1
            error.args = (f"{error} Round {number} of {planned.rounds} ended the session; all are spent.",)
            raise
        self.seconds.append(time.monotonic() - started)
        return planned.rule.decode(np.array(sums, dtype=np.float64))

    def finish(self) -> "RevealedSums":
        """Wait for the end of parties that have had all their rounds, and return what the rounds took.

        If rounds are left, nothing is waited for, and what parties sent is unknown.
        """
        sent_bytes: tuple[int, ...] | None = None
        if len(self.seconds) == self.allowed.planned.rounds:
            costs = engine_of(self.allowed.planned.model).costs(self.rounds.finish())
            sent_bytes = tuple(cost.sent_bytes for cost in costs)
        return replace(self.so_far(), sent_bytes=sent_bytes)

    def so_far(self) -> "RevealedSums":
        """Return the costs of the rounds until now, without the bytes that parties sent."""
        return RevealedSums(self.allowed, tuple(self.seconds), None)


@dataclass(frozen=True)
class RevealedSums:
    """Rounds that are over.

    Attributes:
        allowed: The rounds.
        seconds: The time of each round that was used.
        sent_bytes: The bytes that each party sent; None if rounds were left.
    """

    allowed: AllowedSums
    seconds: tuple[float, ...]
    sent_bytes: tuple[int, ...] | None

    @property
    def result(self) -> EngineResult:
        """The costs of the rounds, as of any run; their sums are with whoever asked for them."""
        model = self.allowed.planned.model
        engine = engine_of(model)
        return EngineResult(
            model=model,
            outputs={},
            engine=engine.name,
            engine_version=str(engine.version()),
            program_hash=engine.program_hash(self.allowed.job, model),
            times=times_of((sum(self.seconds),) * model.parties, 0.0),
            sent_bytes=self.sent_bytes or (),
        )


def with_noise(planned: PlannedSums, stock: Stock, place: Path) -> AllowedSums:
    """Take the rounds' noise, if it was made ahead, out of the stock into `place`, for good.

    Whoever asks a ledger does so before. Raises StockError without such noise.
    """
    if not planned.wanted.offline:
        return AllowedSums(planned, None)
    return AllowedSums(planned, taken(planned.noise, stock, place))


@contextmanager
def prepare(allowed: AllowedSums, work: Path, timeout_s: float) -> Iterator[ReadySums]:
    """Start the parties under `work`, as `Runner.prepare` does. They wait, and the block ends them."""
    planned = allowed.planned
    shape = RoundsShape(planned.rounds, planned.rule.coordinates)
    engine = engine_of(planned.model)
    with engine.prepare_rounds(allowed.job, planned.model, work, timeout_s, shape) as parties:
        yield ReadySums(allowed, parties)


def charge(ready: ReadySums, charging: Entry, stock: Stock) -> ChargedSums:
    """Write the charge of rounds whose parties wait, to an entry that may belong to a larger run.

    Raises as `ChargedRun`; UsedNoiseError if a run has used the noise, whose stock is a copy.
    """
    event = ready.allowed.event
    with charging_for(stock, event.piece):
        return ChargedSums(ready, charging.charge(event, ready.parties))


@contextmanager
def opened(planned: PlannedSums, account: Account, stock: Stock, timeout_s: float) -> Iterator[OpenSums]:
    """Yield rounds that are charged to an account of their own; after the block no process is left.

    Raises:
        FairSharesError: The budget falls short, the model cannot run here, or a party does not start.
    """
    planned.check_supported()
    with working_directory(Path(tempfile.gettempdir())) as work, entry(account) as charging:
        charging.check(planned.event)
        allowed = with_noise(planned, stock, work / "piece")
        with (
            prepare(allowed, work / "parties", timeout_s) as ready,
            charge(ready, charging, stock).begun() as rounds,
        ):
            yield rounds


def columns_of_parties(encoded: Integers, model: SecurityModel) -> list[bytes]:
    """Split rows of integers into shares, and return each party's sum of its shares, as bytes."""
    ring = model.ring
    rows, width = encoded.shape
    columns = [ring.encode(np.zeros(width, dtype=np.int64)) for _ in range(model.parties)]
    blocks = max(1, math.ceil(rows * width / _VALUES_AT_A_TIME))
    for block in np.array_split(encoded, blocks):
        values = ring.encode(block.T)
        for party, (_, share) in enumerate(split_into_shares(values, ring, model.parties)):
            columns[party] = ring.add(columns[party], ring.total(share.reshape(values.shape)))
    return [ring.to_bytes(column) for column in columns]
