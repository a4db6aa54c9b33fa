"""The factors of experiments' cells, and which levels each of them may have."""

import re
import shlex
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from benchmarks.errors import ExperimentError
from benchmarks.measure.machines import MACHINES
from benchmarks.measure.samples import Level
from benchmarks.papers import privfairfl
from fairshares.harness.errors import OptionError
from fairshares.harness.inputs.federation_size import MOST_MADE_UP
from fairshares.harness.releases.registry import REQUESTS
from fairshares.harness.request.networks import parse_network
from fairshares.harness.request.readers import parse_epsilon
from fairshares.harness.request.request import DISTRIBUTED, JOINT
from fairshares.harness.security_models import MODELS
from fairshares.harness.system.spelling import similar
from fairshares.protocols.spec import PATHS, PI_LAP, PI_ROUNDS

PROGRAM = "program"  # the factor of users' programs
MACHINE = "machine"  # the factor of MP-SPDZ's virtual machines, by their files' names
AHEAD = "ahead"  # the level of noise that was made before the run, jointly
REQUEST_OF = {next(iter(request.protocols.values())): request for request in REQUESTS.values()}


def check_known(place: str, what: str, word: str, known: Iterable[str]) -> None:
    """Raise ExperimentError for a word that is not among the known ones.

    Args:
        place: The word's place in the file, which begins the message.
        what: The kind of thing that the word should name.
        word: The word.
        known: All such names.
    """
    names = list(known)
    if word not in names:
        listed = f"one of {', '.join(filter(None, names))}"
        raise ExperimentError(
            f"{place} has an unknown {what} {word!r}{similar(word, names)}; it is {listed}."
        )


class Levels(ABC):
    """The levels that a factor may have."""

    @abstractmethod
    def check(self, place: str, factor: str, level: Level) -> None:
        """Raise ExperimentError for a level that the factor cannot have.

        Args:
            place: The cell's place in the file, which begins the message.
            factor: The factor's name.
            level: The level.
        """


@dataclass(frozen=True)
class WholeNumbers(Levels):
    """Whole numbers from `least` on, up to the largest federation."""

    least: int

    def check(self, place: str, factor: str, level: Level) -> None:
        if type(level) is not int or not self.least <= level <= MOST_MADE_UP:
            raise ExperimentError(
                f"{place}: {factor} must be a whole number from {self.least} to {MOST_MADE_UP:,}, got "
                f"{level!r}."
            )


class MachinesNumbers(Levels):
    """Whole numbers that a machine is told, which `MachineSetting` bounds."""

    def check(self, place: str, factor: str, level: Level) -> None:
        if type(level) is not int:
            raise ExperimentError(f"{place}: {factor} must be a whole number, got {level!r}.")


class Texts(Levels):
    """Texts, any of them."""

    def check(self, place: str, factor: str, level: Level) -> None:
        self.text(place, factor, level)

    def text(self, place: str, factor: str, level: Level) -> str:
        """Return a level that is a text; raise ExperimentError for a number."""
        if type(level) is not str:
            raise ExperimentError(f"{place}: {factor} must be a text in quotes, got {level!r}.")
        return level


@dataclass(frozen=True)
class Choices(Texts):
    """Texts of a list."""

    names: Iterable[str]

    def check(self, place: str, factor: str, level: Level) -> None:
        check_known(place, factor, self.text(place, factor, level), self.names)


@dataclass(frozen=True)
class ReadTexts(Texts):
    """Texts that a function reads. It raises OptionError or ValueError for others."""

    read: Callable[[str], object]

    def check(self, place: str, factor: str, level: Level) -> None:
        text = self.text(place, factor, level)
        try:
            self.read(text)
        except (OptionError, ValueError) as error:
            raise ExperimentError(f"{place}: {factor}: {error}") from None


class ProgramFiles(Texts):
    """Names of programs' files beside the experiment."""

    _FILE = re.compile(r"[A-Za-z0-9_-]{1,100}\.mpc")

    def check(self, place: str, factor: str, level: Level) -> None:
        if not self._FILE.fullmatch(self.text(place, factor, level)):
            raise ExperimentError(
                f"{place}: program is a file beside the experiment, as my.mpc; got {level!r}."
            )


class ProgramInputs(WholeNumbers):
    """The inputs of each party of a program: a number of public integers, or a directory of files."""

    _DIRECTORY = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,99}")

    def check(self, place: str, factor: str, level: Level) -> None:
        if not isinstance(level, str):
            super().check(place, factor, level)
        elif not self._DIRECTORY.fullmatch(level):
            raise ExperimentError(
                f"{place}: inputs is a number of public integers, or a directory beside the experiment "
                f"with files as Input-P0-0; got {level!r}."
            )


# Numbers that a machine is told.
OF_MACHINES: Mapping[str, Levels] = {
    "batch_size": MachinesNumbers(),
    "bucket_size": MachinesNumbers(),
    "security_bits": MachinesNumbers(),
}
FACTORS: Mapping[str, Levels] = {
    "protocol": Choices((PI_LAP.name, PI_ROUNDS.name, *REQUEST_OF)),
    "security": Choices(MODELS),
    MACHINE: Choices(MACHINES),
    "input_path": Choices(PATHS),
    "shape": Choices(("", *privfairfl().shapes)),
    "noise": Choices((JOINT, DISTRIBUTED, AHEAD)),
    "epsilon": ReadTexts(parse_epsilon),
    "network": ReadTexts(parse_network),
    "arguments": ReadTexts(shlex.split),
    "compile_options": ReadTexts(shlex.split),
    "run_options": ReadTexts(shlex.split),
    "parties": WholeNumbers(1),
    "clients": WholeNumbers(1),
    "records": WholeNumbers(1),
    "groups": WholeNumbers(1),
    "labels": WholeNumbers(0),
    "thresholds": WholeNumbers(1),
    "samples": WholeNumbers(1),
    "cap": WholeNumbers(0),
    "inputs": ProgramInputs(0),
    "coordinates": WholeNumbers(1),
    "rounds": WholeNumbers(1),
    "threads": WholeNumbers(1),
    "variant": Texts(),
    PROGRAM: ProgramFiles(),
    **OF_MACHINES,
}
