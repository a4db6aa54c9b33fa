"""Tasks that clients upload for: how one is made, what it allows, and what its runs reveal.

A task is for releases, so this module is above `uploads`, which knows a task's file only.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from fairshares.harness.engines.registry import choose_model
from fairshares.harness.errors import OptionError, UnsupportedError, named, named_call
from fairshares.harness.inputs.encoding import shared_over
from fairshares.harness.inputs.record_schema import Cap, RecordDomain, RecordKind
from fairshares.harness.inputs.shares import copies_of
from fairshares.harness.numbers_of_parties import MOST_PARTIES
from fairshares.harness.pipeline.release import with_cap
from fairshares.harness.pipeline.sources import check_task
from fairshares.harness.releases.base import kind_of, statistic_class
from fairshares.harness.releases.registry import OF_UPLOADS
from fairshares.harness.request.readers import parse_choice, parse_delta
from fairshares.harness.request.releases import DeclaredDomain
from fairshares.harness.request.request import ACCEPTED_DELTA, Request, chosen_form
from fairshares.harness.security_models import SecurityModel
from fairshares.harness.uploads.keys import SealingParty, read_party
from fairshares.harness.uploads.policy import ClientPolicy
from fairshares.harness.uploads.task import Task
from fairshares.protocols.accounting.calibration import PrivacyUnit
from fairshares.protocols.guarantee import Guarantee
from fairshares.protocols.spec import INPUT_FORMS, PATHS, SLOTS, InputForm, InputPath

USUAL_RELEASE = "weights"


@dataclass(frozen=True)
class SaidOfRuns:
    """The limits that an analyst, a client or a party sets for runs that may use uploads.

    Attributes:
        most_epsilon: The most that all runs spend together; None says nothing of runs.
        most_delta: The most δ that all runs spend together; None is 2^-30.
        releases: The releases by name; None for all that fit the records.
        unit: The least privacy unit to protect; None is a record.
    """

    most_epsilon: Fraction | None
    most_delta: Fraction | None
    releases: Sequence[str] | None
    unit: PrivacyUnit | None


@dataclass(frozen=True)
class AskedTask:
    """The options of an analyst for a new task.

    Attributes:
        declares: The groups, labels or values of records.
        runs: The releases that runs may make, and the privacy that they may spend.
        parties: Files of the parties' public descriptions, party 0 first.
        until: The last day on which clients share.
        admission: A key of `ADMISSIONS`: which clients the parties' servers let upload.
        least_uploads: How many uploads a run counts at least.
        cap: How much of a client counts, if the domain does not say so.
        security: The security model; None for the usual one.
        input_path: How shares are held.
        input_form: The name of the input encoding; None for the first that suits.
    """

    declares: DeclaredDomain
    runs: SaidOfRuns
    parties: Sequence[Path]
    until: str | None
    admission: str
    least_uploads: int
    cap: Cap | None
    security: SecurityModel | None
    input_path: InputPath
    input_form: str | None


def allowed_runs(said: SaidOfRuns, kind: RecordKind) -> ClientPolicy | None:
    """Return the runs that are allowed on records of a kind; None if nothing is said of them.

    Raises:
        OptionError: A limit is given without an epsilon, or a release does not fit the records.
    """
    if not said.most_epsilon:
        given = {"delta": said.most_delta, "for_tasks": said.releases, "privacy_unit": said.unit}
        for name, value in given.items():
            if value:
                raise OptionError(
                    f"{named(name)} goes with {named('epsilon')}, the most ε that runs on the upload may "
                    "spend."
                )
        return None
    fitting = [name for name in OF_UPLOADS if kind_of(name) is kind]
    releases = [parse_choice("for_tasks", name, fitting) for name in said.releases or fitting]
    delta = said.most_delta or parse_delta(ACCEPTED_DELTA, "delta")
    return ClientPolicy(tuple(releases), Guarantee(said.most_epsilon, delta), said.unit or PrivacyUnit.RECORD)


def allowed_on_upload(said: SaidOfRuns, task: Task) -> ClientPolicy | None:
    """Return the runs that somebody allows on uploads for a task; None for all that the task allows.

    Releases are the task's if none is named. Raises OptionError as `allowed_runs`.
    """
    releases = said.releases
    if not releases and said.most_epsilon:
        releases = task.allowed.tasks
    return allowed_runs(SaidOfRuns(said.most_epsilon, said.most_delta, releases, said.unit), task.domain.kind)


def make_task(asked: AskedTask) -> Task:
    """Return a new task.

    Raises:
        OptionError: Something that a task needs is not said, or does not fit the rest.
        UnsupportedError: The model does not take such shares.
        ShareError: A party's description can't be read, or the task would be none.
    """
    releases = list(asked.runs.releases or [USUAL_RELEASE])
    request = OF_UPLOADS.get(releases[0])
    kind = kind_of(releases[0]) if request else RecordKind.NONE
    domain = asked.declares.of_kind(kind)
    if not (request and domain and asked.parties and asked.until):
        raise OptionError(
            f"A task needs {named('parties')}, {named('until')}, {named('for_tasks')} that there are, and "
            f"{named('domain')}, or {named('groups')} and {named('labels')}."
        )
    domain = with_cap(domain.with_kind(kind), asked.cap, PrivacyUnit.RECORD)
    model = _model_of(asked)
    form = _form_of(asked, request, domain)
    reason = model.refusal(form.path)
    if reason is not None:
        raise UnsupportedError(reason)
    runs = SaidOfRuns(asked.runs.most_epsilon, asked.runs.most_delta, releases, asked.runs.unit)
    policy = allowed_runs(runs, kind)
    assert policy is not None  # a task always has an epsilon
    domain = statistic_class(releases[0]).domain_of_task(domain, policy.total, model)
    return Task(
        security=model.name,
        form=form.name,
        arithmetic=shared_over(form, model.ring).name,
        copies=copies_of(form, model.parties),
        record_domain=domain.to_json(),
        policy=policy.to_json(),
        parties=_parties_of(asked.parties, model, asked.until),
        least_uploads=asked.least_uploads,
        until=asked.until,
        admission=asked.admission,
    )


def _model_of(asked: AskedTask) -> SecurityModel:
    """Return the model that is asked for, or the usual one, of as many parties as there are, if it can be."""
    number = len(asked.parties)
    model = asked.security
    if model is None:
        model = choose_model(None, number if 2 <= number <= MOST_PARTIES else None)
    if not model.takes(number):
        return model
    return model.with_parties(number)


def _form_of(asked: AskedTask, request: type[Request], domain: RecordDomain) -> InputForm:
    """Return the input encoding: what is asked for, else slots where a client has a cap."""
    forms = request.input_forms()
    name = asked.input_form
    if name is None and domain.cap and SLOTS.name in forms:
        name = SLOTS.name
    return chosen_form(forms, name, asked.input_path)


def _parties_of(files: Sequence[Path], model: SecurityModel, until: str) -> list[SealingParty]:
    """Return the parties' descriptions; refuse another number than the model's, and keys that end before."""
    parties = [read_party(file) for file in files]
    if len(parties) != model.parties:
        raise OptionError(
            f"Model {model.name} has {model.parties} parties; {named('parties')} names {len(parties)}."
        )
    for party in parties:
        last = max((key.until for key in party.keys), default="never")
        if last < until:
            raise OptionError(
                f"The last key of {party.name} expires on {last}, before the task ends on {until}. "
                f"Ask the party for a later key ({named_call('keys', until='DAY')}), or end the task "
                "earlier."
            )
    return parties


def revealed_by_runs(task: Task) -> list[str]:
    """Return the values that the task's runs may reveal, in words and in order.

    Raises:
        ShareError: Uploads for the task fit no run, as its model and its encoding don't go together.
    """
    path = PATHS["shares" if task.copies == 1 else "replicated"]
    check_task(task, INPUT_FORMS[task.form].by(path), task.model)
    revealed: set[str] = set()
    for name in task.allowed.tasks:
        if name in OF_UPLOADS:
            for spec in OF_UPLOADS[name].specs().values():
                revealed.update(spec.revealed)
    return sorted(revealed)
