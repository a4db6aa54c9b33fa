"""One training on one budget: weights, a model, and thresholds from clients that it did not see."""

import random
import tempfile
import time
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import numpy as np
from msgspec import UNSET, structs

from fairshares.harness.engines.execution import Progress, StepsOfRun
from fairshares.harness.engines.registry import choose_model
from fairshares.harness.errors import OptionError
from fairshares.harness.inputs.columns import TABLE, TypedName, as_index
from fairshares.harness.inputs.record_schema import (
    DEFAULT_MAX_COUNT,
    Grid,
    RecordDomain,
    RecordKind,
    bins_of,
    even_grid,
)
from fairshares.harness.inputs.records import ClientRecords, read_singly
from fairshares.harness.inputs.tables import TabularRecords
from fairshares.harness.pipeline.manifest_of_run import (
    columns_of,
    combined_manifest,
    computation_of,
    environment,
    made_ahead,
)
from fairshares.harness.pipeline.preprocessing import MadeNoise, charging_for, preprocess, terms_of
from fairshares.harness.pipeline.relations import noise_of_another_relation, said_of_new_default
from fairshares.harness.pipeline.release import (
    domain_of_noise,
    settings_of,
    stock_of,
    with_cap,
)
from fairshares.harness.pipeline.run import Run, RunSettings, run_release
from fairshares.harness.pipeline.sources import RecordsSource
from fairshares.harness.privacy.ledger.charge import (
    Account,
    Entry,
    SeriesEntry,
    account_read,
    chosen_account,
    settled,
)
from fairshares.harness.privacy.ledger.populations import PrivacyEvent
from fairshares.harness.privacy.manifest import (
    MANIFEST,
    Manifest,
    StatedInputs,
    read_statement,
)
from fairshares.harness.privacy.statement import (
    INFERRED,
    bits_of,
    end_to_end,
    failure_of,
    state_distributed_noise,
)
from fairshares.harness.privacy.stock import Stock
from fairshares.harness.releases.base import Answer, Statistic, statistic_of
from fairshares.harness.releases.files import files_to_json
from fairshares.harness.releases.thresholds.statistic import Thresholds, ThresholdsStatistic
from fairshares.harness.releases.weights.statistic import Weights, WeightsStatistic
from fairshares.harness.request.releases import SourceOptions
from fairshares.harness.request.request import DISTRIBUTED, BesideTraining, Randomness, Trust
from fairshares.harness.stated_privacy import StatedPrivacy
from fairshares.harness.system.documents import as_json
from fairshares.harness.system.files import working_directory
from fairshares.harness.system.progress import Say, nothing_said
from fairshares.harness.system.result_files import check_new, new_directory, write_all
from fairshares.harness.training.declared_training import (
    descent_of,
    fairgrad_of,
    revealed_of_rounds,
    settings_of_training,
)
from fairshares.harness.training.fairness import FairGrad
from fairshares.harness.training.features import Features
from fairshares.harness.training.logistic import (
    Descent,
    Examples,
    LogisticModel,
    ModelFile,
    UpdateBounds,
    fit,
    probabilities,
    with_constant,
)
from fairshares.harness.training.request import TrainRequest
from fairshares.harness.training.session_plan import PlannedSums, WantedSums
from fairshares.harness.training.sums import AllowedSums, RevealedSums, charge, prepare, with_noise
from fairshares.protocols.accounting.calibration import NeighboringRelation, NoisePlan, PrivacyUnit
from fairshares.protocols.accounting.rounding import float_up
from fairshares.protocols.arrays import Bools, Floats
from fairshares.protocols.circuits.coins import NoiseFamily, exp_bounds
from fairshares.protocols.guarantee import Guarantee, compose
from fairshares.protocols.noise.added import DistributedNoise
from fairshares.protocols.spec import SHARES, SPLIT

TRAIN = "train"
R = TypeVar("R", bound=Answer)

HELD_OUT = 4  # one of so many clients is kept for thresholds


