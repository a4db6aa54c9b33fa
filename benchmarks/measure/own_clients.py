"""Clients of a user's program: commands of the user's that connect to its parties while these run.

They speak whatever the program asks them for, by MP-SPDZ's protocol for external clients. Their keys are made
for the run, and each party's certificate is in the directory in which a client runs.
"""

import math
import os
import re
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fairshares.harness.engines.parties.certificates import make_key, trust
from fairshares.harness.engines.parties.handle import NOTHING_SIGNED, LocalProcess, PartyState, Supervised
from fairshares.harness.engines.parties.working_directory import DATA, certificate_file
from fairshares.harness.errors import OptionError, PartyFailedError
from fairshares.harness.party_reports import line_of_failure
from fairshares.harness.system.processes import end_of_group, kill_group
from fairshares.harness.uploads.signatures import Signed

_FILE = re.compile(r"Client-C(\d{1,3})(?:-(\d{4,5}))?")  # the client's number, maybe with a port
_PORT = 14_000  # the port at which programs wait for clients in MP-SPDZ's examples
_PLACE = "clients"  # beside the parties' directories
_SAID = "said"  # the file of what a client prints, in its directory
# The time from the first failure of a client or the party to the run's end: one may follow from the other.
_GRACE_S = 2.0
_LONGEST_SHOWN = 300  # characters of what a client said last


@dataclass(frozen=True)
class ClientCommand:
    """The command that starts one client of a user's program.

    Attributes:
        number: The client's number, in its certificate's name.
        port: The port at which the program's first party waits for the client; party i waits at this port
            plus i.
        path: The file that is executed.
    """

    number: int
    port: int
    path: Path

    @classmethod
    def of_file(cls, path: Path) -> "ClientCommand | None":
        """Return the client whose command a file is by its name, None if it is no client's."""
        match = _FILE.fullmatch(path.name)
        if match is None:
            return None
        return cls(int(match[1]), int(match[2] or _PORT), path)

    def check(self) -> None:
        """Raise OptionError unless its file can be executed."""
        if not os.access(self.path, os.X_OK):
            raise OptionError(f"{self.path} cannot be executed; run chmod +x, and begin it with #!.")


@dataclass(frozen=True)
class OwnClients:
    """The clients of one run, with a directory each.

    Attributes:
        commands: The clients' commands.
        directory: The directory of their directories, which is removed after the run.
    """

    commands: Sequence[ClientCommand]
    directory: Path

    @classmethod
    def beside(cls, commands: Sequence[ClientCommand], party: Path) -> "OwnClients":
        """Return the clients of a run by the directory of one of its parties."""
        return cls(commands, party.parent / _PLACE)

    def make_keys(self) -> None:
        """Draw a key for each client, into its new directory."""
        for command in self.commands:
            name = f"C{command.number}"
            data = self._data(command)
            data.mkdir(parents=True, mode=0o700)
            trust(make_key(data, name, name), data, name)

    def introduce_to(self, party: Path) -> None:
        """Have a party accept the clients' certificates, by its directory."""
        for command in self.commands:
            name = f"C{command.number}"
            trust(self._data(command) / f"{name}.pem", party / DATA, name)

    def begin(self, certificates: Mapping[int, str]) -> list["RunningClient"]:
        """Start all clients, each with the certificates of all parties, by party."""
        running: list[RunningClient] = []
        for command in self.commands:
            data = self._data(command)
            for party, pem in certificates.items():
                shown = data / certificate_file(party)
                shown.write_text(pem)
                trust(shown, data, f"P{party}")
            said = data.parent / _SAID
            with said.open("wb") as log:
                process = subprocess.Popen(
                    [str(command.path.resolve()), str(len(certificates)), str(command.port)],
                    cwd=data.parent,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            running.append(RunningClient(command.number, process, said))
        return running

    def _data(self, command: ClientCommand) -> Path:
        return self.directory / command.path.name / DATA


@dataclass
class RunningClient:
    """A client whose process has started.

    Attributes:
        number: The client's number.
        process: The client's process, with a group of its own.
        said: The file of what it prints.
    """

    number: int
    process: subprocess.Popen[bytes]
    said: Path

    def is_running(self) -> bool:
        """Return whether it has not ended."""
        return end_of_group(self.process) is None

    def failure(self) -> str | None:
        """Return how it failed, None unless it has."""
        code = end_of_group(self.process)
        if not code:
            return None
        lines = self.said.read_text(errors="replace").split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")
        return f"Client {self.number} ended with exit code {code}: {last[:_LONGEST_SHOWN]}"

    def end(self) -> None:
        """End it, with all processes that it started in its group."""
        if self.is_running():
            kill_group(self.process)
        self.process.wait()


class ProcessWithClients(LocalProcess):
    """A party's process, with which the run's clients begin and end."""

    def __init__(
        self, supervised: Supervised, directory: Path, process: subprocess.Popen[bytes], clients: OwnClients
    ) -> None:
        super().__init__(supervised, directory, process)
        self._clients = clients
        self._running: list[RunningClient] = []
        self._first_failure = math.inf  # when that was seen, by the monotonic clock

    def go(self, certificates: Mapping[int, str], agreed: Mapping[int, Signed] = NOTHING_SIGNED) -> None:
        super().go(certificates, agreed)
        self._running = self._clients.begin(certificates)

    def exit_code(self) -> int | None:
        """Return its exit code once its clients have ended, too, or None while they run.

        Raises PartyFailedError if a client failed and its party did not.
        """
        code = super().exit_code()
        failures = self._failures()
        if (code is None and not failures) or (code == 0 and self._are_running()):
            return None
        if code == 0 and failures:
            raise PartyFailedError(f"{failures[0]}.")
        # One of the two failed. The other may follow, and then says more.
        now = time.monotonic()
        self._first_failure = min(self._first_failure, now)
        if now - self._first_failure < _GRACE_S and (code is None or self._are_running()):
            return None
        if code is None:
            raise PartyFailedError(f"{failures[0]}. The parties were stopped.")
        return code

    def _are_running(self) -> bool:
        return any(client.is_running() for client in self._running)

    def state(self) -> PartyState:
        """Return its state, in which the clients that failed are among the reasons."""
        state = super().state()
        reasons = tuple(line_of_failure(f"{failure}.") for failure in self._failures())
        return replace(state, lines=(*state.lines, *reasons))

    def _failures(self) -> list[str]:
        """Return how clients failed."""
        found = [client.failure() for client in self._running]
        return [failure for failure in found if failure is not None]

    def kill(self) -> None:
        for client in self._running:
            client.end()
        super().kill()
