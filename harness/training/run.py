"""One training on one budget: weights, a model, and thresholds from clients that it did not see."""

import math
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import UNSET, structs

from harness.engines.base import Progress, no_charge
from harness.engines.registry import choose_model
from harness.errors import OptionError
from harness.inputs.columns import TABLE, as_index
from harness.inputs.record_schema import (
    DEFAULT_MAX_COUNT,
    Grid,
    RecordDomain,
    RecordKind,
    bins_of,
    even_grid,
)
from harness.inputs.records import ClientRecords, read_singly
from harness.pipeline.preprocessing import charging_for
from harness.pipeline.release import declared_domain, domain_of_noise, settings_of, stock_of, with_cap
from harness.pipeline.run import (
    Run,
    RunSettings,
    columns_of,
    combined_manifest,
    made_ahead,
    manifest_of,
    run_release,
)
from harness.pipeline.sources import RecordsSource
from harness.privacy.ledger.charge import Account, Entry, Say, chosen_account, entry, nothing_said
from harness.privacy.manifest import (
    FILE as MANIFEST,
    Inputs,
    Manifest,
    TrainingSettings,
    manifest_to_json,
    read_statement,
)
from harness.privacy.statement import (
    INFERRED,
    PrivacyStatement,
    failure_of,
    state_distributed_noise,
)
from harness.releases.base import statistic_of
from harness.releases.files import files_to_json
from harness.system.files import scratch_directory
from harness.system.result_files import check_new, new_directory, write_all
from harness.training.fairness import FairGrad
from harness.training.features import Features
from harness.training.logistic import (
    Descent,
    Examples,
    LogisticModel,
    ModelFile,
    fit,
    probabilities,
    with_constant,
)
from harness.training.request import TrainRequest
from harness.training.session import SumSession
from protocols.accounting.calibration import PrivacyUnit
from protocols.accounting.rounding import float_up
from protocols.arrays import Bools, Floats
from protocols.circuits.coins import exp_bounds
from protocols.guarantee import Guarantee, compose
from protocols.noise.added import DistributedNoise
from protocols.spec import SHARES, SPLIT

TASK = "train"
HELD_OUT = 4  # one of so many clients is kept for thresholds


@dataclass(frozen=True)
class Training:
    """A training's options, which are public and fixed before data are seen.

    `guarantee` is the budget of the model's rounds, `grid` of scores. `weights` and `thresholds` are releases
    beside the model, each with its own budget, and `fairness` the definition for which groups are weighed.
    """

    request: TrainRequest
    account: Account
    guarantee: Guarantee
    how: Descent
    grid: Grid
    fairness: str | None = None
    weights: RunSettings | None = None
    thresholds: RunSettings | None = None

    def scored(self, domain: RecordDomain) -> RecordDomain:
        """Return the domain of the model's scores; OptionError unless it has two labels."""
        if len(domain.labels) != 2:
            raise OptionError(
                f"Thresholds beside training take two labels, not {len(domain.labels)}; train without, and "
                "release thresholds of the model's scores by a command of their own."
            )
        return replace(domain, kind=RecordKind.SCORE, thresholds=self.grid)

    def total(self, domain: RecordDomain, rounds: Guarantee) -> Guarantee:
        """Return the loss of the whole, given that of the model's `rounds`.

        The weights' loss adds to the larger one of model and thresholds (parallel composition): a random draw
        that sees no record puts a client in one of these two.
        """
        total = rounds
        if self.thresholds:
            exact = _exact(self.thresholds, self.scored(domain))
            total = Guarantee(max(total.epsilon, exact.epsilon), max(total.delta, exact.delta))
        return compose([_exact(self.weights, domain), total]) if self.weights else total

    def fairgrad(self, domain: RecordDomain) -> FairGrad | None:
        """Return how groups are weighed, if at all."""
        if self.fairness is None:
            return None
        positive = domain.positive(self.request.positive_label)
        return FairGrad(self.fairness, len(domain.groups), len(domain.labels), positive)


def _exact(part: RunSettings, domain: RecordDomain) -> Guarantee:
    return statistic_of(part.release).prepare(part.release, domain).plan.exact


@dataclass(frozen=True)
class Trained:
    """A training's results, and its place in the ledger."""

    model: LogisticModel
    manifest: Manifest
    weights: Run[Any] | None
    thresholds: Run[Any] | None
    charging: Entry
    files: tuple[ModelFile]  # beside the manifest