@dataclass(frozen=True)
class ChosenTraining:
    """A training that was asked for, with all that follows before data are seen. All of it is public.

    Attributes:
        request: The options of the training.
        account: The population that is charged, and the ledger.
        guarantee: The budget of the model's rounds.
        descent: How the model's parameters are found.
        grid: The thresholds of scores.
        relation: The neighboring relation of the rounds and of what is released beside them.
        weights: How weights are released before the rounds, with a budget of their own; None if they are not.
        thresholds: How thresholds are released after the rounds; None if they are not.
    """

    request: TrainRequest
    account: Account
    guarantee: Guarantee
    descent: Descent
    grid: Grid
    relation: NeighboringRelation
    weights: RunSettings | None = None
    thresholds: RunSettings | None = None

    @property
    def stock(self) -> Stock:
        """The stock of noise of the rounds that was made ahead."""
        return stock_of(self.request.where, self.request.account)

    def scored(self, domain: RecordDomain) -> RecordDomain:
        """Return the domain of the model's scores; OptionError unless it has two labels."""
        if len(domain.labels) != 2:
            raise OptionError(
                f"Thresholds beside training take two labels, not {len(domain.labels)}; train without, and "
                "release thresholds of the model's scores by a command of their own."
            )
        return replace(domain, kind=RecordKind.SCORE, thresholds=self.grid)

    def total(self, domain: RecordDomain, rounds: Guarantee) -> Guarantee:
        """Return the loss of the whole, given the loss of the model's `rounds`.

        The weights' loss adds to the larger one of model and thresholds (parallel composition): a random draw
        that sees no record puts a client in one of these two.
        """
        total = rounds
        if self.thresholds:
            exact = _plan_of(self.thresholds, self.scored(domain)).exact
            total = Guarantee(max(total.epsilon, exact.epsilon), max(total.delta, exact.delta))
        if self.weights:
            total = compose([_plan_of(self.weights, domain).exact, total])
        return total

    def family(self, domain: RecordDomain) -> NoiseFamily | None:
        """Return the family of joint noise of what is released beside the rounds; symmetric, if both are."""
        plans: list[NoisePlan] = []
        if self.thresholds:
            plans.append(_plan_of(self.thresholds, self.scored(domain)))
        if self.weights:
            plans.append(_plan_of(self.weights, domain))
        families = [plan.family for plan in plans]
        if NoiseFamily.SYMMETRIC in families:
            return NoiseFamily.SYMMETRIC
        return families[0] if families else None

    def fairgrad(self, domain: RecordDomain) -> FairGrad | None:
        """Return how groups are weighed, if at all."""
        return fairgrad_of(self.request, domain)


def _plan_of(part: RunSettings, domain: RecordDomain) -> NoisePlan:
    """Return the noise of a release beside the model, and its exact loss."""
    return statistic_of(part.release).prepare(part.release, domain).plan


@dataclass(frozen=True)
class Trained:
    """A training's results, and its place in the ledger."""

    model: LogisticModel
    manifest: Manifest
    weights: Run[Weights] | None
    thresholds: Run[Thresholds] | None
    charging: Entry
    files: tuple[ModelFile]  # beside the manifest


