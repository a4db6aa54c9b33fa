"""Public facts about a run's inputs, and their uploads."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.clients.session import ClientInputs
from harness.errors import ShareError, UsedUploadsError, named
from harness.inputs.encoding import is_per_record, shared_over
from harness.inputs.record_schema import RecordDomain
from harness.inputs.shares.aggregates import Header, check_aggregates, read_uploads
from harness.inputs.shares.file_format import ClientPolicy, copies_of, hash_of
from harness.inputs.shares.party import COUNTED, UploadReport
from harness.inputs.shares.task import Task
from harness.security_models import SecurityModel
from protocols.spec import InputForm

# Of uploads of a domain, by identity: those whose clients' policies do not cover the run.
Uncovered = Callable[[RecordDomain, Mapping[str, ClientPolicy]], Collection[str]]

CountedUploads = Callable[[Iterable[str]], Collection[str]]  # those that earlier runs counted


@dataclass(frozen=True)
class PartyInputs:
    """A run's inputs, with the public facts about them.

    Attributes:
        uploads: The number of uploads or connections.
        rows: The number of rows, each a client or a record.
        values: A file per party; None where a party already has its values, or receives them.
        batches: The identities of uploads that parties keep.
        uploaded: Bytes that clients sent to each party; empty if unknown.
        excluded: How many uploads all parties left out, by reason.
        admission: Which clients the task's servers let upload; "" without a task.
    """

    domain: RecordDomain
    clients: int
    uploads: int
    rows: int
    values: Sequence[Path | None]
    sending: ClientInputs | None = None
    batches: tuple[str, ...] = ()
    uploaded: tuple[int, ...] = ()
    share_s: float = 0.0
    excluded: Mapping[str, int] = field(default_factory=dict)
    policies: Mapping[str, ClientPolicy] = field(default_factory=dict)
    admission: str = ""
    columns: Mapping[str, str] = field(default_factory=dict)

    @property
    def entries(self) -> int:
        """The number of keys or slots in all."""
        return self.rows * (self.domain.cap.slots if self.domain.cap else 1)

    def public(self, form: InputForm) -> dict[str, Any]:
        """Return the numbers that the execution reveals."""
        numbers: dict[str, Any] = {
            "clients": self.clients,
            "uploads": self.uploads,
            "max_count": self.domain.max_count,
        }
        if self.batches:
            numbers |= {"uploads_sha256": hash_of(self.batches), "admission": self.admission}
        if is_per_record(self.domain, form.name):
            numbers["records"] = self.rows
        if self.domain.cap:
            numbers["cap"] = self.domain.cap.slots
        return with_excluded(numbers, self.excluded)


def with_excluded(public: Mapping[str, Any], excluded: Mapping[str, int]) -> dict[str, Any]:
    """Add left-out uploads, by reason, to the public numbers of a run's inputs."""
    because = {**public.get("excluded_because", {}), **excluded}
    counts = {"excluded_uploads": sum(because.values()), "excluded_because": because}
    return {**public, **(counts if because else {})}


def new_uploads(report: UploadReport, counted: CountedUploads) -> UploadReport:
    """Return a report without uploads that earlier runs counted; raise UsedUploadsError if none is left."""
    before = counted(report.sound)
    new = report.without(before, COUNTED)
    if before and not new.sound:
        raise UsedUploadsError(
            f"Earlier runs counted all {len(before)} uploads that are sound at party {report.party}. Go on "
            f"when others have arrived, as {named('add')} adds up a chain's results so far; or charge the "
            f"{named('population')} that they are of again, without {named('chain')}."
        )
    return new


def check_task(task: Task, form: InputForm, model: SecurityModel) -> None:
    """Raise ShareError unless a task's uploads fit the model and the encoding."""
    wanted = (model.name, form.name, copies_of(form, model.parties))
    shared = (task.security, task.form, task.copies)
    if shared != wanted:
        these, those = (
            f"model {security}, as {name} in {'additive' if copies == 1 else 'replicated'} shares"
            for security, name, copies in (shared, wanted)
        )
        raise ShareError(
            f"Clients shared for {these}; this run would be of {those}. Choose the former by "
            f"{named('security')}, {named('input_form')} and {named('input_path')}, or have clients share "
            "for another task."
        )
    if (task.arithmetic, len(task.parties)) != (shared_over(form, model.domain).name, model.parties):
        raise ShareError(f"The task's arithmetic or number of parties is not that of model {model.name}.")


def feed_heads(
    heads: Sequence[Path], form: InputForm, model: SecurityModel, uploaded: tuple[int, ...] = ()
) -> PartyInputs:
    """Check the parties' aggregates, or their first two lines, and return the inputs without values.

    Raises:
        ShareError: They do not fit each other, the model or the encoding, or are too few.
    """
    return inputs_in(check_aggregates(heads), heads[0], form, model, uploaded)


def inputs_in(
    header: Header, head: Path, form: InputForm, model: SecurityModel, uploaded: tuple[int, ...] = ()
) -> PartyInputs:
    """Return the inputs that one party's aggregate describes; errors as `feed_heads`."""
    task, uploads = header.task, header.uploads
    check_task(task, form, model)
    task.check_count(uploads)
    batches = read_uploads(head)
    return PartyInputs(
        task.domain,
        uploads,
        uploads,
        uploads,
        [None] * model.parties,
        batches=batches,
        uploaded=uploaded,
        excluded=header.excluded,
        admission=task.admission,
        policies=dict.fromkeys(batches, header.allowed),
    )
