"""Rounds of noisy sums as a Python object: `SumSession`, over the values of `sums.py`."""

import sys
import weakref
from contextlib import ExitStack
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from types import TracebackType

from fairshares.harness.engines.execution import EngineResult, Progress
from fairshares.harness.engines.registry import choose_model
from fairshares.harness.errors import PYTHON, OptionError, naming
from fairshares.harness.inputs.updates import UpdateRule
from fairshares.harness.pipeline.preprocessing import preprocess
from fairshares.harness.privacy.ledger.charge import chosen_account
from fairshares.harness.privacy.stock import Piece, Stock
from fairshares.harness.request.fields import as_text
from fairshares.harness.request.request import parse_pieces
from fairshares.harness.security_models import SecurityModel
from fairshares.harness.system.documents import as_json
from fairshares.harness.training.session_plan import PlannedSums
from fairshares.harness.training.sums import OpenSums, RevealedSums, opened
from fairshares.harness.training.sums_request import SumsRequest
from fairshares.protocols.accounting.calibration import NeighboringRelation
from fairshares.protocols.accounting.rounds import RoundsPlan
from fairshares.protocols.arrays import Floats
from fairshares.protocols.json_values import JsonValue

Number = int | float | Fraction | str
"""A number as a caller gives it; a text is exact."""