def train_on_records(
    records: ClientRecords,
    features: Features,
    encoded: Floats,
    chosen: ChosenTraining,
    out: Path,
    *,
    progress: Progress,
) -> Trained:
    """Release weights, train on noisy sums, and release thresholds of the model's scores; write all files.

    `encoded` are the records' features, shape (n, columns). After a FairSharesError `out` does not exist.
    Guarantees: a training is charged once, before anything is revealed, and a failed one stays charged.
    [test: tests/harness/training/test_training_run.py]
    """
    began = time.monotonic()
    domain = records.domain
    labels = label_values(records)
    split = _split(records, keep_some=chosen.thresholds is not None)
    progress("plan")
    planned = plan_training(chosen, domain, features, split.training.clients, out)
    with working_directory(Path(tempfile.gettempdir())) as work:
        allowed = allow_training(planned, work / "piece")
        with settled(SeriesEntry(chosen.account, allowed.whole)) as series, new_directory(out) as partial:
            revealed = reveal_training(
                allowed,
                split,
                encoded,
                series,
                partial,
                work=work / "parties",
                progress=progress,
            )
            progress("write")
            manifest = structs.replace(
                _manifest_of_training(revealed, series, domain),
                inputs=StatedInputs(
                    clients=records.clients,
                    max_count=domain.max_count,
                    in_training=revealed.examples.clients,
                ),
                training=settings_of_training(
                    planned.chosen.descent, planned.fairgrad, planned.sums.plan.loss
                ),
                wall_s=time.monotonic() - began,
                columns=columns_of(records.columns),
            )
            model = LogisticModel(features, labels, revealed.parameters)
            file = ModelFile(**structs.asdict(model.stated), privacy=manifest.privacy)
            write_all(partial, {**files_to_json([file]), MANIFEST: as_json(manifest)})
            return Trained(model, manifest, revealed.weights, revealed.thresholds, series, (file,))


@dataclass(frozen=True)
class _DividedRecords:
    """Records divided by purpose. A client's records all train the model, or all lead to thresholds.

    Attributes:
        together: All records.
        training: The records of the clients that train the model.
        apart: The records of the other clients, for thresholds of the model's scores.
        in_training: Which rows of all records train the model, shape (n,).
    """

    together: ClientRecords
    training: ClientRecords
    apart: ClientRecords
    in_training: Bools

    def examples(self, encoded: Floats, weights: Run[Weights] | None) -> Examples:
        """Return the records that the model learns from, each weighed by its group and label.

        Args:
            encoded: The features of all records, shape (n, columns).
            weights: The release of weights; without it each record weighs 1.
        """
        training = self.training
        domain = training.domain
        table = np.ones(domain.shape[:2])  # a weight for each group and label
        if weights is not None:
            table = weights.found.weights.weights
        return Examples(
            features=encoded[self.in_training],
            label=training.label,
            client=training.client,
            clients=training.clients,
            labels=len(domain.labels),
            weight=table[training.group, training.label],
            group=training.group,
        )

    def kept_rows(self, encoded: Floats) -> Floats:
        """Return the features of the records that the model did not see."""
        return encoded[~self.in_training]

    def scored(self, chosen: ChosenTraining, shares: Floats) -> ClientRecords:
        """Return the records that the model did not see, with its scores.

        Args:
            chosen: The training that was asked for, which says which label is positive and where the bins of
                scores end.
            shares: Each label's probability by the model, shape (rows kept apart, labels).
        """
        positive = self.apart.domain.positive(chosen.request.positive_label)
        return replace(
            self.apart,
            domain=chosen.scored(self.apart.domain),
            detail=bins_of(shares[:, positive], chosen.grid),
        )


def _split(records: ClientRecords, *, keep_some: bool) -> _DividedRecords:
    """Keep some clients' records apart from training, or none; raises as `held_out`."""
    kept = np.zeros(records.clients, dtype=bool)
    if keep_some:
        kept = held_out(records.clients)
    return _DividedRecords(
        together=records,
        training=of_clients(records, ~kept),
        apart=of_clients(records, kept),
        in_training=~kept[records.client],
    )


@dataclass(frozen=True)
class PlannedTraining:
    """A training whose noise and loss are known. Nothing is shared yet.

    Attributes:
        chosen: The training that was asked for.
        sums: The model's rounds.
        fairgrad: How groups are weighed, if at all.
        total: The loss of the rounds and of the releases beside the model.
        whole: The event of the whole training, about which the ledger is asked.
    """

    chosen: ChosenTraining
    sums: PlannedSums
    fairgrad: FairGrad | None
    total: Guarantee
    whole: PrivacyEvent


