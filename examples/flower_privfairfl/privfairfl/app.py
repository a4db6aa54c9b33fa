"""PrivFairFL whole, in Flower: weights before training, DP-SGD at each client, thresholds after.

Clients seal their counts for the parties, and later their scores; what the parties reveal is public. Flower's
server averages models that have each client's own noise. All roles are simulated on one machine.
docs/how-to/flower.md says how to run it, and has what it printed.
"""

import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pandas as pd
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from benchmarks.measure.samples import SAMPLES
from benchmarks.studies.outcome import SUMMARY, StudyResult
from benchmarks.studies.training.models import (
    PAPERS,
    Trained,
    centralised,
    epsilon_of_gaussians,
    judged,
    local_counts,
    scores,
)
from benchmarks.studies.training.study import (
    CL,
    DP_SGD,
    FIGURES,
    FL,
    LOCAL,
    POST,
    PRE,
    Draw,
    rows_of,
    runs_of,
)
from fairshares.harness.postprocessing.thresholds.rules import ThresholdRule
from fairshares.harness.reweighing.formulas import weights_of_counts
from fairshares.protocols.arrays import Floats

from .people import LOANAPP, MADE_UP, Federation, as_records
from .released import THRESHOLDS, declare, release, rules_in, seal, weights_in
from .training import Recipe

WEIGHTING = "balanced"  # the paper's
IN_FLOWER = "Flower"  # the way of these draws, beside the study's
PLACES = ("data", "results")  # settings that are directories of this machine

client = ClientApp()
server = ServerApp()


def federation_in(message: Message, context: Context) -> Federation:
    """Return which records this run is about."""
    seed = int(message.content["config"]["seed"])
    return Federation(str(context.run_config["data"]), int(context.node_config["num-partitions"]), seed)


def recipe_in(context: Context, *, private: bool) -> Recipe:
    """Return how clients train, with or without noise."""
    config = context.run_config
    return Recipe(
        rounds=int(config["rounds"]),
        local_epochs=int(config["local-epochs"]),
        rate=float(config["rate"]),
        clip=float(config["clip"]),
        noise=float(config["noise"]) if private else 0.0,
    )


@client.train()
def train(message: Message, context: Context) -> Message:
    """Answer with the models that this client has trained; it looks up its own rows' weights for each."""
    config = message.content["config"]
    rows = federation_in(message, context).rows_of(int(context.node_config["partition-id"]))
    models = message.content["arrays"].to_numpy_ndarrays()
    tables = np.reshape(config["weights"], (len(models), len(rows.groups), 2))
    rng = np.random.default_rng()
    trained = []
    for model, table, private in zip(models, tables, config["private"], strict=True):
        recipe = recipe_in(context, private=private)
        trained.append(recipe.train(model, rows, table[rows.group, rows.label], rng))
    metrics = MetricRecord({"num-examples": len(rows.label)})
    return Message(RecordDict({"arrays": ArrayRecord(trained), "metrics": metrics}), reply_to=message)


@client.query("counts")
def seal_counts(message: Message, context: Context) -> Message:
    """Seal the counts of this client's groups and labels for the parties."""
    return _seal(message, context, with_scores=False)


@client.query("scores")
def seal_scores(message: Message, context: Context) -> Message:
    """Seal the scores of this client's rows by the model."""
    return _seal(message, context, with_scores=True)


def _seal(message: Message, context: Context, *, with_scores: bool) -> Message:
    number = int(context.node_config["partition-id"])
    rows = federation_in(message, context).rows_of(number)
    records = as_records(rows, number)
    if with_scores:
        (model,) = message.content["arrays"].to_numpy_ndarrays()
        records = records.assign(score=scores(rows, model))
    seal(Path(str(message.content["config"]["place"])), records)
    return Message(RecordDict({"metrics": MetricRecord({"sealed": 1})}), reply_to=message)


