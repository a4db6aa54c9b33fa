"""Starts the parties of one run on this machine, watches them, and leaves nothing behind.

Each party is a process of its own (`harness.engines.party`) in a directory of its own, mode 0700,
that holds that party's shares and key only.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from harness.clients.front import FAILED, IN_DOUBT
from harness.clients.uploads import Check, Server
from harness.engines import party as child
from harness.engines.base import PROJECT, Job, no_charge
from harness.engines.memory import PeakMemory, pause_s
from harness.errors import (
    ClientError,
    PartyFailedError,
    PartyTimeoutError,
    UnsupportedError,
    UsedDirectoryError,
)
from harness.interrupts import uninterrupted

_POLL_S = 0.005
_GRACE_S = 0.5  # between the first failure and stopping the others, so that the culprit is seen first
_ROOM = 1 << 16  # bytes that a party's directory needs at least
_PORTS = range(12000, 30000)  # below the ephemeral range, so that no client socket takes one meanwhile

# What may be shown of a party's log: opened (noisy) outputs, costs and our own messages, as whole lines;
# of any other line only the known error text in it, as MP-SPDZ quotes inputs beside some.
_OWN = "fairshares: "
_KEPT = re.compile(rf"OUT |Time = |Data sent = |Global data sent = |Spent |Clients sent = |{_OWN}")
_LONGEST = 300
_LOST_PEER = re.compile(
    r"[Cc]onnection (reset|refused|closed)[a-z ]*|stream truncated|end of file|Broken pipe"
)
_KNOWN_ERROR = re.compile(
    rf"{_LOST_PEER.pattern}"
    r"|(not enough inputs in|cannot read integer from|failure reading from) [\w./-]+"
    r"|[Mm]ac ?[Cc]heck [a-zA-Z]+|MAC mismatch|check hash mismatch|check failed|inconsist[a-z ]+"
    r"|certificate [a-z ]+|handshake [a-z ]+|timed? ?out|Address already in use"
    r"|std::bad_alloc|[Oo]ut of memory|No space left on device"
    r"|(bytecode|schedule|program) [a-z ]+|unknown option|terminated"
)


@dataclass(frozen=True)
class PartyLog:
    """What one party printed, kept lines only, when it ended (seconds after `go`), its memory if known."""

    lines: tuple[str, ...]
    ended_s: float
    peak_memory_bytes: int | None = None


def peaks_of(logs: Sequence[PartyLog]) -> tuple[int, ...]:
    """Return each party's peak memory, bytes; nothing unless it is known of all."""
    found = [log.peak_memory_bytes for log in logs]
    return tuple(peak for peak in found if peak is not None) if None not in found else ()


def free_ports(count: int) -> list[int]:
    """Return ports of this machine that nothing listens on now."""
    found: list[int] = []
    for port in random.SystemRandom().sample(_PORTS, len(_PORTS)):
        with socket.socket() as probe:
            try:
                probe.bind(("", port))
            except OSError:
                continue
        found.append(port)
        if len(found) == count:
            return found
    raise UnsupportedError(
        f"No {count} free TCP ports between {_PORTS.start} and {_PORTS.stop}; stop what uses them."
    )


def run_parties(
    job: Job,
    configs: Sequence[dict[str, Any]],
    work: Path,
    timeout_s: float,
    starting: Callable[[], None] = no_charge,
) -> list[PartyLog]:
    """Run one process per config to the end; return their logs.

    Guarantees: on return and on every exception, KeyboardInterrupt included, all processes have ended
    and `work` is gone.  [test: tests/e2e/test_faults.py]
    Args: configs: per party, what `harness.engines.party` reads; `files` and `links` in it name what
    the engine wants in the party's directory; work: a new directory; starting: see `Engine.run`.
    Raises: UsedDirectoryError; PartyFailedError: names the first party to fail; PartyTimeoutError.
    """
    work.mkdir(mode=0o700, parents=True)
    processes: list[subprocess.Popen[str]] = []
    try:
        directories = [_lay_out(job, config, work / f"party-{i}") for i, config in enumerate(configs)]
        starting()
        for directory in directories:
            processes.append(_start(directory))
        deadline = time.monotonic() + timeout_s
        _exchange_certificates(processes, directories, deadline, timeout_s)
        started = time.monotonic()
        memory = [PeakMemory(process.pid, children=job.clients is not None) for process in processes]
        with _clients(job, configs, directories) as check_clients:
            ended = _watch(processes, directories, deadline, timeout_s, check_clients, memory)
        return [
            PartyLog(_kept_lines(directory), end - started, peak.bytes)
            for directory, end, peak in zip(directories, ended, memory, strict=True)
        ]
    finally:
        with uninterrupted():
            _stop(processes)
            shutil.rmtree(work, ignore_errors=True)


