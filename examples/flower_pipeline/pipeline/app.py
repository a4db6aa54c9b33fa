"""PrivFairFL in Flower: sample weights before training, noisy sums in it, thresholds for each group after it.

Each simulated client is one of the quickstart's applicants. Weights and thresholds come from FairShares'
releases, and each round's mean from a session, all on one machine and under one (epsilon, delta).
docs/how-to/flower.md says how to run it, and how roles are apart in a real federation.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

import fairshares as fs
from fairshares.flower import NoisyMean

from . import training

client = ClientApp()
server = ServerApp()


@client.train()
def train(message: Message, context: Context) -> Message:
    """Train on this applicant's own row, weighed by its place in the table of weights."""
    config = message.content["config"]
    rows = training.applicants("train", int(config["split"]))
    row = rows.iloc[int(context.node_config["partition-id"])]
    (model,) = message.content["arrays"].to_numpy_ndarrays()
    trained = training.train_locally(model, row, training.weight_of(config, row))
    content = RecordDict({"arrays": ArrayRecord([trained]), "metrics": MetricRecord({"num-examples": 1})})
    return Message(content, reply_to=message)


@dataclass(frozen=True)
class Pipeline:
    """Training and releases on a split of the applicants.

    Attributes:
        grid: The clients.
        config: The run's configuration.
        security: The security model of all releases.
        split: The split's number.
    """

    grid: Grid
    config: Mapping[str, str | float]
    security: Literal["ring", "mpyc"]
    split: int

    def weights(self) -> dict[str, float]:
        """Reveal weights by group and label, as a table for Flower's messages."""
        rows = training.applicants("train", self.split)
        revealed = fs.weights(
            rows[["client_id", "group", "label"]],
            epsilon=self.config["epsilon-weights"],
            security=self.security,
            population="none",
        )
        table = revealed.weights.reset_index()
        names = table["group"].astype(str) + "/" + table["label"].astype(str)
        return dict(zip(names, table["weight"].astype(float), strict=True))

    def trained(self, weights: Mapping[str, float]) -> training.Array:
        """Train by noisy sums, each applicant weighed by the table."""
        clients = len(training.applicants("train", self.split))
        with fs.SumSession(
            self.security,
            clients=clients,
            coordinates=training.START.size,
            rounds=int(self.config["rounds"]),
            clip=training.CLIP,
            epsilon=self.config["epsilon-training"],
            noise="distributed",
            population="none",
        ) as session:
            everybody = FedAvg(min_train_nodes=clients, min_available_nodes=clients)
            result = NoisyMean(everybody, session, clients=clients).start(
                grid=self.grid,
                initial_arrays=ArrayRecord([training.START]),
                num_rounds=session.rounds,
                train_config=ConfigRecord({"split": self.split, **weights}),
            )
        (model,) = result.arrays.to_numpy_ndarrays()
        return np.asarray(model)

    def after_thresholds(self, model: training.Array) -> dict[str, float]:
        """Reveal thresholds by applicants that have not trained; assess the decisions."""
        rows = training.applicants("thresholds", self.split)
        rows = rows[["client_id", "group", "label"]].assign(score=training.scores(model, rows))
        revealed = fs.thresholds(
            rows,
            epsilon=self.config["epsilon-thresholds"],
            security=self.security,
            population="none",
            thresholds=20,
        )
        tested = training.applicants("test", self.split)
        predictor = revealed.predictor()
        scores = training.scores(model, tested)
        predicted = predictor.predict(scores, sensitive_features=tested["group"])
        return training.metrics(predicted.astype(int), tested)

    def before_thresholds(self, model: training.Array) -> dict[str, float]:
        """Assess the decisions of a model by itself."""
        tested = training.applicants("test", self.split)
        return training.metrics((training.scores(model, tested) > 0.5).astype(int), tested)


@server.main()
def main(grid: Grid, context: Context) -> None:
    """Run the pipeline on every split, and print what each part changes."""
    config = context.run_config
    spent = {
        "training": config["epsilon-training"],
        "+ weights": config["epsilon-training"] + config["epsilon-weights"],
        "+ thresholds": config["epsilon-training"] + config["epsilon-thresholds"],
        "+ both": config["epsilon-training"] + config["epsilon-weights"] + config["epsilon-thresholds"],
    }
    rows = []
    for split in range(int(config["splits"])):
        pipeline = Pipeline(grid, config, "ring" if config["security"] == "ring" else "mpyc", split)
        plain = pipeline.trained({})
        weighed = pipeline.trained(pipeline.weights())
        found = {
            "training": pipeline.before_thresholds(plain),
            "+ weights": pipeline.before_thresholds(weighed),
            "+ thresholds": pipeline.after_thresholds(plain),
            "+ both": pipeline.after_thresholds(weighed),
        }
        rows += [{"pipeline": name, "epsilon": spent[name], **figures} for name, figures in found.items()]
    print(pd.DataFrame(rows).groupby("pipeline", sort=False).mean().T.to_string(float_format="{:.3f}".format))
