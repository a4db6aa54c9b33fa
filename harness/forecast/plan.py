"""Plans of a release.

Unit costs predict the computation and the compiler, trials on records of the same size the rest.
"""

import math
import os
import resource
import subprocess
import sys
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time, thread_time
from typing import NamedTuple

import numpy as np

from fairshares.harness.engines.execution import PROJECT, Job
from fairshares.harness.engines.registry import engine_of
from fairshares.harness.errors import FairSharesError, OptionError, PlanError, named
from fairshares.harness.forecast.operation_counts import counts_of
from fairshares.harness.forecast.unit_costs import Cost, UnitCosts, total_cost
from fairshares.harness.inputs.encoding import is_per_record
from fairshares.harness.inputs.federation_size import FederationSize
from fairshares.harness.inputs.record_schema import (
    Cap,
    RecordDomain,
    RecordKind,
    Rounding,
    ValueGrid,
    caps_to_choose_from,
    even_grid,
)
from fairshares.harness.inputs.records import read_records
from fairshares.harness.pipeline.jobs import make_job
from fairshares.harness.pipeline.manifest_of_run import sum_if_known
from fairshares.harness.pipeline.preprocessing import joint_noise_of, noise_job
from fairshares.harness.pipeline.sources import PartyInputs, share_and_add_up
from fairshares.harness.privacy.statement import state_privacy
from fairshares.harness.releases.base import (
    Answer,
    ExpectedResult,
    PreparedRelease,
    Statistic,
)
from fairshares.harness.request.networks import NetworkProfile
from fairshares.harness.request.request import (
    BY_EPSILON,
    DISTRIBUTED,
    DISTRIBUTED_GAUSSIAN,
    JOINT,
    ChosenPartyNoise,
    Protect,
    Randomness,
    Request,
    Trust,
)
from fairshares.harness.security_models import SecurityModel
from fairshares.protocols.accounting.calibration import LinearQueries
from fairshares.protocols.arrays import Floats, Integers
from fairshares.protocols.circuits.coins import MAX_EPSILON
from fairshares.protocols.guarantee import Guarantee
from fairshares.protocols.spec import KEYS, SLOTS

_RECORDS = 20_000  # records in a trial of reading
# Imports of a party's process.
_OF_A_PARTY = ("fairshares.harness.engines.parties.main", "fairshares.harness.engines.parties.certificates")
_OF_DISTRIBUTED_NOISE = ("fairshares.harness.inputs.rings", "fairshares.protocols.noise.added")
_OF_MPYC = (
    "mpyc.runtime",
    "fairshares.harness.engines.mpyc.party_runtime",
    "fairshares.harness.engines.mpyc.party",
)
_CELLS = {"group": "group 0", "label": "label 0", "score": "0.5", "prediction": "label 0", "value": "0.5"}

Proportions = Mapping[str, Fraction]  # proportions of the records, by group or by label; they add up to 1
MOST_PLANNED = 10**5  # records or keys that parties handle one by one, the most that was measured
MOST_SLOTS = 10**6  # the same of slots


@dataclass(frozen=True)
class WallClock:
    """Seconds of a command, by purpose.

    `share_s` includes the parties' adding up. `compile_s` is 0 if a program is kept, None if unknown.
    """

    start_s: float
    design_s: float
    read_s: float
    share_s: float
    compile_s: float | None
    mpc_s: float
    derive_s: float

    @property
    def wall_s(self) -> float | None:
        """The total."""
        return sum_if_known(list(vars(self).values()))


def parties_start_s(release: Request) -> float:
    """Return how long a run's parties take to start here."""
    modules = list(_OF_A_PARTY)
    if not release.model.virtual_machine:
        modules += _OF_MPYC
    if release.randomness.distribution:
        modules += _OF_DISTRIBUTED_NOISE
    parties: int = release.model.parties
    at_once = min(parties, os.cpu_count() or 1)
    return starting_s(f"import {', '.join(modules)}") * parties / at_once


