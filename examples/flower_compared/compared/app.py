"""The same training by plain FedAvg, by Flower's own wrappers and secure aggregation, and by noisy sums.

All roles are simulated on one machine. docs/how-to/flower.md says how to run it and has what it printed. The
made-up rows and the training are those of examples/flower_sums.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pandas as pd
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.client.mod import secaggplus_mod
from flwr.clientapp import ClientApp
from flwr.clientapp.mod import LocalDpMod, fixedclipping_mod
from flwr.common import Code, FitRes, Status, ndarrays_to_parameters
from flwr.common.secure_aggregation.secaggplus_constants import RECORD_KEY_CONFIGS
from flwr.compat.common.recorddict_compat import fitres_to_recorddict
from flwr.server import LegacyContext, ServerConfig
from flwr.server.strategy import FedAvg as LegacyFedAvg
from flwr.server.workflow import DefaultWorkflow, SecAggPlusWorkflow
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import (
    DifferentialPrivacyClientSideFixedClipping,
    DifferentialPrivacyServerSideFixedClipping,
    FedAvg,
)
from rounds import training

from fairshares import SumSession
from fairshares.flower import NoisyMean

from .noise import multiplier_for

DELTA = 1e-5
Train: TypeAlias = Callable[[Message, Context], Message]

server = ServerApp()


def mod_of_method(message: Message, context: Context, call_next: Train) -> Message:
    """Apply the mod that the method of a message has at its clients, if any."""
    if RECORD_KEY_CONFIGS in message.content.config_records:
        return secaggplus_mod(message, context, call_next)
    config = message.content["config"]
    if config["method"] == "client-side":
        return fixedclipping_mod(message, context, call_next)
    if config["method"] == "local":
        # The mod adds noise of a standard deviation of sensitivity · √(2 ln(1.25 / δ)) / ε.
        wanted = 2 * training.CLIP * config["multiplier"]
        sensitivity = wanted / np.sqrt(2 * np.log(1.25 / DELTA))
        return LocalDpMod(training.CLIP, float(sensitivity), 1.0, DELTA)(message, context, call_next)
    return call_next(message, context)


client = ClientApp(mods=[mod_of_method])


@client.train()
def train(message: Message, context: Context) -> Message:
    """Answer with the model that this client has trained."""
    (received,) = message.content.array_records.values()
    (model,) = received.to_numpy_ndarrays()
    trained = training.train_locally(model, int(context.node_config["partition-id"]))
    if "config" in message.content:
        metrics = MetricRecord({"num-examples": training.ROWS})
        return Message(RecordDict({"arrays": ArrayRecord([trained]), "metrics": metrics}), reply_to=message)
    answer = FitRes(Status(Code.OK, ""), ndarrays_to_parameters([trained]), training.ROWS, {})
    return Message(fitres_to_recorddict(answer, keep_input=False), reply_to=message)


@dataclass(frozen=True)
class Compared:
    """What all methods have in common.

    Attributes:
        grid: The clients.
        context: Flower's context of the run.
        clients: How many there are.
        rounds: How many rounds there are.
        epsilon: The ε of all rounds, of methods with noise.
    """

    grid: Grid
    context: Context
    clients: int
    rounds: int
    epsilon: float

    @property
    def multiplier(self) -> float:
        """The noise multiplier of a round."""
        return multiplier_for(self.epsilon, DELTA, self.rounds)

    def plain(self) -> FedAvg:
        """Return Flower's plain strategy."""
        return FedAvg(fraction_evaluate=0.0, min_train_nodes=self.clients, min_available_nodes=self.clients)

    def by_strategy(self, strategy: FedAvg, method: str = "") -> np.ndarray:
        """Train by a strategy; return the model."""
        result = strategy.start(
            grid=self.grid,
            initial_arrays=ArrayRecord([training.START]),
            num_rounds=self.rounds,
            train_config=ConfigRecord({"method": method, "multiplier": self.multiplier}),
        )
        (model,) = result.arrays.to_numpy_ndarrays()
        return np.asarray(model)

    def fedavg(self) -> np.ndarray:
        """Train without protection."""
        return self.by_strategy(self.plain())

    def secagg(self) -> np.ndarray:
        """Train by SecAgg+, each of whose clients shares its keys with 20 others."""
        strategy = LegacyFedAvg(
            fraction_evaluate=0.0,
            min_fit_clients=self.clients,
            min_available_clients=self.clients,
            initial_parameters=ndarrays_to_parameters([training.START]),
        )
        context = LegacyContext(
            context=self.context, config=ServerConfig(num_rounds=self.rounds), strategy=strategy
        )
        workflow = SecAggPlusWorkflow(num_shares=21, reconstruction_threshold=11)
        DefaultWorkflow(fit_workflow=workflow)(self.grid, context)
        (record,) = context.state.array_records.values()
        (model,) = record.to_numpy_ndarrays()
        return np.asarray(model)

    def server_side(self) -> np.ndarray:
        """Train with noise of the server, which clips as well."""
        return self.by_strategy(
            DifferentialPrivacyServerSideFixedClipping(
                self.plain(), self.multiplier, training.CLIP, self.clients
            )
        )

    def client_side(self) -> np.ndarray:
        """Train with noise of the server, where clients clip."""
        return self.by_strategy(
            DifferentialPrivacyClientSideFixedClipping(
                self.plain(), self.multiplier, training.CLIP, self.clients
            ),
            "client-side",
        )

    def local(self) -> np.ndarray:
        """Train with noise of each client."""
        return self.by_strategy(self.plain(), "local")

    def noisy_sums(self) -> np.ndarray:
        """Train by sums that parties reveal with noise."""
        with SumSession(
            str(self.context.run_config["security"]),
            clients=self.clients,
            coordinates=training.START.size,
            rounds=self.rounds,
            clip=training.CLIP,
            epsilon=self.epsilon,
            delta=str(DELTA),
            noise="distributed",
        ) as session:
            return self.by_strategy(NoisyMean(self.plain(), session, clients=self.clients))


METHODS = {
    "FedAvg": Compared.fedavg,
    "SecAgg+": Compared.secagg,
    "server-side DP": Compared.server_side,
    "client-side DP": Compared.client_side,
    "local DP": Compared.local,
    "noisy sums": Compared.noisy_sums,
}


@server.main()
def main(grid: Grid, context: Context) -> None:
    """Train by each method, and print accuracies and times."""
    config = context.run_config
    compared = Compared(
        grid, context, len(list(grid.get_node_ids())), int(config["rounds"]), float(config["epsilon"])
    )
    rows = []
    for _ in range(int(config["repeats"])):
        for name, train_by in METHODS.items():
            begun = time.monotonic()
            model = train_by(compared)
            seconds = (time.monotonic() - begun) / compared.rounds
            rows.append({"method": name, "accuracy": training.accuracy(model), "seconds a round": seconds})
    table = pd.DataFrame(rows).groupby("method", sort=False).agg(["mean", "std"])
    print(table.to_string(float_format="{:.3f}".format))
    print(f"{compared.clients} clients, {compared.rounds} rounds, z = {compared.multiplier:.2f}")
