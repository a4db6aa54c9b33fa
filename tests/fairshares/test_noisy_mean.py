"""The strategy that averages by noisy sums: on Flower where it is installed, else on a stand-in."""

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from fairshares.harness.errors import (
    FlowerMessageError,
    ModelArraysError,
    OptionError,
    PolicyError,
    UsedRevealError,
)
from fairshares.harness.training.session import SumSession
from tests.support.running import QUICKEST
from tests.support.stand_in_flower import flower

START = [np.zeros((2, 1), dtype=np.float32), np.array([1.0])]
CHANGES = {11: [0.5, -0.25, 0.0], 12: [0.25, 0.25, 0.5], 13: [0.0, 0.75, 0.25]}  # of clients, by node


@pytest.fixture(scope="module")
def app() -> Iterator[Any]:
    """Have Flower's messages, real or not."""
    with flower() as messages:
        yield messages


class ExactSums(SumSession):
    """A session without noise."""

    def __init__(self, coordinates: int = 3, rounds: int = 4) -> None:
        self._taken = SimpleNamespace(rounds=rounds, rule=SimpleNamespace(coordinates=coordinates), sums=[])

    rounds = property(lambda self: self._taken.rounds)
    rule = property(lambda self: self._taken.rule)
    seconds = property(lambda self: self._taken.sums)

    def add(self, updates: Any, weights: Any = None) -> Any:
        self._taken.sums.append(0.0)
        return updates.sum(axis=0)


class AtHosts:
    """A task's reveals at hosts. `ends` says of some which error ends them, and how many reveals are used."""

    def __init__(self, sums: dict[int, Any], ends: dict[int, tuple[Exception, int]] | None = None) -> None:
        self.task = SimpleNamespace(vectors=SimpleNamespace(coordinates=3))
        self.reveals = 4
        self.next_reveal = 1
        self._sums = sums
        self._ends = ends or {}
        self.is_connected = False

    def __enter__(self) -> Any:
        self.is_connected = True

    def __exit__(self, *_: object) -> None:
        self.is_connected = False

    def reveal(self, number: int) -> Any:
        assert number == self.next_reveal
        assert self.is_connected  # between reveals, too
        if number not in self._ends:
            self.next_reveal += 1
            return np.array(self._sums[number])
        error, used = self._ends[number]
        self.next_reveal += used
        raise error


class Nodes:
    """A grid of nodes that answer as `answer` does; it keeps what they were asked for."""

    def __init__(self, answer: Callable[[Any], Any]) -> None:
        self.asked: list[int] = []
        self._answer = answer

    def get_node_ids(self) -> list[int]:
        return [*CHANGES]

    def send_and_receive(self, messages: Any, *, timeout: float) -> list[Any]:
        messages = list(messages)
        if messages:
            (reveal,) = {message.content["fairshares"]["reveal"] for message in messages}
            self.asked.append(reveal)
        return [self._answer(message) for message in messages]


def trained(app: Any, message: Any, change: Any = None) -> Any:
    """Return a client's answer as for FedAvg."""
    weights, bias = message.content["arrays"].to_numpy_ndarrays()
    part = np.array(CHANGES[message.metadata.dst_node_id] if change is None else change)
    model = [weights + part[:2].reshape(2, 1).astype(np.float32), bias + part[2:]]
    metrics = app.MetricRecord({"num-examples": 7, "loss": 0.123})
    return app.Message(
        app.RecordDict({"arrays": app.ArrayRecord(model), "metrics": metrics}), reply_to=message
    )


def sent(app: Any, message: Any) -> Any:
    """Return a client's answer by the mod."""
    return app.Message(app.RecordDict({"fairshares": message.content["fairshares"]}), reply_to=message)


def failed(app: Any, message: Any) -> Any:
    return app.Message(app.Error(2, "away"), reply_to=message)


def start(app: Any, sums: Any, nodes: Nodes, *, clients: int = 4, rounds: int = 2, model: Any = START) -> Any:
    """Return the trained arrays, one after the other."""
    from flwr.serverapp.strategy import FedAvg

    from fairshares.flower import NoisyMean

    strategy = NoisyMean(FedAvg(), sums, clients=clients)
    result = strategy.start(nodes, app.ArrayRecord(model), num_rounds=rounds, timeout=60)
    return result.arrays.to_numpy_ndarrays()


def test_a_simulation_averages_as_fedavg_does(app: Any) -> None:
    """The clients' changes sum up to (0.75, 0.75, 0.75), in each of two rounds."""
    nodes = Nodes(lambda message: trained(app, message))
    weights, bias = start(app, ExactSums(), nodes, clients=3)
    assert weights.tolist() == [[0.5], [0.5]] and bias.tolist() == [1.5]
    assert weights.dtype == np.float32 and nodes.asked == [1, 2]


