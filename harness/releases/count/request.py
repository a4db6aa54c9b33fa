"""The options of a run of `count`."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from fairshares.harness.errors import OptionError, named
from fairshares.harness.request.commands import ReleaseOptions
from fairshares.harness.request.fields import OptionGroup, usual
from fairshares.harness.request.readers import Whole, in_module, parse_share
from fairshares.harness.request.releases import ReleaseCall
from fairshares.harness.request.request import RECORDS_ALONE, Protect, Randomness, Request

if TYPE_CHECKING:
    from fairshares.protocols.mechanisms.shifted_log import ErrorTarget

_COUNT = Whole(1, in_module("fairshares.protocols.mechanisms.shifted_log:MOST_COUNT"))


class CountRequest(Request):
    """Count records per group and label, with more privacy for larger groups (π_COUNT)."""

    task = "count"
    protocols: ClassVar = {"logarithms": "pi_count"}

    protect = OptionGroup(
        Protect,
        without=("cap", "cap_epsilon"),
        privacy_unit=RECORDS_ALONE,
        epsilon={
            "help": "the ε of a record in a small group, which is charged; in larger groups a record's ε is "
            "smaller"
        },
    )
    randomness = OptionGroup(Randomness, without=("noise",))
    relative_error = usual(
        "0.1", parse_share, "average relative error of a count: 0.1 (default) is a tenth of it"
    )
    error_from = usual("100", _COUNT, "the smallest count that has to keep to --relative-error")
    error_to = usual("1048576", _COUNT, "the largest")

    @property
    def target(self) -> ErrorTarget:
        """The target error; an empty range raises OptionError."""
        from fairshares.protocols.mechanisms.shifted_log import ErrorTarget

        low = self.error_from
        high = self.error_to
        if low > high:
            raise OptionError(
                f"{named('error_from', low)} is above {named('error_to', high)}; give a range of counts."
            )
        return ErrorTarget(self.relative_error, low, high)


class CountCall(ReleaseCall):
    """A call of `count`."""

    request = OptionGroup(CountRequest)


class CountOptions(ReleaseOptions):
    """The options of `count`."""

    call = OptionGroup(CountCall)