@dataclass(frozen=True)
class AllowedTraining:
    """A planned training that the ledger would charge now. Refusals end here, except by the charge.

    Attributes:
        planned: The training.
        sums: The model's rounds, with their noise if it was made ahead.
    """

    planned: PlannedTraining
    sums: AllowedSums

    @property
    def whole(self) -> PrivacyEvent:
        """The event of the whole training, with the name of the rounds' noise if it was made ahead."""
        return replace(self.planned.whole, piece=self.sums.piece_name)


@dataclass(frozen=True)
class RevealedTraining:
    """The results of a charged training's parties.

    Attributes:
        allowed: The training.
        examples: The records that the model learned from.
        sums: The model's rounds.
        parameters: The model's parameters, which follow from the rounds' sums.
        weights: The release of weights, before the rounds; None without one.
        thresholds: The release of thresholds, after them; None without one.
    """

    allowed: AllowedTraining
    examples: Examples
    sums: RevealedSums
    parameters: Floats
    weights: Run[Weights] | None
    thresholds: Run[Thresholds] | None


def plan_training(
    chosen: ChosenTraining, domain: RecordDomain, features: Features, clients: int, out: Path
) -> PlannedTraining:
    """Work out a training's noise and loss for so many clients in the rounds.

    Raises UnsupportedError if the model of security cannot run them here, or OptionError.
    """
    fairgrad = chosen.fairgrad(domain)
    sums = plan_sums(chosen, domain, features, fairgrad, clients)
    sums.check_supported()
    total = chosen.total(domain, sums.plan.exact)
    noise = None if chosen.weights or chosen.thresholds else sums.event.noise
    family = chosen.family(domain)
    whole = replace(sums.event, task=TRAIN, exact=total, noise=noise, out=out, family=family)
    return PlannedTraining(chosen, sums, fairgrad, total, whole)


def allow_training(planned: PlannedTraining, place: Path) -> AllowedTraining:
    """Ask the ledger, and take the rounds' noise, if it was made ahead, out of the stock into `place`.

    Raises BudgetError, PopulationError or LedgerError; StockError without such noise; UsedNoiseError if a run
    has used the noise, whose stock is a copy.
    """
    chosen = planned.chosen
    Entry(chosen.account).check(planned.whole)
    _refuse_noise_of_another_relation(planned.sums, chosen)
    allowed = AllowedTraining(planned, with_noise(planned.sums, chosen.stock, place))
    with charging_for(chosen.stock, allowed.sums.piece_name):
        Entry(chosen.account).check(allowed.whole)
    return allowed


def _refuse_noise_of_another_relation(sums: PlannedSums, chosen: ChosenTraining) -> None:
    """Raise StockError if the noise made ahead is for these rounds under another relation only."""
    stock = chosen.stock
    if not sums.wanted.offline or stock.pieces(terms_of(sums.noise)):
        return
    other = sums.under_other_relation()
    if other is not None and stock.pieces(terms_of(other.noise)):
        raise noise_of_another_relation(stock, other.event.relation, sums.event.relation, chosen.account)


