"""The steps that a host's agent has done for its connection: a state, as a value.

`messages` says by the names of states and of kinds of runs when a request is answered. Each class of states
has the answers themselves, as methods that return a `Step` to the next state and change no state.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Generic, TypeVar

from fairshares.protocols.json_values import JsonObject

Answer_co = TypeVar("Answer_co", covariant=True)


class State(StrEnum):
    """The names of states; the value says in a refusal what the agent has done.

    They come in this order. A run of noise or of synthetic records begins as `FED`. A run to which clients
    send begins as `INVITED`, and is never `FED`.
    """

    NO_RUN = "it takes part in no run"
    PROPOSED = "it has accepted a run and not listed its uploads"
    GIVEN = "it has found an aggregate and not read it"
    LISTED = "it has listed its uploads and not added them up"
    PROMISED = "it has allowed a program and has not got all of it"
    FED = "it has a run's inputs and has prepared no party"
    INVITED = "clients send to its run and it has prepared no party"
    PREPARED = "it has prepared a party and not started it"
    STARTED = "its party has started and is not ready"
    READY = "its party is ready and it has agreed to no run"
    AGREED = "it has agreed to a run that has not begun"
    RUNNING = "its party runs"
    MADE = "its party has made noise that it has not kept"
    OVER = "its party's run is over"


class RunKind(StrEnum):
    """The kinds of runs that a connection may be for; the value says in a refusal what it takes part in."""

    NONE = "it takes part in no run"
    RELEASE = "it takes part in a release"
    NOISE = "it takes part in a run that makes noise"
    TRIAL = "it takes part in a benchmark run"


ALL = frozenset(State)
ALL_KINDS = frozenset(RunKind)
NOT_RUNNING = ALL - {State.RUNNING}  # while nobody waits for a party
WITH_PARTY = frozenset(
    {State.PREPARED, State.STARTED, State.READY, State.AGREED, State.RUNNING, State.MADE, State.OVER}
)


class HostState(ABC):
    """The state of an agent's connection, as a value that nothing changes.

    Attributes:
        NAME: The state's name in the table of messages.
    """

    NAME: ClassVar[State]

    @property
    @abstractmethod
    def kind(self) -> RunKind:
        """The kind of the connection's run."""

    @property
    def run(self) -> str | None:
        """The name of the connection's run, None while it has none."""
        return None

    @abstractmethod
    def steps(self) -> Sequence["Stepping"]:
        """Return how it answers each kind of messages that leads on from it, or asks for what it holds."""

    def entered(self) -> "HostState":
        """Do what follows from this state by itself, which nothing refuses; return the state after that."""
        return self

    def ended(self, note: Callable[[str], None]) -> "HostState":
        """End its party, if there is one, and return the state after that.

        Args:
            note: A function that is told the run's name, and tells the host's owner that a party that had
                begun would have gone on.
        """
        del note  # there is no party to tell of
        return self

    def close(self) -> None:  # noqa: B027  # without a run there is nothing to close
        """End its run, and remove the run's files."""


@dataclass(frozen=True)
class Step(Generic[Answer_co]):
    """The outcome of a message.

    Attributes:
        state: The connection's state from now on.
        answer: The answer to the message.
    """

    state: HostState
    answer: Answer_co


class Stepping(ABC):
    """A function that answers messages of one kind by a step, whichever kind it is."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The name of the kind."""

    @abstractmethod
    def step(self, fields: JsonObject) -> Step[object]:
        """Return the step that a message with these fields leads to.

        Guarantees: if it raises, nothing has changed: no state, no charge, and no file that outlives a call.
        [test: tests/harness/hosts/test_states.py]

        Raises HostUnfitError for fields of another version, or what the function raises that answers.
        """


@dataclass(frozen=True)
class NoRun(HostState):
    """The state of a connection that takes part in no run."""

    NAME = State.NO_RUN

    @property
    def kind(self) -> RunKind:
        return RunKind.NONE

    def steps(self) -> Sequence[Stepping]:
        return ()
