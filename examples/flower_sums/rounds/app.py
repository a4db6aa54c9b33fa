"""Federated training in Flower whose strategy takes its aggregate from a `SumSession`.

In each round a client answers with one step's update. Here the session plays all parties in Flower's server,
which protects nothing against that server. docs/how-to/train.md says how to run it.
"""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from fairshares import SumSession

Array = npt.NDArray[np.float64]

FEATURES = 3
ROWS = 20  # of a client
STEP = 2.0
CLIP = 1.0
TRUTH = np.array([1.0, -1.0, 0.5, 0.2])  # coefficients and intercept by which rows are made up

client = ClientApp()
server = ServerApp()


def rows_of(number: int) -> tuple[Array, Array]:
    """Return a client's made-up inputs and labels.

    The inputs have the shape (ROWS, FEATURES + 1). Their last column is 1.
    """
    rng = np.random.default_rng(number)
    inputs = np.column_stack([rng.normal(size=(ROWS, FEATURES)), np.ones(ROWS)])
    probabilities = 1 / (1 + np.exp(-inputs @ TRUTH * 3))
    labels = rng.random(ROWS) < probabilities
    return inputs, labels.astype(np.float64)


def update_of(model: Array, number: int) -> Array:
    """Return a client's update: the mean gradient of the log-likelihood over its rows."""
    inputs, labels = rows_of(number)
    probabilities = 1 / (1 + np.exp(-inputs @ model))
    return np.asarray((labels - probabilities) @ inputs / ROWS)


class NoisySum(FedAvg):  # type: ignore[misc]  # which has no type information
    """A strategy that moves the model along the session's noisy sum of updates."""

    def __init__(self, session: SumSession, clients: int, start: Array) -> None:
        super().__init__(fraction_evaluate=0.0, min_train_nodes=clients, min_available_nodes=clients)
        self._session = session
        self._clients = clients
        self.model = start

    def aggregate_train(
        self,
        server_round: int,  # noqa: ARG002
        replies: Iterable[Message],
    ) -> tuple[ArrayRecord, MetricRecord]:
        """Return the next model, without updates of clients that failed or sent another shape."""
        # Nothing is scaled by the number of clients that answered.
        sound = []
        for reply in replies:
            if reply.has_error():
                continue
            update = reply.content["arrays"].to_numpy_ndarrays()[0]
            if update.shape == self.model.shape:
                sound.append(update)
        total = self._session.add(np.array(sound).reshape(len(sound), self.model.size))
        self.model = self.model + STEP * total / self._clients
        return ArrayRecord([self.model]), MetricRecord({})


@client.train()
def train(message: Message, context: Context) -> Message:
    """Answer with this client's update; the session clips it and adds noise."""
    (model,) = message.content["arrays"].to_numpy_ndarrays()
    update = update_of(model, int(context.node_config["partition-id"]))
    content = RecordDict({"arrays": ArrayRecord([update]), "metrics": MetricRecord({"num-examples": 1})})
    return Message(content, reply_to=message)


@server.main()
def main(grid: Grid, context: Context) -> None:
    """Train, and print the accuracy on rows of other clients."""
    config = context.run_config
    clients = len(list(grid.get_node_ids()))
    rounds = int(config["rounds"])
    start = np.zeros(FEATURES + 1)
    with SumSession(
        str(config["security"]),
        clients=clients,
        coordinates=start.size,
        rounds=rounds,
        clip=CLIP,
        epsilon=float(config["epsilon"]),
    ) as session:
        strategy = NoisySum(session, clients, start)
        strategy.start(grid=grid, initial_arrays=ArrayRecord([start]), num_rounds=rounds)
    others = range(10**6, 10**6 + 100)  # clients who did not train
    right_rows = 0
    for number in others:
        inputs, labels = rows_of(number)
        predicted = inputs @ strategy.model > 0
        right_rows += int((predicted == labels).sum())
    accuracy = right_rows / (len(others) * ROWS)
    spent = session.plan.exact
    print(
        f"accuracy {accuracy:.3f} after {len(session.seconds)} rounds with {clients} clients, "
        f"ε = {float(spent.epsilon):g}, δ = {float(spent.delta):.2g}"
    )
