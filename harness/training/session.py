"""Rounds of noisy sums by parties that stay up, with one budget, spent before the first."""

import math
import sys
import tempfile
import time
import weakref
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from harness.charged import Charged
from harness.engines.base import PROGRAMS, DistributedNoiseInput, EngineResult, PrivateJob, Progress, times_of
from harness.engines.engine import RoundsShape
from harness.engines.parties.supervisor import Rounds
from harness.engines.registry import choose_model, engine_of
from harness.errors import PYTHON, FairSharesError, OptionError, UnsupportedError, naming
from harness.inputs.shares import split_into_shares
from harness.pipeline.preprocessing import JointNoise, charging_for, preprocess, taken
from harness.privacy.ledger.charge import Account, ChargedElsewhere, Entry, chosen_account, entry
from harness.privacy.ledger.populations import PrivacyEvent
from harness.privacy.stock import Piece, Stock
from harness.request.base import Account as AccountFields
from harness.security_models import SecurityModel
from harness.system.files import working_directory
from harness.training.updates import UpdateRule, rounding_error, units_for
from protocols.accounting.calibration import NeighboringRelation, PrivacyUnit
from protocols.accounting.rounding import exact_number
from protocols.accounting.rounds import RoundsPlan, plan_rounds
from protocols.arrays import Floats, Integers
from protocols.circuits.noise import input_widths
from protocols.guarantee import Guarantee
from protocols.noise.added import DistributedNoise
from protocols.spec import NO_INPUT, PI_ROUNDS, with_distributed_noise, with_noise_made_ahead

MAX_ROUNDS = 100_000
_MOST_UNITS = 1 << 40  # of the grid to a clipping norm
_ROUNDING_SHARE = 1 / 3  # of the noise's standard deviation