def train(
    records: ClientRecords,
    features: Features,
    encoded: Floats,
    chosen: Training,
    out: Path,
    progress: Progress,
) -> Trained:
    """Release weights, train on noisy sums, and release thresholds of the model's scores; write all files.

    `encoded` are the records' features, shape (n, columns). After a FairSharesError `out` does not exist.
    Guarantees: a training is charged once, before anything is revealed, and a failed one stays charged.
    [test: tests/harness/training/test_run.py]
    """
    started, domain, labels = time.monotonic(), records.domain, label_values(records)
    kept = held_out(records.clients) if chosen.thresholds else np.zeros(records.clients, dtype=bool)
    seen, of_training = ~kept[records.client], of_clients(records, ~kept)
    with (
        entry(chosen.account) as charging,
        new_directory(out) as partial,
        scratch_directory(partial) as scratch,
    ):

        def released(part: RunSettings, of: ClientRecords) -> Run[Any]:
            statistic = statistic_of(part.release)

            def step(each: str) -> None:
                progress(f"{statistic.name} {each}")

            return run_release(
                statistic, RecordsSource(of), part, partial / statistic.name, step, within=charging
            )

        progress("plan")
        fairgrad = chosen.fairgrad(domain)
        session = _session(
            chosen, domain, features, fairgrad, of_training.clients, lambda: charging.start(whole)
        )
        session.check_supported()
        total = chosen.total(domain, session.plan.exact)
        noise = None if chosen.weights or chosen.thresholds else session.event.noise
        whole = replace(session.event, task=TASK, exact=total, out=out, noise=noise)
        charging.check(whole)
        charging.whole = whole = replace(whole, piece=session.take(scratch / "piece"))
        with charging_for(session.stock, whole.piece):
            charging.check(whole)
        weights = released(chosen.weights, records) if chosen.weights else None
        table = weights.found.weights.weights if weights else np.ones(domain.shape[:2])
        examples = Examples(
            encoded[seen],
            of_training.label,
            of_training.client,
            of_training.clients,
            len(domain.labels),
            table[of_training.group, of_training.label],
            of_training.group,
        )
        progress("train")
        with session:
            parameters = fit(examples, session.add, chosen.how, chosen.request.protect.privacy_unit, fairgrad)
        thresholds = None
        if chosen.thresholds:
            positive = domain.positive(chosen.request.positive_label)
            scores = probabilities(parameters, with_constant(encoded[~seen]))[:, positive]
            apart = replace(
                of_clients(records, kept), domain=chosen.scored(domain), detail=bins_of(scores, chosen.grid)
            )
            thresholds = released(chosen.thresholds, apart)
        progress("write")
        parts = {
            **({"weights": weights.manifest} if weights else {}),
            "training": _own_manifest(chosen, session, examples, charging, domain.inferred),
            **({"thresholds": thresholds.manifest} if thresholds else {}),
        }
        how = chosen.how
        manifest = structs.replace(
            _manifest(chosen, parts, total, domain),
            inputs=Inputs(clients=records.clients, max_count=domain.max_count, in_training=examples.clients),
            training=TrainingSettings(
                rounds=how.rounds,
                clip=how.clip,
                largest_weight=how.largest_weight,
                learning_rate=how.learning_rate,
                momentum=how.momentum,
                fairness=fairgrad.fairness if fairgrad else UNSET,
                fairness_share=fairgrad.share if fairgrad else UNSET,
                fairness_step=fairgrad.step if fairgrad else UNSET,
                rho=float_up(session.plan.loss.rho),
                rho_delta=float_up(session.plan.loss.certain + session.plan.loss.apart),
            ),
            wall_s=time.monotonic() - started,
            columns=columns_of(records.columns),
        )
        model = LogisticModel(features, labels, parameters)
        file = ModelFile(**structs.asdict(model.stated), privacy=manifest.privacy)
        write_all(partial, {**files_to_json([file]), MANIFEST: manifest_to_json(manifest)})
        return Trained(model, manifest, weights, thresholds, charging, (file,))


def label_values(records: ClientRecords) -> list[Any]:
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
    rows, number = kept[records.client], np.cumsum(kept) - 1
    return replace(
        records,
        client_ids=records.client_ids[kept],
        client=number[records.client[rows]],
        group=records.group[rows],
        label=records.label[rows],
        count=records.count[rows],
    )


def _session(
    chosen: Training,
    domain: RecordDomain,
    features: Features,
    fairgrad: FairGrad | None,
    clients: int,
    starting: Callable[[], None],
) -> SumSession:
    request = chosen.request
    norm = chosen.how.clip * chosen.how.largest_weight  # what is added is clipped and weighed already
    coordinates = (len(domain.labels) - 1) * (features.columns + 1)
    if fairgrad is not None:
        norm, coordinates = math.hypot(norm, fairgrad.unit(norm)), coordinates + fairgrad.cells
    return SumSession(
        request.model.name,
        clients=clients * (domain.max_count if request.protect.privacy_unit is PrivacyUnit.RECORD else 1),
        coordinates=coordinates,
        rounds=chosen.how.rounds,
        clip=norm,
        epsilon=chosen.guarantee.epsilon,
        delta=chosen.guarantee.delta,
        unit=str(request.protect.privacy_unit),
        noise=request.randomness.noise,
        offline=request.randomness.offline,
        stock=stock_of(request.where, request.account).directory,
        starting=starting,
        timeout=request.where.timeout,
    )


