"""Rounds of noisy sums by parties that stay up, with one budget, spent before the first."""

import math
import sys
import tempfile
import time
import weakref
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

import numpy as np

from fairshares.harness.charged import Chargeable, Charged
from fairshares.harness.engines.base import (
    PROGRAMS,
    DistributedNoiseInput,
    EngineResult,
    PrivateJob,
    Progress,
    times_of,
)
from fairshares.harness.engines.engine import RoundsShape
from fairshares.harness.engines.parties.supervisor import Rounds
from fairshares.harness.engines.registry import choose_model, engine_of
from fairshares.harness.errors import PYTHON, FairSharesError, OptionError, UnsupportedError, naming
from fairshares.harness.inputs.shares import split_into_shares
from fairshares.harness.pipeline.preprocessing import JointNoise, charging_for, preprocess, taken
from fairshares.harness.privacy.ledger.charge import Account, Entry, chosen_account, entry
from fairshares.harness.privacy.ledger.populations import PrivacyEvent
from fairshares.harness.privacy.stock import Piece, Stock
from fairshares.harness.request.base import Account as AccountFields, Where
from fairshares.harness.security_models import SecurityModel
from fairshares.harness.system.files import working_directory
from fairshares.harness.training.session_plan import Number, WantedSums
from fairshares.protocols.accounting.calibration import NeighboringRelation, PrivacyUnit
from fairshares.protocols.arrays import Floats, Integers
from fairshares.protocols.circuits.noise import input_widths
from fairshares.protocols.json_values import JsonValue
from fairshares.protocols.noise.added import DistributedNoise
from fairshares.protocols.spec import NO_INPUT

_VALUES_AT_A_TIME = 1 << 22  # that are split into shares, to bound memory