def reveal_training(
    allowed: AllowedTraining,
    split: _DividedRecords,
    encoded: Floats,
    series: SeriesEntry,
    partial: Path,
    *,
    work: Path,
    progress: Progress,
) -> RevealedTraining:
    """Release weights, train the model on the rounds' sums, and release thresholds, all on one charge.

    Whichever of them is first charges the whole once its parties wait. Each has parties of its own.

    Args:
        allowed: The training.
        split: The records, by purpose.
        encoded: The features of all records, shape (n, columns).
        series: The training's entry in the ledger.
        partial: The directory into which the releases beside the model are written.
        work: A new directory for the parties of the rounds.
        progress: Receives the name of each step.
    """
    chosen = allowed.planned.chosen
    weights: Run[Weights] | None = None
    if chosen.weights is not None:
        statistic = WeightsStatistic.for_request(chosen.weights.release)
        weights = _release(
            statistic, chosen.weights, split.together, partial, progress=progress, series=series
        )
    examples = split.examples(encoded, weights)
    progress("train")
    with prepare(allowed.sums, work, chosen.request.where.timeout) as ready:
        charged = charge(ready, series, chosen.stock)
        with charged.begun() as rounds:
            unit = chosen.request.protect.privacy_unit
            parameters = fit(examples, rounds.add, chosen.descent, unit, allowed.planned.fairgrad)
            sums = rounds.finish()
    thresholds: Run[Thresholds] | None = None
    if chosen.thresholds is not None:
        scores = probabilities(parameters, with_constant(split.kept_rows(encoded)))
        scored = split.scored(chosen, scores)
        beside = ThresholdsStatistic.for_request(chosen.thresholds.release)
        thresholds = _release(beside, chosen.thresholds, scored, partial, progress=progress, series=series)
    return RevealedTraining(allowed, examples, sums, parameters, weights, thresholds)


def _release(
    statistic: Statistic[R],
    part: RunSettings,
    records: ClientRecords,
    partial: Path,
    *,
    progress: Progress,
    series: SeriesEntry,
) -> Run[R]:
    """Run a release beside the model, into a directory of its name."""
    steps = StepsOfRun(statistic.name, progress)
    return run_release(
        statistic, RecordsSource(records), part, partial / statistic.name, steps.begin, within=series
    )


def label_values(records: ClientRecords) -> list[TypedName]:
    """Return the labels in the records' dtype; OptionError for datetimes."""
    dtype = records.columns.get("label", "str")
    if "datetime" in dtype:
        raise OptionError(
            f"The labels are {dtype}; a model predicts texts, numbers or truth: make them such."
        )
    return [*as_index(records.domain.labels, dtype).to_numpy()]