def _clients(
    job: Job, configs: Sequence[dict[str, Any]], directories: Sequence[Path]
) -> contextlib.AbstractContextManager[Check]:
    """Let the job's clients begin, if it has any, now that the parties' certificates are there."""
    if job.clients is None:
        return contextlib.nullcontext(lambda: None)
    return job.clients.begin(
        [
            Server(
                config["front"]["host"],
                config["front"]["port"],
                (directory / child.DATA / f"P{i}.pem").read_text(),
            )
            for i, (config, directory) in enumerate(zip(configs, directories, strict=True))
        ]
    )


def _lay_out(job: Job, config: dict[str, Any], directory: Path) -> Path:
    data = directory / child.DATA
    for made in (directory, data, directory / "peers"):
        made.mkdir(mode=0o700)
    i = config["party"]
    values = job.party_inputs[i]
    if values is not None:
        shutil.move(values, data / f"Input-Binary-P{i}-0")
    if job.given_bits is not None:
        (data / "given-bits").write_text("\n".join(map(str, job.given_bits[i])))
    for name, text in config.pop("files", {}).items():
        (directory / name).write_text(text)
    for name, target in config.pop("links", {}).items():
        (directory / name).symlink_to(target)
    (directory / child.CONFIG).write_text(json.dumps(config))
    return directory


