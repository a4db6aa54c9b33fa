"""Runs and watches a run's parties, and says whose fault a failure is."""

import math
import random
import re
import shutil
import signal
import socket
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from threading import Thread
from types import MappingProxyType
from typing import BinaryIO, TypeAlias

from fairshares.harness.engines.base import Address, Job, parse_outputs
from fairshares.harness.engines.parties.handle import (
    LocalProcess,
    PartyProcess,
    PartySetup,
    PartyState,
    Reason,
    reasons_in,
)
from fairshares.harness.errors import (
    ClientError,
    FairSharesError,
    PartyFailedError,
    PartyTimeoutError,
    UnsupportedError,
    named,
)
from fairshares.harness.online.session import ClientInputs, Server
from fairshares.harness.system.signals import uninterrupted
from fairshares.harness.uploads.signatures import Signed

_POLL_S = 0.005
_GRACE_S = 0.5  # from the first failure until the others are stopped, so that the culprit is seen
_SEARCH_S = 1.5  # the same where all failed parties only lost others, and the culprit is still unknown
_PORTS = range(12000, 30000)  # below the ephemeral range, so that no client socket takes one meanwhile
_BLOCK = 16  # ports of one holder


@contextmanager
def free_ports(count: int) -> Iterator[list[int]]:
    """Yield up to 15 free ports of this machine, or raise UnsupportedError.

    Guarantees: no two holders on one machine share a port, as each binds the first port of its block.
    [test: tests/harness/engines/test_ports.py]
    """
    for first in random.SystemRandom().sample(_PORTS[::_BLOCK], len(_PORTS[::_BLOCK])):
        ports = range(first + 1, min(first + _BLOCK, _PORTS.stop))
        with socket.socket() as guard:
            if _bind(guard, first) and len(free := [port for port in ports if _is_free(port)]) >= count:
                yield free[:count]
                return
    raise UnsupportedError(
        f"No {count} free TCP ports between {_PORTS.start} and {_PORTS.stop}; stop what uses them."
    )


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        return _bind(probe, port)


def _bind(one: socket.socket, port: int) -> bool:
    with suppress(OSError):
        one.bind(("", port))
        return True
    return False


StartsParty: TypeAlias = Callable[[PartySetup, Path], LocalProcess]
"""Lays a party out in a new directory, from which its process is started."""


@contextmanager
def waiting_parties(
    job: Job,
    setups: Sequence[PartySetup],
    work: Path,
    timeout_s: float,
    lay_out: StartsParty = LocalProcess,
) -> Iterator["WaitingParties"]:
    """Yield a process per setup on this machine, each with its inputs; they wait until they may go.

    Guarantees: afterwards, also after KeyboardInterrupt, all processes have ended and `work`, which must be
    new, is gone.  [test: tests/commands/test_faults.py]

    Raises UsedDirectoryError, PartyTimeoutError, or PartyFailedError for the first party to fail.
    """
    with _laid_out(setups, work, lay_out) as parties, started(parties, timeout_s) as waiting:
        yield WaitingParties(job, parties, waiting, setups)


@contextmanager
def _laid_out(setups: Sequence[PartySetup], work: Path, lay_out: StartsParty) -> Iterator[list[LocalProcess]]:
    work.mkdir(mode=0o700, parents=True)
    try:
        yield [lay_out(setup, work / f"party-{setup.config.party}") for setup in setups]
    finally:
        with uninterrupted():
            shutil.rmtree(work, ignore_errors=True)


class Rounds:
    """Parties that take a column each per round, and print opened values."""

    def __init__(
        self, job: Job, parties: Sequence[LocalProcess], logs: list[BinaryIO], timeout_s: float
    ) -> None:
        self._outputs, self._parties, self._logs, self._timeout_s = job.spec.outputs, parties, logs, timeout_s

    def open(self, columns: Sequence[bytes]) -> dict[str, tuple[int, ...]]:
        """Hand each party its column; return the opened values.

        Raises PartyFailedError, PartyTimeoutError or OutputError.
        """
        deadline = time.monotonic() + self._timeout_s
        for party, column in zip(
            self._parties, columns, strict=True
        ):  # in threads, as a pipe has little room
            Thread(target=party.send, args=(column,), daemon=True).start()
        lines: dict[int, str] = {}
        pause = 0.0005  # between looks at the outputs, at first
        while missing := [i for i in range(len(self._parties)) if i not in lines]:
            found = {i: line for i in missing if (line := self._next_line(i)) is not None}
            lines |= found
            if not found:
                if any(party.exit_code() for party in self._parties):
                    _watch(self._parties, deadline, self._timeout_s)
                if time.monotonic() > deadline:
                    raise PartyTimeoutError(_still_running(self._parties, lines, self._timeout_s))
                time.sleep(pause)
                pause = min(_POLL_S, 1.2 * pause)
        return parse_outputs([[lines[i]] for i in range(len(lines))], self._outputs)

    def finish(self) -> list[PartyState]:
        """Wait for the parties' end; return their states, or raise as `open`."""
        _watch(self._parties, time.monotonic() + self._timeout_s, self._timeout_s)
        return [party.state() for party in self._parties]

    def _next_line(self, i: int) -> str | None:
        log = self._logs[i]
        while True:
            begin = log.tell()
            line = log.readline()
            if not line.endswith(b"\n"):
                log.seek(begin)
                return None
            if line.startswith(b"OUT "):
                return line.decode()


