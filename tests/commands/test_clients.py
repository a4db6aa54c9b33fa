"""Clients of real virtual machines: what is reported, who is left out, and that nothing is left of a run."""

import asyncio
import os
import signal
import ssl
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from harness.clients import messages as wire, sender as sending
from harness.clients.messages import Channel
from harness.clients.session import Server
from harness.engines.base import PROGRAMS, EngineResult, Job, no_charge
from harness.engines.registry import engine_of
from harness.errors import PartyFailedError
from harness.pipeline.sources import local_clients
from harness.security_models import MODELS, SecurityModel
from protocols.circuits.clients import checks
from protocols.circuits.coins import MAX_EPSILON, design_coins
from protocols.circuits.noise import fair_bits_per_sample, input_widths
from protocols.noise.truncated import error_bound
from protocols.spec import CLIENTS, PI_RW, PRODUCT, InputForm
from tests.support.command import processes_below
from tests.support.running import model_parameters

needs_proc = pytest.mark.skipif(not Path("/proc/self/cwd").exists(), reason="finds processes in /proc")
pytestmark = [pytest.mark.mpspdz("ring"), needs_proc]
MODEL = MODELS["ring"]
DELTA_BITS = 40
SENT = [np.array([1, 500, 200]), np.array([0, 300, 300]), np.array([1, 0, 100])]  # is a; count per label
COUNTS = [500, 300, 300, 300]
TERMS = {"security": MODEL.name}


def job(directory: Path, model: SecurityModel = MODEL, more: int = 0) -> Job:
    """Return π_RW in product form on three clients, one with each connection, and more that send the same."""
    directory.mkdir()
    coins, clients = design_coins(MAX_EPSILON, DELTA_BITS), len(SENT) + more
    arguments = ("product", "clients", model.parties, clients, clients, 2, 2, MAX_EPSILON, DELTA_BITS)
    return Job(
        PI_RW,
        PROGRAMS / "pi_rw.mpc",
        tuple(map(str, arguments)),
        (None,) * model.parties,
        tuple((width, 4) for width in input_widths(fair_bits_per_sample(coins))),
        clients=local_clients([*SENT, *[SENT[0]] * more], TERMS, directory, 600.0),
    )


def run(one: Job, work: Path, timeout_s: float = 600.0, model: SecurityModel = MODEL) -> EngineResult:
    return engine_of(model).run(one, model, work, timeout_s, lambda step: None, starting=no_charge)


def are_counts(found: Sequence[int], of: Sequence[int] = COUNTS) -> bool:
    """Noise beyond its exact quantile makes this false in 1 of 10^9 runs."""
    within = error_bound(design_coins(MAX_EPSILON, DELTA_BITS), Fraction(1, 10**9))
    return bool(max(abs(np.array(found) + 0.5 - of)) <= within)


def nothing_is_left(directory: Path) -> bool:
    return processes_below(directory) == {} and not (directory / "parties").exists()


def test_clients_values_and_their_traffic(tmp_path: Path) -> None:
    result = run(job(tmp_path / "clients"), tmp_path / "parties")
    assert are_counts(result.outputs["counts"]) and result.left_out == {}
    seed, masked, accepted, offsets = 4 + 32, 4 + 24, 4 + 8, 4 + checks(3) * 8
    traffic = zip(result.client_sent_bytes or (), result.client_received_bytes or (), strict=True)
    for sent, received in traffic:
        assert sent == 3 * (seed + masked)
        assert received > 3 * (masked + 2 * offsets + accepted)  # and the terms
    assert nothing_is_left(tmp_path)


Lies = Callable[[Sequence[Channel]], Awaitable[None]]


async def sends_each_party_another_seed(parties: Sequence[Channel]) -> None:
    for i, party in enumerate(parties):
        await party.send(bytes([i + 1] * 32))


async def sends_each_party_other_values(parties: Sequence[Channel]) -> None:
    for party in parties:
        await party.send(bytes([1] * 32))
    for party in parties:
        await party.receive(SUMS * 8)
    for i, party in enumerate(parties):
        await party.send(bytes([i + 1] * 24))


LIARS: dict[Lies, str] = {
    sends_each_party_another_seed: "did not come to all parties in time",
    sends_each_party_other_values: "did not send all parties the same values in time",
}
SUMS = checks(len(SENT) + 1)


def with_a_liar(one: Job, lies: Lies) -> Job:
    """Return the job with a last client that speaks the protocol as it likes."""
    assert one.clients is not None
    begin = one.clients.begin
    *senders, liar = begin.args[0]  # type: ignore[attr-defined]

    async def lie(servers: Sequence[Server]) -> None:
        channels: list[Channel] = []
        try:
            for server in servers:
                context = wire.context(ssl.PROTOCOL_TLS_CLIENT, liar.certificate, server.certificate)
                await sending._connect(server, context, channels)
            for channel in channels:
                await channel.receive_terms()
                await channel.receive(24)
                await channel.receive(SUMS * 8)
            await lies(channels)
        finally:
            for channel in channels:
                channel.writer.close()
                await channel.writer.wait_closed()

    @contextmanager
    def both(servers: Sequence[Server]) -> Iterator[None]:
        with begin.func(senders, servers, **begin.keywords), ThreadPoolExecutor(1) as pool:  # type: ignore[attr-defined]
            lied = pool.submit(lambda: asyncio.run(lie(servers)))
            yield
        with suppress(OSError, asyncio.IncompleteReadError):
            lied.result()

    return replace(one, clients=replace(one.clients, begin=both))


@pytest.mark.parametrize("lies", LIARS)
@pytest.mark.parametrize(("form", "model"), model_parameters(PRODUCT.by(CLIENTS)))
def test_no_client_has_parties_compute_on_different_numbers(
    form: InputForm, model: SecurityModel, lies: Lies, tmp_path: Path
) -> None:
    """It is left out, and the others count; an active model's check of parties would else end the run."""
    one = with_a_liar(job(tmp_path / "clients", model, more=1), lies)
    result = run(one, tmp_path / "parties", model=model)
    assert are_counts(result.outputs["counts"]) and result.left_out == {LIARS[lies]: 1}
    assert nothing_is_left(tmp_path)


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
