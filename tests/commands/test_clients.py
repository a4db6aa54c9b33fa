"""Clients of real virtual machines: what is reported, whom an error names, and that nothing is left."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from harness.clients import sender as sending
from harness.clients.session import Check, Server
from harness.engines.base import PROGRAMS, EngineResult, Job, no_charge
from harness.engines.registry import engine_of
from harness.errors import ClientError, FairSharesError, PartyFailedError
from harness.pipeline.party_inputs import local_clients
from harness.security_models import MODELS
from protocols.circuits.coins import MAX_EPSILON, design_coins
from protocols.circuits.noise import fair_bits_per_sample, input_widths
from protocols.noise.truncated import error_bound
from protocols.spec import PI_RW
from tests.support.command import processes_below
from tests.support.running import until

pytestmark = [
    pytest.mark.mpspdz("ring"),
    pytest.mark.skipif(not Path("/proc/self/cwd").exists(), reason="finds processes in /proc"),
]
MODEL = MODELS["ring"]
DELTA_BITS = 40
SENT = [np.array([1, 500, 200]), np.array([0, 300, 300]), np.array([1, 0, 100])]  # is a; count per label
COUNTS = [500, 300, 300, 300]
TERMS = {"model": MODEL.name}


def job(directory: Path, seconds: float = 60.0) -> Job:
    """Return π_RW in product form on three clients, one with each connection."""
    directory.mkdir()
    coins = design_coins(MAX_EPSILON, DELTA_BITS)
    arguments = ("product", "clients", 3, 3, 3, 2, 2, MAX_EPSILON, DELTA_BITS)
    return Job(
        PI_RW,
        PROGRAMS / "pi_rw.mpc",
        tuple(map(str, arguments)),
        (None,) * 3,
        tuple((width, 4) for width in input_widths(fair_bits_per_sample(coins))),
        clients=local_clients(SENT, TERMS, directory, seconds),
    )


def run(one: Job, work: Path, timeout_s: float = 60.0) -> EngineResult:
    return engine_of(MODEL).run(one, MODEL, work, timeout_s, lambda step: None, starting=no_charge)


def nothing_is_left(directory: Path) -> bool:
    return processes_below(directory) == {} and not (directory / "parties").exists()


def test_clients_values_and_their_traffic(tmp_path: Path) -> None:
    """Noise beyond its exact quantile fails this in 4 of 10^9 runs."""
    result = run(job(tmp_path / "clients"), tmp_path / "parties")
    within = error_bound(design_coins(MAX_EPSILON, DELTA_BITS), Fraction(1, 10**9))
    assert max(abs(np.array(result.outputs["counts"]) + 0.5 - COUNTS)) <= within
    seed, masked, accepted, offsets = 4 + 32, 4 + 24, 4 + 8, 4 + 40 * 8
    assert result.client_bytes is not None
    for sent, received in result.client_bytes:
        assert sent == 3 * (seed + masked)
        assert received > 3 * (masked + 2 * offsets + accepted)  # and the terms
    assert nothing_is_left(tmp_path)


def without(one: Job, client: int) -> Job:
    """Return the job with a client that never comes."""
    assert one.clients is not None
    begin = one.clients.begin

    def others(servers: Sequence[Server]) -> AbstractContextManager[Check]:
        senders = [sender for sender in begin.args[0] if sender.number != client]  # type: ignore[attr-defined]
        return begin.func(senders, servers, **begin.keywords)  # type: ignore[attr-defined]

    return replace(one, clients=replace(one.clients, begin=others))


def test_a_client_that_never_comes_is_named(tmp_path: Path) -> None:
    for timeout_s in (6.0, 60.0):  # the shorter one does if the others have come by then
        started = time.monotonic()
        with pytest.raises(FairSharesError) as error:
            run(without(job(tmp_path / f"clients-{timeout_s:g}"), 1), tmp_path / "parties", timeout_s)
        taken = time.monotonic() - started
        if str(error.value).startswith("Client 1 "):
            break
    assert isinstance(error.value, ClientError) and taken < 2 * timeout_s + 10
    assert str(error.value).startswith(f"Client 1 had not come after {0.9 * timeout_s:g} s.")
    assert str(error.value).endswith("The parties were stopped; no result was written.")
    assert nothing_is_left(tmp_path)


def test_a_killed_front_ends_its_party(tmp_path: Path) -> None:
    """The virtual machine is its child and ends with it; the party is named, and all others are stopped."""
    one = without(job(tmp_path / "clients"), 1)

    def kill_soon(step: str) -> None:
        if step == "run":
            signal.setitimer(signal.ITIMER_REAL, 0.05)

    def kill(_signal: int, _frame: object) -> None:
        for pid, cwd in processes_below(tmp_path).items():
            executable = Path(f"/proc/{pid}/exe").readlink().name
            if cwd.name == "party-0" and executable == MODEL.virtual_machine:
                parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
                os.kill(parent, signal.SIGKILL)
                return
        signal.setitimer(signal.ITIMER_REAL, 0.05)

    previous = signal.signal(signal.SIGALRM, kill)
    try:
        with pytest.raises(PartyFailedError, match="Party 0 was killed by SIGKILL"):
            engine_of(MODEL).run(one, MODEL, tmp_path / "parties", 30.0, kill_soon, starting=no_charge)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    until(lambda: nothing_is_left(tmp_path))


def test_a_machine_that_died_is_named_not_the_clients_that_lost_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients have their masks then, and leave all parties when one of them is gone."""

    def kill_and_draw(size: int) -> bytes:
        for pid, cwd in processes_below(tmp_path).items():
            if cwd.name == "party-1" and Path(f"/proc/{pid}/exe").readlink().name == MODEL.virtual_machine:
                os.kill(pid, signal.SIGKILL)
        return bytes(size)

    monkeypatch.setattr(sending, "secrets", SimpleNamespace(token_bytes=kill_and_draw))
    with pytest.raises(PartyFailedError, match=r"^Party 1 was killed by SIGKILL"):
        run(job(tmp_path / "clients"), tmp_path / "parties")
    assert nothing_is_left(tmp_path)
