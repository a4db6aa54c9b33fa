"""The process on a host that answers requests over ssh, for one party, and ends with the connection.

`./inv hosts.…`, or a forced command, starts it as
`python -m fairshares.harness.hosts.agent DIRECTORY [MP_SPDZ_HOME [COORDINATOR]]`.
Reveals: public facts about the host, headers of share files, certificates, opened values, times and sizes; no
share, no key, no random bit.  [test: tests/commands/test_hosts.py]
"""

import os
import queue
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from fairshares.harness.errors import SHELL, FairSharesError, HostUnfitError, naming
from fairshares.harness.hosts import local_host, wire
from fairshares.harness.hosts.decision import Benchmark, Contact
from fairshares.harness.hosts.frames import AnswerFrame, EndFrame, ErrorFrame, Hello, HostFrame, Role
from fairshares.harness.hosts.host_log import Event
from fairshares.harness.hosts.listed_uploads import release_proposed
from fairshares.harness.hosts.local_host import LocalHost
from fairshares.harness.hosts.messages import (
    LONGEST,
    SHORT,
    TO_AGENT,
    Answering,
    Bye,
    Check,
    Clean,
    Collect,
    Forget,
    GetReport,
    Kind,
    LeaveTurn,
    PartyEnd,
    Preprocess,
    Propose,
    ReceivedRequest,
    Removed,
    RunTrial,
    check_order,
    check_size,
    limit_s,
)
from fairshares.harness.hosts.party_run import Running, RunState
from fairshares.harness.hosts.policy import POLICY_FILE
from fairshares.harness.hosts.runs import noise_proposed, trial_proposed
from fairshares.harness.hosts.states import HostState, NoRun, State, Stepping
from fairshares.harness.pipeline.sources import request_of_run
from fairshares.harness.request.wire_form import RequestTexts
from fairshares.harness.system.signals import take_interrupts, uninterrupted
from fairshares.harness.uploads.signatures import Signed
from fairshares.protocols.json_values import JsonObject, JsonValue

_WAITING = 1  # how many requests wait at most while another one is answered, to save memory
# The time between two looks at the party and at signals, while a party runs and otherwise. If Python begins
# to wait right after the signal that ends this process, it hears of the signal only once the wait is over.
_RUNNING_S = 0.005
_IDLE_S = 1.0
_AS_ASKED = "as its coordinator asked"
_BROKE = "which broke off"
_SHOWN = 40  # the most characters that are shown of a request's name
_STANDARD_INPUT = 0
_STANDARD_OUTPUT = 1
_STANDARD_ERROR = 2


