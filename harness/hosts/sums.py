"""Sums of vectors at hosts, reveal by reveal, as whoever trains a model starts them: `SumsAtHosts`."""

from pathlib import Path

from fairshares.harness.engines.execution import Progress
from fairshares.harness.errors import PYTHON, OptionError, named, naming
from fairshares.harness.hosts.inventory import hosts_for, read_hosts
from fairshares.harness.pipeline.run import Run, RunSettings, check_supported, run_release
from fairshares.harness.privacy.ledger.charge import chosen_account
from fairshares.harness.releases.base import PreparedRelease
from fairshares.harness.releases.sums.request import RevealRequest
from fairshares.harness.releases.sums.statistic import NoisySum, SumsStatistic
from fairshares.harness.request.fields import OptionGroup, Options, as_text
from fairshares.harness.request.request import AccountOptions, Request, Where, parse_pieces
from fairshares.harness.system.documents import as_json
from fairshares.harness.system.files import as_path
from fairshares.harness.system.progress import nothing_said
from fairshares.harness.system.result_files import default_out
from fairshares.harness.training.session import Number
from fairshares.harness.uploads.task import Task, read_task
from fairshares.protocols.accounting.rounds import RoundsPlan
from fairshares.protocols.arrays import Floats
from fairshares.protocols.json_values import JsonValue


class SumsCall(Options):
    """Reveals of a task of vectors, with what all of them have in common."""

    request = OptionGroup(RevealRequest)
    account = OptionGroup(AccountOptions)
    where = OptionGroup(Where, without=("stock",))


class SumsAtHosts:
    """Noisy sums of vectors that clients have sent to hosts, one charge for all that their task declares.

    Clients seal their vectors for a reveal by its number (`UpdateClient`), and this machine sees none of
    them. Each reveal is a run at the hosts, which sign it. Its results are in a directory of its own.

    Guarantees: (epsilon, delta) for all declared reveals together, with clients as the unit, however later
    vectors depend on earlier sums. A reveal that has begun counts as used, whatever came of it, and no number
    is begun twice.  [test: tests/harness/hosts/test_sums.py]

    Attributes:
        task: The task of vectors.
        out: The directory that gets one for each reveal.
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
            population: Whose vectors these are, which is charged.
            delta: The δ of all these reveals. Default: 1e-5.
            noise: "joint" Gaussian noise that nobody knows; or "distributed", each party's own, for long
                vectors.
            offline: Whether to take joint noise that `preprocess` made.
            budget: The population's ε or (ε, δ).
            ledger: A file, by default that of commands.
            timeout: Seconds for the parties to start and compute, in each reveal.
            out: A directory for the results, which gets one for each reveal. Default: below `runs`.
        Raises:
            FairSharesError: A subclass for each mistake.
        """
        with naming(PYTHON):
            # Packages of an extra are needed to use this class, and not to import it.
            from fairshares.harness.hosts.runner import HostsBackend

            inventory = as_path(hosts, "hosts")
            self.task: Task = read_task(as_path(task, "task"))
            self._vectors = self.task.vectors
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
            model = self.task.model
            fleet = read_hosts(inventory)
            self._hosts = HostsBackend(hosts_for(model, fleet, inventory), model)
            self._account = chosen_account(call.request.population, call.account.budget, call.account.ledger)
            if self._account.population is None:
                raise OptionError(
                    f"The reveals of a task are charged once, to a population: name it by "
                    f"{named('population', 'NAME')}."
                )
            self._request = call.request
            self._statistic = SumsStatistic(self._request.spec)
            check_supported(self._request, self._statistic.spec, self._hosts)
            self._timeout_s = call.where.timeout
            self.out: Path = call.where.out or default_out(self._request.task)

    @property
    def reveals(self) -> int:
        """How many reveals the task declares."""
        return self._vectors.reveals

    @property
    def next_reveal(self) -> int:
        """The number of the next reveal, for which clients seal: one above the last that this ledger has."""
        population = self._account.population
        assert population is not None  # as it was chosen
        with naming(PYTHON):
            return self._account.ledger.last_reveal(population, self.task.name) + 1

    @property
    def plan(self) -> RoundsPlan:
        """The noise of each reveal, and of all together `exact` (epsilon, delta), and `loss` with rho."""
        with naming(PYTHON):
            rounds = self._prepared(self._request).plan.rounds
        assert rounds is not None  # as the statistic plans them
        return rounds

    def reveal(self, number: int | None = None) -> Floats:
        """Have the hosts reveal the noisy sum of what clients have sent for a reveal, shape (coordinates,).

        Args:
            number: The number for which clients sealed. Default: `next_reveal`.
        Raises:
            UsedRevealError: This reveal, or a later one, was begun before; nothing is charged again.
            RecordDomainError: The task declares fewer reveals.
            ShareError: Too few clients have sent vectors for it.
            FairSharesError: A host refuses it, is away, or fails. Once parties compute, the reveal is used,
                and `next_reveal` is a later one.
        """
        with naming(PYTHON):
            return self.run(self.next_reveal if number is None else number).found.noisy_sum

    def run(self, number: int, progress: Progress = nothing_said) -> Run[NoisySum]:
        """Run a reveal as `reveal`; return the run, with its manifest and files."""
        with naming(PYTHON):
            from fairshares.harness.hosts.runner import HostsRunner, HostsSource, propose

            self.task.of_reveal(number)  # before hosts are involved
            request = self._request.but(RevealRequest.reveal, number)
            request = request.but(Request.population, self._account.population)
            with self._hosts.connected(progress) as connected:
                proposed = propose(connected, request)
                settings = RunSettings(
                    request, timeout_s=self._timeout_s, account=self._account, hosts=HostsRunner(proposed)
                )
                out = self.out / f"reveal-{number}"
                return run_release(self._statistic, HostsSource(proposed), settings, out, progress)

    def preprocess(self, reveals: int = 1, progress: Progress = nothing_said) -> list[dict[str, JsonValue]]:
        """Have the hosts make the joint noise of 1 to 1000 later reveals; return its costs.

        Each reveal takes a piece of its own. An error leaves finished pieces.
        """
        with naming(PYTHON):
            from fairshares.harness.hosts.runner import preprocess

            number = parse_pieces(as_text(reveals), "reveals")
            request = self._request.but(RevealRequest.reveal, self.next_reveal)
            prepared = self._prepared(request.but(Request.population, self._account.population))
            with self._hosts.connected(progress) as connected:
                made = preprocess(connected, prepared, number, self._timeout_s, progress)
        return [as_json(piece) for piece in made]

    def _prepared(self, request: RevealRequest) -> PreparedRelease[NoisySum]:
        return self._statistic.prepare(request, self.task.domain)