def test_the_mean_is_of_the_declared_number(app: Any) -> None:
    """Of four declared clients one is not there, one fails, and one answers with another model."""

    def answer(message: Any) -> Any:
        if message.metadata.dst_node_id == 11:
            return failed(app, message)
        if message.metadata.dst_node_id == 12:
            other = app.RecordDict({"arrays": app.ArrayRecord([np.zeros(3)])})
            return app.Message(other, reply_to=message)
        return trained(app, message)

    weights, bias = start(app, ExactSums(), Nodes(answer), rounds=1)
    assert weights.ravel().tolist() == [0.0, 0.75 / 4] and bias.tolist() == [1.0 + 0.25 / 4]


def test_a_session_is_used_as_it_is(app: Any) -> None:
    """Noise in the mean has a standard deviation of about 0.1, so it is within 1.5, all but never not."""
    nodes = Nodes(lambda message: trained(app, message))
    with SumSession(
        QUICKEST, clients=3, coordinates=3, rounds=1, clip=1.0, epsilon=32, noise="distributed"
    ) as session:
        weights, bias = start(app, session, nodes, clients=3, rounds=1)
    moved = [*weights.ravel(), bias[0] - 1]
    assert moved != [0.25, 0.25, 0.25] and moved == pytest.approx([0.25, 0.25, 0.25], abs=1.5)


def test_hosts_have_the_sum_and_a_lost_round_takes_the_next_reveal(app: Any) -> None:
    sums = AtHosts({1: [4, 0, 0], 3: [0, 8, 4]}, {2: (UsedRevealError("a party died"), 1)})
    nodes = Nodes(lambda message: sent(app, message))
    weights, bias = start(app, sums, nodes, rounds=3)
    assert weights.ravel().tolist() == [1.0, 2.0] and bias.tolist() == [2.0]
    assert nodes.asked == [1, 2, 3]


def test_rounds_end_with_the_last_reveal(app: Any) -> None:
    """Another program uses the third reveal while the second breaks off: three of four rounds take one."""
    sums = AtHosts({number: [0, 0, 4] for number in (1, 4)}, {2: (UsedRevealError("late"), 2)})
    nodes = Nodes(lambda message: sent(app, message))
    _, bias = start(app, sums, nodes, rounds=4)
    assert bias.tolist() == [3.0] and nodes.asked == [1, 2, 4]


def test_a_refusal_ends_the_training(app: Any) -> None:
    sums = AtHosts({}, {1: (PolicyError("host 2 forbids it"), 0)})
    with pytest.raises(PolicyError):
        start(app, sums, Nodes(lambda message: sent(app, message)))


def test_a_round_in_which_nobody_sends_reveals_nothing(app: Any) -> None:
    sums, nodes = AtHosts({}), Nodes(lambda message: failed(app, message))
    assert start(app, sums, nodes) == []  # no model was trained
    assert sums.next_reveal == 1 and nodes.asked == [1, 1]


def sent_with_metrics(app: Any, message: Any) -> Any:
    """Return what the mod answers, and what another mod before it may add."""
    answer = sent(app, message)
    answer.content["metrics"] = app.MetricRecord({"loss": 0.123})
    return answer


@pytest.mark.parametrize("leaking", [trained, sent_with_metrics])
def test_a_client_that_answers_with_more_ends_the_training(app: Any, leaking: Callable[..., Any]) -> None:
    def answer(message: Any) -> Any:
        return (leaking if message.metadata.dst_node_id == 12 else sent)(app, message)

    sums = AtHosts({1: [0, 0, 0]})
    with pytest.raises(FlowerMessageError, match=r"node 12 answered with more .* lacks the mod"):
        start(app, sums, Nodes(answer))
    assert sums.next_reveal == 1


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"model": [np.zeros(2)]}, ModelArraysError, "has 2 coordinates, .* to have 3"),
        ({"model": [np.zeros(2), np.array([1])]}, ModelArraysError, "int64"),
        ({"rounds": 5}, OptionError, "5 rounds take as many reveals, and 4 are left"),
        ({"clients": 0}, OptionError, "at least 1 client"),
        ({"clients": 2}, OptionError, "3 clients were chosen, and sums are divided by 2"),
    ],
)
def test_what_does_not_fit_is_refused_before_a_reveal(
    app: Any, options: dict[str, Any], error: type[Exception], said: str
) -> None:
    sums = AtHosts({1: [0, 0, 0]})
    with pytest.raises(error, match=said):
        start(app, sums, Nodes(lambda message: sent(app, message)), **options)
    assert sums.next_reveal == 1