class Agent(wire.Endpoint):
    """Answers requests by `work`; when the other side is gone, it terminates this process.

    Guarantees: short requests take little memory. If the host, and not its coordinator, ends the connection,
    its owner's log says why, once.
    [tests: tests/harness/hosts/test_connection.py, tests/harness/hosts/test_host_log.py]
    """

    longest = SHORT

    def __init__(self, incoming: BinaryIO, outgoing: BinaryIO, work: wire.Answers) -> None:
        super().__init__()
        self._incoming = incoming
        self._outgoing = outgoing
        self._work = work
        self.requests: queue.Queue[ReceivedRequest] = queue.Queue(_WAITING)
        self._losing = threading.Lock()

    def write(self, line: bytes) -> None:
        try:
            self._outgoing.write(line)
            self._outgoing.flush()
        except OSError:
            self.lose()

    def lose(self, why: str | None = None) -> None:
        """End this process, as the coordinator is gone, or else as `why` says. Later calls do nothing."""
        with self._losing:
            if self.over.is_set():
                return
            self.over.set()
        if why is not None:
            self._note_end(f"The host ended the connection: {why}.")
        self._work.ends(None, _BROKE)
        os.kill(os.getpid(), signal.SIGTERM)

    def _note_end(self, why: str) -> None:
        self._work.note(Event.ENDED, None, why)
        self._work.ends(None, local_host.BY_HOST)

    def _listen(self, incoming: BinaryIO) -> None:
        why: str | None = None
        try:
            for line in self.messages(incoming):
                request = ReceivedRequest.of_line(line.fields, line.size)
                self.requests.put(request)
                if request.name == Bye.name():
                    return
        except OSError:
            pass  # the connection broke, for which there is no more to say
        except ValueError as error:
            why = f"what the coordinator sent was no message: {error}"
        self.lose(why)

    def serve(self) -> None:
        """Answer requests until the coordinator says goodbye."""
        self.begin(self._incoming)
        self._say(Hello(self._work.role).to_json())
        while True:
            request = self._next()
            if request.name == Bye.name():
                break
            limit = self._work.limit_s(self._work.known.get(request.name))
            with self._within(limit, f"The request {request.name[:_SHOWN]!r}"):
                self._say(self._answer(request))
        self._work.ends(Bye.name(), _AS_ASKED)

    def _within(self, seconds: float, what: str) -> AbstractContextManager[None]:
        """End this process in an orderly way if the block, or sending what it says, takes longer."""
        why = f"{what} took longer than its limit, {seconds:g} s, and the agent ended."
        return wire.limited(seconds, self._end, why)

    def _end(self, why: str) -> None:
        """End this process in an orderly way, as `why` says."""
        self._note_end(why)
        local_host.end_agent(why)

    def _say(self, message: JsonObject | HostFrame) -> None:
        self.longest = self._work.longest  # before the other side learns that it may send more
        self.send(message)

    def _next(self) -> ReceivedRequest:
        """Return the next request; until it comes, tell the coordinator if the party has ended."""
        while True:
            if self._work.is_running:
                self._say_if_ended()
            timeout = _RUNNING_S if self._work.is_running else _IDLE_S
            with suppress(queue.Empty):
                return self.requests.get(timeout=timeout)

    def _say_if_ended(self) -> None:
        with self._within(self._work.limit_s(GetReport), "The end of a run"):
            ended = self._work.ended()
            if ended is not None:
                self._say(EndFrame(end=ended))

    def _answer(self, request: ReceivedRequest) -> AnswerFrame | ErrorFrame:
        """Return the answer to a request, or the error that refuses it, in the words of whoever reads it."""
        shown = request.name[:_SHOWN]
        kind: type[Exception] = HostUnfitError
        try:
            with naming(request.surface.used):
                return AnswerFrame(answer=self._answer_to(request))
        except FairSharesError as error:
            kind = type(error)
            message = str(error)
        except OSError as error:
            place = f" ({error.filename})" if error.filename else ""
            message = f"{error.strerror}{place}."
        except Exception as error:  # noqa: BLE001  # of a request that nobody thought of; it ends nothing
            message = f"It failed at the request {shown!r} ({type(error).__name__})."
        self._work.note(Event.REFUSED, shown, message)
        return ErrorFrame(error=kind.__name__, text=message)

    def _answer_to(self, request: ReceivedRequest) -> JsonValue:
        """Return the answer to a request as it is sent.

        Raises HostUnfitError for an unknown request, or as its handler.
        """
        kind = self._work.known.get(request.name)
        self._work.admit(kind)
        handler = self._work.handlers.get(request.name)
        if kind is None or handler is None:
            raise HostUnfitError(f"It does not know the request {request.name[:_SHOWN]!r}.")
        check_size(kind, request.size)
        return wire.as_sent(handler.answer(request.fields))


