"""Benchmark runs at a host: allowed by its owner's word, and of nothing that anybody has."""

import os
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.engines.parties.working_directory import LOOPBACK
from harness.errors import FairSharesError, HostUnfitError, PolicyError, ShareError
from harness.hosts.party_run import Sending
from harness.hosts.policy import LEDGER
from harness.hosts.trials import Noise, Trial
from harness.hosts.work import Work
from harness.inputs.synthetic import Federation
from harness.pipeline.sources import BENCHMARK_TERMS, read_terms
from harness.system.files import PREFIX
from protocols.spec import CLIENTS, PI_RW
from tests.support.coordinators import MODEL, RULE, Coordinator, asked, make_hosts, write_rules

ALLOWED = "benchmark = true\n"
RUN = "0" * 32
OF_WEIGHTS = Trial(MODEL.name, asked(population=None), Federation(7, 23, 2, 2))
OF_NOISE = Trial(MODEL.name, noise=Noise(("1", f"1/{2**40}"), 3))


@pytest.fixture
def hosts(tmp_path: Path) -> list[Path]:
    """Return hosts that take part in benchmark runs, with shares of their own."""
    return make_hosts(tmp_path, ALLOWED + RULE)


@pytest.fixture
def work(hosts: list[Path], stack: ExitStack) -> Work:
    return Coordinator(hosts[1], stack).work


def prepare(work: Work, clients: Sending | None = None) -> dict[str, Any]:
    return work.run.prepare(RUN, 1, [(LOOPBACK, 0)] * MODEL.parties, clients)


def test_a_host_takes_part_by_its_owners_word_only(hosts: list[Path], work: Work) -> None:
    work.benchmark(1, OF_NOISE)
    write_rules(hosts[1], RULE)
    for ask in (lambda: work.benchmark(1, OF_NOISE), lambda: work.host.time_links([])):
        with pytest.raises(PolicyError, match=r"no benchmark runs; ask its owner to put benchmark = true"):
            ask()
    write_rules(hosts[1], 'coordinators = ["alice"]\n' + ALLOWED + RULE)
    with pytest.raises(PolicyError, match="start nothing"):
        work.admit("benchmark")


@pytest.mark.parametrize(
    "sizes", [(0, 23, 2, 2), (10**9, 23, 2, 2), (7, 10**12, 2, 2), (7, 23, 10**4, 10**4)]
)
def test_a_host_makes_up_no_more_than_it_has_room_for(sizes: tuple[int, int, int, int], work: Work) -> None:
    with pytest.raises(HostUnfitError, match="run on nobody, or on more than 10,000,000"):
        work.benchmark(1, replace(OF_WEIGHTS, federation=Federation(*sizes)))


@pytest.mark.parametrize("samples", [0, 10**9])
def test_a_host_draws_no_more_samples_than_it_has_room_for(samples: int) -> None:
    with pytest.raises(HostUnfitError, match="no samples of noise, or for more than 10,000,000"):
        replace(OF_NOISE, noise=Noise(("1", f"1/{2**40}"), samples)).job()


@pytest.mark.parametrize("trial", [OF_WEIGHTS, OF_NOISE], ids=["weights", "noise"])
def test_no_share_is_in_a_benchmark_run(trial: Trial, hosts: list[Path], work: Work) -> None:
    """Whatever is asked in whatever order, the party holds zeros, and the host's own shares stay unread."""
    for share in (hosts[1] / "shares").iterdir():
        share.chmod(0)
        os.utime(share, (0, 0))
    work.benchmark(1, trial)
    for ask in (
        lambda: work.propose(asked()),
        lambda: work.release.uploads.aggregate(1),
        lambda: work.release.uploads.check_uploads(1, {}),
    ):
        with pytest.raises(HostUnfitError, match=r"No release was proposed|another run already"):
            ask()
    assert prepare(work)["program_hash"]
    held = [path.read_bytes() for path in hosts[1].glob(f"{PREFIX}*/party/Player-Data/*")]
    assert [set(each) for each in held] == ([] if trial is OF_NOISE else [{0}])
    assert all(share.stat().st_atime == 0 for share in (hosts[1] / "shares").iterdir())
    assert "agree" not in work.handlers  # it signs nothing
    assert not (hosts[1] / LEDGER).exists()


def test_a_release_becomes_no_benchmark_run(hosts: list[Path], stack: ExitStack) -> None:
    work = Coordinator(hosts[1], stack).prepared(asked(), 1)
    with pytest.raises(HostUnfitError, match="another run already"):
        work.benchmark(1, OF_NOISE)
    with pytest.raises(HostUnfitError, match="agreed to no run"):
        work.run.go({})


@pytest.mark.mpspdz("ring")
def test_a_client_with_something_to_protect_is_told_of_no_release(hosts: list[Path], work: Work) -> None:
    """A coordinator could invite clients to a run that is charged nowhere; the host tells them what it is."""
    form = PI_RW.input_forms["product"].by(CLIENTS)
    sends = asked(population=None, security="ring", input_form=form.name, input_path=form.path.name)
    work.benchmark(1, Trial("ring", sends, Federation(2, 2, 2, 2)))
    job, _ = work.run.inputs(Sending({"task": "weights"}, ["one", "two"], (1, 2), 1.0))
    assert job.clients is not None and job.clients.terms == BENCHMARK_TERMS
    assert [upload.certificate for upload in job.clients.uploads] == ["one", "two"]
    with pytest.raises(ShareError):
        read_terms(BENCHMARK_TERMS, "What clients are told")
    with pytest.raises(HostUnfitError, match="before it had any inputs"):
        work.run.inputs(None)
    work.benchmark(1, OF_WEIGHTS)
    with pytest.raises(HostUnfitError, match="before it had any inputs"):
        work.run.inputs(Sending({}, [], (1, 2), 1.0))


@pytest.mark.parametrize(
    "trial",
    [
        Trial(MODEL.name),
        Trial(MODEL.name, asked(population=None)),
        replace(OF_WEIGHTS, security="ring"),
        Trial(MODEL.name, asked(population=None, task="pi_cf"), Federation(2, 2, 2, 2)),
        Trial(MODEL.name, noise=Noise(("-1", "1"), 1)),
    ],
)
def test_what_no_command_asks_for_is_refused(trial: Trial, work: Work) -> None:
    with pytest.raises((FairSharesError, ValueError)):  # noqa: PT012
        work.benchmark(1, trial)
        work.run.inputs(None)
