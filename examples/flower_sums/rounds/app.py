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

FEATURES, ROWS = 3, 20  # of a client
STEP, CLIP = 2.0, 1.0
TRUTH = np.array([1.0, -1.0, 0.5, 0.2])  # coefficients and intercept by which rows are made up

client = ClientApp()
server = ServerApp()


def rows_of(number: int) -> tuple[Array, Array]:
    """Return a client's made-up inputs, shape (ROWS, FEATURES + 1), the last column 1, and labels."""
    rng = np.random.default_rng(number)
    inputs = np.column_stack([rng.normal(size=(ROWS, FEATURES)), np.ones(ROWS)])
    return inputs, (rng.random(ROWS) < 1 / (1 + np.exp(-inputs @ TRUTH * 3))).astype(np.float64)


def update_of(model: Array, number: int) -> Array:
    """Return a client's update: the mean gradient of the log-likelihood over its rows."""
    inputs, labels = rows_of(number)
    return np.asarray((labels - 1 / (1 + np.exp(-inputs @ model))) @ inputs / ROWS)


class NoisySum(FedAvg):  # type: ignore[misc]  # which has no type information
    """A strategy that moves the model along the session's noisy sum of updates."""

    def __init__(self, session: SumSession, clients: int, start: Array) -> None:
        super().__init__(fraction_evaluate=0.0, min_train_nodes=clients, min_available_nodes=clients)
        self._session, self._clients, self.model = session, clients, start

    def aggregate_train(
        self,
        server_round: int,  # noqa: ARG002
        replies: Iterable[Message],
    ) -> tuple[ArrayRecord, MetricRecord]:
        """Return the next model, without updates of clients that failed or sent another shape."""
        # Nothing is scaled by the number of clients that answered.
        answered = [reply for reply in replies if not reply.has_error()]
        updates = [reply.content["arrays"].to_numpy_ndarrays()[0] for reply in answered]
        sound = [update for update in updates if update.shape == self.model.shape]
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
    config, clients, start = context.run_config, len(list(grid.get_node_ids())), np.zeros(FEATURES + 1)
    rounds = int(config["rounds"])
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
    inputs, labels = map(np.concatenate, zip(*(rows_of(10**6 + i) for i in range(100)), strict=True))
    right = ((inputs @ strategy.model > 0) == labels).mean()
    spent = session.plan.exact
    print(
        f"accuracy {right:.3f} after {len(session.seconds)} rounds with {clients} clients, "
        f"ε = {float(spent.epsilon):g}, δ = {float(spent.delta):.2g}"
    )
