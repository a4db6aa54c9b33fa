"""Runs and watches a run's parties, and says whose fault a failure is."""

import math
import random
import shutil
import signal
import socket
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import BinaryIO, Generic, TypeAlias

from fairshares.harness.bounds import Address
from fairshares.harness.charged import Permission
from fairshares.harness.engines.execution import Job, check_permission, parse_outputs
from fairshares.harness.engines.parties.handle import (
    NOTHING_SIGNED,
    LaidOutParty,
    LocalParty,
    LocalProcess,
    PartyHandle,
    PartyProcess,
    PartySetup,
    PartyState,
    Process,
)
from fairshares.harness.engines.parties.party_log import EndedBy, FailedCheck, Reason, reasons_in
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
from fairshares.harness.system.threads import ContextPool, ContextThread
from fairshares.harness.uploads.signatures import Signed

_POLL_S = 0.005
_GRACE_S = 0.5  # the time from the first failure until others are stopped, which shows the culprit
_SEARCH_S = 1.5  # the same where all failed parties only lost others, and the culprit is still unknown
# Signals by which a process ends through a fault of its own.
_CRASHES = frozenset((signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSEGV))
_PORTS = range(12000, 30000)  # below the ephemeral range, so that no client socket takes one meanwhile
_BLOCK = 16  # ports of one holder


@contextmanager
def free_ports(count: int) -> Iterator[list[int]]:
    """Yield free ports of this machine, or raise UnsupportedError.

    Up to 15 ports are of one block, and more are of several.
    Guarantees: no two holders on one machine share a port, as each binds the first port of its blocks.
    [test: tests/harness/engines/test_ports.py]
    """
    blocks = _PORTS[::_BLOCK]
    found: list[int] = []
    with ExitStack() as guards:
        for first in random.SystemRandom().sample(blocks, len(blocks)):
            needed = min(count - len(found), _BLOCK - 1)
            with ExitStack() as rejected:
                guard = rejected.enter_context(socket.socket())
                if not _bind(guard, first):
                    continue
                ports = range(first + 1, min(first + _BLOCK, _PORTS.stop))
                free = [port for port in ports if _is_free(port)]
                if len(free) < needed:
                    continue
                guards.enter_context(rejected.pop_all())
            found += free[:needed]
            if len(found) == count:
                yield found
                return
    raise UnsupportedError(
        f"No {count} free TCP ports between {_PORTS.start} and {_PORTS.stop}; stop what uses them."
    )


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        return _bind(probe, port)


def _bind(unbound: socket.socket, port: int) -> bool:
    """Bind a socket to a port; return whether the port was free."""
    try:
        unbound.bind(("", port))
    except OSError:
        return False
    return True


LaysPartyOut: TypeAlias = Callable[[PartySetup, Path], LocalParty]
"""Lays a party out in a new directory, from which its process is started."""


@contextmanager
def waiting_parties(
    job: Job,
    setups: Iterable[PartySetup],
    work: Path,
    timeout_s: float,
    lay_out: LaysPartyOut = LocalParty,
) -> Iterator["WaitingParties"]:
    """Yield a process per setup on this machine, each with its inputs; they wait until they may go.

    A setup is not kept: what it tells its party is in the party's directory.

    Guarantees: afterwards, also after KeyboardInterrupt, all processes have ended and `work`, which must be
    new, is gone.  [test: tests/commands/test_faults.py]

    Raises UsedDirectoryError, PartyTimeoutError, or PartyFailedError for the first party to fail.
    """
    work.mkdir(mode=0o700, parents=True)
    try:
        parties = [lay_out(setup, work / f"party-{setup.config.party}") for setup in setups]
        with started(parties, timeout_s) as waiting:
            yield WaitingParties(job, waiting)
    finally:
        with uninterrupted():
            shutil.rmtree(work, ignore_errors=True)


