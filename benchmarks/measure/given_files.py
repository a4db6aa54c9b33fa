"""Starts parties that find files of inputs, as MP-SPDZ's `Player-Data` has them, in their directories.

A directory of inputs may have commands of clients, too, which send theirs while the parties run.
"""

import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from msgspec import structs

from benchmarks.measure.own_clients import ClientCommand, OwnClients, ProcessWithClients
from fairshares.harness.engines.engine import Engine
from fairshares.harness.engines.parties.handle import LocalParty, LocalProcess, PartySetup
from fairshares.harness.engines.registry import engine_of
from fairshares.harness.errors import OptionError
from fairshares.harness.security_models import SecurityModel

# Files of a party and one of its threads: a text of numbers, or binary.
_FILE = re.compile(r"Input-(?:Binary-)?P(\d{1,3})-\d{1,3}")
_PLACE = "given"  # the place in a party's directory, where its own inputs do not replace the files


def input_files(directory: Path) -> dict[str, Path]:
    """Return the files of inputs in a directory, and the commands of clients, by their names.

    Raises:
        OptionError: There is no such directory, it has none, or a client's file can't be executed.
    """
    if not directory.is_dir():
        raise OptionError(
            f"There is no directory {directory}; name one with files as Input-P0-0, or the number of public "
            "integers that each party reads."
        )
    found: dict[str, Path] = {}
    for path in sorted(directory.iterdir()):
        client = ClientCommand.of_file(path)
        if client is not None:
            client.check()
        if client is not None or _FILE.fullmatch(path.name):
            found[path.name] = path
    if not found:
        raise OptionError(
            f"{directory} has no file of inputs; name them as MP-SPDZ does, Input-P0-0 for party 0 and its "
            "first thread, and Client-C0 for the command of client 0."
        )
    return found


def _clients_in(files: Mapping[str, Path]) -> list[ClientCommand]:
    """Return the commands of clients among files of inputs."""
    found = [ClientCommand.of_file(path) for path in files.values()]
    return [client for client in found if client is not None]


def reading_files(model: SecurityModel) -> SecurityModel:
    """Return a model whose machine reads inputs from the files that parties find."""
    return replace(model, run_options=(*model.run_options, "-IF", f"{_PLACE}/Input"))


class PartyWithFiles(LocalParty):
    """A party on this machine with its own files of inputs in its directory, and no other party's.

    It accepts the run's clients. The first party's process begins and ends them.
    """

    def __init__(self, files: Mapping[str, Path], setup: PartySetup, directory: Path) -> None:
        clients = _clients_in(files)
        party = setup.config.party
        ports = {client.port + party for client in clients}
        config = structs.replace(setup.config, listens=(*setup.config.listens, *sorted(ports)))
        super().__init__(replace(setup, config=config), directory)
        self._clients = OwnClients.beside(clients, directory)
        if setup.config.party == 0:  # party 0 is the first to be laid out
            self._clients.make_keys()
        self._clients.introduce_to(directory)
        (directory / _PLACE).mkdir(mode=0o700)
        for name, path in files.items():
            match = _FILE.fullmatch(name)
            if match is not None and int(match[1]) == setup.config.party:
                shutil.copyfile(path, directory / _PLACE / name)

    def _begun(self, process: subprocess.Popen[bytes]) -> LocalProcess:
        if self.supervised.number == 0:
            return ProcessWithClients(self.supervised, self._directory, process, self._clients)
        return super()._begun(process)


@dataclass(frozen=True)
class LayingOut:
    """Lays parties out with their files of inputs."""

    files: Mapping[str, Path]

    def party(self, setup: PartySetup, directory: Path) -> LocalParty:
        """Return a party that is laid out in a new directory."""
        return PartyWithFiles(self.files, setup, directory)


def engine_with_files(model: SecurityModel, directory: Path) -> Engine:
    """Return the model's engine, whose parties find the files of inputs in a directory.

    Raises:
        OptionError: The directory has none.
    """
    return type(engine_of(model))(LayingOut(input_files(directory)).party)