@dataclass(frozen=True)
class _Opened:
    """A session whose parties are up.

    Attributes:
        sums: The session's rounds.
        stack: The block that ends the parties when it is closed.
        left: The call that ends the parties if the program forgets the session.
    """

    sums: OpenSums
    stack: ExitStack
    left: "weakref.finalize[[], SumSession]"


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
        step: The step of the grid to which coordinates are rounded, in the vectors' units.
        plan: The noise, with `exact` (epsilon, delta), and `loss` with rho and its delta'.
        rounds: The number of rounds.
        piece: The noise made ahead that the session took, if any.
        seconds: The seconds that each round so far took, without the clients' work.
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
        parties: int | None = None,
    ) -> None:
        """Choose the noise, without spending anything.

        Args:
            security: A model of `fairshares security`. Default: ring with MP-SPDZ, else mpyc.
            clients: The most rows of a round, public; at least 1.
            coordinates: The length of a vector, at least 1.
            rounds: The number of rounds, at least 1.
            clip: The largest L2 norm of a row before weighing, above 0; noise grows with it.
            epsilon: The ε of all rounds together.
            delta: The δ of all rounds together.
            largest_weight: The bound on a row's weight, above 0, fixed beforehand; noise grows with it.
            unit: Who is protected, "client" or "record".
            rows: Whose vector a row is, a "client" or a "record". Default: the unit. Protected records in
                clients' rows double the noise.
            noise: "joint" Gaussian noise that nobody knows; or "distributed", each party's own, for long
                vectors.
            offline: Whether to take joint noise that `preprocess` made.
            stock: The directory of that noise. Default: stock, beside the ledger.
            population: Who is charged. "none" charges nobody; so does None, unless the ledger has budgets.
                Where its runs protect what a record says, protected records are replaced ones here, too.
            budget: The population's ε or (ε, δ).
            ledger: The file of charges. Default: as for commands.
            timeout: Seconds for the parties to start, and for each round.
            step: The largest step of the grid to which coordinates are rounded at random, in the vectors' own
                units. Default: rounding adds at most 4 % to the clipping norm, and if the noise reaches as
                far, the error of all clients' rounding is at most a third of it.
            parties: How many parties add up, in "semi2k", "spdz2k", "shamir", "malicious-shamir" and "mpyc".
                Default: the model's usual number.
        Raises:
            FairSharesError: A subclass for each mistake, whose message says what to do.
        """
        with naming(PYTHON):
            request = SumsRequest(
                security=security,
                clients=clients,
                coordinates=coordinates,
                rounds=rounds,
                clip=clip,
                epsilon=epsilon,
                delta=delta,
                largest_weight=largest_weight,
                unit=unit,
                rows=rows,
                noise=noise,
                offline=offline,
                stock=stock,
                population=population,
                budget=budget,
                ledger=ledger,
                timeout=timeout,
                step=step,
                parties=parties,
            )
            account = request.account
            self._account = chosen_account(request.population, account.budget, account.ledger)
            wanted = request.wanted
            if self._account.kept_relation(wanted.unit) is NeighboringRelation.REPLACE_ONE:
                wanted = replace(wanted, are_replaced=True)  # runs under different relations do not add up
            planned = wanted.planned(request.trust.security or choose_model(None, request.trust.parties))
        self.stock = Stock.chosen(request.where.stock, self._account.ledger.path)
        self._timeout_s = request.where.timeout
        self._planned = planned
        self._state: PlannedSums | _Opened | RevealedSums = planned

    @property
    def planned(self) -> PlannedSums:
        """The rounds and their noise, as they were planned."""
        return self._planned

    @property
    def model(self) -> SecurityModel:
        """The security model whose parties add up."""
        return self._planned.model

    @property
    def clients(self) -> int:
        """The most rows of a round."""
        return self._planned.wanted.clients

    @property
    def offline(self) -> bool:
        """Whether the session takes noise that was made ahead."""
        return self._planned.wanted.offline

    @property
    def rounds(self) -> int:
        """The number of rounds."""
        return self._planned.rounds

    @property
    def rule(self) -> UpdateRule:
        """The bounds of vectors."""
        return self._planned.rule

    @property
    def plan(self) -> RoundsPlan:
        """The noise, with `exact` (epsilon, delta), and `loss` with rho and its delta'."""
        return self._planned.plan

    @property
    def step(self) -> float:
        """The step of the grid to which coordinates are rounded, up or down at random."""
        return self.rule.clip / self.rule.units

    @property
    def piece(self) -> Piece | None:
        """The noise made ahead that the session took, if any."""
        state = self._state
        if isinstance(state, PlannedSums):
            return None
        return state.sums.allowed.piece if isinstance(state, _Opened) else state.allowed.piece

    @property
    def seconds(self) -> list[float]:
        """The seconds that each round so far took, without the clients' work."""
        state = self._state
        if isinstance(state, PlannedSums):
            return []
        return list(state.sums.seconds if isinstance(state, _Opened) else state.seconds)

    @property
    def sent_bytes(self) -> tuple[int, ...] | None:
        """The bytes that each party sent, known after the last round."""
        return self._state.sent_bytes if isinstance(self._state, RevealedSums) else None

    def check_supported(self) -> None:
        """Check that the model can run the session on this machine.

        Raises:
            UnsupportedError: The model cannot, and the message says why.
        """
        with naming(PYTHON):
            self._planned.check_supported()

    def preprocess(
        self, sessions: int = 1, progress: Progress = lambda _: None
    ) -> list[dict[str, JsonValue]]:
        """Make the joint noise of later sessions of the same arguments, which take it by `offline=True`.

        Args:
            sessions: How many sessions the noise is for, from 1 to 1000.
            progress: A function that takes the name of each step as the step begins.
        Returns:
            The costs of each piece: mpc_s (seconds), sent_bytes and attempts.
        Raises:
            FairSharesError: The noise of this session cannot be made ahead, or the parties failed. Pieces
                that were finished before stay.
        """
        with naming(PYTHON):
            number = parse_pieces(as_text(sessions), "sessions")
            made = preprocess(self._planned.noise, self.stock, number, self._timeout_s, progress)
        return [as_json(piece) for piece in made]

    def open(self) -> "SumSession":
        """Start the parties, and charge all rounds once the parties wait.

        Returns:
            The session.
        Raises:
            OptionError: The session was opened before.
            FairSharesError: The budget falls short, the model cannot run here, or a party does not start.
        """
        if not isinstance(self._state, PlannedSums):
            raise OptionError("This session was opened before; make another one.")
        stack = ExitStack()
        with naming(PYTHON):
            sums = stack.enter_context(opened(self._planned, self._account, self.stock, self._timeout_s))
        # Whoever forgets to close leaves nothing running.
        self._state = _Opened(sums, stack, weakref.finalize(self, stack.close))
        return self

    def add(self, updates: Floats, weights: Floats | None = None) -> Floats:
        """Reveal the noisy sum of one round's vectors, each clipped, then weighed.

        Args:
            updates: The vectors, secret, shape (rows, coordinates), at most `clients` rows. A row that is not
                finite counts as 0.
            weights: The rows' weights, shape (rows,), cut to `largest_weight`. None: 1 each.
        Returns:
            The sum with noise of mean 0, shape (coordinates,), in the vectors' units.
        Raises:
            OptionError: The session is not open, there are too many rows or rounds, or the arrays have
                another shape.
            PartyFailedError: A party failed, which ends the session.
            PartyTimeoutError: A party was late, which ends the session.
            OutputError: A party revealed something else, which ends the session.
        """
        state = self._state
        if not isinstance(state, _Opened):
            raise OptionError("This session is not open; use it in a `with` block, or call open() first.")
        with naming(PYTHON):
            columns = state.sums.columns(updates, weights)
            try:
                return state.sums.reveal(columns)
            except BaseException:
                self._end(state, state.sums.so_far(), *sys.exc_info())
                raise

    def close(self) -> None:
        """End the parties for good. A session that is not open stays as it is.

        Raises:
            LedgerError: The outcome cannot be written to the ledger.
        """
        state = self._state
        if not isinstance(state, _Opened):
            return
        with naming(PYTHON):
            try:
                revealed = state.sums.finish()
            except BaseException:
                self._end(state, state.sums.so_far(), *sys.exc_info())
                raise
            self._end(state, revealed)

    def __enter__(self) -> "SumSession":
        return self.open()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the session; after an error do not wait for its parties."""
        if kind is None:
            self.close()
        elif isinstance(self._state, _Opened):
            self._end(self._state, self._state.sums.so_far(), kind, error, trace)

    @property
    def result(self) -> EngineResult:
        """The engine's result.

        Raises:
            OptionError: The session is not over.
        """
        if not isinstance(self._state, RevealedSums):
            raise OptionError("This session is not over; close it, or leave its `with` block, first.")
        return self._state.result

    def _end(
        self,
        state: _Opened,
        over: RevealedSums,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        trace: TracebackType | None = None,
    ) -> None:
        """End the parties of an open session, whose rounds are over; the last three say what ended it."""
        self._state = over
        if state.left.detach():
            state.stack.__exit__(kind, error, trace)