def held_out(clients: int) -> Bools:
    """Draw one client in four, by the system's randomness, to keep out of training.

    Their number depends on the number of clients alone. Raises OptionError below four clients.
    """
    if clients < HELD_OUT:
        raise OptionError(
            f"Thresholds come from one client in {HELD_OUT}, and there are {clients}; train without them."
        )
    chosen = np.zeros(clients, dtype=bool)
    chosen[random.SystemRandom().sample(range(clients), clients // HELD_OUT)] = True
    return chosen


def of_clients(records: ClientRecords, kept: Bools) -> ClientRecords:
    """Return these clients' records."""
    rows = kept[records.client]
    number = np.cumsum(kept) - 1  # the number of a client among those that are kept
    return replace(
        records,
        client_ids=records.client_ids[kept],
        client=number[records.client[rows]],
        group=records.group[rows],
        label=records.label[rows],
        count=records.count[rows],
    )


def plan_sums(
    chosen: ChosenTraining,
    domain: RecordDomain,
    features: Features,
    fairgrad: FairGrad | None,
    clients: int,
) -> PlannedSums:
    """Work out the noise of the model's rounds for so many clients; OptionError if there is none."""
    request = chosen.request
    bounds = UpdateBounds.of(len(domain.labels), features.columns, chosen.descent, fairgrad)
    rows = clients
    unit = request.protect.privacy_unit
    if unit is PrivacyUnit.RECORD:
        rows *= domain.max_count
    rows_of_step = rows
    if request.randomness.offline:  # as the number of clients is unknown when noise is made
        rows_of_step = DEFAULT_MAX_COUNT
    wanted = WantedSums(
        clients=rows,
        rows_of_step=rows_of_step,
        coordinates=bounds.coordinates,
        rounds=chosen.descent.rounds,
        clip=bounds.norm,
        largest_weight=1.0,  # what is added is clipped and weighed already
        total=chosen.guarantee,
        unit=unit,
        rows=unit,
        distributed=request.randomness.noise == DISTRIBUTED,
        offline=request.randomness.offline,
        step=None,
        are_replaced=chosen.relation is NeighboringRelation.REPLACE_ONE,
    )
    return wanted.planned(request.model)


def _manifest_of_training(revealed: RevealedTraining, charging: Entry, domain: RecordDomain) -> Manifest:
    """Return the manifest of a training, from its parts' manifests, in the order in which they ran."""
    planned = revealed.allowed.planned
    parts: dict[str, Manifest] = {}
    if revealed.weights is not None:
        parts[revealed.weights.manifest.task] = revealed.weights.manifest
    parts["training"] = _manifest_of_rounds(
        planned.chosen, revealed.sums, revealed.examples, charging, domain.inferred
    )
    if revealed.thresholds is not None:
        parts[revealed.thresholds.manifest.task] = revealed.thresholds.manifest
    manifest = combined_manifest(TRAIN, parts)
    total = planned.total
    if_replaced: Guarantee | None = None
    if planned.chosen.relation is NeighboringRelation.ADD_OR_REMOVE_ONE:
        # What a record says is protected as one record that is removed and another that is added.
        if_replaced = Guarantee(2 * total.epsilon, (1 + exp_bounds(total.epsilon)[1]) * total.delta)
    asked = planned.chosen.request.protect.epsilon
    statement = read_statement(manifest).with_loss(total, asked=asked, if_replaced=if_replaced)
    return structs.replace(manifest, privacy=statement.stated)


def _manifest_of_rounds(
    chosen: ChosenTraining, sums: RevealedSums, examples: Examples, charging: Entry, inferred: bool
) -> Manifest:
    """Return the manifest of the model's rounds, as of a release among others."""
    planned = sums.allowed.planned
    noise = planned.plan.noise
    exact = planned.plan.exact
    piece = sums.allowed.piece
    request = chosen.request
    size = planned.rule.coordinates
    input_path = SHARES.described
    computations = 1  # each of which fails with a small probability
    if piece is not None:
        computations += piece.attempts
    bits = bits_of(failure_of(request.model.security_bits(0)) * computations)
    distributed = None
    if isinstance(noise, DistributedNoise):
        distributed = state_distributed_noise(noise, SPLIT)
    public = [
        "number of clients",
        "features and their ranges",
        "number of rounds",
        "clipping norm",
        "largest weight",
        "learning rate",
        "momentum",
    ]
    if chosen.request.sought is not None:
        public.append("fairness")
    if inferred:
        public.append(INFERRED)
    stated = StatedPrivacy(
        epsilon=float_up(exact.epsilon),
        delta=float_up(exact.delta),
        epsilon_exact=exact.epsilon,
        delta_exact=exact.delta,
        epsilon_requested=chosen.guarantee.epsilon,
        neighboring_relation=planned.event.relation,
        privacy_unit=request.protect.privacy_unit,
        mpc_statistical_security_bits=bits,
        input_form="sums",
        input_path=input_path,
        revealed=[revealed_of_rounds(planned.rounds, size, has_counts=request.sought is not None)],
        noise="distributed" if distributed else UNSET,
        distribution=distributed.distribution if distributed else UNSET,
        honest_parties=distributed.honest_parties if distributed else UNSET,
        shifted=distributed.shifted if distributed else UNSET,
        made_ahead=True if piece else UNSET,
        public=public,
        end_to_end=end_to_end(request.model, exact, bits, input_path=input_path, assumes=False),
    )
    return Manifest(
        **structs.asdict(computation_of(sums.result, wall_s=sum(sums.seconds), share_s=0.0)),
        task="training",
        privacy=stated,
        inputs=StatedInputs(clients=examples.clients),
        ledger=charging.stated(),
        environment=environment(),
        hosts=UNSET if sums.result.hosts is None else sums.result.hosts,
        preprocessing=UNSET if piece is None else made_ahead(piece),
    )


def train_on_source(
    request: TrainRequest,
    source: TabularRecords,
    features: Features,
    target: Path,
    begin: Progress,
    *,
    say: Say = nothing_said,
) -> Trained:
    """Read records, and train on them as `train_on_records`.

    Args:
        request: The options of the training.
        source: The records, as `table_at` takes them.
        features: The features of the model.
        target: A directory for the results, which must not exist.
        begin: Receives the name of each step.
        say: A function that is told what a user should know before anything is spent.

    Raises:
        OptionError: Options conflict with each other or with the records.
        RecordsError: The records cannot be read.
        BudgetError, PopulationError, LedgerError: The ledger refuses the training.
    """
    check_new(target)
    account = chosen_account(
        request.population, request.account.budget, request.account.ledger, say, of_records=True
    )
    kept = account.kept_relation(PrivacyUnit.RECORD)
    domain = request.declares.of_kind(RecordKind.NONE)
    most = request.declares.max_count or DEFAULT_MAX_COUNT
    if domain is not None:
        most = domain.max_count
    _chosen_training(
        request, account, request.relation_in(most, kept)
    )  # refuses options before records are read
    begin("records")
    records, rows = read_singly(source, [*features.by_name], domain, most)
    for sentence in features.misread(rows):  # before anything is spent
        warnings.warn_explicit(sentence, UserWarning, __file__, 0)  # each time, unlike `warn`
    protect = request.protect
    records.check_unit(protect.privacy_unit, protect.cap or records.domain.cap)
    records = replace(records, domain=with_cap(records.domain, protect.bound, protect.privacy_unit))
    relation = request.relation_in(records.domain.max_count, kept)
    is_default = protect.neighboring_relation is None and kept is None
    if is_default and relation is NeighboringRelation.REPLACE_ONE:
        say(said_of_new_default(NeighboringRelation.ADD_OR_REMOVE_ONE))
    chosen = _chosen_training(request, account, relation)
    return train_on_records(records, features, features.encode(rows.texts), chosen, target, progress=begin)


def make_noise_ahead(request: TrainRequest, features: Features, runs: int, progress: Progress) -> MadeNoise:
    """Make the noise of all rounds of `runs` trainings.

    After an error, finished noise stays.
    """
    domain = domain_of_noise(request.declares)
    request = request.but(Randomness.offline, True).but(SourceOptions.records, Path(TABLE))
    account = account_read(request.population, request.account.ledger)
    kept = account.kept_relation(PrivacyUnit.RECORD)
    relation = request.relation_in(domain.max_count, kept)
    chosen = _chosen_training(request, Account(), relation)
    sums = plan_sums(chosen, domain, features, chosen.fairgrad(domain), 1)
    sums.check_supported()
    pieces = preprocess(sums.noise, chosen.stock, runs, request.where.timeout, progress)
    return MadeNoise(str(chosen.stock.directory), pieces)


def _chosen_training(
    request: TrainRequest, account: Account, relation: NeighboringRelation
) -> ChosenTraining:
    """Return the training under a relation; OptionError if options conflict."""
    request.randomness.check_family()
    request = request.but(Trust.security, request.security or choose_model(None, request.trust.parties))
    domain = request.declares.of_kind(RecordKind.NONE)
    grid = even_grid()
    if domain is not None and domain.thresholds:
        grid = domain.thresholds
    guarantee = request.of_model
    descent = descent_of(request, is_weighed=request.part(BesideTraining.WEIGHING) is not None)
    return ChosenTraining(
        request=request,
        account=account,
        guarantee=guarantee,
        descent=descent,
        grid=grid,
        relation=relation,
        weights=_settings_beside(request, relation, BesideTraining.WEIGHING),
        thresholds=_settings_beside(request, relation, BesideTraining.DECIDING),
    )


def _settings_beside(
    request: TrainRequest, relation: NeighboringRelation, purpose: BesideTraining
) -> RunSettings | None:
    """Return how a release beside the model is run, for a purpose; None if there is none."""
    task = request.part(purpose)
    if task is None:
        return None
    return settings_of(request.of_release(task, relation))
