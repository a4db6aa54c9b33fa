"""A host whose ledger went back in time: peers notice, also if it lost uploads alone; its owner goes on."""

import shutil
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from harness.errors import HostUnfitError
from harness.hosts.policy import LEDGER
from harness.hosts.runner import HostsSource
from harness.inputs.records import ClientRecords
from harness.pipeline.run import RunSettings, run_release
from harness.privacy.ledger.charge import Account
from harness.privacy.ledger.entries import Ledger
from harness.privacy.ledger.populations import PrivacyEvent
from harness.releases.weights import WeightsStatistic
from protocols.accounting.calibration import NeighboringRelation, PrivacyUnit
from protocols.guarantee import Guarantee
from protocols.spec import SPLIT
from tests.support.command import refused, succeed
from tests.support.coordinators import DOMAIN, MODEL, RULE, hosts_runner, make_hosts
from tests.support.requests import request_of
from tests.support.sharing import share, to_hosts


class Chain:
    """Runs of a chain on hosts of this process, each of one new upload."""

    def __init__(self, at: Path) -> None:
        self.at, self.outs = at, 0
        self.hosts = make_hosts(at, RULE + "chains = true\n", clients=0)
        self.account = Account(Ledger(at / "coordinator.sqlite"), "loans")

    def run(self) -> None:
        zero = np.zeros(1, dtype=np.int64)
        share(ClientRecords(DOMAIN, np.array(["c"]), zero, zero, zero), SPLIT, MODEL, self.at / "shares")
        to_hosts(self.at / "shares", self.hosts)
        self.outs += 1
        release = request_of(MODEL, SPLIT, Fraction(1)).but(population="loans", chain="monthly")
        with hosts_runner(self.hosts, MODEL, release) as runner:
            settings = RunSettings(release, timeout_s=600, account=self.account, hosts=runner)
            out = self.at / f"out-{self.outs}"
            run_release(WeightsStatistic(), HostsSource(runner), settings, out, lambda step: None)


def test_a_host_goes_on_once_its_owner_says_what_was_lost(tmp_path: Path) -> None:
    chain = Chain(tmp_path)
    ledger = chain.hosts[0] / LEDGER
    for _ in range(2):
        chain.run()
    shutil.copy(ledger, tmp_path / "backup")
    chain.run()  # which adds its upload to the chain's charge, and nothing else
    assert Ledger(ledger).entries() == 4
    shutil.copy(tmp_path / "backup", ledger)
    with pytest.raises(HostUnfitError, match=r"has 3 entries, and party [12] has seen 4: it was restored"):
        chain.run()
    lost = ("--directory", str(chain.hosts[0]), "--population", "loans", "--epsilon", "1", "--entries", "4")
    said = succeed("hosts.restored", *lost, cwd=tmp_path)
    assert "Charged to population 'loans': ε = 1 and δ = 9.095e-13. The ledger has 4 entries now." in said
    chain.account = Account(Ledger(tmp_path / "another.sqlite"), "loans")  # as the first has the failed run's
    chain.run()
    (population,) = Ledger(ledger).populations()
    assert population.spent.epsilon == population.charges[0].exact.epsilon + 1
    assert [charge.task for charge in population.charges] == ["weights", "lost"]
    assert "no host's directory" in refused("hosts.restored", *lost[2:], "--directory", ".", cwd=tmp_path)


@pytest.mark.parametrize("reached", [0, 2, 9])
def test_a_restored_ledger_reaches_what_others_have_seen(reached: int, tmp_path: Path) -> None:
    """And its next charge is a further entry."""
    ledger = Ledger(tmp_path / "ledger.sqlite")
    relation = NeighboringRelation.ADD_OR_REMOVE_ONE
    spent = PrivacyEvent(
        "x", "ring", Guarantee(Fraction(1), Fraction(0)), PrivacyUnit.RECORD, relation, tmp_path
    )
    ledger.charge("loans", None, spent)
    ledger.restore("loans", spent, reached)
    assert ledger.entries() == max(reached, 2)
    ledger.charge("loans", None, spent)
    assert ledger.entries() == max(reached, 2) + 1