def _start(directory: Path) -> subprocess.Popen[str]:
    if (directory / child.CLAIM).exists():
        raise UsedDirectoryError(_used(directory))
    return subprocess.Popen(
        [sys.executable, "-m", child.__name__],
        cwd=directory,
        # The hash seed: all parties have to run a program's sets in the same order.
        env={**os.environ, "PYTHONPATH": str(PROJECT), "PYTHONHASHSEED": "0"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )


def _used(directory: Path) -> str:
    return (
        f"{directory} was started before; share again into a new directory, a rerun could repeat its noise."
    )


def _exchange_certificates(
    processes: list[subprocess.Popen[str]], directories: list[Path], deadline: float, timeout_s: float
) -> None:
    for i, process in enumerate(processes):
        assert process.stdout is not None
        readable, _, _ = select.select([process.stdout], [], [], max(0.0, deadline - time.monotonic()))
        if not readable:
            raise PartyTimeoutError(f"Party {i} did not start within {timeout_s:g} s; all were stopped.")
        said = process.stdout.readline().strip()
        if said != child.READY:
            if process.wait() == child.CLAIMED_EXIT:
                raise UsedDirectoryError(_used(directories[i]))
            why = f": {said.removeprefix(_OWN)}" if said.startswith(_OWN) else ""
            raise PartyFailedError(
                f"Party {i} ended before it was ready, with exit code {process.returncode}{why}."
            )
    for i, directory in enumerate(directories):
        certificate = directory / child.DATA / f"P{i}.pem"
        for other in directories:
            if other != directory:
                shutil.copyfile(certificate, other / "peers" / certificate.name)
    for process in processes:
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it died; _watch says so
            process.stdin.write(child.GO + "\n")
            process.stdin.close()


def _watch(
    processes: list[subprocess.Popen[str]],
    directories: list[Path],
    deadline: float,
    timeout_s: float,
    check_clients: Check,
    memory: Sequence[PeakMemory],
) -> list[float]:
    ended: dict[int, float] = {}
    failed_at: float | None = None
    started = look_at = time.monotonic()
    while len(ended) < len(processes):
        for i, process in enumerate(processes):
            if i not in ended and process.poll() is not None:
                ended[i] = time.monotonic()
        failed = [i for i in ended if processes[i].returncode]
        now = time.monotonic()
        if failed and failed_at is None:
            failed_at = now
        if failed_at is not None and (now - failed_at > _GRACE_S or len(ended) == len(processes)):
            said = {i: _errors(directory) for i, directory in enumerate(directories)}
            culprits = _culprits(processes, said, failed)
            _raise_for_clients(said, by_themselves=not culprits)
            raise PartyFailedError(_failure(processes, directories, [*culprits, *failed][0], said))
        check_clients()
        if now >= look_at:
            for i, peak in enumerate(memory):
                if i not in ended:
                    peak.look()
            look_at = now + pause_s(now - started)
        if now > deadline:
            raise PartyTimeoutError(_still_running(processes, timeout_s))
        time.sleep(_POLL_S)
    return [ended[i] for i in range(len(processes))]


def _raise_for_clients(said: Mapping[int, Sequence[str]], *, by_themselves: bool) -> None:
    """Raise ClientError if a party ended because of a client.

    Args: by_themselves: whether no party failed on its own: clients wait, or leave all, when one does.
    """
    for line in chain.from_iterable(said.values()):
        if line.startswith(_OWN + FAILED) and (by_themselves or not any(how in line for how in IN_DOUBT)):
            raise ClientError(f"{line.removeprefix(_OWN)} The parties were stopped; no result was written.")


def _culprits(
    processes: list[subprocess.Popen[str]], said: Mapping[int, Sequence[str]], failed: list[int]
) -> list[int]:
    """Return the failed parties that did not only lose a peer or a client, the likeliest culprits first."""

    def lost(line: str) -> bool:
        return _LOST_PEER.fullmatch(line) is not None or line.startswith(_OWN + FAILED)

    # A party that lost its peer fails too, right after, and may be seen first.
    killed = [i for i in failed if processes[i].returncode < 0]
    alone = [i for i in failed if not any(map(lost, said[i]))]
    more = [i for i in failed if not all(map(lost, said[i]))]
    return [*killed, *alone, *more]


def _failure(
    processes: list[subprocess.Popen[str]],
    directories: list[Path],
    culprit: int,
    said: Mapping[int, Sequence[str]],
) -> str:
    code = processes[culprit].returncode
    how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
    last = f" Its last lines: {' | '.join(said[culprit][-3:])}" if said[culprit] else ""
    if shutil.disk_usage(directories[culprit]).free < _ROOM:
        last = f" There is no room left on the disk.{last}"
    codes = ", ".join(f"{i}: {processes[i].poll()}" for i in range(len(processes)) if i != culprit)
    return (
        f"Party {culprit} {how}; the others were stopped and no result was written "
        f"(exit codes of the others, None where still running: {codes}).{last}"
    )


def _still_running(processes: list[subprocess.Popen[str]], timeout_s: float) -> str:
    running = [i for i, process in enumerate(processes) if process.poll() is None]
    stopped = [i for i in running if _state(processes[i].pid) in ("T", "t")]
    hint = f" (stopped: {', '.join(map(str, stopped))})" if stopped else ""
    return (
        f"Parties {', '.join(map(str, running))} had not finished after {timeout_s:g} s{hint}; "
        "all were stopped and no result was written. Give more time with --timeout."
    )


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "?"


def _errors(directory: Path) -> list[str]:
    return [line for line in _kept_lines(directory) if line.startswith(_OWN) or not _KEPT.match(line)]


def _kept_lines(directory: Path) -> tuple[str, ...]:
    def lines() -> Iterator[str]:
        try:
            with (directory / child.LOG).open(errors="replace") as log:
                for line in log:
                    if _KEPT.match(line):
                        yield line.rstrip() if line.startswith("OUT ") else line.rstrip()[:_LONGEST]
                    elif known := _KNOWN_ERROR.search(line):
                        yield known[0].strip()
        except FileNotFoundError:
            return

    return tuple(lines())


def _stop(processes: list[subprocess.Popen[str]]) -> None:
    for process in processes:
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    for process in processes:
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()
