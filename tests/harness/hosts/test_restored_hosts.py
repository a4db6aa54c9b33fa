"""A host whose ledger went back in time: peers notice, also if it lost uploads alone; its owner goes on."""

import re
import shutil
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairshares.harness.engines.parties.supervisor import free_ports
from fairshares.harness.engines.registry import engines
from fairshares.harness.errors import HostUnfitError, PolicyError
from fairshares.harness.hosts.agent import Work
from fairshares.harness.hosts.host_keys import RunKeys
from fairshares.harness.hosts.messages import GetReport, Kill, Propose
from fairshares.harness.hosts.policy import LEDGER
from fairshares.harness.hosts.runner import HostsSource
from fairshares.harness.inputs.records import ClientRecords
from fairshares.harness.pipeline.run import RunSettings, run_release
from fairshares.harness.privacy.ledger.charge import Account
from fairshares.harness.privacy.ledger.entries import Ledger, next_head
from fairshares.harness.privacy.ledger.populations import Status
from fairshares.harness.releases.weights.request import InputsOfChains
from fairshares.harness.releases.weights.statistic import WeightsStatistic
from fairshares.harness.request.request import Request
from fairshares.harness.security_models import get_model
from fairshares.protocols.spec import SPLIT
from tests.support import coordinators
from tests.support.command import refused, succeed
from tests.support.coordinators import (
    DOMAIN,
    MODEL,
    RULE,
    After,
    Coordinator,
    Party,
    Refused,
    agents,
    agreed,
    answered,
    asked,
    begun,
    fed,
    hosts_runner,
    let_go,
    make_hosts,
    run_of,
    write_rules,
)
from tests.support.events import a_run
from tests.support.requests import request_of
from tests.support.sharing import share, to_hosts


class Chain:
    """Runs of a chain on hosts of this process, each of one new upload."""

    def __init__(self, at: Path) -> None:
        self.at, self.outs = at, 0
        self.hosts = make_hosts(at, RULE.replace("epsilon = 4", "epsilon = 9") + "chains = true\n", clients=0)

    def run(self, name: str = "monthly", after: dict[int, After] | None = None) -> Ledger:
        """Run on one more upload; return the ledger of the machine that starts runs, which is new.

        Args:
            name: Of the chain.
            after: What changes a host's answers, or the host, by party.
        """
        zero = np.zeros(1, dtype=np.int64)
        share(ClientRecords(DOMAIN, np.array(["c"]), zero, zero, zero), SPLIT, MODEL, self.at / "shares")
        to_hosts(self.at / "shares", self.hosts)
        self.outs += 1
        release = request_of(MODEL, SPLIT, Fraction(1)).but(Request.population, "loans")
        release = release.but(InputsOfChains.chain, name)
        with hosts_runner(self.hosts, MODEL, release, after) as runner:
            out = self.at / f"out-{self.outs}"
            account = Account(self.own(), "loans")  # no refused run's
            settings = RunSettings(release, timeout_s=600, account=account, hosts=runner)
            run_release(WeightsStatistic(), HostsSource(runner.proposed), settings, out, lambda step: None)
        return self.own()

    def own(self) -> Ledger:
        """Return the ledger that the last run was charged to, if it was."""
        return Ledger(self.at / f"out-{self.outs}.sqlite")


def refusal(chain: Chain, after: dict[int, After] | None = None) -> str:
    """Return the heads that the refusal of a run names."""
    with pytest.raises(HostUnfitError, match=r"of party 0 does not go on .* it was restored") as refused_run:
        chain.run(after=after)
    return re.findall("--seen ([0-9a-f,]*)", str(refused_run.value))[0]