@cache
def starting_s(code: str) -> float:
    """Return the processor time of a Python process for this code."""
    environment = {**os.environ, "PYTHONPATH": str(PROJECT)}
    before = childrens_processor_s()
    subprocess.run([sys.executable, "-P", "-c", code], env=environment, capture_output=True, check=True)
    return childrens_processor_s() - before


def childrens_processor_s() -> float:
    """Return the processor time of ended child processes."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@cache
def reading_s(kind: RecordKind) -> float:
    """Return how long reading a record takes here."""
    domain = FederationSize(_RECORDS, _RECORDS, 2, 2, kind, thresholds=2).domain
    names = ["group"]
    if not domain.values:
        names.append("label")
    if kind.of_each:
        names.append(str(kind))
    row = ",".join(_CELLS[name] for name in names)
    lines = [",".join(["client_id", *names])]
    lines += [f"{client},{row}" for client in range(_RECORDS)]
    with TemporaryDirectory() as scratch:
        path = Path(scratch, "records.csv")
        path.write_text("\n".join(lines))
        before = process_time()  # the time of all threads that read
        read_records(path, domain, kind=kind)
        return (process_time() - before) / _RECORDS


def sharing_s(federation: FederationSize, release: Request) -> float:
    """Return how long clients' sharing and parties' adding up take here."""
    clients = min(64, federation.clients)
    while True:  # with four times as many, until it takes long enough
        some = min(max(1, federation.records * clients // federation.clients), 10**6)
        records = replace(federation, clients=clients, records=some).even_records()
        with TemporaryDirectory() as scratch:
            before = thread_time()
            share_and_add_up(records, release.form, release.model, Path(scratch), lambda _: None)
            took = thread_time() - before
        if took >= 0.03 or clients == federation.clients:
            return took * federation.clients / clients
        clients = min(4 * clients, federation.clients)


def deriving_s(prepared: PreparedRelease[Answer], sizes: Floats) -> float:
    """Return how long it takes here to derive a result from opened values.

    `sizes` are the expected records per group and label. For releases other than sums of counts, whose
    opened values cannot be made up, the answer is 0.
    """
    queries = prepared.plan.queries
    outputs = prepared.program.outputs
    if not isinstance(queries, LinearQueries) or queries.amounts or len(outputs) > 1:
        return 0.0
    bins = queries.cells // sizes.size
    before = thread_time()
    nodes = np.zeros(queries.nodes)
    for column, records in zip(queries.columns, np.repeat(sizes.ravel() / bins, bins), strict=False):
        nodes[list(column)] += records
    with suppress(FairSharesError):  # so few records that there is no result
        opened = tuple(np.rint(nodes).astype(int).tolist())
        answer = prepared.read({outputs[0]: opened}, math.ceil(sizes.sum()))
        answer.files(state_privacy(prepared, compared=0).stated)
    return thread_time() - before


@dataclass(frozen=True)
class ExpectedRelease:
    """A release and its expected clients.

    Attributes:
        groups: The part of all records that each group has.
        labels: The part of all records that each label has.
        max_count: The most records of a client.
        thresholds: The number of thresholds between scores.
        steps: The steps of performance values.
        cap: The contribution bound, if any.
        held: Each client's records per group and label, shape (clients, k, m), or (clients, k, 1) for
            values. None if all clients have equally many, divided as `groups` and `labels` say.
    """

    request: Request
    statistic: Statistic[Answer]
    clients: int
    records: int
    groups: Proportions
    labels: Proportions
    max_count: int
    thresholds: int
    steps: int
    cap: Cap | None = None
    held: Integers | None = None

    def by(self, model: SecurityModel) -> "ExpectedRelease":
        """Return the same release in another model."""
        return replace(self, request=self.request.but(Trust.security, model))

    @property
    def domain(self) -> RecordDomain:
        """The domain that would be declared."""
        groups = tuple(sorted(self.groups))
        labels = tuple(sorted(self.labels))
        if self.statistic.kind is RecordKind.VALUE:
            values = ValueGrid(0.0, 1.0, self.steps, Rounding.RANDOM)
            return RecordDomain(groups, (), 1, kind=RecordKind.VALUE, values=values, cap=self.cap)
        bins = even_grid(self.thresholds) if self.statistic.kind is RecordKind.SCORE else ()
        return RecordDomain(
            groups, labels, self.max_count, kind=self.statistic.kind, thresholds=bins, cap=self.cap
        )

    @property
    def federation(self) -> FederationSize:
        """Clients and records of this size, to be made up."""
        return FederationSize(
            clients=self.clients,
            records=self.records,
            groups=len(self.groups),
            labels=len(self.labels),
            detail=self.statistic.kind,
            thresholds=self.thresholds if self.statistic.kind is RecordKind.SCORE else 0,
            cap=self.cap.slots if self.cap else 0,
        )

    @property
    def sizes(self) -> Floats:
        """The number of records that count, or of clients with values, of each group and label."""
        if self.held is not None:
            held = self.held.astype(np.float64)
            alike = 1  # clients that each row stands for
        else:
            held = self.records / self.clients * self._shares[np.newaxis]
            alike = self.clients
        most = np.inf
        if self.cap is not None:
            most = 1 if self.cap.weight_one else self.cap.slots
        of_client = np.maximum(held.sum(axis=(1, 2)), 1)
        counted = np.minimum(1.0, most / of_client)  # the part of a client's records, on average
        sizes = alike * np.tensordot(counted, held, axes=1)
        return np.asarray(np.maximum(sizes, 1e-9))  # so that any error exceeds an empty cell

    @property
    def _shares(self) -> Floats:
        """Each group and label's part of the records, shape (k, m), or (k, 1) for values."""
        groups = np.array([float(self.groups[name]) for name in sorted(self.groups)])
        if self.statistic.kind is RecordKind.VALUE:
            return groups[:, np.newaxis]
        labels = np.array([float(self.labels[name]) for name in sorted(self.labels)])
        return np.asarray(groups[:, np.newaxis] * labels)

    @property
    def by_clients(self) -> bool:
        """Whether errors depend on the number of clients."""
        return self.statistic.kind is RecordKind.VALUE or self.cap is not None

    @property
    def people(self) -> int:
        """The number of clients or records, by `by_clients`."""
        return self.clients if self.by_clients else self.records

    @cached_property
    def prepared(self) -> PreparedRelease[Answer]:
        """The prepared release; OptionError if no noise fits."""
        return self.statistic.prepare(self.request, self.domain)

    def check_size(self) -> None:
        """Raise OptionError if parties would handle more than was measured."""
        form = self.request.form.name
        if is_per_record(self.domain, form) and self.records > MOST_PLANNED:
            raise OptionError(
                f"{named('records')} is at most {MOST_PLANNED} where parties handle each record; got "
                f"{self.records}."
            )
        if self.statistic.kind is RecordKind.SIZE and self.clients > MOST_SLOTS:
            raise OptionError(
                f"{named('clients')} is at most {MOST_SLOTS} where parties handle each client's slot, as "
                f"more was not measured; got {self.clients}."
            )
        most = {KEYS.name: MOST_PLANNED, SLOTS.name: MOST_SLOTS}.get(form)
        if self.cap and most and self.clients * self.cap.slots > most:
            raise OptionError(
                f"{named('clients')} times {named('cap')} is at most {most} where parties handle each of "
                f"clients' {form}, as more was not measured; got {self.clients * self.cap.slots}."
            )

    def job(self) -> Job:
        """Return the job of a run, without clients' values."""
        domain = self.domain
        release = self.request
        parties = release.model.parties
        rows = self.records if is_per_record(domain, release.form.name) else self.clients
        job = make_job(self.prepared, PartyInputs(domain, self.clients, 1, rows))
        if release.randomness.offline:
            job = replace(job, pieces=(Path(),) * parties)
        return job


