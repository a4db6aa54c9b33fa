"""PrivFairFL whole, in Flower: weights before training, DP-SGD at each client, thresholds after.

Clients seal their counts for the parties, and later their scores; what the parties reveal is public. Flower's
server averages models that have each client's own noise. All roles are simulated on one machine.
docs/how-to/flower.md says how to run it, and has what it printed.
"""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from benchmarks.studies.training.models import (
    PAPERS,
    Trained,
    centralised,
    epsilon_of_gaussians,
    judged,
    local_counts,
    scores,
)
from benchmarks.studies.training.study import CL, DP_SGD, FIGURES, FL, LOCAL, POST, PRE
from fairshares.harness.postprocessing.thresholds.rules import ThresholdRule
from fairshares.harness.reweighing.formulas import weights_of_counts
from fairshares.protocols.arrays import Floats

from .people import LOANAPP, MADE_UP, Federation, as_records
from .released import declare, release, rules_in, seal, weights_in
from .training import Recipe

WEIGHTING = "balanced"  # the paper's

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
    """Answer with the model that this client has trained; it looks up its own rows' weights."""
    config = message.content["config"]
    rows = federation_in(message, context).rows_of(int(context.node_config["partition-id"]))
    table = np.reshape(config["weights"], (len(rows.groups), 2))
    recipe = recipe_in(context, private=bool(config["private"]))
    (model,) = message.content["arrays"].to_numpy_ndarrays()
    trained = recipe.train(model, rows, table[rows.group, rows.label], np.random.default_rng())
    metrics = MetricRecord({"num-examples": len(rows.label)})
    return Message(RecordDict({"arrays": ArrayRecord([trained]), "metrics": metrics}), reply_to=message)


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

    def fedavg(self, weights: Floats, *, private: bool) -> Floats:
        """Train by federated averaging; return the model."""
        training, _ = self.federation.split()
        strategy = FedAvg(
            fraction_evaluate=0.0,
            min_train_nodes=self.federation.clients,
            min_available_nodes=self.federation.clients,
        )
        sent = {"seed": self.federation.seed, "private": private, "weights": weights.ravel().tolist()}
        result = strategy.start(
            grid=self.grid,
            initial_arrays=ArrayRecord([np.zeros(training.features.shape[1] + 1)]),
            num_rounds=int(self.context.run_config["rounds"]),
            train_config=ConfigRecord(sent),
        )
        (model,) = result.arrays.to_numpy_ndarrays()
        return np.asarray(model)

    def run(self) -> dict[str, dict[str, float | None]]:
        """Train a model by each row of the paper's Table 3; return its figures on the tests' records."""
        training, tests = self.federation.split()
        rng = np.random.default_rng()
        equal = np.ones((len(training.groups), 2))
        private = self.fedavg(equal, private=True)
        rules: dict[str, ThresholdRule] = rules_in(self.reveal("thresholds", private), training.groups)
        weights = weights_in(self.reveal("weights"), training.groups)
        models = {
            CL: Trained(centralised(training, rng, PAPERS)),
            FL: Trained(self.fedavg(equal, private=False)),
            DP_SGD: Trained(private),
            LOCAL: Trained(self.fedavg(self.locally(), private=True)),
            PRE: Trained(self.fedavg(weights, private=True)),
            POST: Trained(private, rules),
        }
        return {name: judged(tests, model, rng) for name, model in models.items()}


def table_of(runs: Sequence[dict[str, dict[str, float | None]]]) -> pd.DataFrame:
    """Return Table 3: a row for each model, with means over the runs."""
    shown = {"accuracy": "accuracy", "balanced accuracy": "balanced", **FIGURES}
    rows = {
        name: {
            title: float(np.mean([np.nan if run[name][key] is None else run[name][key] for run in runs]))
            for title, key in shown.items()
        }
        for name in runs[0]
    }
    return pd.DataFrame.from_dict(rows, orient="index")


@server.main()
def main(grid: Grid, context: Context) -> None:
    """Run the pipeline for each seed, and print Table 3 and what it spends."""
    config = context.run_config
    clients = len(list(grid.get_node_ids()))
    runs = []
    for seed in range(int(config["seeds"])):
        federation = Federation(str(config["data"]), clients, seed)
        with tempfile.TemporaryDirectory() as place:
            runs.append(Pipeline(grid, context, federation, Path(place)).run())
    training, _ = federation.split()
    recipe = recipe_in(context, private=True)
    spent = epsilon_of_gaussians(recipe.noise, recipe.rounds * recipe.local_epochs)
    print(table_of(runs).to_string(float_format="{:.3f}".format))
    print(
        f"{training.name}: {clients} clients, {recipe.rounds} rounds, {len(runs)} seeds. For one record, "
        f"training spends ε = {spent:.3g} at δ = 10^-5, and weights and thresholds ε = {config['epsilon']} "
        "each."
    )
    if federation.data not in (LOANAPP, MADE_UP):
        return
    print("These are not MovieLens' ratings; data='ml-1m' names the directory that they were unpacked into.")