class Rounds:
    """Parties that take a column each per round, and print opened values."""

    def __init__(
        self, job: Job, parties: Sequence[LocalProcess], logs: list[BinaryIO], timeout_s: float
    ) -> None:
        self._outputs = job.spec.outputs
        self._parties = parties
        self._logs = logs
        self._timeout_s = timeout_s

    def open(self, columns: Sequence[bytes]) -> dict[str, tuple[int, ...]]:
        """Hand each party its column; return the opened values.

        Raises PartyFailedError, PartyTimeoutError or OutputError.
        """
        deadline = time.monotonic() + self._timeout_s
        for party, column in zip(self._parties, columns, strict=True):
            # Each pipe is read in a thread, as a pipe has little room.
            ContextThread(target=party.send, args=(column,), daemon=True).start()
        lines: dict[int, str] = {}  # lines by party
        pause = 0.0005  # between looks at the outputs, at first
        while len(lines) < len(self._parties):
            before = len(lines)
            self._read_new_lines(lines)
            if len(lines) > before:
                continue
            if any(party.exit_code() for party in self._parties):
                _watch(self._parties, deadline, self._timeout_s)
            if time.monotonic() > deadline:
                raise PartyTimeoutError(_still_running(self._parties, lines, self._timeout_s))
            time.sleep(pause)
            pause = min(_POLL_S, 1.2 * pause)
        return parse_outputs([[lines[number]] for number in range(len(lines))], self._outputs)

    def _read_new_lines(self, lines: dict[int, str]) -> None:
        """Add the line of this round of each party that has printed it meanwhile."""
        for number in range(len(self._parties)):
            if number not in lines:
                line = self._next_line(number)
                if line is not None:
                    lines[number] = line

    def finish(self) -> list[PartyState]:
        """Wait for the parties' end; return their states, or raise as `open`."""
        _watch(self._parties, time.monotonic() + self._timeout_s, self._timeout_s)
        return [party.state() for party in self._parties]

    def _next_line(self, number: int) -> str | None:
        """Return a party's next line of opened values, or None while it is not there."""
        log = self._logs[number]
        while True:
            begin = log.tell()
            line = log.readline()
            if not line.endswith(b"\n"):  # half a line, which is read again when it is whole
                log.seek(begin)
                return None
            if line.startswith(b"OUT "):
                return line.decode()


@dataclass(frozen=True)
class CertifiedParties(Generic[Process]):
    """Parties on any machines, each with its certificate, which wait for the others' to go on.

    Attributes:
        parties: The parties' processes, in the order of their numbers.
        certificates: The certificate of each party's links, by party.
        left_s: The seconds that are left for the computation. A charge takes nothing of them.
        timeout_s: The time limit that messages name.
    """

    parties: Sequence[Process]
    certificates: Mapping[int, str]
    left_s: float
    timeout_s: float

    def go(self, permission: Permission, agreed: Mapping[int, Signed] = NOTHING_SIGNED) -> float:
        """Hand all parties the others' certificates, and return the deadline of their computation.

        Args:
            permission: The permission to compute, whose makers have checked that it is for these parties.
            agreed: The statement of the run that each party's host signed, by party.
        """
        del permission  # it is what its type says
        deadline = time.monotonic() + self.left_s

        def let_go(party: PartyProcess) -> None:
            party.go(self.certificates, agreed)

        with ContextPool(len(self.parties)) as pool:  # at once, as they wait for each other
            list(pool.map(let_go, self.parties))
        return deadline

    def finish(
        self,
        permission: Permission,
        clients: ClientInputs | None = None,
        addresses: Sequence[Address] = (),
        agreed: Mapping[int, Signed] = NOTHING_SIGNED,
    ) -> list[PartyState]:
        """Let the parties go, and wait for their end; return their states.

        Args:
            permission: The permission by which the parties compute.
            clients: Send while the parties run.
            addresses: The addresses at which clients find the gateways.
            agreed: The statement of the run that each party's host signed, by party. Clients are told, too.

        Raises as `waiting_parties`, and ClientError.
        """
        deadline = self.go(permission, agreed)
        begun: AbstractContextManager[None] = nullcontext()
        if clients is not None:
            servers = [
                Server(*address, self.certificates[party], agreed.get(party))
                for party, address in enumerate(addresses)
            ]
            begun = clients.clients.begin(servers, permission)
        with begun:
            _watch(self.parties, deadline, self.timeout_s)
        return [party.state() for party in self.parties]