def expected_cap(clients: int, records: int, max_count: int) -> Cap:
    """Return the cap for equal clients, chosen without noise."""
    caps = caps_to_choose_from(max_count)
    for cap in caps:
        if cap * clients >= records:
            return Cap(cap)
    return Cap(caps[-1])


@dataclass(frozen=True)
class Needed:
    """The records or clients for an error, and the guarantee for it with these."""

    error: float
    people: int
    guarantee: Guarantee | None


@dataclass(frozen=True)
class ReleasePlan:
    """The expected result of a release in models that add the same noise.

    Attributes:
        models: The models to choose from.
        asked: The release in the first of them.
        found: The expected result.
        needed: The records or clients that an error needs. None if the release keeps to an error of its own,
            or has none.
        by_noise: The RMS error of a count, by the noise and how the noisy values are laid out for it. Empty
            if the statistic has a single layout, unless the number of parties is chosen.
        elsewhere: The RMS error of a count by mechanisms that are not built here.
        alone: Whether all models add this noise.
        design_s: The seconds that choosing the noise takes here.
        derive_s: The seconds that deriving the result takes here.
    """

    models: tuple[SecurityModel, ...]
    asked: ExpectedRelease
    found: ExpectedResult
    needed: Needed | None
    by_noise: Mapping[str, float]
    elsewhere: Mapping[str, float]
    alone: bool
    design_s: float
    derive_s: float