def _manifest(
    chosen: Training,
    parts: dict[str, Manifest],
    total: Guarantee,
    domain: RecordDomain,
) -> Manifest:
    manifest = combined_manifest(TASK, parts)
    existence_only = domain.max_count == 1 and chosen.request.protect.privacy_unit is PrivacyUnit.RECORD
    # What a client's only record says is protected as one record that is removed and another that is added.
    replaced = Guarantee(2 * total.epsilon, (1 + exp_bounds(total.epsilon)[1]) * total.delta)
    stated = replace(
        read_statement(manifest),
        exact=total,
        epsilon_requested=chosen.request.protect.epsilon,
        if_replaced=replaced if existence_only else None,
    )
    return structs.replace(manifest, privacy=stated.stated)


def _own_manifest(
    chosen: Training, session: SumSession, examples: Examples, charging: Entry, inferred: bool
) -> Manifest:
    noise, piece, request = session.plan.noise, session.piece, chosen.request
    size, counted = session.rule.coordinates, ""
    if chosen.fairness is not None:
        counted = " and of the records that the model gets right and wrong, by group and label"
    stated = PrivacyStatement(
        model=request.model,
        exact=session.plan.exact,
        epsilon_requested=chosen.guarantee.epsilon,
        relation=session.event.relation,
        unit=request.protect.privacy_unit,
        failure=failure_of(request.model.security_bits(0)) * (1 + (piece.attempts if piece else 0)),
        made_ahead=piece is not None,
        input_form="sums",
        input_path=SHARES.described,
        revealed=(
            f"{session.rounds} noisy sums of {size} numbers each, of clients' updates of the model{counted}",
        ),
        public=(
            *("number of clients", "features and their ranges", "number of rounds", "clipping norm"),
            *("largest weight", "learning rate", "momentum"),
            *(["fairness"] if counted else []),
            *([INFERRED] if inferred else []),
        ),
        distributed_noise=state_distributed_noise(noise, SPLIT)
        if isinstance(noise, DistributedNoise)
        else None,
    )
    manifest = manifest_of(
        "training",
        session.result,
        stated.stated,
        Inputs(clients=examples.clients),
        charging.charged(),
        sum(session.seconds),
        share_s=0.0,
    )
    return structs.replace(manifest, preprocessing=made_ahead(piece)) if piece else manifest


def trained(
    request: TrainRequest,
    source: Any,
    features: Features,
    target: Path,
    begin: Progress,
    say: Say = nothing_said,
) -> Trained:
    """Train on records (see `table_at`) into a new directory."""
    check_new(target)
    account = chosen_account(
        request.population, request.account.budget, request.account.ledger, say, of_records=True
    )
    chosen, domain = _chosen(request, account), declared_domain(request.declares)
    begin("records")
    records, rows = read_singly(
        source, [*features.by_name], domain, request.declares.max_count or DEFAULT_MAX_COUNT
    )
    protect = request.protect
    records.check_unit(protect.privacy_unit, protect.cap or records.domain.cap)
    records = replace(records, domain=with_cap(records.domain, protect.bound, protect.privacy_unit))
    return train(records, features, features.encode(rows.texts), chosen, target, begin)


def preprocessed(
    request: TrainRequest, features: Features, runs: int, progress: Progress
) -> tuple[Path, list[dict[str, Any]]]:
    """Make the noise of all rounds of so many trainings; return its directory and costs.

    After an error, finished noise stays.
    """
    domain = domain_of_noise(request.declares)
    request = request.but(offline=True, records=TABLE)  # of any records
    chosen = _chosen(request, Account())
    session = _session(chosen, domain, features, chosen.fairgrad(domain), 1, no_charge)
    session.check_supported()
    return session.stock.directory, session.preprocess(runs, progress)


def _chosen(request: TrainRequest, account: Account) -> Training:
    request = request.but(security=request.security or choose_model(None))
    domain = declared_domain(request.declares)
    usual = 2.0 if "weights" in request.parts else 1.25 if request.sought else 1.0
    return Training(
        request,
        account,
        request.of_model,
        Descent(
            request.rounds,
            request.clip,
            request.largest_weight or usual,
            request.learning_rate,
            request.momentum,
        ),
        (domain and domain.thresholds) or even_grid(),
        request.sought,
        **{task: settings_of(request.of_release(task)) for task in request.parts},
    )