@client.query("local")
def tell_noisy_counts(message: Message, context: Context) -> Message:
    """Answer with this client's own counts, to which it has added noise: local DP, without any party."""
    rows = federation_in(message, context).rows_of(int(context.node_config["partition-id"]))
    epsilon = float(context.run_config["epsilon"])
    noisy = local_counts(rows, epsilon, np.random.default_rng())
    return Message(RecordDict({"arrays": ArrayRecord([noisy])}), reply_to=message)


@dataclass(frozen=True)
class Training:
    """How one of the models is trained.

    Attributes:
        weights: Of rows by group and label, shape (k, 2).
        private: Whether clients train by DP-SGD.
    """

    weights: Floats
    private: bool


@dataclass(frozen=True)
class Pipeline:
    """One run of PrivFairFL.

    Attributes:
        grid: The clients.
        context: Flower's context of the run.
        federation: Their records, which the server has for its tests alone.
        place: A directory for the parties.
    """

    grid: Grid
    context: Context
    federation: Federation
    place: Path

    @property
    def epsilon(self) -> float:
        """The ε of each release."""
        return float(self.context.run_config["epsilon"])

    @property
    def security(self) -> str:
        """The model under which the parties compute."""
        return str(self.context.run_config["security"])

    def ask(self, what: str, place: Path | None = None, model: Floats | None = None) -> list[RecordDict]:
        """Ask all clients; return their answers, or raise RuntimeError if one fails."""
        content = RecordDict({"config": ConfigRecord({"seed": self.federation.seed, "place": str(place)})})
        if model is not None:
            content["arrays"] = ArrayRecord([model])
        asked = [
            Message(content, dst_node_id=node, message_type=f"query.{what}")
            for node in self.grid.get_node_ids()
        ]
        replies = list(self.grid.send_and_receive(asked))
        for reply in replies:
            if reply.has_error():
                raise RuntimeError(f"A client failed: {reply.error.reason}")
        return [reply.content for reply in replies]

    def reveal(self, name: str, model: Floats | None = None) -> Path:
        """Have clients seal what a release takes, and the parties reveal it; return where it is."""
        training, _ = self.federation.split()
        place = self.place / name
        declare(place, name, training.groups, self.epsilon, self.security)
        self.ask("counts" if model is None else "scores", place, model)
        options = ["--reweighing", WEIGHTING] if model is None else ["--positive-label", "1"]
        problem = release(place, name, self.epsilon, self.security, *options)
        if problem:
            print(f"{name}: {problem}")
        return place

    def locally(self) -> Floats:
        """Return weights by counts to which each client has added noise of its own."""
        answers = [answer["arrays"].to_numpy_ndarrays()[0] for answer in self.ask("local")]
        return weights_of_counts(np.sum(answers, axis=0), WEIGHTING)

    def fedavg(self, trainings: Sequence[Training]) -> list[Floats]:
        """Train a model in each way by federated averaging; return the models.

        Their rounds' messages are the same, since a message takes more time than a client's steps. No model
        depends on another one.
        """
        training, _ = self.federation.split()
        strategy = FedAvg(
            fraction_evaluate=0.0,
            min_train_nodes=self.federation.clients,
            min_available_nodes=self.federation.clients,
        )
        sent = {
            "seed": self.federation.seed,
            "private": [one.private for one in trainings],
            "weights": np.ravel([one.weights for one in trainings]).tolist(),
        }
        start = np.zeros(training.features.shape[1] + 1)
        result = strategy.start(
            grid=self.grid,
            initial_arrays=ArrayRecord([start for _ in trainings]),
            num_rounds=int(self.context.run_config["rounds"]),
            train_config=ConfigRecord(sent),
        )
        return [np.asarray(model) for model in result.arrays.to_numpy_ndarrays()]

    def run(self) -> dict[str, dict[str, float | None]]:
        """Train a model by each row of the paper's Table 3; return its figures on the tests' records."""
        training, tests = self.federation.split()
        rng = np.random.default_rng()
        equal = np.ones((len(training.groups), 2))
        weights = weights_in(self.reveal("weights"), training.groups)
        plain, private, local, pre = self.fedavg(
            [
                Training(equal, private=False),
                Training(equal, private=True),
                Training(self.locally(), private=True),
                Training(weights, private=True),
            ]
        )
        rules: dict[str, ThresholdRule] = rules_in(self.reveal("thresholds", private), training.groups)
        models = {
            CL: Trained(centralised(training, rng, PAPERS)),
            FL: Trained(plain),
            DP_SGD: Trained(private),
            LOCAL: Trained(local),
            PRE: Trained(pre),
            POST: Trained(private, rules),
        }
        return {name: judged(tests, model, rng) for name, model in models.items()}


