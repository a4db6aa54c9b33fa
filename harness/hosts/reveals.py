"""Reveals of a task of vectors at its hosts, one after another, on one charge for all of them."""

from dataclasses import dataclass
from pathlib import Path

from fairshares.harness.engines.execution import Progress
from fairshares.harness.errors import OptionError, named
from fairshares.harness.hosts.inventory import hosts_for, read_hosts
from fairshares.harness.hosts.runner import (
    HostLinks,
    HostsBackend,
    HostsRunner,
    HostsSource,
    preprocess,
    propose,
)
from fairshares.harness.pipeline.preprocessing import MadePiece
from fairshares.harness.pipeline.run import Run, RunSettings, check_supported, run_release
from fairshares.harness.privacy.ledger.charge import Account, chosen_account
from fairshares.harness.releases.base import PreparedRelease
from fairshares.harness.releases.sums.request import RevealRequest
from fairshares.harness.releases.sums.statistic import NoisySum, SumsStatistic
from fairshares.harness.request.fields import OptionGroup, Options
from fairshares.harness.request.request import AccountOptions, Request, Where
from fairshares.harness.system.progress import Say, nothing_said
from fairshares.harness.system.result_files import default_out
from fairshares.harness.uploads.task import Task
from fairshares.protocols.accounting.rounds import RoundsPlan


class SumsCall(Options):
    """Reveals of a task of vectors, with what all of them have in common."""

    request = OptionGroup(RevealRequest)
    account = OptionGroup(AccountOptions)
    where = OptionGroup(Where, without=("stock",))


@dataclass(frozen=True)
class RevealsAtHosts:
    """The reveals of a task of vectors at its hosts.

    Attributes:
        task: The task of vectors.
        hosts: The connections to the hosts of the task's parties. They stay between reveals in `with hosts:`.
        account: The population that is charged, and the ledger.
        request: The request for each reveal, without the reveal's number.
        timeout_s: Seconds for the parties of a reveal to start and compute.
        out: The directory that gets one for each reveal.
    """

    task: Task
    hosts: HostLinks
    account: Account
    request: RevealRequest
    timeout_s: float
    out: Path

    @classmethod
    def asked(cls, hosts: Path, task: Task, call: SumsCall, say: Say = nothing_said) -> "RevealsAtHosts":
        """Return reveals as they are asked for, without asking or spending anything.

        Args:
            hosts: A file that describes the hosts.
            task: The task of vectors.
            call: The options of the call, for this task.
            say: A function that is told of a new population.

        Raises:
            OptionError: The task is of records, or no population is named.
            FairSharesError: The hosts are not described, the model cannot run there, or the ledger refuses.
        """
        task.vectors  # noqa: B018  # which raises
        model = task.model
        backend = HostsBackend(hosts_for(model, read_hosts(hosts), hosts), model)
        account = chosen_account(call.request.population, call.account.budget, call.account.ledger, say)
        if account.population is None:
            raise OptionError(
                f"The reveals of a task are charged once, to a population: name it by "
                f"{named('population', 'NAME')}."
            )
        request = call.request
        check_supported(request, SumsStatistic(request.spec).spec, backend)
        out = call.where.out or default_out(request.task)
        return cls(task, HostLinks(backend), account, request, call.where.timeout, out)

    @property
    def reveals(self) -> int:
        """The number of reveals that the task declares."""
        return self.task.vectors.reveals

    @property
    def next_reveal(self) -> int:
        """The number of the next reveal, for which clients seal: one above the last that this ledger has."""
        population = self.account.population
        assert population is not None  # as it was asked for
        return self.account.ledger.last_reveal(population, self.task.name) + 1

    @property
    def plan(self) -> RoundsPlan:
        """The noise of each reveal, and what all of them spend together; OptionError if no noise fits."""
        rounds = self._prepared(self.request).plan.rounds
        assert rounds is not None  # as the statistic plans them
        return rounds

    def run(self, number: int, progress: Progress = nothing_said) -> Run[NoisySum]:
        """Have the hosts reveal a noisy sum, and write what they signed into a directory below `out`.

        Args:
            number: The number of the reveal, for which clients have sealed.
            progress: Receives the name of each step.

        Raises:
            UsedRevealError: This reveal, or a later one, was begun before; nothing is charged again.
            RecordDomainError: The task declares fewer reveals.
            ShareError: Too few clients have sent vectors for it.
            FairSharesError: A host refuses it, is away, or fails. Once parties compute, the reveal is used,
                and `next_reveal` is a later one.
        """
        self.task.of_reveal(number)  # before hosts are involved
        request = self.request.but(RevealRequest.reveal, number)
        request = request.but(Request.population, self.account.population)
        with self.hosts.connected(progress) as connected:
            proposed = propose(connected, request)
            runner = HostsRunner(proposed)
            settings = RunSettings(request, timeout_s=self.timeout_s, account=self.account, hosts=runner)
            statistic = SumsStatistic(request.spec)
            return run_release(
                statistic, HostsSource(proposed), settings, self.out / f"reveal-{number}", progress
            )

    def preprocess(self, pieces: int, progress: Progress = nothing_said) -> list[MadePiece]:
        """Have the hosts make the joint noise of so many later reveals; return the pieces.

        An error leaves finished pieces.
        """
        request = self.request.but(RevealRequest.reveal, self.next_reveal)
        prepared = self._prepared(request.but(Request.population, self.account.population))
        with self.hosts.connected(progress) as connected:
            return preprocess(connected, prepared, pieces, self.timeout_s, progress)

    def _prepared(self, request: RevealRequest) -> PreparedRelease[NoisySum]:
        return SumsStatistic(request.spec).prepare(request, self.task.domain)