class _AddedNoise(NamedTuple):
    """The facts about a security model on which the noise of a release depends.

    Attributes:
        malleable_slots: Whether a party can change clients' slots.
        own: The noise that each party adds by itself, None for joint noise.
        tolerated: How many parties may be corrupt, where their number is chosen, as a plan then shows what
            their own noise would do; else None.
    """

    malleable_slots: bool
    own: ChosenPartyNoise | None
    tolerated: int | None


def _by_noise(asked: ExpectedRelease, models: Sequence[SecurityModel]) -> list[list[SecurityModel]]:
    """Return the models in groups that add the same noise, those without malleable slots first."""
    groups: dict[_AddedNoise, list[SecurityModel]] = {}
    for model in sorted(models, key=lambda candidate: asked.by(candidate).request.malleable_slots):
        request = asked.by(model).request
        tolerated = None if model.stated_parties is None else model.corruptions
        added = _AddedNoise(request.malleable_slots, request.own, tolerated)
        groups.setdefault(added, []).append(model)
    return list(groups.values())


def plan_releases(asked: ExpectedRelease, models: Sequence[SecurityModel], error: float) -> list[ReleasePlan]:
    """Return a plan for each kind of the models' noise.

    Args:
        asked: The release.
        models: The models in which it may be run.
        error: The error for which a plan says how many records or clients it needs, a share above 0.
    """
    groups = _by_noise(asked, models)
    return [_plan_release(asked.by(alike[0]), alike, error, alone=len(groups) == 1) for alike in groups]


def _plan_release(
    here: ExpectedRelease, alike: Sequence[SecurityModel], error: float, *, alone: bool
) -> ReleasePlan:
    """Return the plan of a release in models that add the same noise, as in the first of them."""
    before = thread_time()
    prepared = here.prepared
    design_s = thread_time() - before
    derive_s = deriving_s(prepared, here.sizes)
    expected = here.statistic.expected_error(prepared, here.sizes)
    needed: Needed | None = None
    if expected.worst is not None and here.sizes.min() >= 1:
        people = math.ceil(here.people * expected.worst / error)
        needed = Needed(error, people, guarantee_for(here, error))
    by_noise: dict[str, float] = {}
    if here.statistic.layout(prepared) or alike[0].stated_parties is not None:
        by_noise = errors_by_noise(here)
    return ReleasePlan(
        models=tuple(alike),
        asked=here,
        found=expected,
        needed=needed,
        by_noise=by_noise,
        elsewhere=here.statistic.errors_elsewhere(prepared),
        alone=alone,
        design_s=design_s,
        derive_s=derive_s,
    )


def errors_by_noise(asked: ExpectedRelease) -> dict[str, float]:
    """Return the RMS error of a count for each noise that the release can have, with its layout if any.

    It is empty if no count has an error of its own.
    """
    errors: dict[str, float] = {}
    for noise in (JOINT, DISTRIBUTED, DISTRIBUTED_GAUSSIAN):
        request = asked.request.but(Randomness.noise, noise)
        if noise != JOINT:
            request = request.but(Randomness.noise_family, BY_EPSILON)  # as families are of joint noise
        variant = replace(asked, request=request)
        statistic = variant.statistic
        with suppress(OptionError):  # this noise is not possible
            variant.request.program_of(statistic.spec)
            expected = statistic.expected_error(variant.prepared, variant.sizes)
            if expected.count_rmse is not None:
                layout = statistic.layout(variant.prepared)
                errors[f"{noise}, {layout}" if layout else noise] = expected.count_rmse
    return errors


