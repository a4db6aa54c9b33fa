"""The process on a host that answers requests over ssh, for one party, and ends with the connection.

`./inv hosts.…`, or a forced command, starts it as `python -m harness.hosts.agent DIRECTORY [MP_SPDZ_HOME
[COORDINATOR]]`.
Reveals: public facts about the host, headers of share files, certificates, opened values, times and sizes; no
share, no key, no random bit.  [test: tests/commands/test_hosts.py]
"""

import os
import queue
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, BinaryIO

from harness.errors import FairSharesError, HostUnfitError
from harness.hosts import local_host, wire
from harness.hosts.decision import Benchmark, Contact
from harness.hosts.guard import Guard, once
from harness.hosts.host_log import Event
from harness.hosts.local_host import LocalHost
from harness.hosts.party_run import BenchmarkRun, PartyRun, Preparation, ReleaseRun
from harness.hosts.policy import FILE
from harness.hosts.states import State, check_order, limit_s
from harness.hosts.trials import Trial
from harness.system.documents import Refusal, call
from harness.system.signals import take_interrupts

_WAITING = 1  # request beside the one being answered, to save memory
_AS_ASKED = "as its coordinator asked"
_BROKE = "which broke off"


class Agent(wire.Line):
    """Answers requests by `work`; when the other side is gone, it terminates this process.

    Guarantees: short requests take little memory. If the host, and not its coordinator, ends the connection,
    its owner's log says why, once.
    [tests: tests/harness/hosts/test_connection.py, tests/harness/hosts/test_host_log.py]
    """

    longest = wire.SHORT

    def __init__(self, incoming: BinaryIO, outgoing: BinaryIO, work: wire.Answers, role: str) -> None:
        super().__init__()
        self._incoming, self._outgoing = incoming, outgoing
        self._work, self._role = work, role
        self.requests: queue.Queue[dict[str, Any]] = queue.Queue(_WAITING)
        self._losing = threading.Lock()

    def write(self, line: bytes) -> None:
        try:
            self._outgoing.write(line)
            self._outgoing.flush()
        except OSError:
            self.lose()

    def lose(self, why: str = "") -> None:
        """End this process, as the coordinator is gone, or else as `why` says. Later calls do nothing."""
        with self._losing:
            if self.over.is_set():
                return
            self.over.set()
        if why:
            self._note_end(f"The host ended the connection: {why}.")
        self._work.ends("", _BROKE)
        os.kill(os.getpid(), signal.SIGTERM)

    def _note_end(self, why: str) -> None:
        self._work.note(Event.ENDED, "", why)
        self._work.ends("", local_host.BY_HOST)

    def _listen(self, incoming: BinaryIO) -> None:
        why = ""
        try:
            for request in self.messages(incoming):
                self.requests.put(request)
                if request.get("do") == "bye":
                    return
        except OSError:
            pass  # the connection broke, for which there is no more to say
        except ValueError as error:
            why = f"what the coordinator sent was no message: {error}"
        self.lose(why)

    def serve(self) -> None:
        """Answer until told to end."""
        self.begin(self._incoming)
        self._say({self._role: wire.VERSION})
        while (request := self._next()).get("do") != "bye":
            asked = str(request.get("do", ""))[:40]
            with self._within(self._work.limit_s(asked), f"The request {asked!r}"):
                self._say(self._answer(request))
        self._work.ends("bye", _AS_ASKED)

    def _within(self, seconds: float, what: str) -> AbstractContextManager[None]:
        """End this process in an orderly way if the block, or sending what it says, takes longer."""

        def end(why: str) -> None:
            self._note_end(why)
            local_host.end_agent(why)

        why = f"{what} took longer than its limit, {seconds:g} s, and the agent ended."
        return wire.limited(seconds, end, why)

    def _say(self, message: dict[str, Any]) -> None:
        self.longest = self._work.longest  # before the other side learns that it may send more
        self.send(message)

    def _next(self) -> dict[str, Any]:
        while True:
            if self._work.is_running:
                self._say_if_ended()
            with suppress(queue.Empty):
                return self.requests.get(timeout=0.005 if self._work.is_running else None)

    def _say_if_ended(self) -> None:
        with self._within(self._work.limit_s("state"), "The end of a run"):
            ended = self._work.run.ended()
            if ended is not None:
                self._say({"ended": ended})

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        handlers = self._work.handlers
        asked = str(request.pop("do", ""))
        refusal = Refusal(
            HostUnfitError,
            where=f"The request {asked!r}",
            what="one of this version",
            way_out="both machines need the same commit",
        )
        kind: type[Exception] = HostUnfitError
        try:
            self._work.admit(asked)
            if asked not in handlers:
                raise HostUnfitError(f"It does not know the request {asked[:40]!r}.")
            return {"ok": call(handlers[asked], request, refusal)}
        except FairSharesError as error:
            kind, message = type(error), str(error)
        except OSError as error:
            message = f"{error.strerror}{f' ({error.filename})' if error.filename else ''}."
        except Exception as error:  # noqa: BLE001  # of a request that nobody thought of; it ends nothing
            message = f"It failed at the request {asked[:40]!r} ({type(error).__name__})."
        self._work.note(Event.REFUSED, asked[:40], message)
        return {"error": [kind.__name__, message]}


