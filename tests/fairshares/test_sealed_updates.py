"""The mod that seals a client's change: on Flower where it is installed, else on a stand-in."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from fairshares.harness.errors import ShareError
from tests.support.stand_in_flower import flower

SETTINGS = {"fairshares-task": "/srv/task.json", "fairshares-directory": "/srv/sent"}
SECRET = 0.8414709848078965


@pytest.fixture(scope="module")
def app() -> Iterator[Any]:
    """Have Flower's messages, real or not."""
    with flower() as messages:
        yield messages


class Client:
    """A client of a task, with a record in memory."""

    made: ClassVar[list[tuple[Path, Path]]] = []
    record: ClassVar[dict[int, Any]] = {}
    sent: ClassVar[list[tuple[int, str | None]]] = []
    unreachable: ClassVar[bool] = False

    def __init__(self, task: Path, directory: Path) -> None:
        self.made.append((task, directory))

    def sealed(self, reveal: int) -> Any:
        return self.record.get(reveal)

    def seal(self, reveal: int, update: Any) -> None:
        self.record[reveal] = update

    def send(self, reveal: int, certificate: str | None = None) -> None:
        assert reveal in self.record
        if self.unreachable:
            raise ShareError(f"No server took the vector, of {SECRET}.")
        self.sent.append((reveal, certificate))


@pytest.fixture
def client(app: Any, monkeypatch: pytest.MonkeyPatch) -> type[Client]:
    """Have the mod use a client of this test's own."""
    from fairshares.flower import sealed_updates

    class Fresh(Client):
        made: ClassVar[list[tuple[Path, Path]]] = []
        record: ClassVar[dict[int, Any]] = {}
        sent: ClassVar[list[tuple[int, str | None]]] = []

    monkeypatch.setattr(sealed_updates, "UpdateClient", Fresh)
    return Fresh


def asked(app: Any, reveal: int | None = 3, kind: str = "train") -> Any:
    """Return a message of the server."""
    content = app.RecordDict({"arrays": app.ArrayRecord([np.ones(2)]), "config": app.ConfigRecord({})})
    if reveal is not None:
        content["fairshares"] = app.ConfigRecord({"reveal": reveal})
    return app.Message(content, dst_node_id=5, message_type=kind)


def answer(app: Any, message: Any, context: Any) -> Any:
    """Return what an app answers for FedAvg."""
    arrays = app.ArrayRecord([np.array([1.0 + SECRET, 0.5])])
    metrics = app.MetricRecord({"num-examples": 7, "loss": SECRET})
    return app.Message(app.RecordDict({"arrays": arrays, "metrics": metrics}), reply_to=message)


def through_the_mod(app: Any, message: Any, call: Any, settings: Any = SETTINGS) -> Any:
    from fairshares.flower import SealedUpdates

    context = app.Context(
        run_id=1, node_id=5, node_config=dict(settings), state=app.RecordDict(), run_config={}
    )
    return SealedUpdates()(message, context, call)


def test_the_server_is_told_the_reveal_and_nothing_else(app: Any, client: type[Client]) -> None:
    reply = through_the_mod(app, asked(app), lambda *given: answer(app, *given))
    assert not reply.has_error()
    assert {name: dict(record) for name, record in reply.content.items()} == {"fairshares": {"reveal": 3}}
    assert client.made == [(Path("/srv/task.json"), Path("/srv/sent"))]
    assert client.record[3].tolist() == pytest.approx([SECRET, -0.5]) and client.sent == [(3, None)]


def test_what_is_sealed_is_sent_again_without_training(app: Any, client: type[Client]) -> None:
    client.record[3] = "sealed before"
    settings = {**SETTINGS, "fairshares-certificate": "/srv/own.pem"}
    reply = through_the_mod(app, asked(app), lambda *_: pytest.fail("it trained"), settings)
    assert not reply.has_error() and client.record == {3: "sealed before"}
    assert client.sent == [(3, "/srv/own.pem")]


def fails(*_: Any) -> Any:
    raise ValueError(f"loss is {SECRET}")


def errs(app: Any, message: Any, context: Any) -> Any:
    return app.Message(app.Error(2, str(SECRET)), reply_to=message)


def says_nothing(app: Any, message: Any, context: Any) -> Any:
    return app.Message(app.RecordDict(), reply_to=message)


@pytest.mark.parametrize(
    ("reveal", "kind", "call", "without", "said"),
    [
        (3, "train", fails, "", "loss is"),
        (3, "train", errs, "", "an error"),
        (3, "evaluate", answer, "", "answers to training alone"),
        (3, "query.size", answer, "", "answers to training alone"),
        (None, "train", answer, "", "names no reveal"),
        (3, "train", answer, "fairshares-task", "no fairshares-task; start it by"),
        (3, "train", answer, "fairshares-directory", "no fairshares-directory"),
        (3, "train", says_nothing, "", "has 0"),
    ],
)
def test_what_fails_is_said_in_the_client_s_log_alone(
    app: Any,
    client: type[Client],
    caplog: pytest.LogCaptureFixture,
    *,
    reveal: int | None,
    kind: str,
    call: Any,
    without: str,
    said: str,
) -> None:
    settings = {name: value for name, value in SETTINGS.items() if name != without}
    with caplog.at_level("ERROR", logger="flwr"):
        reply = through_the_mod(app, asked(app, reveal, kind), lambda *given: call(app, *given), settings)
    assert reply.has_error() and reply.error.reason == "This client has sent nothing; its own log says why."
    assert client.sent == [] and client.record == {}
    assert str(SECRET) not in repr(vars(reply.error))
    if caplog.records:  # Flower's logger hands its records to nobody else
        assert said in caplog.text


def test_a_client_whose_servers_are_away_says_that_it_has_not_sent(app: Any, client: type[Client]) -> None:
    client.unreachable = True
    reply = through_the_mod(app, asked(app), lambda *given: answer(app, *given))
    assert reply.has_error() and reply.error.reason == "This client has sent nothing; its own log says why."
    assert client.sent == [] and list(client.record) == [3]
