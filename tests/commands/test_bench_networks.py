"""A program of a user's own, and a protocol as printed, at hosts with a network each that are far apart."""

import re
from pathlib import Path

import pytest

from benchmarks.measure.samples import FAILED, OK, Sample, load
from fairshares.harness.security_models import MODELS
from tests.support.command import call, processes_below, succeed
from tests.support.namespaces import COORDINATOR, NetworkedSite, networked_site
from tests.support.running import until

DELAY_S = 0.005  # of each direction
MODEL = MODELS["ring"]
POLICY = 'benchmark = true\nbenchmark_security = ["ring"]\npopulation = []\n'
SQUARE = "x, y = (sint.get_input_from(i) for i in (0, 2))\nprint_ln('product %s', (x * y).reveal())\n"
PRINTED = """
name = "printed"
title = "As printed"
repetitions = 1
warm_up = false
[factors]
protocol = "pi_rw"
variant = "literal-at-once"
security = "ring"
clients = 3
records = 9
epsilon = "1"
network = "none"
[[grid]]
"""


def measured(site: NetworkedSite, what: str, out: str, *more: str) -> tuple[int, Sample]:
    """Run one cell over the hosts, from the coordinator's network; return the exit code and its last run."""
    arguments = ("bench.run", what, *more, "--hosts", "hosts.toml", "--out", out, "--repetitions", "1")
    with site.inside(COORDINATOR):
        done = call(*arguments, cwd=site.home)
    *_, sample = load(site.home / out)  # after a warm-up, if it is good
    return done.returncode, sample


@pytest.mark.mpspdz("ring")
def test_programs_run_at_hosts_that_are_far_apart(tmp_path: Path) -> None:
    """No host is reached but through a relay. Owners allow the digest that the refusal names."""
    with networked_site(tmp_path, MODEL) as site, site.far_apart(DELAY_S):
        (site.home / "policy.toml").write_text(POLICY)
        (site.home / "square.mpc").write_text(SQUARE)
        (site.home / "printed.toml").write_text(PRINTED)
        with site.inside(COORDINATOR):
            succeed("hosts.setup", "--policy", "policy.toml", cwd=site.home)
        own = ("--inputs", "1", "--security", "ring")
        code, refused = measured(site, "square.mpc", "refused", *own)
        assert (code, refused.status) == (1, FAILED)
        found = re.search('benchmark_programs = \\["[0-9a-f]{64}"\\]', str(refused.reason))
        assert found is not None, refused.reason
        for party in range(MODEL.parties):
            policy = site.directory(party) / "policy.toml"
            policy.write_text(f"{found[0]}\n{policy.read_text()}")
        code, square = measured(site, "square.mpc", "square", *own)
        assert (code, square.status, square.reason) == (0, OK, None), square.reason
        code, printed = measured(site, "printed.toml", "printed")
        assert (code, printed.status, printed.reason) == (0, OK, None)
        for sample in (square, printed):
            assert [host["name"] for host in sample.hosts] == [host.address for host in site.hosts]
            assert sample.network is not None and sample.network["measured_rtt_s"] >= 2 * DELAY_S
            assert sample.times["mpc_s"] >= 2 * DELAY_S and sample.rounds
        until(lambda: not any(processes_below(site.directory(i)) for i in range(MODEL.parties)))