@dataclass(frozen=True)
class Waiting:
    """Parties on any machines, each with its certificate, which wait for the others' to go on.

    Attributes:
        parties: In the order of their numbers.
        certificates: Of their links, by party.
        left_s: The seconds that are left for the computation. A charge takes nothing of them.
        timeout_s: What is said to have been too short.
    """

    parties: Sequence[PartyProcess]
    certificates: Mapping[int, str]
    left_s: float
    timeout_s: float

    def go(self) -> float:
        """Hand all parties the others' certificates, and return until when they have time."""
        deadline = time.monotonic() + self.left_s
        with ThreadPoolExecutor(len(self.parties)) as pool:  # at once, as they wait for each other
            list(pool.map(self._let_go, self.parties))
        return deadline

    def _let_go(self, party: PartyProcess) -> None:
        party.go(self.certificates)

    def finish(
        self,
        clients: ClientInputs | None = None,
        addresses: Sequence[Address] = (),
        signed: Mapping[int, Signed] = MappingProxyType({}),
    ) -> list[PartyState]:
        """Let the parties go, and wait for their end; return their states.

        Args:
            clients: Send while the parties run.
            addresses: Where clients find the gateways.
            signed: The hosts' statements by party, which clients are told; none of parties on this machine.

        Raises as `waiting_parties`, and ClientError.
        """
        deadline = self.go()
        begun: AbstractContextManager[None] = nullcontext()
        if clients is not None:
            servers = [
                Server(*address, self.certificates[party], signed.get(party))
                for party, address in enumerate(addresses)
            ]
            begun = clients.begin(servers)
        with begun:
            _watch(self.parties, deadline, self.timeout_s)
        return [party.state() for party in self.parties]


@contextmanager
def started(parties: Sequence[PartyProcess], timeout_s: float) -> Iterator[Waiting]:
    """Start parties on any machines, and yield them once all wait.

    Guarantees: afterwards all processes have ended.  [test: tests/commands/test_faults.py]
    """
    try:
        for party in parties:
            party.start()
        deadline = time.monotonic() + timeout_s
        certificates: dict[int, str] = {}
        for number, party in enumerate(parties):
            certificate = party.certificate(deadline - time.monotonic())
            if certificate is None:
                raise PartyTimeoutError(
                    f"{party.name} did not start within {timeout_s:g} s; all were stopped."
                )
            certificates[number] = certificate
        yield Waiting(parties, certificates, deadline - time.monotonic(), timeout_s)
    finally:
        with uninterrupted():
            for party in parties:
                party.kill()
            for party in parties:
                party.close()


class WaitingParties:
    """A job's parties on this machine, which wait until they may go."""

    def __init__(
        self, job: Job, parties: Sequence[LocalProcess], waiting: Waiting, setups: Sequence[PartySetup]
    ) -> None:
        self._job = job
        self._parties = parties
        self._waiting = waiting
        gateways = [setup.config.gateway for setup in setups]
        self._gateways = [(gateway.host, gateway.port) for gateway in gateways if gateway is not None]

    def finish(self) -> list[PartyState]:
        """Let the parties go, wait for their end, and keep the noise that they made; return their states."""
        states = self._waiting.finish(self._job.sending, self._gateways)
        for party in self._parties:
            party.keep()
        return states

    @contextmanager
    def rounds(self) -> Iterator[Rounds]:
        """Let the parties go, and yield their rounds."""
        with ExitStack() as stack:
            self._waiting.go()
            logs: list[BinaryIO] = [stack.enter_context(party.log.open("rb")) for party in self._parties]
            yield Rounds(self._job, self._parties, logs, self._waiting.timeout_s)