def test_a_host_goes_on_once_its_owner_says_what_was_lost(tmp_path: Path) -> None:
    """Though its restored ledger was charged for as much, or for more, without the others, since."""
    chain = Chain(tmp_path)
    ledger = chain.hosts[0] / LEDGER
    chain.run()
    shutil.copy(ledger, tmp_path / "backup")
    chain.run()  # which adds its upload to the chain's charge, and nothing else
    last = Ledger(ledger).head()
    for since in range(3):
        shutil.copy(tmp_path / "backup", ledger)
        for number in range(since):
            Ledger(ledger).charge("loans", None, replace(SPENT, run=f"{number}", uploads=(f"{number}" * 64,)))
        assert refusal(chain) == last
    lost = ("--directory", str(chain.hosts[0]), "--population", "loans", "--epsilon", "1", "--seen", last)
    said = succeed("hosts.restored", *lost, cwd=tmp_path)
    assert "Charged to population 'loans': ε = 1 and δ = 9.095e-13. Hosts that have seen" in said
    chain.run()
    (population,) = Ledger(ledger).populations()
    assert population.spent.epsilon == population.charges[0].exact.epsilon + 2 * SPENT.exact.epsilon + 1
    assert [charge.task for charge in population.charges] == ["weights", "x", "x", "lost"]
    assert "no host's directory" in refused("hosts.restored", *lost[2:], "--directory", ".", cwd=tmp_path)
    assert "64 hexadecimal" in refused("hosts.restored", *lost[:-1], last[:9], cwd=tmp_path)


@pytest.mark.parametrize("signed", [False, True])
def test_a_refusal_after_a_host_may_have_begun_stays_charged(signed: bool, tmp_path: Path) -> None:
    """A ledger that is restored while hosts agree is charged nowhere before the host signs, and stays after.

    Once the host has signed that its ledger goes on, the others let their parties go.
    """
    chain = Chain(tmp_path)
    ledger = chain.hosts[0] / LEDGER
    chain.run()
    shutil.copy(ledger, tmp_path / "backup")
    chain.run()
    last, before = Ledger(ledger).head(), Ledger(chain.hosts[1] / LEDGER).head()

    def restore(request: str, _work: Work, answer: Any) -> Any:
        if request == ("agree" if signed else "prepare"):
            shutil.copy(tmp_path / "backup", ledger)
        return answer

    assert refusal(chain, {0: restore}) == last
    charged = [(charge.task, charge.status) for one in chain.own().populations() for charge in one.charges]
    assert charged == ([("weights", Status.ABORTED)] if signed else [])
    assert (Ledger(chain.hosts[1] / LEDGER).head() == before) == (not signed)


def test_what_a_host_can_refuse_before_it_signs_is_charged_nowhere(tmp_path: Path) -> None:
    """Its owner changes the policy while parties are prepared."""
    chain = Chain(tmp_path)

    def forbid(request: str, _work: Work, answer: Any) -> Any:
        if request == "prepare":
            rules = (chain.hosts[2] / "policy.toml").read_text()
            write_rules(chain.hosts[2], rules.replace("epsilon_per_run = 2", "epsilon_per_run = 0.5"))
        return answer

    with pytest.raises(PolicyError, match="epsilon_per_run"):
        chain.run(after={2: forbid})
    assert chain.own().populations() == []
    assert all(coordinators.spent(host) == [] for host in chain.hosts)


SPENT = a_run("x", out=Path())


def test_a_head_commits_to_each_run_in_order(tmp_path: Path) -> None:
    """And a restored ledger has had what others have seen, without going back to it."""
    heads = {}
    for order in ("ab", "ba", "a", "b"):
        ledger = Ledger(tmp_path / order)
        assert ledger.head() == ""
        for run in order:
            ledger.charge("loans", None, replace(SPENT, run=run))
        heads[order] = ledger.head()
        assert ledger.had([heads["ab"], heads[order], "c" * 64]) == [heads["ab"]] * (order == "ab") + [
            heads[order]
        ]
    assert heads["ab"] == next_head(next_head("", "a"), "b") and len({*heads.values()}) == 4
    ledger.restore("loans", SPENT, [heads["ab"], heads["ba"]])
    assert ledger.had(heads.values()) == [heads["ab"], heads["ba"], heads["b"]]
    assert ledger.head() not in heads.values()


