"""A client's side: the mod that seals a model's change for the parties, and answers Flower without it."""

import logging
from collections.abc import Callable, Mapping
from pathlib import Path

from flwr.app import ConfigRecord, Context, Error, Message, RecordDict

from fairshares.flower.model_arrays import ModelArrays, change_of
from fairshares.flower.records import ASKED, only_arrays
from fairshares.harness.errors import FlowerMessageError, OptionError
from fairshares.harness.uploads.vectors import UpdateClient

Settings = Mapping[str, str | bool | int | float]

NOT_SENT = "This client has sent nothing; its own log says why."
_FAILED = 2  # Flower's CLIENT_APP_RAISED_EXCEPTION
_LOG = logging.getLogger("flwr")


class SealedUpdates:
    """A mod of a ClientApp, after which Flower's server learns of a client that it has sent, or has not.

    The app trains and answers with its arrays, as for any `FedAvg`. The change by training is clipped,
    rounded, sealed for the parties and sent to the servers of the task. Flower's server is told the reveal's
    number. Arrays and metrics that the app answers with go nowhere, nor does the text of an error.

    The mod is the first of a list of mods, so that others see nothing later. Messages that do not ask for
    training are refused: metrics of a client's records have no noise.

    The client names its task itself, in its node's configuration, as the parties' keys are in it:

        flower-supernode --node-config "fairshares-task='/srv/task.json' fairshares-directory='/srv/sent'"

    `fairshares-certificate` is a PEM file for servers that ask for one.

    Guarantees: no message to Flower's server depends on the client's records, but that it says whether
    something was sent. The code of the app itself comes from whoever starts the run, and is trusted.
    [test: tests/fairshares/test_sealed_updates.py, tests/project/test_flower_hosts.py]
    Edge cases: a reveal for which the client has sealed is sent again with the same bytes, without training.
    """

    def __call__(
        self, message: Message, context: Context, call_next: Callable[[Message, Context], Message]
    ) -> Message:
        """Have the app train, seal and send the change, and return what Flower's server is told."""
        try:
            reveal = _reveal_of(message)
            _send(reveal, message, context, call_next)
        except Exception as error:  # noqa: BLE001  Flower would answer with its text, which may hold values
            _LOG.error("%s", NOT_SENT, exc_info=error)
            return Message(Error(code=_FAILED, reason=NOT_SENT), reply_to=message)
        return Message(RecordDict({ASKED: ConfigRecord({"reveal": reveal})}), reply_to=message)


def _reveal_of(message: Message) -> int:
    """Return the number of the reveal that a message asks a vector for; FlowerMessageError if it does not."""
    kind = message.metadata.message_type
    if kind.partition(".")[0] != "train":
        raise FlowerMessageError(
            f"The message is of type {kind!r}, and this client answers to training alone: what it computes "
            "from its records otherwise would have no noise."
        )
    asked = message.content.config_records.get(ASKED)
    if asked is None:
        raise FlowerMessageError(
            "The message names no reveal; the server's strategy is no fairshares.flower.NoisyMean."
        )
    return int(asked["reveal"])


def _send(
    reveal: int, message: Message, context: Context, call_next: Callable[[Message, Context], Message]
) -> None:
    """Send what is sealed for a reveal, after training if nothing is."""
    node = context.node_config
    client = UpdateClient(Path(_setting(node, "task")), Path(_setting(node, "directory")))
    if client.sealed(reveal) is None:
        before: ModelArrays = only_arrays(message.content)
        reply = call_next(message, context)
        if reply.has_error():
            raise FlowerMessageError("The app answered with an error in place of a model.")
        client.seal(reveal, change_of(before, only_arrays(reply.content)))
    certificate = node.get("fairshares-certificate")
    client.send(reveal, certificate=None if certificate is None else str(certificate))


def _setting(node: Settings, name: str) -> str:
    """Return a text of the node's configuration; OptionError if there is none."""
    value = node.get(f"fairshares-{name}")
    if not isinstance(value, str) or not value:
        raise OptionError(
            f"The node's configuration has no fairshares-{name}; start it by flower-supernode --node-config "
            "\"fairshares-task='…' fairshares-directory='…'\"."
        )
    return value
