"""A host whose ledger went back in time: peers notice, also if it lost uploads alone; its owner goes on."""

import re
import shutil
from dataclasses import replace
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
from harness.privacy.ledger.entries import Ledger, next_head
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
        self.hosts = make_hosts(at, RULE.replace("epsilon = 4", "epsilon = 9") + "chains = true\n", clients=0)

    def run(self, name: str = "monthly") -> None:
        zero = np.zeros(1, dtype=np.int64)
        share(ClientRecords(DOMAIN, np.array(["c"]), zero, zero, zero), SPLIT, MODEL, self.at / "shares")
        to_hosts(self.at / "shares", self.hosts)
        self.outs += 1
        release = request_of(MODEL, SPLIT, Fraction(1)).but(population="loans", chain=name)
        with hosts_runner(self.hosts, MODEL, release) as runner:
            out = self.at / f"out-{self.outs}"
            account = Account(Ledger(out.with_suffix(".sqlite")), "loans")  # no refused run's
            settings = RunSettings(release, timeout_s=600, account=account, hosts=runner)
            run_release(WeightsStatistic(), HostsSource(runner), settings, out, lambda step: None)


def refusal(chain: Chain) -> str:
    """Return the heads that the refusal of a run names."""
    with pytest.raises(HostUnfitError, match=r"of party 0 does not go on .* it was restored") as refused_run:
        chain.run()
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


SPENT = PrivacyEvent(
    "x",
    "ring",
    Guarantee(Fraction(1), Fraction(0)),
    PrivacyUnit.RECORD,
    NeighboringRelation.ADD_OR_REMOVE_ONE,
    Path(),
)


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
