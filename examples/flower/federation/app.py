"""Federated training in Flower with DP sample weights: every client weighs its own rows.

Ten simulated clients hold mortgage applications and train a logistic regression by federated averaging,
without weights and with them. docs/how-to/flower.md says how to run it. In a real federation each client runs
`client` on its own rows. Training itself is not private here.
"""

import pandas as pd
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from fairshares import read_weights, sample_weight

from . import training

client = ClientApp()
server = ServerApp()


@client.train()
def train(message: Message, context: Context) -> Message:
    """Train on this client's rows, weighted if the server asks for it."""
    number = int(context.node_config["partition-id"])
    clients = int(context.node_config["num-partitions"])
    rows = training.applicants("train", message.content["config"]["split"]).iloc[number::clients]
    per_row = None
    if message.content["config"]["weighted"]:
        per_row = sample_weight(read_weights(context.run_config["weights"]), rows["group"], rows["label"])
    model = training.train_locally(message.content["arrays"].to_numpy_ndarrays(), rows, per_row)
    metrics = MetricRecord({"num-examples": len(rows)})
    return Message(RecordDict({"arrays": ArrayRecord(model), "metrics": metrics}), reply_to=message)


@server.main()
def main(grid: Grid, context: Context) -> None:
    """Train on every split without and with weights, and print the change."""
    read_weights(context.run_config["weights"])  # an error ends the run before training
    splits = range(context.run_config["splits"])
    metrics: dict[bool, list[dict[str, float]]] = {False: [], True: []}
    for split in splits:
        for weighted, models in metrics.items():
            result = FedAvg(fraction_evaluate=0.0).start(
                grid=grid,
                initial_arrays=ArrayRecord(training.START),
                num_rounds=training.ROUNDS,
                train_config=ConfigRecord({"split": split, "weighted": weighted}),
            )
            models.append(training.metrics(result.arrays.to_numpy_ndarrays(), split))
    constant = pd.DataFrame([training.metrics(None, split) for split in splits])
    without_weights = pd.DataFrame(metrics[False])
    with_weights = pd.DataFrame(metrics[True])
    print(training.report(constant, without_weights, with_weights))