def _watch(parties: Sequence[PartyProcess], deadline: float, timeout_s: float) -> None:
    codes: dict[int, int] = {}
    failed_at = math.inf
    while len(codes) < len(parties):
        time.sleep(_POLL_S)
        now = time.monotonic()
        codes = {i: code for i, party in enumerate(parties) if (code := party.exit_code()) is not None}
        failed = [i for i, code in codes.items() if code]
        if not failed and now > deadline:
            raise PartyTimeoutError(_still_running(parties, codes, timeout_s))
        failed_at = min(failed_at, now) if failed else math.inf
        all_ended = len(codes) == len(parties)
        if failed and (all_ended or now - failed_at > _GRACE_S):
            errors = [reasons_in(party.state().lines) for party in parties]
            culprits = _culprits(codes, errors, failed)
            if culprits or all_ended or now > min(failed_at + _SEARCH_S, deadline):
                raise _failure(parties, codes, errors, failed, culprits)


def _failure(
    parties: Sequence[PartyProcess],
    codes: Mapping[int, int],
    errors: Sequence[Sequence[Reason]],
    failed: Sequence[int],
    culprits: Sequence[int],
) -> FairSharesError:
    for reason in chain.from_iterable(errors):
        if reason.is_of_clients:
            return ClientError(f"{reason.text} The parties were stopped; no result was written.")
    if not culprits:
        lines = dict.fromkeys(reason.shown for i in failed for reason in errors[i])
        return PartyFailedError(
            f"Connections between the parties were lost (by {', '.join(map(str, sorted(failed)))}), and no "
            "party failed otherwise: look at the network between them. All were stopped and no result was "
            f"written. Last lines: {' | '.join(lines)}"
        )
    failed_checks = {i: [match for reason in errors[i] if (match := reason.failed_check)] for i in failed}
    checks = {i: matches[0] for i, matches in sorted(failed_checks.items()) if matches}
    if checks and codes[culprits[0]] > 0:
        return PartyFailedError(_one_of(len(errors), checks))
    return PartyFailedError(_end_of(parties, codes, culprits[0], errors))


def _culprits(
    codes: Mapping[int, int], errors: Sequence[Sequence[Reason]], failed: Sequence[int]
) -> list[int]:
    """Return failed parties that did more than lose a peer, the likeliest first."""
    killed = [i for i in failed if codes[i] < 0]
    # A party that lost its peer fails right after it, and may be seen first.
    lost_nobody = [i for i in failed if not any(reason.is_lost_peer for reason in errors[i])]
    did_more = [i for i in failed if not all(reason.is_lost_peer for reason in errors[i])]
    return killed + lost_nobody + did_more


def _end_of(
    parties: Sequence[PartyProcess],
    codes: Mapping[int, int],
    culprit: int,
    errors: Sequence[Sequence[Reason]],
) -> str:
    code = codes[culprit]
    names = {number.value: number.name for number in signal.Signals}
    how = f"was killed by {names.get(-code, -code)}" if code < 0 else f"ended with exit code {code}"
    shown = [reason.shown for reason in errors[culprit][-3:]]
    last = f" Its last lines: {' | '.join(shown)}" if shown else ""
    if parties[culprit].state().no_room:
        last = f" There is no room left on the disk.{last}"
    others = ", ".join(f"{i}: {codes.get(i)}" for i in range(len(parties)) if i != culprit)
    return (
        f"{parties[culprit].name} {how}; the others were stopped and no result was written "
        f"(exit codes of the others, None where still running: {others}).{last}"
    )


def _one_of(parties: int, checks: Mapping[int, re.Match[str]]) -> str:
    """Say who may have deviated; a party that accuses two others may lie."""
    pairs = [{int(match[3]), int(match[4]), i} for i, match in checks.items() if match[3]]
    everybody = set(range(parties))
    who = " or ".join(map(str, sorted(everybody.intersection(*pairs) or everybody)))
    texts = " | ".join(dict.fromkeys(match[0] for match in checks.values()))
    return (
        f"A check of what parties sent each other failed (at party {', '.join(map(str, checks))}: {texts}): "
        f"one of the parties {who} deviated, or its machine is faulty, and it cannot be told which. All were "
        "stopped and no result was written."
    )


def _still_running(parties: Sequence[PartyProcess], ended: Collection[int], timeout_s: float) -> str:
    running = [i for i in range(len(parties)) if i not in ended]
    stopped = [i for i in running if parties[i].state().stopped]
    hint = f" (stopped: {', '.join(map(str, stopped))})" if stopped else ""
    return (
        f"Parties {', '.join(map(str, running))} had not finished after {timeout_s:g} s{hint}; "
        f"all were stopped and no result was written. Give more time with {named('timeout')}."
    )
