"""Aggregates of a task on hosts: they reveal what clients sealed, and no host leaves an upload out alone."""

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from fairshares.harness.errors import FairSharesError
from fairshares.harness.hosts.runner import HostsSource
from fairshares.harness.pipeline.run import RunSettings, run_release
from fairshares.harness.privacy.ledger.charge import Account
from fairshares.harness.releases.weights.statistic import WeightsStatistic
from fairshares.harness.request.request import Request
from fairshares.harness.security_models import get_model
from fairshares.protocols.json_values import JsonFields
from fairshares.protocols.spec import SPLIT
from tests.support.coordinators import hosts_runner, make_hosts
from tests.support.envelopes import POLICY, counts, made_task, upload
from tests.support.requests import request_of

MODEL = get_model("ring")
ROWS, NOISE = 1000, 40  # noise beyond that has a probability below 1e-13
pytestmark = pytest.mark.mpspdz("ring")


def run(hosts: list[Path], out: Path, epsilon: int) -> list[float]:
    """Run π_RW on the hosts; return the noisy counts."""
    release = request_of(MODEL, SPLIT, Fraction(epsilon)).but(Request.population, "loans")
    with hosts_runner(hosts, MODEL, release) as runner:
        settings = RunSettings(release, timeout_s=600, account=Account(population="loans"), hosts=runner)
        done = run_release(WeightsStatistic(), HostsSource(runner.proposed), settings, out, lambda step: None)
    return [float(count) for count in done.found.counts.table.ravel()]


def test_hosts_count_the_same_uploads_or_none(tmp_path: Path) -> None:
    hosts = make_hosts(tmp_path, clients=0, model=MODEL)
    task = replace(made_task(tmp_path / "task"), policy=JsonFields({**POLICY, "epsilon": "1"}))
    names = [upload(task, [ROWS, 2 * ROWS, 0, 5 * ROWS], tmp_path / "task" / "shares") for _ in range(2)]
    made = counts(task, tmp_path / "task")
    for count, host in zip(made, hosts, strict=True):
        (host / "aggregates").mkdir()
        count.write(host / "aggregates" / "mine.aggregate", {})
    one = counts(task, tmp_path / "task", {names[0]})[1]
    one.write(hosts[1] / "aggregates" / "mine.aggregate", {})
    with pytest.raises(FairSharesError, match="and they are not the same"):
        run(hosts, tmp_path / "differs", 1)
    made[1].write(hosts[1] / "aggregates" / "mine.aggregate", {})
    with pytest.raises(FairSharesError, match="policies of clients do not cover"):
        run(hosts, tmp_path / "beyond", 2)
    sums = run(hosts, tmp_path / "out", 1)
    assert all(abs(a - ROWS * b) < NOISE for a, b in zip(sums, (2, 4, 0, 10), strict=True))