@contextmanager
def started(
    parties: Sequence[LaidOutParty[Process]], timeout_s: float
) -> Iterator[CertifiedParties[Process]]:
    """Start parties on any machines, and yield them once all wait.

    Guarantees: afterwards all processes have ended.  [test: tests/commands/test_faults.py]
    """
    to_end: list[PartyHandle] = list(parties)  # the parties that may have to be ended
    try:
        processes: list[Process] = []
        for number, party in enumerate(parties):
            process = party.start()
            to_end[number] = process
            processes.append(process)
        deadline = time.monotonic() + timeout_s
        certificates: dict[int, str] = {}
        for number, process in enumerate(processes):
            certificate = process.certificate(deadline - time.monotonic())
            if certificate is None:
                raise PartyTimeoutError(
                    f"{process.name} did not start within {timeout_s:g} s; all were stopped."
                )
            certificates[number] = certificate
        yield CertifiedParties(processes, certificates, deadline - time.monotonic(), timeout_s)
    finally:
        with uninterrupted():
            for handle in to_end:
                handle.kill()
            for handle in to_end:
                handle.close()


class WaitingParties:
    """A job's parties on this machine, which wait until they may go."""

    def __init__(self, job: Job, waiting: CertifiedParties[LocalProcess]) -> None:
        self._job = job
        self._waiting = waiting

    def finish(self, permission: Permission) -> list[PartyState]:
        """Let the parties go, wait for their end, and keep the noise that they made; return their states."""
        check_permission(permission, self._job)
        addresses = [party.supervised.gateway for party in self._waiting.parties]
        gateways = [address for address in addresses if address is not None]
        states = self._waiting.finish(permission, self._job.sending, gateways)
        for party in self._waiting.parties:
            party.keep()
        return states

    @contextmanager
    def rounds(self, permission: Permission) -> Iterator[Rounds]:
        """Let the parties go, and yield their rounds."""
        check_permission(permission, self._job)
        parties = self._waiting.parties
        with ExitStack() as stack:
            self._waiting.go(permission)
            logs: list[BinaryIO] = [stack.enter_context(party.log.open("rb")) for party in parties]
            yield Rounds(self._job, parties, logs, self._waiting.timeout_s)


def _watch(parties: Sequence[PartyProcess], deadline: float, timeout_s: float) -> None:
    """Wait for all parties' end; raise the failure if a party fails, or PartyTimeoutError."""
    codes: dict[int, int] = {}
    failed_at = math.inf
    while len(codes) < len(parties):
        time.sleep(_POLL_S)
        now = time.monotonic()
        codes = _exit_codes(parties)
        failed = [number for number, code in codes.items() if code != 0]
        if not failed and now > deadline:
            raise PartyTimeoutError(_still_running(parties, codes, timeout_s))
        if failed:
            failed_at = min(failed_at, now)
        else:
            failed_at = math.inf
        all_ended = len(codes) == len(parties)
        if failed and (all_ended or now - failed_at > _GRACE_S):
            errors = [reasons_in(party.state().lines) for party in parties]
            culprits = _culprits(codes, errors, failed)
            if culprits or all_ended or now > min(failed_at + _SEARCH_S, deadline):
                raise _failure(parties, codes, errors, failed, culprits)


def _exit_codes(parties: Sequence[PartyProcess]) -> dict[int, int]:
    """Return the exit codes of the parties that have ended, by number."""
    codes: dict[int, int] = {}
    for number, party in enumerate(parties):
        code = party.exit_code()
        if code is not None:
            codes[number] = code
    return codes


