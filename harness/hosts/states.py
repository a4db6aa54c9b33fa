"""The states of a connection to a host's agent; `messages` says which requests each allows."""

from enum import StrEnum


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


ALL = frozenset(State)
NOT_RUNNING = ALL - {State.RUNNING}  # while nobody waits for a party