class SumSession:
    """Sums of clients' vectors, round by round, each revealed with noise only.

    In each round every client's vector is clipped to the L2 norm `clip`, weighed, rounded, and split into
    additive shares. All rounds have one (epsilon, delta), which is charged before the first, and spent even
    if some are not used.

        >>> import numpy as np
        >>> import fairshares as fs
        >>> updates = np.full((1000, 2), 0.5)  # a row per client
        >>> sums = []
        >>> with fs.SumSession(
        ...     "mpyc", clients=1000, coordinates=2, rounds=2, clip=1.0, epsilon=10
        ... ) as session:
        ...     for _ in range(session.rounds):
        ...         sums.append(session.add(updates))
        >>> sums[0].shape, bool((abs(sums[1] - 500) < 50).all())
        ((2,), True)
        >>> session.plan.exact.epsilon
        Fraction(10, 1)

    Guarantees: (epsilon, delta) of all rounds together, for the unit, against the parties that the model
    tolerates and everybody else, however later vectors depend on earlier sums. No process is left behind.
    [test: tests/protocols/test_rounds.py, tests/harness/training/test_session.py]
    Edge cases: the members of a round are public. A client that left counts as zeros, and sums are not scaled
    by the number of clients. A party that fails ends the session.

    Attributes:
        rule: The bounds of vectors.
        step: The step of the grid to which coordinates are rounded.
        plan: The noise, with `exact` (epsilon, delta), and `loss` with rho and its delta'.
        piece: The noise made ahead that it took.
        seconds: The time of each round so far, without the clients' work.
        sent_bytes: The bytes that each party sent, known after the last round.
    """

    def __init__(
        self,
        security: str | None = None,
        *,
        clients: int,
        coordinates: int,
        rounds: int,
        clip: float,
        epsilon: Number,
        delta: Number = "1e-5",
        largest_weight: float = 1.0,
        unit: str = "client",
        rows: str | None = None,
        noise: str = "joint",
        offline: bool = False,
        stock: Path | str | None = None,
        population: str | None = None,
        budget: Number | tuple[Number, Number] | None = None,
        ledger: Path | str | None = None,
        timeout: float = 600,
        step: float | None = None,
    ) -> None:
        """Choose the noise, without spending anything.

        Args:
            security: A model of `fairshares security`. Default: ring with MP-SPDZ, else mpyc.
            clients: The most rows of a round, public.
            coordinates: The length of a vector.
            rounds: The number of rounds.
            clip: The largest norm of a row before weighing; noise grows with it.
            epsilon: The ε of all rounds together.
            delta: The δ of all rounds together.
            largest_weight: The bound on a row's weight, fixed beforehand; noise grows with it.
            unit: Who is protected, "client" or "record".
            rows: Whose vector a row is. Protected records in clients' rows double the noise.
            noise: "joint" Gaussian noise that nobody knows; or "distributed", each party's own, for long
                vectors.
            offline: Whether to take joint noise that `preprocess` made.
            stock: The directory of that noise. Default: stock, beside the ledger.
            population: Who is charged. "none" charges nobody; so does None, unless the ledger has budgets.
            budget: The population's ε or (ε, δ).
            ledger: A file, by default that of commands.
            timeout: Seconds for the parties to start, and for each round.
            step: The largest step of the grid to which coordinates are rounded at random, in the vectors' own
                units. Default: rounding adds at most 4 % to the clipping norm, and if the noise reaches as
                far, the error of all clients' rounding is at most a third of it.
        Raises:
            FairSharesError: A subclass for each mistake.
        """
        self.model = choose_model(security)
        wanted = WantedSums.of_words(
            clients=clients,
            coordinates=coordinates,
            rounds=rounds,
            clip=clip,
            largest_weight=largest_weight,
            epsilon=epsilon,
            delta=delta,
            unit=unit,
            rows=rows,
            noise=noise,
            offline=offline,
            step=step,
        )
        planned = wanted.planned(self.model)
        self.clients = wanted.clients
        self.rounds = wanted.rounds
        self.offline = wanted.offline
        self.rule = planned.rule
        self.plan = planned.plan
        self._spec = planned.spec
        self._account = _account(population, budget, ledger)
        with naming(PYTHON):
            where = Where(stock=stock, timeout=timeout)
        self._timeout_s = where.timeout
        self.stock = Stock(where.stock or self._account.ledger.path.parent / "stock")
        self.piece: Piece | None = None
        self._series: Entry | None = None
        self._stack: ExitStack | None = None
        self._rounds: Rounds | None = None
        self.seconds: list[float] = []
        self.sent_bytes: tuple[int, ...] | None = None

    @property
    def step(self) -> float:
        """The step of the grid to which coordinates are rounded, up or down at random."""
        return self.rule.clip / self.rule.units

    def check_supported(self) -> None:
        """Raise UnsupportedError if the model cannot run the session here."""
        reason = engine_of(self.model).supports(self._spec, self.model, NO_INPUT)
        if reason:
            raise UnsupportedError(reason)

    def preprocess(
        self, sessions: int = 1, progress: Progress = lambda _: None
    ) -> list[dict[str, JsonValue]]:
        """Make the joint noise of later sessions; return its costs. An error leaves finished noise."""
        return preprocess(self._noise, self.stock, sessions, self._timeout_s, progress)

    def take(self, place: Path) -> str:
        """Take noise made ahead out of the stock into `place`, for good; return its name.

        The name is empty if noise is not made ahead. Whoever has a larger run charged calls this before
        `part_of`, as that charge names the noise.
        """
        if self.offline and self.piece is None:
            self.piece = taken(self._noise, self.stock, place)
        return self.piece.name if self.piece else ""

    def part_of(self, series: Entry) -> "SumSession":
        """Have a larger run charged in place of these rounds, and return the session, not yet open.

        If the noise is made ahead, call `take` before: the larger run's charge names the noise.
        """
        self._series = series
        return self

    def open(self) -> "SumSession":
        """Start the parties, and charge all rounds once they wait; return the session.

        Raises:
            FairSharesError: The budget falls short, the model cannot run here, or a party does not start.
        """
        if self._stack is not None or self.seconds:
            raise OptionError("This session was opened before; make another one.")
        self.check_supported()
        stack = ExitStack()
        self._stack = stack
        self._left = weakref.finalize(self, stack.close)  # who forgets to close leaves nothing running
        try:
            work = stack.enter_context(working_directory(Path(tempfile.gettempdir())))
            charging = self._series
            if charging is None:
                charging = stack.enter_context(entry(self._account))
                charging.check(self.event)
                with naming(PYTHON):
                    self.take(work / "piece")
            shape = RoundsShape(self.rounds, self.rule.coordinates)
            ready = stack.enter_context(
                engine_of(self.model).prepare_rounds(
                    self.job, self.model, work / "parties", self._timeout_s, shape
                )
            )
            self._rounds = stack.enter_context(ready.go(self._charge(charging, ready)))
        except BaseException:
            self._end(*sys.exc_info())
            raise
        return self

    def _charge(self, charging: Entry, waiting: Chargeable) -> Charged:
        """Charge all rounds to an entry, which may be that of a larger run."""
        event = self.event
        with charging_for(self.stock, event.piece):
            return charging.charge(event, waiting)

    def add(self, updates: Floats, weights: Floats | None = None) -> Floats:
        """Return the sum of one round's vectors, each clipped, then weighed, with noise of mean 0.

        Args:
            updates: Shape (rows, coordinates), at most `clients` rows; a row that is not finite counts as 0.
            weights: Shape (rows,), cut to `largest_weight`. None: 1 each.
        Raises:
            OptionError: There are too many rows or rounds, or another shape.
            PartyFailedError: A party failed, which ends the session.
            PartyTimeoutError: Likewise, if it was late.
            OutputError: Likewise, if it revealed something else.
        """
        if self._rounds is None:
            raise OptionError("This session is not open; use it in a `with` block, or call open() first.")
        number = len(self.seconds) + 1
        if number > self.rounds:
            raise OptionError(f"All {self.rounds} rounds were used; declare more for another session.")
        encoded = self.rule.encode(updates, weights)
        if len(encoded) > self.clients:
            raise OptionError(
                f"{len(encoded)} rows are more than the {self.clients} clients that were declared."
            )
        columns = _columns(encoded, self.model)
        started = time.monotonic()
        try:
            sums = self._rounds.open(columns)["sums"]
            self.seconds.append(time.monotonic() - started)
        except BaseException as error:
            self._end(*sys.exc_info())
            if isinstance(error, FairSharesError):
                error.args = (f"{error} Round {number} of {self.rounds} ended the session; all are spent.",)
            raise
        return self.rule.decode(np.array(sums, dtype=np.float64))

    def close(self) -> None:
        """End the parties, for good.

        Raises:
            LedgerError: The outcome cannot be written.
        """
        try:
            if self._rounds is not None and len(self.seconds) == self.rounds:
                costs = engine_of(self.model).costs(self._rounds.finish())
                self.sent_bytes = tuple(cost.sent_bytes for cost in costs)
        finally:
            self._end(*sys.exc_info())

    def __enter__(self) -> "SumSession":
        return self.open()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the session; after an error do not wait for its parties."""
        if kind is None:
            self.close()
        else:
            self._end(kind, error, trace)

    @property
    def result(self) -> EngineResult:
        """The engine's result so far."""
        engine = engine_of(self.model)
        return EngineResult(
            model=self.model,
            outputs={},
            engine=engine.name,
            engine_version=str(engine.version()),
            program_hash=engine.program_hash(self.job, self.model),
            times=times_of((sum(self.seconds),) * self.model.parties, 0.0),
            sent_bytes=self.sent_bytes or (),
        )

    def _end(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._rounds = None
        if self._stack is not None and self._left.detach():
            self._stack.__exit__(kind, error, trace)

    @property
    def _noise(self) -> JointNoise:
        if isinstance(self.plan.noise, DistributedNoise):
            raise OptionError(
                "Parties draw distributed noise in the run itself: only joint noise is made ahead."
            )
        values = self.rounds * self.rule.coordinates
        return JointNoise(self.model, values, self.plan.arguments, self.plan.noise.bits)

    @property
    def event(self) -> PrivacyEvent:
        """The charge of all rounds."""
        relation = NeighboringRelation.ADD_OR_REMOVE_ONE
        if self.rule.unit is PrivacyUnit.CLIENT:
            relation = NeighboringRelation.ZERO_OUT_ONE
        return PrivacyEvent(
            task="sums",
            model=self.model.name,
            exact=self.plan.exact,
            unit=self.rule.unit,
            relation=relation,
            out=Path.cwd(),
            noise=self.plan.loss,
            piece=self.piece.name if self.piece else "",
        )

    @property
    def job(self) -> PrivateJob:
        """The parties' program and arguments."""
        noise = self.plan.noise
        parties = self.model.parties
        coordinates = self.rule.coordinates
        law = ("0",) if self.offline else self.plan.arguments
        own: DistributedNoiseInput | None = None
        fair_bits: tuple[tuple[int, int], ...] = ()
        if isinstance(noise, DistributedNoise):
            own = DistributedNoiseInput(coordinates, coordinates)
        elif not self.offline:
            fair_bits = tuple((width, coordinates) for width in input_widths(noise.bits))
        return PrivateJob(
            spec=self._spec,
            source=PROGRAMS / f"{self._spec.name}.mpc",
            arguments=(str(parties), str(self.rounds), str(coordinates), *law),
            party_inputs=(None,) * parties,
            fair_bits=fair_bits,
            own=own,
            pieces=self.piece.parties if self.piece else None,
        )


def _columns(encoded: Integers, model: SecurityModel) -> list[bytes]:
    """Split rows of integers into shares, and return each party's sum of its shares, as bytes."""
    domain = model.domain
    rows, width = encoded.shape
    columns = [domain.encode(np.zeros(width, dtype=np.int64)) for _ in range(model.parties)]
    blocks = max(1, math.ceil(rows * width / _VALUES_AT_A_TIME))
    for block in np.array_split(encoded, blocks):
        values = domain.encode(block.T)
        for party, (_, share) in enumerate(split_into_shares(values, domain, model.parties)):
            columns[party] = domain.add(columns[party], domain.total(share.reshape(values.shape)))
    return [domain.to_bytes(column) for column in columns]


def _account(
    population: str | None, budget: Number | tuple[Number, Number] | None, ledger: Path | str | None
) -> Account:
    """Return who is charged, for the arguments of a Python call."""
    with naming(PYTHON):
        given = AccountFields(budget=budget, ledger=ledger)
        return chosen_account(population, given.budget, given.ledger)
