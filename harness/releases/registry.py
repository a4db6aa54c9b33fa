"""All releases: the list to which a new one is added. All else finds them by it.

A release is a folder beside this file, with the name of its task: `request.py` (what is asked for, which
imports nothing that is slow to load), `spec.py` (its programs), `statistic.py` and `view.py`.
"""

from collections.abc import Mapping

from fairshares.harness.errors import OptionError
from fairshares.harness.releases.cap.request import CapOptions
from fairshares.harness.releases.confusion.request import ConfusionOptions
from fairshares.harness.releases.count.request import CountOptions
from fairshares.harness.releases.gap.request import GapOptions
from fairshares.harness.releases.sums.request import RevealRequest
from fairshares.harness.releases.thresholds.request import ThresholdsOptions
from fairshares.harness.releases.weights.request import WeightsOptions
from fairshares.harness.request.commands import ReleaseOptions
from fairshares.harness.request.fields import as_text
from fairshares.harness.request.releases import ReleaseCall
from fairshares.harness.request.request import JOINT, SIGNED, Request

_ALL: tuple[type[ReleaseOptions], ...] = (
    WeightsOptions,
    ConfusionOptions,
    ThresholdsOptions,
    GapOptions,
    CountOptions,
    CapOptions,
)  # in the order of lists that users read

RELEASES: Mapping[str, type[ReleaseOptions]] = {options.task(): options for options in _ALL}
CALLS: Mapping[str, type[ReleaseCall]] = {task: options.call.kind for task, options in RELEASES.items()}
REQUESTS: Mapping[str, type[Request]] = {task: call.request.kind for task, call in CALLS.items()}
# Also what is released of uploads alone, as a part of something larger, and by no command of its own.
OF_UPLOADS: Mapping[str, type[Request]] = {**REQUESTS, RevealRequest.task: RevealRequest}


def one_of_releases() -> str:
    """Return the words of help that list all releases, of which the first is the default."""
    first, *others, last = RELEASES
    return f"{first} (default), {', '.join(others)} or {last}"


def releases_of_slots() -> str:
    """Return the words of help that list the releases in which a client's cap is one of slots."""
    *others, last = (task for task, request in REQUESTS.items() if request.slots)
    return f"{', '.join(others)} and {last}"


def offering(field: str) -> tuple[str, ...]:
    """Return the tasks whose commands have an option."""
    return tuple(task for task, options in RELEASES.items() if field in options.declared)


def planned_by(size: str) -> tuple[str, ...]:
    """Return the tasks whose plans may be told a size."""
    return tuple(task for task, options in RELEASES.items() if size in options.expected.declared)


def capped_releases() -> tuple[str, ...]:
    """Return the tasks whose releases take a contribution bound."""
    return offering("cap")


def with_distributed_noise() -> tuple[str, ...]:
    """Return the tasks whose releases have a place for noise that each party makes by itself."""
    return offering("noise")


def request_from_json(fields: object) -> Request:
    """Return the request that `Request.to_json` wrote, or raise OptionError."""
    given = dict(fields) if isinstance(fields, Mapping) else {}
    task = given.pop("task", None)
    try:
        kind = OF_UPLOADS[str(task)]
        if "noise_family" in kind.declared and given.get("noise", JOINT) == JOINT:
            given.setdefault("noise_family", SIGNED)  # the only one of version 1.0, which names none
        for name, text in given.items():
            if name not in kind.declared or not isinstance(text, str):
                raise OptionError("a field that no such request has")
            if kind.declared[name].parse is None and text != as_text(True):
                raise OptionError("a switch that is neither left out nor on")
        request = kind(**given)
        _ = request.form
    except (KeyError, OptionError):
        raise OptionError(
            f"The run that is asked for ({str(task)[:20]}) is none that this version knows; both machines "
            "need the same commit."
        ) from None
    return request