def _failure(
    parties: Sequence[PartyProcess],
    codes: Mapping[int, int],
    errors: Sequence[Sequence[Reason]],
    failed: Sequence[int],
    culprits: Sequence[int],
) -> FairSharesError:
    """Return the error that says why a run failed.

    Args:
        parties: All parties.
        codes: The exit codes of those that have ended.
        errors: The reasons that each party gives.
        failed: The parties that failed.
        culprits: The parties that did more than lose another party, the likeliest first.
    """
    for reason in chain.from_iterable(errors):
        if reason.ended_by is EndedBy.CLIENTS:
            return ClientError(f"{reason.text} The parties were stopped; no result was written.")
    if not culprits:
        lines: dict[str, None] = {}  # each once, in order
        for number in failed:
            lines |= dict.fromkeys(reason.shown for reason in errors[number])
        return PartyFailedError(
            f"Connections between the parties were lost (by {', '.join(map(str, sorted(failed)))}), and no "
            "party failed otherwise: look at the network between them. All were stopped and no result was "
            f"written. Last lines: {' | '.join(lines)}"
        )
    checks: dict[int, FailedCheck] = {}  # the first check that failed at each party
    for number in sorted(failed):
        failed_checks = [reason.failed_check for reason in errors[number]]
        found = [check for check in failed_checks if check is not None]
        if found:
            checks[number] = found[0]
    if checks and codes[culprits[0]] > 0:
        return PartyFailedError(_suspects(len(errors), checks))
    return PartyFailedError(_end_of(parties, codes, culprits[0], errors))


def _culprits(
    codes: Mapping[int, int], errors: Sequence[Sequence[Reason]], failed: Sequence[int]
) -> list[int]:
    """Return failed parties that did more than lose a peer, the likeliest first; some are there twice.

    A party that lost its peer fails right after the peer, and may be seen first. A machine of MP-SPDZ may
    even crash then, with or without a word, as some of its threads end while others use what they had.
    """
    killed = []  # parties that were killed from outside
    crashed = []
    lost_nobody = []
    crashed_after_a_loss = []
    did_more = []
    for number in failed:
        lost = [reason.ended_by is EndedBy.PEER for reason in errors[number]]
        if -codes[number] in _CRASHES and any(lost):
            crashed_after_a_loss.append(number)
        elif -codes[number] in _CRASHES:
            crashed.append(number)
        elif codes[number] < 0:
            killed.append(number)
        if not any(lost):
            lost_nobody.append(number)
        if not all(lost):
            did_more.append(number)
    return killed + crashed + lost_nobody + crashed_after_a_loss + did_more


def _end_of(
    parties: Sequence[PartyProcess],
    codes: Mapping[int, int],
    culprit: int,
    errors: Sequence[Sequence[Reason]],
) -> str:
    """Say how a party ended, and how the others did."""
    code = codes[culprit]
    how = f"ended with exit code {code}"
    if code < 0:
        names = {number.value: number.name for number in signal.Signals}
        how = f"was killed by {names.get(-code, -code)}"
    shown = [reason.shown for reason in errors[culprit][-3:]]
    last = ""
    if shown:
        last = f" Its last lines: {' | '.join(shown)}"
    if parties[culprit].state().no_room:
        last = f" There is no room left on the disk.{last}"
    others = ", ".join(f"{i}: {codes.get(i)}" for i in range(len(parties)) if i != culprit)
    return (
        f"{parties[culprit].name} {how}; the others were stopped and no result was written "
        f"(exit codes of the others, None where still running: {others}).{last}"
    )


def _suspects(parties: int, checks: Mapping[int, FailedCheck]) -> str:
    """Say who may have deviated.

    A party that accuses two others may lie, so that each accusation has three suspects. Who deviated is a
    suspect of all accusations.

    Args:
        parties: The number of parties.
        checks: The check that failed, by the party at which it did.
    """
    everybody = set(range(parties))
    suspects = everybody
    for number, check in checks.items():
        if check.accused:
            suspects = suspects & {*check.accused, number}
    who = " or ".join(map(str, sorted(suspects or everybody)))
    texts = " | ".join(dict.fromkeys(check.words for check in checks.values()))
    return (
        f"A check of what parties sent each other failed (at party {', '.join(map(str, checks))}: {texts}): "
        f"one of the parties {who} deviated, or its machine is faulty, and it cannot be told which. All were "
        "stopped and no result was written."
    )


def _still_running(parties: Sequence[PartyProcess], ended: Collection[int], timeout_s: float) -> str:
    """Say which parties had too little time."""
    running = [number for number in range(len(parties)) if number not in ended]
    stopped = [number for number in running if parties[number].state().stopped]
    hint = ""
    if stopped:
        hint = f" (stopped: {', '.join(map(str, stopped))})"
    return (
        f"Parties {', '.join(map(str, running))} had not finished after {timeout_s:g} s{hint}; "
        f"all were stopped and no result was written. Give more time with {named('timeout')}."
    )
