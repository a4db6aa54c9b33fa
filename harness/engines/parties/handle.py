"""Handles of parties' processes."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import IO, Annotated, Generic, TypeVar

from msgspec import Meta

from fairshares.harness.bounds import Address, Size
from fairshares.harness.engines.execution import PROJECT, Printed
from fairshares.harness.engines.parties import main as child
from fairshares.harness.engines.parties.certificates import fingerprint
from fairshares.harness.engines.parties.config import PartyConfig, write_config
from fairshares.harness.engines.parties.party_log import (
    MOST_LOG_BYTES,
    kept_lines,
    printed_apart,
    reasons_in,
    size_of_output,
)
from fairshares.harness.engines.parties.working_directory import (
    CLAIM,
    DATA,
    LOG,
    PEERS,
    PIECE_FILES,
    certificate_file,
    met,
    open_inside,
    read_inside,
)
from fairshares.harness.errors import PartyFailedError, UsedDirectoryError
from fairshares.harness.party_reports import MalformedReportError, ReadyReport, line_of_failure, report_in
from fairshares.harness.system.processes import end_of_group, has_output_within, is_stopped, kill_group
from fairshares.harness.uploads.signatures import Signed

NOTHING_SIGNED: Mapping[int, Signed] = MappingProxyType({})
"""What hosts signed of a run whose parties are all on this machine."""

_PROCESSES = Path("/proc")
# Variables of paths, language, threads and memory, and how Python writes.
_VARIABLE = re.compile(
    r"PATH|LD_LIBRARY_PATH|LANG|LANGUAGE|LC_[A-Z]+|TZ|(OMP|OPENBLAS|MKL|BLIS|MALLOC)_[A-Z_]+"
    r"|PYTHON(DONTWRITEBYTECODE|IOENCODING|UTF8)"
)

_SIZE_S = 0.01  # between looks at the size of what a party prints
_WRONG_LINKS = 18  # exit code of a party that ended well, but with links to strangers
_TOO_MUCH = 19  # the exit code of a party that printed more than is read


def _says_ready(line: str) -> bool:
    try:
        return isinstance(report_in(line), ReadyReport)
    except MalformedReportError:
        return False


@dataclass(frozen=True)
class PartyState:
    """A party's last known state, also as its host tells it to the coordinator.

    Attributes:
        lines: The lines of its log that may be shown.
        peak_memory_bytes: The most memory that it has had; None if that is not known.
        stopped: Whether its process is stopped, and could go on.
        no_room: Whether its file system is full.
        printed: The text that its program printed, where it is kept.
    """

    lines: Annotated[tuple[str, ...], Meta(max_length=1 << 15)] = ()
    peak_memory_bytes: Size | None = None
    stopped: bool = False
    no_room: bool = False
    printed: Printed | None = None


class PartyHandle(ABC):
    """One party of a run, on any machine, started or not; messages use `name`."""

    name: str

    @abstractmethod
    def kill(self) -> None:
        """End it and its children, if it was started, without waiting."""

    @abstractmethod
    def close(self) -> None:
        """Wait for its end, if it was started, and release its resources."""


Process = TypeVar("Process", bound="PartyProcess", covariant=True)


class LaidOutParty(PartyHandle, Generic[Process]):
    """A party that is laid out, and has no process yet."""

    @abstractmethod
    def start(self) -> Process:
        """Start its process, or raise UsedDirectoryError if that was started before."""


class PartyProcess(PartyHandle):
    """A party whose process has started."""

    @abstractmethod
    def certificate(self, seconds: float) -> str | None:
        """Return its certificate (PEM) when it is ready; None after that many seconds.

        Raises UsedDirectoryError, or PartyFailedError if it ended.
        """

    @abstractmethod
    def go(self, certificates: Mapping[int, str], agreed: Mapping[int, Signed] = NOTHING_SIGNED) -> None:
        """Let it compute.

        Args:
            certificates: The certificates of all parties' links, by party.
            agreed: The statement that each party's host signed of the run, by party; empty for parties on
                this machine.
        """

    @abstractmethod
    def exit_code(self) -> int | None:
        """Return its exit code, or minus the signal that killed it; None while it runs."""

    @abstractmethod
    def state(self) -> PartyState:
        """Return its last known state."""


@dataclass(frozen=True, kw_only=True)
class PartySetup:
    """A party to start on this machine: the facts that its process is told, and the files that it gets.

    Attributes:
        config: The facts that the party's process is told.
        values: The file of its shares, which moves to its directory as `config.shares` says; None without.
        links: Files and directories that its directory has links to, by the links' names.
        takes_noise: The directory with its part of noise made ahead, which moves to its own.
        keeps_noise: The directory to which noise that it makes is moved once its run has ended.
        notes_links: Whether its links note whom they accepted.
        shows_all_lines: Whether any line that it prints may be shown, as nobody's secret is in its inputs.
        most_log_bytes: The most bytes that it may print. It is ended if it prints more.
    """

    config: PartyConfig
    values: Path | None = None
    links: Mapping[str, str] = field(default_factory=dict)
    takes_noise: Path | None = None
    keeps_noise: Path | None = None
    notes_links: bool = False
    shows_all_lines: bool = False
    most_log_bytes: int = MOST_LOG_BYTES


@dataclass(frozen=True, kw_only=True)
class Supervised:
    """The facts about a laid-out party that a supervisor needs.

    What the party is told is in its directory alone.

    Attributes:
        number: The party's number.
        gateway: The address at which clients reach the party while it runs; None if no clients do.
        takes_columns: Whether it gets columns while it runs.
        keeps_noise: As in `PartySetup`.
        notes_links: As in `PartySetup`.
        keeps_printed: As in `PartyConfig`.
        shows_all_lines: As in `PartySetup`.
        most_log_bytes: As in `PartySetup`.
    """

    number: int
    gateway: Address | None = None
    takes_columns: bool = False
    keeps_noise: Path | None = None
    notes_links: bool = False
    keeps_printed: bool = False
    shows_all_lines: bool = False
    most_log_bytes: int = MOST_LOG_BYTES


class LocalParty(LaidOutParty["LocalProcess"]):
    """A party on this machine that is laid out in a new directory, which only its owner reads."""

    def __init__(self, setup: PartySetup, directory: Path) -> None:
        gateway = setup.config.gateway
        self.supervised = Supervised(
            number=setup.config.party,
            gateway=None if gateway is None else (gateway.host, gateway.port),
            takes_columns=setup.config.rounds is not None,
            keeps_noise=setup.keeps_noise,
            notes_links=setup.notes_links,
            keeps_printed=setup.config.keeps_printed,
            shows_all_lines=setup.shows_all_lines,
            most_log_bytes=setup.most_log_bytes,
        )
        self.name = f"Party {self.supervised.number}"
        self._directory = directory
        for new in (directory, directory / DATA, directory / PEERS):
            new.mkdir(mode=0o700)
        if setup.values is not None:
            setup.config.shares.lay_out(setup.values, setup.config.party, directory)
        if setup.takes_noise is not None:
            self.take_noise(setup.takes_noise)
        for name, target in setup.links.items():
            (directory / name).symlink_to(target)
        write_config(setup.config, directory)
        (directory / LOG).touch(mode=0o600)

    def take_noise(self, piece: Path) -> None:
        """Move its part of noise made ahead to its directory, which was laid out without it.

        Args: piece: the directory of that part, in the same file system.
        """
        move_piece(piece, self._directory)

    def _module(self) -> str:
        """Return the module that the party's process runs."""
        return child.__name__

    def start(self) -> "LocalProcess":
        if (self._directory / CLAIM).exists():
            raise UsedDirectoryError(_used(self._directory))
        process = subprocess.Popen(
            [sys.executable, "-m", self._module(), str(time.monotonic())],
            cwd=self._directory,
            env={
                **_environment(),
                "PYTHONPATH": str(PROJECT),
                "PYTHONHASHSEED": "0",  # all parties have to iterate over a program's sets in the same order
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        return self._begun(process)

    def _begun(self, process: subprocess.Popen[bytes]) -> "LocalProcess":
        """Return the party that a new process in its directory is."""
        return LocalProcess(self.supervised, self._directory, process)

    def kill(self) -> None:
        """Do nothing: it has no process."""

    def close(self) -> None:
        """Do nothing: it has no process."""


class LocalProcess(PartyProcess):
    """A party on this machine, whose process has started in its directory."""

    _size_due = 0.0  # when the size of its output is looked at again, while it runs

    def __init__(self, supervised: Supervised, directory: Path, process: subprocess.Popen[bytes]) -> None:
        """Take over a process with pipes to its standard input and from its standard output."""
        self.supervised = supervised
        self.name = f"Party {supervised.number}"
        self.log = directory / LOG  # all that it prints
        self._directory = directory
        self._process = process
        self._memory = PeakMemory(process.pid, children=supervised.gateway is not None)
        self._peers: dict[int, str] = {}  # fingerprints of their certificates, once it may compute

    @property
    def _input(self) -> IO[bytes]:
        assert self._process.stdin is not None, "its standard input is a pipe"
        return self._process.stdin

    @property
    def _output(self) -> IO[bytes]:
        assert self._process.stdout is not None, "its standard output is a pipe"
        return self._process.stdout

    def certificate(self, seconds: float) -> str | None:
        if not has_output_within(seconds, self._output):
            return None
        answer = self._output.readline().decode(errors="replace").strip()
        if not _says_ready(answer):
            code = self._process.wait()
            if code == child.CLAIMED_EXIT:
                raise UsedDirectoryError(_used(self._directory))
            said = [reason.text for reason in reasons_in([answer]) if reason.is_ours]
            why = f": {said[0]}" if said else ""
            raise PartyFailedError(f"{self.name} ended before it was ready, with exit code {code}{why}.")
        return (self._directory / DATA / certificate_file(self.supervised.number)).read_text()

    def go(
        self,
        certificates: Mapping[int, str],
        agreed: Mapping[int, Signed] = NOTHING_SIGNED,  # noqa: ARG002  a host has checked it
    ) -> None:
        for other, certificate in certificates.items():
            if other != self.supervised.number:
                (self._directory / PEERS / certificate_file(other)).write_text(certificate)
                self._peers[other] = fingerprint(certificate.encode())
        self._memory.begin()
        with contextlib.suppress(BrokenPipeError):  # it died, as its exit code will say
            self._input.write(f"{child.GO}\n".encode())
            self._input.flush()
            if not self.supervised.takes_columns:
                self._input.close()

    def exit_code(self) -> int | None:
        code = end_of_group(self._process)
        if code is None:
            self._memory.look_if_due()
            now = time.monotonic()
            if now >= self._size_due:  # rounds ask every half a millisecond
                self._size_due = now + _SIZE_S
                if self._prints_too_much():
                    kill_group(self._process)
            return None
        if code == 0 and self.supervised.notes_links and not self._met_all():
            return _WRONG_LINKS
        if code in (0, -signal.SIGKILL) and self._prints_too_much():
            return _TOO_MUCH
        return code

    def _prints_too_much(self) -> bool:
        return size_of_output(self._directory) > self.supervised.most_log_bytes

    def met(self) -> dict[int, str]:
        """Return the certificates that its links accepted, as fingerprints by party."""
        noted = met(self._directory)
        return {party: text for party, text in self._peers.items() if text in noted}

    def _met_all(self) -> bool:
        """Return whether its links accepted all parties' certificates and, of others, only its gateway's."""
        gateways = [path.name for path in (self._directory / DATA).glob("C*.pem")]
        own: set[str] = set()
        for name in gateways:
            with contextlib.suppress(ValueError):  # the party put something else there
                own.add(fingerprint(read_inside(self._directory, f"{DATA}/{name}")))
        return {*met(self._directory)} - own == {*self._peers.values()}

    def state(self) -> PartyState:
        supervised = self.supervised
        kept = kept_lines(
            self._directory, supervised.most_log_bytes, shows_all_lines=supervised.shows_all_lines
        )
        lines = list(kept)
        if self.exit_code() == _WRONG_LINKS:
            lines.append(
                line_of_failure(
                    "Its links accepted other certificates than those of the other parties of this run."
                )
            )
        return PartyState(
            tuple(lines),
            self._memory.bytes,
            is_stopped(self._process.pid),
            shutil.disk_usage(self._directory).free < 1 << 16,
            printed_apart(self._directory) if supervised.keeps_printed else None,
        )

    def kill(self) -> None:
        if end_of_group(self._process) is None:
            kill_group(self._process)

    def close(self) -> None:
        with contextlib.suppress(BrokenPipeError), self._process:
            self._process.wait()

    def keep(self) -> None:
        """Move noise that the run made to where it is kept, if any was made."""
        if self.supervised.keeps_noise is not None:
            move_piece(self._directory, self.supervised.keeps_noise)

    def send(self, column: bytes) -> None:
        """Hand it its column of a round, and wait until that is taken."""
        with contextlib.suppress(BrokenPipeError, ValueError):  # it died, as its exit code will say
            self._input.write(column)
            self._input.flush()


def _used(directory: Path) -> str:
    return (
        f"{directory} was started before; share again into a new directory, a rerun could repeat its noise."
    )


def _environment() -> dict[str, str]:
    """Return the variables that a party's process gets: its owner's others may hold passwords or places."""
    return {name: value for name, value in os.environ.items() if _VARIABLE.fullmatch(name)}


class PeakMemory:
    """Follows the peak resident memory of a process, and maybe of its children (Linux; else unknown).

    A process that becomes another program starts anew.
    Guarantees: the peak misses at most the growth in the last hundredth of the time, or 10 ms.
    [test: tests/harness/engines/test_peak_memory.py]
    """

    def __init__(self, process: int, *, children: bool = False) -> None:
        self._process = process
        self._with_children = children
        self._peaks: dict[int, int] = {}
        self._began = time.monotonic()
        self._due = self._began

    def begin(self) -> None:
        """Count the running time from now on, as the process begins to compute."""
        self._began = time.monotonic()
        self._due = self._began

    def look_if_due(self) -> None:
        """Look, unless the last look is recent."""
        now = time.monotonic()
        if now >= self._due:
            self.look()
            self._due = now + max(0.01, 0.01 * (now - self._began))  # a hundredth of its running time

    def look(self) -> None:
        """Read the peaks; an ended process keeps its last."""
        processes = [self._process]
        if self._with_children:
            path = _PROCESSES / str(self._process) / "task" / str(self._process) / "children"
            processes += map(int, _read(path).split())
        for process in processes:
            peak = re.search(rb"VmHWM:\s*(\d+) kB", _read(_PROCESSES / str(process) / "status"))
            if peak is not None:
                self._peaks[process] = int(peak[1]) * 1024

    @property
    def bytes(self) -> int | None:
        """Sum of the processes' peaks; None if unknown."""
        return sum(self._peaks.values()) or None


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # it has ended, or there is no such file system
        return b""


def move_piece(source: Path, target: Path) -> None:
    """Move a party's shares of noise, and the key that checks them, from or to the stock.

    Guarantees: no link is moved or followed, which a party could have put in their place.
    [test: tests/harness/engines/test_sandbox.py]
    """
    for pattern in PIECE_FILES:
        for file in source.glob(pattern):
            name = file.relative_to(source)
            try:
                descriptor = open_inside(source, str(name))
            except OSError:
                continue
            with os.fdopen(descriptor):
                os.fchmod(descriptor, 0o600)
            place = target / name
            place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            file.rename(place)