class Work(wire.Answers):
    """One host's work for one connection.

    Attributes:
        host: This machine.
        state: The steps that were done for the connection. Only a step that was not refused changes the
            state.
    """

    role = Role.AGENT
    known = TO_AGENT

    def __init__(self, directory: Path, stack: ExitStack, coordinator: str = "") -> None:
        self.host = LocalHost(directory, stack, coordinator)
        self.state: HostState = NoRun()

    @property
    def handlers(self) -> dict[str, Answering]:
        handlers: list[Answering] = [
            Propose.answered_by(self.propose),
            Preprocess.answered_by(self.preprocess),
            RunTrial.answered_by(self.run_trial),
            Forget.answered_by(self.forget),
            Collect.answered_by(self.collect),
            Clean.answered_by(self.clean),
            LeaveTurn.answered_by(self.leave_turn),
        ]
        handlers += self.host.handlers()
        handlers += [_Taking(self, stepping) for stepping in self.state.steps()]
        return {handler.name: handler for handler in handlers}

    @property
    def longest(self) -> int:
        """The most bytes of the next request, few until the owner's policy has accepted a run."""
        return SHORT if self.state.NAME is State.NO_RUN else LONGEST

    @property
    def is_running(self) -> bool:
        return self.state.NAME is State.RUNNING

    def ended(self) -> PartyEnd | None:
        if not isinstance(self.state, Running):
            return None
        with uninterrupted():  # otherwise an end might not be noted, or twice
            step = self.state.polled()
            self.state = step.state
        return step.answer

    def admit(self, kind: Kind | None) -> None:
        """Raise an error unless this coordinator may ask for this now.

        A host without a policy answers `check`, and nothing else.

        Guarantees: a refused request changes nothing, and charges nothing.
        [test: tests/harness/hosts/test_states.py]

        Raises:
            PolicyError: The owner's policy does not allow it.
            HostUnfitError: The state of the connection does not allow it.
        """
        if kind is not Check or os.path.lexists(self.host.directory / POLICY_FILE):
            self.host.ask_owner(Contact())
        if kind is not None:
            check_order(self.state, kind)

    def limit_s(self, kind: Kind | None) -> float:
        return limit_s(self.state.NAME, kind)

    def note(self, event: Event, request: str | None, said: str) -> None:
        self.host.log.write(event, request, said, self.state.run)

    def ends(self, request: str | None, how: str) -> None:
        self.host.ends(request, how)

    def enter(self, state: HostState) -> None:
        """Go on in a state, and take the steps that follow from it by themselves."""
        self.state = state  # first, so that an interrupt ends the party of this state
        with uninterrupted():
            self.state = state.entered()

    def propose(self, message: Propose) -> None:
        """Take a release, and the host's turn, so that this connection signs no run but this one.

        Raises as `release_proposed`.
        """
        self._take(release_proposed(self.host, message))
        self.note(Event.ANSWERED, Propose.name(), _described("A release", message.asked))

    def preprocess(self, message: Preprocess) -> None:
        """Take a run that makes noise ahead, in place of the last such run. Raises as `noise_proposed`."""
        self._take(noise_proposed(self.host, message))
        self.note(Event.ANSWERED, Preprocess.name(), _described("Noise for a release", message.asked))

    def run_trial(self, message: RunTrial) -> None:
        """Take a run on made-up records or integers, in place of the last such run.

        Guarantees: `aggregate` alone reads shares, after `propose`, which no connection with a benchmark run
        has.
        [test: tests/harness/hosts/test_preparation.py]

        Raises PolicyError if the owner does not allow it, or as `trial_proposed`.
        """
        self.host.ask_owner(Benchmark(message.trial.title, message.trial.foreign_program))
        self._take(trial_proposed(self.host, message))
        self.note(Event.ANSWERED, RunTrial.name(), f"A benchmark run in model {message.trial.title}.")

    def _take(self, state: RunState) -> None:
        """Take a run in place of the last one, which ends; a refused one never gets here."""
        self.state.close()
        state.place.stack.callback(self._end_party)  # before the run's files are removed
        self.enter(state)

    def _end_party(self) -> None:
        """End the run's party with the run's place, which the connection's end closes, or the next run."""
        with uninterrupted():
            self.state = self.state.ended(self.host.note_ended_party)

    def leave_turn(self, _message: LeaveTurn) -> None:
        """End this connection's run, and let other connections have the host's turn.

        The connection stays, and may take the turn again, as any other does.
        [test: tests/harness/hosts/test_turns.py]
        """
        self.state.close()
        self.state = NoRun()
        self.host.leave_turn()
        self.note(Event.ANSWERED, LeaveTurn.name(), "Others may have the host's turn; the connection stays.")

    def forget(self, message: Forget) -> None:
        """Remove a run's opened values."""
        local_host.place_of(self.host.directory, message.run).unlink(missing_ok=True)
        said = "What the run opened is no longer kept here."
        self.host.log.write(Event.ANSWERED, Forget.name(), said, message.run)

    def collect(self, _message: Collect) -> list[Signed]:
        """Return the signed statements of runs whose results were not read."""
        signed = local_host.signed_runs(self.host.directory)
        said = f"It was told the results that this host keeps: {len(signed)}."
        self.note(Event.ANSWERED, Collect.name(), said)
        return signed

    def clean(self, _message: Clean) -> Removed:
        """End the processes of other connections, and remove their remains; return how many there were."""
        kept = [self.state.place.scratch] if isinstance(self.state, RunState) else []
        removed = local_host.clean(self.host.directory, kept)
        if removed.processes:
            self.note(Event.ENDED, Clean.name(), f"It ended other connections: {removed.processes}.")
        said = f"Directories of dead runs removed: {removed.directories}; results: {removed.records}."
        self.note(Event.ANSWERED, Clean.name(), said)
        return removed