class Work(wire.Answers):
    """One host's work for one connection."""

    REQUESTS = ("propose", "preprocess", "benchmark", "forget", "collect", "clean")

    def __init__(self, directory: Path, stack: ExitStack, coordinator: str = "") -> None:
        self.host = LocalHost(directory, stack, coordinator)

    @property
    def handlers(self) -> dict[str, Callable[..., Any]]:
        answering = [
            self,
            self.host,
            self.run,
            self.run.uploads if isinstance(self.run, ReleaseRun) else None,
        ]
        return {name: getattr(one, name) for one in answering if one is not None for name in one.REQUESTS}

    @property
    def longest(self) -> int:
        """Most bytes of a request: few until the owner's policy accepts a run."""
        return wire.SHORT if self.run is None else wire.LONGEST

    def admit(self, request: str) -> None:
        """Raise PolicyError unless this coordinator may ask, HostUnfitError if not in this state.

        A host without a policy answers `check`.
        Guarantees: what is refused changes nothing, and charges nothing.
        [test: tests/harness/hosts/test_states.py]
        """
        if request != "check" or os.path.lexists(self.host.directory / FILE):
            self.host.ask_owner(Contact())
        check_order(self.state, request)

    def limit_s(self, request: str) -> float:
        return limit_s(self.state, request)

    def note(self, event: Event, request: str, said: str) -> None:
        self.host.log.write(event, request, said)

    def ends(self, request: str, how: str) -> None:
        self.host.ends(request, how)

    @property
    def state(self) -> State:
        """The state of this connection."""
        return State.NO_RUN if self.run is None else self.run.reached

    def propose(self, asked: dict[str, str]) -> None:
        """Take a release, and the turn, so that this connection signs a single run.

        Raises PolicyError, OptionError, UnsupportedError, or as `LocalHost.listen`.
        """
        self.host.take_turn()
        once(self.run, "taken part in another run")
        self.run = ReleaseRun(self.host, Guard(self.host.directory, asked, self.host.coordinator))

    def preprocess(self, asked: dict[str, str], domain: dict[str, Any]) -> None:
        """Take a run that makes noise ahead, in place of the last such run. Raises as `propose`."""
        self.host.take_turn()
        self._check_kind(Preparation)
        guard = Guard(self.host.directory, asked, self.host.coordinator)
        self._take(Preparation(self.host, guard, domain))

    def benchmark(self, party: int, trial: Trial) -> None:
        """Take a run on made-up records, in place of the last such run.

        Guarantees: `aggregate` alone reads shares, after `propose`, which no connection with a benchmark run
        has.
        [test: tests/harness/hosts/test_preparation.py]

        Raises PolicyError if the owner allows none, or as `Trial.job` and `LocalHost.listen`.
        """
        self.host.ask_owner(Benchmark(trial.security))
        self.host.take_turn()
        self._check_kind(BenchmarkRun)
        self._take(BenchmarkRun(self.host, party, trial))

    def _check_kind(self, kind: type[PartyRun[Any]]) -> None:
        once(self.run is not None and not isinstance(self.run, kind), "taken part in another run")

    def _take(self, run: PartyRun[Any]) -> None:
        """Take a run in place of the last one, which ends; a refused one never gets here."""
        if self.run is not None:
            self.run.close()
        self.run = run

    def forget(self, run: local_host.RunName) -> None:
        """Remove a run's opened values."""
        local_host.place_of(self.host.directory, run).unlink(missing_ok=True)

    def collect(self) -> list[dict[str, Any]]:
        """Return the signed statements of runs whose results were not read."""
        return [asdict(signed) for signed in local_host.signed_runs(self.host.directory)]

    def clean(self) -> local_host.Removed:
        """End other connections' processes, remove their remains; return the numbers."""
        removed = local_host.clean(self.host.directory, self.run.scratch if self.run is not None else None)
        if removed["processes"]:
            self.note(Event.ENDED, "clean", f"It ended other connections: {removed['processes']}.")
        return removed


def serve(role: str, made: Callable[[ExitStack], wire.Answers]) -> int:
    """Serve one connection; return the exit code."""
    take_interrupts()
    os.umask(0o077)
    # Not `sys.stdin`: closing it at Python's end fails while a thread still reads from it.
    incoming, outgoing = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # only messages go to the other side
    try:
        with ExitStack() as stack:  # leaves no process and no file of a run
            Agent(incoming, outgoing, made(stack), role).serve()
    except KeyboardInterrupt:
        return 1
    return 0


def main(arguments: list[str]) -> int:
    """Serve a coordinator; return the exit code."""
    directory, home, coordinator = (*arguments, "", "")[:3]
    if home:
        os.environ["MP_SPDZ_HOME"] = home

    def made(stack: ExitStack) -> Work:
        work = Work(Path(directory), stack, coordinator)
        work.host.expect_turn()
        return work

    return serve("agent", made)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