Number = int | float | Fraction | str


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
        starting: Callable[[], None] | None = None,
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
            epsilon: The loss of all rounds together.
            delta: Likewise.
            largest_weight: A bound that is fixed beforehand; noise grows with it.
            unit: Who is protected, "client" or "record".
            rows: Whose vector a row is. Protected records in clients' rows double the noise.
            noise: "joint" Gaussian noise that nobody knows; or "distributed", each party's own, for long
                vectors.
            offline: Whether to take joint noise that `preprocess` made.
            stock: The directory of that noise. Default: stock, beside the ledger.
            population: Who is charged. "none" charges nobody; so does None, unless the ledger has budgets.
            budget: The population's ε or (ε, δ).
            ledger: A file, by default that of commands.
            starting: Called once, before the parties get anything, to charge a larger run instead.
            timeout: Seconds for the parties to start, and for each round.
            step: The largest step of the grid to which coordinates are rounded at random, in the vectors' own
                units. Default: rounding adds at most 4 % to the clipping norm, and if the noise reaches as
                far, the error of all clients' rounding is at most a third of it.
        Raises:
            FairSharesError: A subclass for each mistake.
        """
        self.model, self.clients, self.rounds = choose_model(security), clients, rounds
        self._timeout_s, self._starting = timeout, starting
        if not (
            hasattr(rounds, "__index__")
            and hasattr(clients, "__index__")
            and 1 <= rounds <= MAX_ROUNDS
            and clients >= 1
        ):
            raise OptionError(
                f"A session has 1 to {MAX_ROUNDS} rounds of 1 client or more, not {rounds}, {clients}."
            )
        rows = rows or unit
        distributions, units_of_privacy = ("joint", "distributed"), (PrivacyUnit.CLIENT, PrivacyUnit.RECORD)
        for kind, name, known in (
            ("noise", noise, distributions),
            ("privacy unit", unit, units_of_privacy),
            ("privacy unit", rows, units_of_privacy),
        ):
            if name not in known:
                raise OptionError(f"There is no {kind} {name!r}; choose {' or '.join(known)}.")
        self._spec, self.offline, parties = PI_ROUNDS, offline, None
        if offline and noise == "distributed":
            raise OptionError(
                "Parties draw distributed noise in the run itself: only joint noise is made ahead."
            )
        if offline:
            self._spec = with_noise_made_ahead(PI_ROUNDS, NO_INPUT) or PI_ROUNDS
        if noise == "distributed":
            self._spec = with_distributed_noise(PI_ROUNDS, NO_INPUT) or PI_ROUNDS
            parties = self.model.parties, self.model.parties - self.model.corruptions
        rule = UpdateRule(coordinates, clip, largest_weight, 1, PrivacyUnit(unit), PrivacyUnit(rows))
        wanted = _Wanted(rounds, Guarantee(_exact(epsilon), _exact(delta)), parties)
        if step is None:
            self.rule, self.plan = wanted.with_usual_step(rule, clients)
        else:
            self.rule, self.plan = wanted.with_step(rule, step)
        self.rule.check_sums(clients, self.plan.noise.largest)
        self._account = _account(population, budget, ledger) if starting is None else Account()
        self.stock = Stock(Path(stock or self._account.ledger.path.parent / "stock"))
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
        if reason := engine_of(self.model).supports(self._spec, self.model, NO_INPUT):
            raise UnsupportedError(reason)

    def preprocess(self, sessions: int = 1, progress: Progress = lambda _: None) -> list[dict[str, Any]]:
        """Make the joint noise of later sessions; return its costs. An error leaves finished noise."""
        return preprocess(self._noise, self.stock, sessions, self._timeout_s, progress)

    def take(self, place: Path) -> str:
        """Take noise made ahead out of the stock into `place`, for good; return its name, or "".

        A run with its own `starting` calls this before, to charge the name.
        """
        if self.offline and self.piece is None:
            self.piece = taken(self._noise, self.stock, place)
        return self.piece.name if self.piece else ""

    def part_of(self, series: Entry) -> "SumSession":
        """Have a larger run charged in place of these rounds, and return the session, not yet open.

        `take` is called before, if the noise is made ahead, as the larger run's charge names it.
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
        stack = self._stack = ExitStack()
        self._left = weakref.finalize(self, stack.close)  # who forgets to close leaves nothing running
        try:
            work = stack.enter_context(working_directory(Path(tempfile.gettempdir())))
            charging = self._series
            if charging is None and self._starting is None:
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
            self._rounds = stack.enter_context(ready.go(self._charge(charging)))
        except BaseException:
            self._end(*sys.exc_info())
            raise
        return self

    def _charge(self, charging: Entry | None) -> Charged:
        if charging is None:
            assert self._starting is not None  # else there would be an entry
            return ChargedElsewhere(self._starting)
        event = self.event
        with charging_for(self.stock, event.piece):
            return charging.charge(event)

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
        columns, started = _columns(encoded, self.model), time.monotonic()
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
        engine, parties = engine_of(self.model), self.model.parties
        return EngineResult(
            model=self.model,
            outputs={},
            engine=engine.name,
            engine_version=str(engine.version()),
            program_hash=engine.program_hash(self.job, self.model),
            times=times_of((sum(self.seconds),) * parties, 0.0),
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
        return JointNoise(self.model, values, self.plan.distribution, self.plan.noise.bits)

    @property
    def event(self) -> PrivacyEvent:
        """The charge of all rounds."""
        return PrivacyEvent(
            task="sums",
            model=self.model.name,
            exact=self.plan.exact,
            unit=self.rule.unit,
            relation=NeighboringRelation.ZERO_OUT_ONE
            if self.rule.unit is PrivacyUnit.CLIENT
            else NeighboringRelation.ADD_OR_REMOVE_ONE,
            out=Path.cwd(),
            noise=self.plan.loss,
            piece=self.piece.name if self.piece else "",
        )

    @property
    def job(self) -> PrivateJob:
        """The parties' program and arguments."""
        noise, parties, d = self.plan.noise, self.model.parties, self.rule.coordinates
        law = ("0",) if self.offline else self.plan.distribution
        return PrivateJob(
            spec=self._spec,
            source=PROGRAMS / f"{self._spec.name}.mpc",
            arguments=(str(parties), str(self.rounds), str(d), *law),
            party_inputs=(None,) * parties,
            fair_bits=()
            if isinstance(noise, DistributedNoise) or self.offline
            else tuple((width, d) for width in input_widths(noise.bits)),
            own=DistributedNoiseInput(d, d) if isinstance(noise, DistributedNoise) else None,
            pieces=self.piece.parties if self.piece else None,
        )


@dataclass(frozen=True)
class _Wanted:
    """The rounds, budget and kind of noise that a session is planned for.

    Attributes:
        distributed: Among so many parties, so many of which are honest; None for joint noise.
    """

    rounds: int
    total: Guarantee
    distributed: tuple[int, int] | None

    def with_step(self, rule: UpdateRule, step: float) -> tuple[UpdateRule, RoundsPlan]:
        """Return the rule with at most this step, and its noise; OptionError if no noise is as large."""
        if not 0 < step < math.inf:
            raise OptionError(f"The step of the grid is a positive number, not {step}.")
        if rule.clip / step > _MOST_UNITS:
            raise OptionError(
                f"A step of {step} is below {rule.clip / _MOST_UNITS:g}, the finest of the clipping norm "
                f"{rule.clip:g}; say a coarser one."
            )
        try:
            return self._at(rule, max(1, math.ceil(rule.clip / step)))
        except ValueError as error:
            self.with_usual_step(rule, clients=1)  # which says so if no step does
            raise OptionError(f"A step of {step}: {error}; so does a coarser step.") from None

    def with_usual_step(self, rule: UpdateRule, clients: int) -> tuple[UpdateRule, RoundsPlan]:
        """Return the rule with a step that does no harm, and its noise.

        Rounding adds at most 4 % to a norm, if there is noise of as many units; and its error, over all
        clients, is at most `_ROUNDING_SHARE` of the noise's, as far as there is noise of as many units.
        """
        units = units_for(rule.coordinates, rule.largest_weight)
        while True:
            try:
                coarse, plan = self._at(rule, units)
                break
            except ValueError as error:
                if units == 1:
                    raise OptionError(
                        f"ε and δ of {float(self.total.epsilon):g} and {float(self.total.delta):g}: {error}."
                    ) from None
                units //= 2
        spread = math.sqrt(self.rounds * coarse.squares / (2 * plan.loss.rho))  # of the noise, in units
        too_coarse = rounding_error(clients) / (_ROUNDING_SHARE * spread)
        finer = units << max(0, math.ceil(math.log2(too_coarse)))
        while finer > units:
            try:
                return self._at(rule, finer)
            except ValueError:  # no noise has as many units
                finer //= 2
        return coarse, plan

    def _at(self, rule: UpdateRule, units: int) -> tuple[UpdateRule, RoundsPlan]:
        """Return the rule with these units, and its noise; ValueError if there is none."""
        chosen = replace(rule, units=units)
        return chosen, plan_rounds(
            chosen.squares,
            rule.coordinates,
            self.rounds,
            self.total.epsilon,
            self.total.delta,
            distributed=self.distributed,
        )


def _columns(encoded: Integers, model: SecurityModel) -> list[bytes]:
    domain = model.domain
    rows, width = encoded.shape
    columns = [domain.encode(np.zeros(width, dtype=np.int64)) for _ in range(model.parties)]
    for part in np.array_split(encoded, -(-rows * width // (1 << 22)) or 1):  # so many values at a time
        values = domain.encode(part.T)
        for i, (_, share) in enumerate(split_into_shares(values, domain, model.parties)):
            columns[i] = domain.add(columns[i], domain.total(share.reshape(values.shape)))
    return [domain.to_bytes(column) for column in columns]


def _account(
    population: str | None, budget: Number | tuple[Number, Number] | None, ledger: Path | str | None
) -> Account:
    with naming(PYTHON):
        given = AccountFields(budget=budget, ledger=ledger)
        return chosen_account(population, given.budget, given.ledger)


def _exact(number: Number) -> Fraction:
    exact = exact_number(str(number))
    if exact is None:
        raise OptionError(f"{number!r} is no number; write 1, 0.5, 1/3, 1e-5 or 2^-40.")
    return exact