def guarantee_for(asked: ExpectedRelease, error: float) -> Guarantee | None:
    """Return the guarantee with the least epsilon of two digits that keeps to this worst error, or None."""
    grid: list[Fraction] = []
    for power in range(-2, 3):
        grid += [Fraction(digits, 100) * Fraction(10) ** power for digits in range(10, 100)]
    grid = [epsilon for epsilon in grid if epsilon <= MAX_EPSILON]

    def is_enough(epsilon: Fraction) -> bool:
        variant = replace(asked, request=asked.request.but(Protect.epsilon, epsilon))
        try:
            expected = variant.statistic.expected_error(variant.prepared, variant.sizes)
        except OptionError:  # so small that no noise fits
            return False
        return expected.worst is not None and expected.worst <= error

    least = bisect_left(grid, True, key=is_enough)
    if least == len(grid):
        return None
    return Guarantee(grid[least], asked.request.protect.delta)


@dataclass(frozen=True)
class ModelPlan:
    """The cost of a run in one model.

    Attributes:
        costs: The cost of each release. None if there is a `refusal`.
        refusal: Why the model cannot run the release, or why its cost is unknown.
        missing: Why the model is not available here.
        wall: The seconds of a command on this machine.
        ahead: The cost of making noise ahead.
    """

    model: SecurityModel
    costs: tuple[Cost, ...] | None
    refusal: str | None
    missing: str | None
    wall: WallClock | None = None
    ahead: Cost | None = None

    @property
    def cost(self) -> Cost | None:
        """The total cost."""
        return None if self.costs is None else total_cost(self.costs)


def plan_model(
    stages: Sequence[ExpectedRelease],
    model: SecurityModel,
    units: UnitCosts,
    network: NetworkProfile | None,
    *,
    start_s: float = 0.0,
    design_s: float = 0.0,
    derive_s: float = 0.0,
) -> ModelPlan:
    """Predict the cost of a run in this model; no party is started.

    `start_s` are the seconds in which a command begins. Raises CompileError, or OptionError if no noise
    fits the budget.
    """
    engine = engine_of(model)
    costs: list[Cost] = []
    ahead: list[Cost] = []
    compiling: list[float | None] = []
    missing = engine.availability(model)
    asked_here = [asked.by(model) for asked in stages]
    for asked in asked_here:
        refusal = engine.refusal(asked.request.program_of(asked.statistic.spec), model, asked.request.form)
        if refusal is not None:
            return ModelPlan(model, costs=None, refusal=refusal, missing=missing)
        try:
            job = asked.job()
            costs.append(units.predict(model, counts_of(job, model), network))
            if asked.request.randomness.offline:
                making = noise_job(joint_noise_of(asked.prepared), [Path()] * model.parties)
                ahead.append(units.predict(model, counts_of(making, model), network))
        except PlanError as error:
            return ModelPlan(model, costs=None, refusal=str(error), missing=missing)
        compiling.append(0.0 if engine.is_compiled(job, model) else costs[-1].compile_s)
    before = total_cost(ahead) if ahead else None
    if network is not None:
        return ModelPlan(model, tuple(costs), refusal=None, missing=missing, ahead=before)
    last = asked_here[-1]
    wall = WallClock(
        start_s=start_s + sum(parties_start_s(asked.request) for asked in asked_here),
        design_s=design_s,
        read_s=last.records * reading_s(last.statistic.kind),
        share_s=sum(sharing_s(asked.federation, asked.request) for asked in asked_here),
        compile_s=sum_if_known(compiling),
        mpc_s=sum(cost.mpc_s for cost in costs),
        derive_s=derive_s,
    )
    return ModelPlan(model, tuple(costs), refusal=None, missing=missing, wall=wall, ahead=before)