def _described(what: str, asked: RequestTexts) -> str:
    """Return a sentence on a release that was accepted, from the texts of its request."""
    request = request_of_run(asked)
    population = f"of population {request.population!r}" if request.population else "of no population"
    return f"{what}, {request.task} {population} in model {request.model.title}."


@dataclass(frozen=True)
class _Taking(Answering):
    """Answers messages of one kind by the step to which they lead."""

    work: Work
    stepping: Stepping

    @property
    def name(self) -> str:
        return self.stepping.name

    def answer(self, fields: JsonObject) -> object:
        step = self.stepping.step(fields)
        self.work.enter(step.state)
        return step.answer


@dataclass(frozen=True)
class CoordinatorLink:
    """This process's connection with the other side.

    Attributes:
        incoming: The bytes that the other side sends.
        outgoing: The stream that takes messages to the other side, and nothing else.
        stack: The block that is closed when the connection ends, and leaves no process and no file of a run.
    """

    incoming: BinaryIO
    outgoing: BinaryIO
    stack: ExitStack

    def serve(self, work: wire.Answers) -> None:
        """Answer requests by `work` until the other side says goodbye."""
        Agent(self.incoming, self.outgoing, work).serve()


@contextmanager
def connected() -> Iterator[CoordinatorLink]:
    """Yield the connection of this process, which serves nothing else.

    Messages are for a shell, as owners start this process by commands, but answers are for whoever asks. An
    interrupt ends the process with exit code 1.
    """
    take_interrupts()
    os.umask(0o077)
    # `sys.stdin` is not used: closing it at Python's end fails while a thread still reads from it.
    incoming = os.fdopen(os.dup(_STANDARD_INPUT), "rb")
    outgoing = os.fdopen(os.dup(_STANDARD_OUTPUT), "wb")
    os.dup2(_STANDARD_ERROR, _STANDARD_OUTPUT)  # so that only messages go to the other side
    try:
        with naming(SHELL), ExitStack() as stack:
            yield CoordinatorLink(incoming, outgoing, stack)
    except KeyboardInterrupt:
        sys.exit(1)


def main(arguments: list[str]) -> None:
    """Serve a coordinator.

    Args:
        arguments: The host's directory, and optionally MP-SPDZ's directory and the coordinator's name.
    """
    directory = arguments[0]
    home = arguments[1] if len(arguments) > 1 else ""
    coordinator = arguments[2] if len(arguments) > 2 else ""
    if home:
        os.environ["MP_SPDZ_HOME"] = home
    with connected() as connection:
        work = Work(Path(directory), connection.stack, coordinator)
        work.host.expect_turn()
        connection.serve(work)


if __name__ == "__main__":
    main(sys.argv[1:])
