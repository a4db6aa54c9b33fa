"""Federated averaging in Flower whose server averages by noisy sums: an app for FedAvg, and a few lines more.

Simulated clients answer with the models that they have trained, and a `SumSession` in Flower's server plays
all parties, which protects nothing against that server. docs/how-to/flower.md says how to run it.
"""

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from fairshares import SumSession
from fairshares.flower import NoisyMean

from . import training

client = ClientApp()
server = ServerApp()


@client.train()
def train(message: Message, context: Context) -> Message:
    """Answer with the model that this client has trained."""
    (model,) = message.content["arrays"].to_numpy_ndarrays()
    trained = training.train_locally(model, int(context.node_config["partition-id"]))
    metrics = MetricRecord({"num-examples": training.ROWS})
    return Message(RecordDict({"arrays": ArrayRecord([trained]), "metrics": metrics}), reply_to=message)


@server.main()
def main(grid: Grid, context: Context) -> None:
    """Train, and print the accuracy on rows of other clients."""
    config = context.run_config
    clients = len(list(grid.get_node_ids()))
    with SumSession(
        str(config["security"]),
        clients=clients,
        coordinates=training.START.size,
        rounds=int(config["rounds"]),
        clip=training.CLIP,
        epsilon=float(config["epsilon"]),
    ) as session:
        strategy = NoisyMean(FedAvg(min_train_nodes=clients), session, clients=clients)
        result = strategy.start(
            grid=grid, initial_arrays=ArrayRecord([training.START]), num_rounds=session.rounds
        )
    (model,) = result.arrays.to_numpy_ndarrays()
    spent = session.plan.exact
    print(
        f"accuracy {training.accuracy(model):.3f} after {session.rounds} rounds with {clients} clients, "
        f"ε = {float(spent.epsilon):g}, δ = {float(spent.delta):.2g}"
    )
