"""Sums of vectors at hosts, reveal by reveal, as whoever trains a model starts them: `SumsAtHosts`."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from fairshares.harness.engines.execution import Progress
from fairshares.harness.errors import PYTHON, naming
from fairshares.harness.request.fields import as_text
from fairshares.harness.request.request import parse_pieces
from fairshares.harness.system.documents import as_json
from fairshares.harness.system.files import as_path
from fairshares.harness.system.progress import nothing_said
from fairshares.harness.training.session import Number
from fairshares.harness.uploads.task import Task, read_task
from fairshares.protocols.accounting.rounds import RoundsPlan
from fairshares.protocols.arrays import Floats
from fairshares.protocols.json_values import JsonValue

if TYPE_CHECKING:
    from fairshares.harness.pipeline.run import Run
    from fairshares.harness.releases.sums.statistic import NoisySum


class SumsAtHosts:
    """Noisy sums of vectors that clients have sent to hosts, one charge for all that their task declares.

    Clients seal their vectors for a reveal by its number (`UpdateClient`), and this machine sees none of
    them. Each reveal is a run at the hosts, which sign it. Its results are in a directory of its own.

    Guarantees: (epsilon, delta) for all declared reveals together, with clients as the unit, however later
    vectors depend on earlier sums. A reveal that has begun counts as used, whatever came of it, and no number
    is begun twice.  [test: tests/harness/hosts/test_sums.py]
    Edge cases: in a `with` block connections to hosts stay between reveals, which takes less time for each;
    no host keeps its turn for them. Otherwise each reveal connects anew.

    Attributes:
        task: The task of vectors.
        out: The directory that gets a directory for each reveal.
    """

    def __init__(
        self,
        hosts: Path | str,
        task: Path | str,
        *,
        epsilon: Number,
        population: str,
        delta: Number | None = None,
        noise: str = "joint",
        offline: bool = False,
        budget: Number | tuple[Number, Number] | None = None,
        ledger: Path | str | None = None,
        timeout: float = 600,
        out: Path | str | None = None,
    ) -> None:
        """Read what hosts and task say, without asking or spending anything.

        Args:
            hosts: A file that describes the hosts.
            task: The file of a task of vectors.
            epsilon: The ε of all reveals that the task declares.
            population: The name of the population whose vectors these are, which is charged.
            delta: The δ of all these reveals. Default: 1e-5.
            noise: "joint" Gaussian noise that nobody knows; or "distributed", each party's own, for long
                vectors.
            offline: Whether to take joint noise that `preprocess` made.
            budget: The population's ε or (ε, δ).
            ledger: The file of charges. Default: as for commands.
            timeout: Seconds for the parties to start and compute, in each reveal.
            out: The directory that gets a directory with the results of each reveal. Default: below `runs`.
        Raises:
            FairSharesError: A subclass for each mistake, whose message says what to do.
        """
        with naming(PYTHON):
            # Packages of an extra are needed to use this class, and not to import it.
            from fairshares.harness.hosts.reveals import RevealsAtHosts, SumsCall

            inventory = as_path(hosts, "hosts")
            self.task: Task = read_task(as_path(task, "task"))
            call = SumsCall(
                security=self.task.model,
                epsilon=epsilon,
                delta=delta,
                noise=noise,
                offline=offline,
                population=population,
                budget=budget,
                ledger=ledger,
                timeout=timeout,
                out=out,
                upload_task=self.task.name,
                reveal="1",
            )
            self._reveals = RevealsAtHosts.asked(inventory, self.task, call)
            self.out: Path = self._reveals.out

    def __enter__(self) -> Self:
        """Have connections to the hosts stay between the reveals of the block."""
        self._reveals.hosts.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connections, unless another block is around this one."""
        self._reveals.hosts.__exit__(kind, error, trace)

    @property
    def reveals(self) -> int:
        """The number of reveals that the task declares."""
        return self._reveals.reveals

    @property
    def next_reveal(self) -> int:
        """The number of the next reveal, for which clients seal: one above the last that this ledger has."""
        with naming(PYTHON):
            return self._reveals.next_reveal

    @property
    def plan(self) -> RoundsPlan:
        """The noise of each reveal, and of all together `exact` (epsilon, delta), and `loss` with rho."""
        with naming(PYTHON):
            return self._reveals.plan

    def reveal(self, number: int | None = None) -> Floats:
        """Have the hosts reveal the noisy sum of the vectors that clients have sent for a reveal.

        Args:
            number: The number for which clients sealed, from 1 on. Default: `next_reveal`.
        Returns:
            The sum with noise of mean 0, shape (coordinates,).
        Raises:
            UsedRevealError: This reveal, or a later one, was begun before; nothing is charged again.
            RecordDomainError: The task declares fewer reveals.
            ShareError: Too few clients have sent vectors for the reveal.
            FairSharesError: A host refuses the reveal, is away, or fails. Once parties compute, the reveal is
                used, and `next_reveal` is a later one.
        """
        with naming(PYTHON):
            return self.run(self.next_reveal if number is None else number).found.noisy_sum

    def run(self, number: int, progress: Progress = nothing_said) -> Run[NoisySum]:
        """Run a reveal, as `reveal` does.

        Args:
            number: The number for which clients sealed, from 1 on.
            progress: A function that takes the name of each step as the step begins.
        Returns:
            The run, with its manifest and files.
        Raises: as in `reveal`.
        """
        with naming(PYTHON):
            return self._reveals.run(number, progress)

    def preprocess(self, reveals: int = 1, progress: Progress = nothing_said) -> list[dict[str, JsonValue]]:
        """Have the hosts make the joint noise of later reveals. Each reveal takes a piece of its own.

        Args:
            reveals: How many reveals the noise is for, from 1 to 1000.
            progress: A function that takes the name of each step as the step begins.
        Returns:
            The costs of each piece: mpc_s (seconds), sent_bytes, attempts and the piece's name.
        Raises:
            FairSharesError: The noise of this task cannot be made ahead, or a host refuses, is away, or
                fails. Pieces that were finished before stay.
        """
        with naming(PYTHON):
            made = self._reveals.preprocess(parse_pieces(as_text(reveals), "reveals"), progress)
        return [as_json(piece) for piece in made]
