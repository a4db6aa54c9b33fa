"""A task of vectors, its clients, and hosts of this process that reveal sums of what clients sealed."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from fairshares.harness.engines.execution import Progress
from fairshares.harness.hosts.policy import LEDGER
from fairshares.harness.hosts.runner import HostsSource
from fairshares.harness.inputs.record_schema import RecordDomain, RecordKind, VectorGrid
from fairshares.harness.pipeline.run import Run, RunSettings, run_release
from fairshares.harness.privacy.ledger.charge import Account
from fairshares.harness.privacy.ledger.entries import Ledger
from fairshares.harness.privacy.ledger.populations import Charge
from fairshares.harness.releases.sums.request import RevealRequest
from fairshares.harness.releases.sums.statistic import NoisySum, SumsStatistic
from fairshares.harness.security_models import SecurityModel
from fairshares.harness.uploads.task import Task
from fairshares.harness.uploads.vectors import SealedUpdate, UpdateClient
from fairshares.protocols.accounting.rounds import RoundsPlan
from fairshares.protocols.json_values import JsonFields
from tests.support.coordinators import ANY_PORT, MODEL, After, hosts_runner, make_hosts
from tests.support.envelopes import made_task

POPULATION = "loans"
RULES = ANY_PORT + f'[[population]]\nname = "{POPULATION}"\nepsilon = 8\ndelta = "1e-4"\n'
GRID = VectorGrid(coordinates=3, clip=1.0, reveals=3, units=64)


def task_of_vectors(
    directory: Path, grid: VectorGrid = GRID, security: str = "mpyc", *, epsilon: str = "8"
) -> Task:
    """Return a task of vectors, whose parties have a key each in `directory/keys-<i>`."""
    domain = RecordDomain((), (), 1, kind=RecordKind.VECTOR, vectors=grid)
    policy = JsonFields(tasks=["sums"], epsilon=epsilon, delta="1/10000", unit="client")
    return replace(made_task(directory, security=security, domain=domain), policy=policy)


class Reveals:
    """Reveals at hosts of this process.

    Attributes: hosts: their directories; task: of vectors; own: the coordinator's ledger.
    """

    def __init__(
        self, at: Path, model: SecurityModel = MODEL, grid: VectorGrid = GRID, rules: str = RULES
    ) -> None:
        self.at, self.model, self.clients, self.outs = at, model, 0, 0
        self.task = task_of_vectors(at / "task", grid, model.name)
        self.hosts = make_hosts(at, rules, clients=0, model=model)
        self.own = Ledger(at / "own.sqlite")
        for i, host in enumerate(self.hosts):
            (host / "task.json").write_bytes(self.task.text)
            (host / "shares").mkdir()
            shutil.copytree(at / "task" / f"keys-{i}", host / "sealing")

    def send(self, number: int, vectors: Sequence[Sequence[float]]) -> None:
        """Have a new client for each vector seal it for a reveal, and put it at each host."""
        for vector in vectors:
            self.clients += 1
            client = UpdateClient(self.task, self.at / f"client-{self.clients}")
            self.put(client.seal(number, np.array(vector)))

    def request(self, number: int, **changes: object) -> RevealRequest:
        """Return what a coordinator asks for: distributed noise at ε = 8 unless said otherwise."""
        asked: dict[str, object] = {
            "epsilon": "8",
            "security": self.model,
            "population": POPULATION,
            "noise": "distributed",
            "upload_task": self.task.name,
            "reveal": number,
        }
        return RevealRequest(**{**asked, **changes})

    def put(self, sealed: SealedUpdate) -> None:
        """Put what a client has sealed at each host."""
        for host, envelope in zip(self.hosts, sealed.envelopes, strict=True):
            (host / "shares" / f"{sealed.identity}.share").write_bytes(envelope)

    def reveal(
        self,
        number: int,
        after: dict[int, After] | None = None,
        out: Path | None = None,
        **changes: object,
    ) -> Run[NoisySum]:
        """Reveal the sum of what hosts have for a reveal. Args: after: see `hosts_runner`."""
        request = self.request(number, **changes)
        self.outs += 1
        with hosts_runner(self.hosts, self.model, request, after) as runner:
            account = Account(self.own, POPULATION)
            settings = RunSettings(request, timeout_s=600, account=account, hosts=runner)
            source = HostsSource(runner.proposed)
            place = out or self.at / f"out-{self.outs}"
            return run_release(SumsStatistic(request.spec), source, settings, place, lambda step: None)

    def charges(self) -> list[tuple[Charge, ...]]:
        """Return what each host's ledger, and the coordinator's last, has charged."""
        found = []
        for ledger in (*(Ledger(host / LEDGER) for host in self.hosts), self.own):
            charges: tuple[Charge, ...] = ()
            for population in ledger.populations():
                charges += population.charges
            found.append(charges)
        return found


@dataclass
class RevealsOfTraining:
    """Reveals at hosts of this process, as a training takes them.

    Attributes: made: the hosts; out: where results go; after: by reveal, what hosts do; see `hosts_runner`.
    """

    made: Reveals
    out: Path
    after: dict[int, dict[int, After]] = field(default_factory=dict)

    @property
    def task(self) -> Task:
        return self.made.task

    @property
    def next_reveal(self) -> int:
        return self.made.own.last_reveal(POPULATION, self.task.name) + 1

    @property
    def plan(self) -> RoundsPlan:
        release = self.made.request(1)
        plan = SumsStatistic(release.spec).prepare(release, self.task.domain).plan.rounds
        assert plan is not None
        return plan

    def run(self, number: int, progress: Progress) -> Run[NoisySum]:
        return self.made.reveal(number, self.after.get(number), self.out / f"reveal-{number}")
