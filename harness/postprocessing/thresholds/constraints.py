"""The rates that each fairness constraint makes alike: the list to which a new constraint is added."""

from collections.abc import Mapping
from dataclasses import dataclass

EQUALIZED_ODDS = "equalized_odds"
EQUAL_OPPORTUNITY = "equal_opportunity"
FALSE_POSITIVE_RATE_PARITY = "false_positive_rate_parity"
DEMOGRAPHIC_PARITY = "demographic_parity"
FOUR_FIFTHS = "four_fifths"
ACCURACY_PARITY = "accuracy_parity"
PREDICTIVE_PARITY = "predictive_parity"

RATES = ("true_positive_rate", "false_positive_rate", "selection_rate")  # rates that every result has


@dataclass(frozen=True)
class Constraint:
    """Rates that are to be alike in all groups.

    Attributes:
        rates: The rates' names, which are properties of `OperatingPoints`.
        divided_by: The totals that divide the rates, besides a group's records: "positives", "negatives".
        tolerance: The tolerance where none is given, from 0 to 1.
        is_of_ratios: Whether the tolerance is a share of the largest rate, and not a difference.
        is_averaged_by_draws: Whether a rule that draws one of two thresholds has the mean of their rates.
            Otherwise each group's rule is a single threshold.
    """

    rates: tuple[str, ...]
    divided_by: tuple[str, ...] = ()
    tolerance: float = 0.0
    is_of_ratios: bool = False
    is_averaged_by_draws: bool = True


CONSTRAINTS: Mapping[str, Constraint] = {
    EQUALIZED_ODDS: Constraint(
        ("true_positive_rate", "false_positive_rate"), divided_by=("positives", "negatives")
    ),
    EQUAL_OPPORTUNITY: Constraint(("true_positive_rate",), divided_by=("positives",)),
    FALSE_POSITIVE_RATE_PARITY: Constraint(("false_positive_rate",), divided_by=("negatives",)),
    DEMOGRAPHIC_PARITY: Constraint(("selection_rate",)),
    FOUR_FIFTHS: Constraint(("selection_rate",), tolerance=0.2, is_of_ratios=True),
    ACCURACY_PARITY: Constraint(("accuracy",)),
    PREDICTIVE_PARITY: Constraint(("positive_predictive_value",), is_averaged_by_draws=False),
}
