"""The states of a connection to a host's agent, the requests that each allows, and their time limits."""

from enum import StrEnum

from harness.errors import HostUnfitError


class State(StrEnum):
    """What an agent has done for its connection; the value says it in a refusal.

    They come in this order; a run of noise or of synthetic records begins with its inputs.
    """

    NO_RUN = "it takes part in no run"
    PROPOSED = "it has accepted a run and not listed its uploads"
    LISTED = "it has listed its uploads and not added them up"
    SPOILT = "it has failed to add its shares up"
    FED = "it has a run's inputs and has prepared no party"
    PREPARED = "it has prepared a party and not started it"
    STARTED = "its party has started and is not ready"
    READY = "its party is ready and it has agreed to no run"
    AGREED = "it has agreed to a run that has not begun"
    RUNNING = "its party runs"
    OVER = "its party's run is over"


_AT_REST = frozenset({"forget", "collect", "clean", "stop_listening"})  # of no run in particular
_LOOKING = frozenset({"check", "listen", "reach", "time_links"})
_NEXT = frozenset({"preprocess", "benchmark"})  # in place of the last such run
_BETWEEN = _AT_REST | _LOOKING | _NEXT | {"kill"}
ALLOWED: dict[State, frozenset[str]] = {
    State.NO_RUN: _AT_REST | _LOOKING | _NEXT | {"propose"},
    State.PROPOSED: _BETWEEN | {"check_uploads", "aggregate"},
    State.LISTED: _BETWEEN | {"read_list", "take_list", "aggregate"},
    State.SPOILT: _BETWEEN | {"read_list"},
    State.FED: _BETWEEN | {"read_list", "prepare"},
    State.PREPARED: _BETWEEN | {"read_list", "start"},
    State.STARTED: _BETWEEN | {"read_list", "certificate", "state"},
    State.READY: _BETWEEN | {"read_list", "certificate", "state", "agree"},
    State.AGREED: _BETWEEN | {"read_list", "certificate", "state", "go"},
    State.RUNNING: _AT_REST | {"kill", "state"},
    State.OVER: _BETWEEN | {"read_list", "state", "keep"},
}
REQUESTS = frozenset().union(*ALLOWED.values())

CERTIFICATE_S = 600.0  # for a party to make its certificate
_USUAL_S, _WORK_S, _RUNNING_S = 660.0, 3600.0, 120.0
_OF_ITS_INPUTS = frozenset({"check_uploads", "aggregate", "prepare"})  # which grow with the uploads


def check_order(state: State, request: str) -> None:
    """Raise HostUnfitError if a known request comes in a state that does not allow it."""
    if request in REQUESTS and request not in ALLOWED[state]:
        raise HostUnfitError(
            f"It does not answer {request!r} now, as {state}; nothing was changed: a connection is for one "
            "run, whose requests have an order."
        )


def limit_s(state: State, request: str) -> float:
    """Return the seconds for a request, after which its connection ends.

    While a party runs, an agent is soon back at the limits of the run itself.
    """
    if state is State.RUNNING:
        return _RUNNING_S
    return _WORK_S if request in _OF_ITS_INPUTS else _USUAL_S
