"""The fields of `SumSession`, which have the readers of releases' fields where they mean the same."""

from fractions import Fraction

from fairshares.harness.inputs.updates import MAX_COORDINATES, MAX_WEIGHT, MIN_WEIGHT
from fairshares.harness.request.fields import Option, OptionGroup, Options, optional, required, usual
from fairshares.harness.request.readers import NumberReader, Whole, parse_unit
from fairshares.harness.request.request import (
    DISTRIBUTED,
    AccountOptions,
    Randomness,
    Request,
    Spending,
    Trust,
    Where,
)
from fairshares.harness.training.request import TrainRequest
from fairshares.harness.training.session_plan import MAX_ROUNDS, WantedSums

MAX_SUMS_EPSILON = 32  # the largest ε of rounds; see `plan_rounds`
_MOST_CLIENTS = (1 << 63) - 1  # of whom a sum could not overflow; fewer, if each adds more than 1
_LARGEST = 10**300  # fits a float, as do its square root and its halves


def _positive(value: Fraction) -> bool:
    return 0 < value <= _LARGEST


class SumsRequest(Options):
    """Rounds of noisy sums of clients' vectors.

    A field with a reader, a default or a name of its own says why. All others are fields of releases and of
    `train`.  [test: tests/harness/training/test_sums_request.py]
    """

    spending = OptionGroup(
        Spending,
        # The Gaussian noise of rounds is made for a larger ε than the coins of releases' noise.
        epsilon={
            "parse": NumberReader(
                f"a number above 0 and at most {MAX_SUMS_EPSILON}, for example 1",
                lambda value: 0 < value <= MAX_SUMS_EPSILON,
                Fraction,
            ),
            "help": "the ε of all rounds together",
        },
        # As in `train`: all rounds lose δ together, and noise for 2^-40 would be half as large again.
        delta={"default": TrainRequest.declared["delta"].default, "help": "the δ of all rounds together"},
    )
    randomness = OptionGroup(
        Randomness, without=("noise_family",), noise={"parse": TrainRequest.declared["noise"].parse}
    )
    account = OptionGroup(AccountOptions)
    where = OptionGroup(Where, without=("out",))
    trust = OptionGroup(Trust)
    population = Request.population
    clients = required(Whole(1, _MOST_CLIENTS), "the most rows of a round, public", "1000")
    coordinates = required(Whole(1, MAX_COORDINATES), "the length of a vector", "10")
    # Ten times as many as of `train`, which keeps all records in memory and steps through them in each round.
    rounds = required(Whole(1, MAX_ROUNDS), "the number of rounds", "40")
    # No default, and any size: vectors have units of their own, where those of `train` are gradients.
    clip = required(
        NumberReader("a number above 0, for example 1", _positive, float),
        "the largest norm of a row before weighing; noise grows with it",
        "1",
    )
    # The bounds for which the accounting is exact. The default of `train` depends on its other options.
    largest_weight: Option[float] = usual(
        "1",
        NumberReader(
            f"a number from {MIN_WEIGHT:g} to {MAX_WEIGHT}, for example 1",
            lambda value: Fraction(MIN_WEIGHT) <= value <= MAX_WEIGHT,
            float,
        ),
        "the bound on a row's weight, fixed beforehand; noise grows with it",
    )
    # The field `privacy_unit` by its name in 1.0. A session adds up vectors of clients, hence its default.
    unit = usual("client", parse_unit, "who is protected, client or record")
    rows = optional(parse_unit, "whose vector a row is, client or record; default: the unit's")
    step = optional(
        NumberReader("a number above 0, for example 0.01", _positive, float),
        "the largest step of the grid to which coordinates are rounded at random, in the vectors' own units",
    )

    @property
    def wanted(self) -> WantedSums:
        """The rounds that this asks for."""
        return WantedSums(
            clients=self.clients,
            coordinates=self.coordinates,
            rounds=self.rounds,
            clip=self.clip,
            largest_weight=self.largest_weight,
            total=self.spending.guarantee,
            unit=self.unit,
            rows=self.rows or self.unit,
            distributed=self.randomness.noise == DISTRIBUTED,
            offline=self.randomness.offline,
            step=self.step,
        )