def drawn(grid: Grid, context: Context, federation: Federation) -> Draw:
    """Run the pipeline once, with a directory of its own for the parties."""
    with tempfile.TemporaryDirectory() as place:
        pipeline = Pipeline(grid, context, federation, Path(place))
        models = pipeline.run()
    training, _ = federation.split()
    return Draw(training.name, IN_FLOWER, pipeline.epsilon, federation.seed, models)


def draws_of(grid: Grid, context: Context, federations: Sequence[Federation]) -> list[Draw]:
    """Run the pipeline for each federation; write figures into the directory `results` if the run names one.

    Runs whose figures are there already are not repeated.
    """
    results = str(context.run_config["results"])
    if not results:
        return [drawn(grid, context, federation) for federation in federations]
    place = Path(results)
    place.mkdir(parents=True, exist_ok=True)
    begun = time.monotonic()
    epsilon = float(context.run_config["epsilon"])
    wanted = {
        (federation.split()[0].name, IN_FLOWER, epsilon, federation.seed): partial(
            drawn, grid, context, federation
        )
        for federation in federations
    }
    draws = runs_of(wanted, place / SAMPLES)
    rows = rows_of(draws)
    about = {
        "clients": federations[0].clients,
        "settings": {name: value for name, value in context.run_config.items() if name not in PLACES},
        "weighting": WEIGHTING,
        "thresholds": THRESHOLDS,
        "flower": version("flwr"),
    }
    command = "flwr run examples/flower_privfairfl --stream"
    StudyResult(about, rows, (), tables={SUMMARY: rows}).write(place, command, time.monotonic() - begun)
    return draws


def table_of(draws: Sequence[Draw]) -> pd.DataFrame:
    """Return Table 3: a row for each model, with means over the draws."""
    shown = {"accuracy": "accuracy", "balanced accuracy": "balanced", **FIGURES}
    rows = {}
    for name in draws[0].models:
        of_model = [draw.models[name] for draw in draws]
        rows[name] = {
            title: float(np.mean([np.nan if one[key] is None else one[key] for one in of_model]))
            for title, key in shown.items()
        }
    return pd.DataFrame.from_dict(rows, orient="index")


@server.main()
def main(grid: Grid, context: Context) -> None:
    """Run the pipeline for each seed, and print Table 3 and what it spends."""
    config = context.run_config
    clients = len(list(grid.get_node_ids()))
    federations = [Federation(str(config["data"]), clients, seed) for seed in range(int(config["seeds"]))]
    draws = draws_of(grid, context, federations)
    recipe = recipe_in(context, private=True)
    spent = epsilon_of_gaussians(recipe.noise, recipe.rounds * recipe.local_epochs)
    print(table_of(draws).to_string(float_format="{:.3f}".format))
    print(
        f"{draws[0].data}: {clients} clients, {recipe.rounds} rounds, {len(draws)} seeds. For one record, "
        f"training spends ε = {spent:.3g} at δ = 10^-5, and weights and thresholds ε = {config['epsilon']} "
        "each."
    )
    if config["data"] not in (LOANAPP, MADE_UP):
        return
    print("These are not MovieLens' ratings; data='ml-1m' names the directory that they were unpacked into.")
