"""The server's side: a strategy that averages by noisy sums, around one of Flower's own."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg, Result, Strategy

from fairshares.flower.model_arrays import FloatArray, change_of, moved, size_of
from fairshares.flower.records import ASKED, only_arrays
from fairshares.flower.sums_of_rounds import HostsRounds, SessionRounds
from fairshares.harness.errors import FlowerMessageError, ModelArraysError, OptionError
from fairshares.harness.training.session import SumSession
from fairshares.protocols.arrays import Floats

if TYPE_CHECKING:  # hosts need an extra, which simulations do not
    from fairshares.harness.hosts.sums import SumsAtHosts

_LOG = logging.getLogger("flwr")
_SENT = "clients-sent"


class NoisyMean(Strategy):  # type: ignore[misc]  # which has no type information
    """A strategy that hands the model, moved by the noisy mean of clients' changes, to one of Flower's own.

    It wraps a `FedAvg`, or another strategy that uses the mean of what clients answer with and nothing else,
    such as `FedAvgM`, `FedAdam` and `FedProx`. That strategy chooses the clients of a round, and gets one
    answer in place of theirs. Medians and the like see no clients here.

    With a `SumsAtHosts` clients have the mod `SealedUpdates`, and no change of a client reaches this process.
    With an open `SumSession` they have no mod, and all their models are here: that is for simulations.

    Guarantees: (epsilon, delta) of `sums`, for all rounds together, as nothing else of the clients' records
    is used. Clients do not evaluate, since their metrics have no noise; evaluate at the server, by
    `evaluate_fn`.  [test: tests/fairshares/test_noisy_mean.py]
    Edge cases: the sum is divided by `clients`, whoever has sent. A round whose reveal broke off leaves the
    model as it was, and the next round takes the next reveal. In a session a client with other arrays, or
    numbers that are not finite, counts as zeros.

    Args:
        strategy: The strategy that is handed the mean.
        sums: The source of noisy sums: hosts, or a session on this machine.
        clients: The public number by which a sum is divided, at least 1. More may not take part in a round.
    Raises:
        OptionError: There are no clients.
    """

    def __init__(self, strategy: FedAvg, sums: SumsAtHosts | SumSession, *, clients: int) -> None:
        super().__init__()
        if clients < 1:
            raise OptionError(f"A mean is of at least 1 client, not {clients}.")
        self.strategy = strategy
        self.sums = sums
        self.clients = clients
        self._rounds = SessionRounds(sums) if isinstance(sums, SumSession) else HostsRounds(sums)
        self._model: dict[str, FloatArray] = {}
        self._reveal: int | None = None

    def summary(self) -> None:
        """Log what the strategy does."""
        _LOG.info("\t├──> Noisy means by FairShares:")
        _LOG.info("\t│\t├── Reveals: %d to %d", self._rounds.next_reveal, self._rounds.reveals)
        _LOG.info("\t│\t├── Sums are divided by: %d", self.clients)
        _LOG.info("\t│\t└── Clients do not evaluate")
        self.strategy.summary()

    def start(  # noqa: PLR0917  as Flower has it
        self,
        grid: Grid,
        initial_arrays: ArrayRecord,
        num_rounds: int = 3,
        timeout: float = 3600,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: Callable[[int, ArrayRecord], MetricRecord | None] | None = None,
    ) -> Result:
        """Train for a number of rounds, as Flower's strategies do.

        Args:
            grid: Flower's grid, which carries messages.
            initial_arrays: The model before the first round.
            num_rounds: The number of rounds, at most the reveals that are left.
            timeout: Seconds to wait for the clients in each round.
            train_config: Flower's configuration of training, which clients get.
            evaluate_config: Flower's configuration of evaluation; clients do not evaluate.
            evaluate_fn: The server's own evaluation of a round's model.
        Returns:
            Flower's result, with the last model.
        Raises:
            ModelArraysError: The model has another number of coordinates than vectors have, or integers.
            OptionError: Fewer reveals are left than rounds.
        """
        coordinates = size_of(only_arrays(RecordDict({"arrays": initial_arrays})))
        if coordinates != self._rounds.coordinates:
            raise ModelArraysError(
                f"The model has {coordinates} coordinates, and vectors are declared to have "
                f"{self._rounds.coordinates}."
            )
        left = self._rounds.reveals - self._rounds.next_reveal + 1
        if num_rounds > left:
            raise OptionError(f"{num_rounds} rounds take as many reveals, and {left} are left.")
        with self._rounds.under_way():
            return super().start(
                grid,
                initial_arrays,
                num_rounds=num_rounds,
                timeout=timeout,
                train_config=train_config,
                evaluate_config=evaluate_config,
                evaluate_fn=evaluate_fn,
            )

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Return the wrapped strategy's messages, each with the number of the reveal it is for.

        Args:
            server_round: The number of the round, from 1 on.
            arrays: The model.
            config: Flower's configuration of training.
            grid: Flower's grid.
        Returns:
            A message for each chosen client; none if no reveal is left.
        Raises:
            OptionError: The wrapped strategy chose more clients than sums are divided by.
        """
        self._reveal = None
        if self._rounds.next_reveal > self._rounds.reveals:
            _LOG.warning("No reveal is left, as some broke off; the model stays as it is.")
            return []
        messages = list(self.strategy.configure_train(server_round, arrays, config, grid))
        if len(messages) > self.clients:
            raise OptionError(
                f"{len(messages)} clients were chosen, and sums are divided by {self.clients}: name the "
                "largest number that may take part."
            )
        self._reveal = self._rounds.next_reveal
        self._model = only_arrays(RecordDict({"arrays": arrays}))
        for message in messages:
            message.content[ASKED] = ConfigRecord({"reveal": self._reveal})
        return messages

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Return the wrapped strategy's result for the noisy mean; nothing if the round is lost.

        Args:
            server_round: The number of the round, from 1 on.
            replies: The clients' answers.
        Returns:
            The next model, and the strategy's metrics with the number of clients that sent; None for both if
            the round is lost.
        Raises:
            FlowerMessageError: A client answered with its model, which it should have sealed.
            FairSharesError: The reveal was refused before it began, or the session is over.
        """
        sent = self._sent(list(replies))
        if self._reveal is None or not sent:
            return None, None
        total = self._rounds.total(self._reveal, self._changes(sent))
        if total is None:
            return None, None
        mean = moved(self._model, total / self.clients)
        metrics = MetricRecord({self.strategy.weighted_by_key: 1, _SENT: len(sent)})
        arrays = ArrayRecord({name: Array(array) for name, array in mean.items()})
        content = RecordDict({self.strategy.arrayrecord_key: arrays, "metrics": metrics})
        answer = Message(content, dst_node_id=0, message_type="train")
        aggregated: tuple[ArrayRecord | None, MetricRecord | None] = self.strategy.aggregate_train(
            server_round, [answer]
        )
        return aggregated

    def configure_evaluate(
        self,
        server_round: int,  # noqa: ARG002
        arrays: ArrayRecord,  # noqa: ARG002
        config: ConfigRecord,  # noqa: ARG002
        grid: Grid,  # noqa: ARG002
    ) -> Iterable[Message]:
        """Return no messages: metrics of clients' records have no noise.

        Args:
            server_round: Not used.
            arrays: Not used.
            config: Not used.
            grid: Not used.
        Returns:
            An empty list.
        """
        return []

    def aggregate_evaluate(
        self,
        server_round: int,  # noqa: ARG002
        replies: Iterable[Message],  # noqa: ARG002
    ) -> MetricRecord | None:
        """Return None, as nobody was asked.

        Args:
            server_round: Not used.
            replies: Not used.
        Returns:
            None.
        """
        return None

    def _sent(self, replies: Sequence[Message]) -> list[Message]:
        """Return the replies of clients that have sent; log how many have not."""
        sent = [reply for reply in replies if not reply.has_error()]
        _LOG.info("aggregate_train: %d clients have sent, %d have not", len(sent), len(replies) - len(sent))
        return sent

    def _changes(self, sent: Sequence[Message]) -> list[Floats]:
        """Return the changes of a session's clients; none are here if hosts have them."""
        if isinstance(self._rounds, HostsRounds):
            for reply in sent:
                if ASKED not in reply.content or len(reply.content) > 1:
                    raise FlowerMessageError(
                        f"The client at node {reply.metadata.src_node_id} answered with more than that it "
                        "has sent, which this server now knows: its ClientApp lacks the mod SealedUpdates, "
                        "or has another before it."
                    )
            return []
        changes = []
        for reply in sent:
            try:
                changes.append(change_of(self._model, only_arrays(reply.content)))
            except (FlowerMessageError, ModelArraysError) as error:
                _LOG.warning("The client at node %d counts as zeros: %s", reply.metadata.src_node_id, error)
        return changes