def heads_after(hosts: list[Path], look: Callable[[Work], object], **changes: Any) -> dict[str, str]:
    """Return the heads that host 0 knows once its party has met party 1 alone, and `look` was asked of it."""
    with ExitStack() as stack:
        met = Party()
        coordinator = Coordinator(hosts[0], stack)
        work = coordinator.prepared(asked(**changes))
        let_go(coordinator, work, hosts, met)
        assert Ledger(hosts[0] / LEDGER).seen() == {}
        met.peers = (1,)
        look(work)
        return Ledger(hosts[0] / LEDGER).seen()


LOOKS: dict[str, Callable[[Work], object]] = {
    "a report": lambda work: answered(work, GetReport()),
    "a kill": lambda work: answered(work, Kill()),
    "the end of the connection": lambda work: work.state.close(),
    "the party's end": Work.ended,
}


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)
def test_a_head_is_known_before_anything_of_a_run_is_told(
    look: Callable[[Work], object], tmp_path: Path
) -> None:
    """Whatever its coordinator does: of parties that were met; others may never have begun."""
    hosts = make_hosts(tmp_path)
    seen = heads_after(hosts, look)
    firsts = RunKeys(hosts[0], MODEL).all_histories(0)
    assert {*seen} == {*firsts[1]} and len(seen) == len(engines()) and len({*seen.values()}) == 1
    assert [status for *_, status in coordinators.spent(hosts[0])] == [Status.ABORTED]


def test_a_head_counts_in_every_engine(tmp_path: Path) -> None:
    """Also one that version 1.0 wrote, by the key of the engine that ran."""
    hosts = make_hosts(tmp_path)
    firsts = RunKeys(hosts[0], MODEL).all_histories(0)
    ring = RunKeys(hosts[0], get_model("ring")).all_histories(0)
    assert firsts[1] == ring[1][::-1] and len(engines()) == 2
    with ExitStack() as stack:
        work = Coordinator(hosts[0], stack).work
        work.propose(Propose(asked=asked()))
        guard, ledger = run_of(work).guard, Ledger(hosts[0] / LEDGER)
        ledger.remember({firsts[1][0]: "a" * 64})
        assert guard.seen(ring) == guard.seen(firsts) == {"1": "a" * 64}
        ledger.remember({ring[1][0]: "b" * 64})  # which a run of either engine compares with its own
        assert guard.seen(ring) == {"1": "b" * 64} and guard.seen(firsts) == {"1": "a" * 64}


def test_outputs_that_a_coordinator_takes_before_it_kills_the_run_stay_known(tmp_path: Path) -> None:
    """It asks each host for its party's outputs, ends the run, and has one host's ledger restored."""
    hosts = make_hosts(tmp_path, RULE, clients=2)
    ledger = hosts[0] / LEDGER
    with agents(hosts) as connected, free_ports(MODEL.parties) as ports:
        fed(connected, asked(epsilon="1/2"))
        begun(connected, agreed(connected, ports))
        for one in connected:
            while not any(line.startswith("OUT") for line in one.ask("state")["lines"]):
                time.sleep(0.01)
            one.ask("kill")
    assert all(len(Ledger(host / LEDGER).seen()) == 2 * len(engines()) for host in hosts)
    ledger.unlink()  # as it was before its first run
    with agents(hosts) as connected, free_ports(MODEL.parties) as ports:
        fed(connected, asked(epsilon="1/2"))
        with pytest.raises(
            Refused, match="of party 0 does not go on from what party 1 and party 2 have seen"
        ):
            begun(connected, agreed(connected, ports))


def test_a_restored_ledger_is_refused_to_each_of_two_coordinators(tmp_path: Path) -> None:
    """They take turns at the same hosts; what one's run charged, the other's next run is held against."""
    first, second = Chain(tmp_path), Chain.__new__(Chain)
    second.at, second.outs, second.hosts = tmp_path / "second", 0, first.hosts
    second.at.mkdir()
    ledger = first.hosts[0] / LEDGER
    first.run("monthly")
    second.run("weekly")
    shutil.copy(ledger, tmp_path / "backup")
    first.run("monthly")
    second.run("weekly")
    last = Ledger(ledger).head()
    shutil.copy(tmp_path / "backup", ledger)
    assert refusal(first) == refusal(second) == last
    shutil.copy(tmp_path / "backup", ledger)
    assert refusal(second) == refusal(first) == last
