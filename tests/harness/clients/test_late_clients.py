"""Clients and parties that keep others waiting: when time is over, that one is named."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from harness.clients import input_masks as masks
from harness.clients.messages import Channel
from harness.clients.sender import send_values
from harness.clients.session import Server
from harness.errors import ClientError
from tests.support.fronts import SECONDS, TERMS, VALUES, Run, connect, play, send, until


def test_clients_that_never_come_are_named_in_time(tmp_path: Path) -> None:
    async def script(run: Run) -> list[str]:
        failed = await asyncio.gather(*run.fronts, return_exceptions=True)
        return [str(error) for error in failed]

    failed = play(Run(tmp_path, VALUES, 3, seconds=0.5), script)
    assert failed == ["Client 0 had not come after 0.5 s, nor had 1 other."] * 3


async def late(run: Run, sender: asyncio.Task[list[Any]], told: str) -> list[Any]:
    """Have the time be over as soon as all fronts would say so; return what sender and fronts say."""
    await until(lambda: [front._late() for front in run.served] == [told] * 3)
    for front in run.served:
        front.deadline.reschedule(0.0)
    failed = await asyncio.gather(*run.fronts, return_exceptions=True)
    return [*await sender, *map(str, failed)]


def test_clients_that_never_come_are_told_from_those_that_wait_for_them(tmp_path: Path) -> None:
    told = f"Client 0 had not come after {SECONDS:g} s, nor had 1 other."

    async def script(run: Run) -> list[Any]:
        run.ready.set()
        return await late(run, asyncio.create_task(send(run, 1)), told)

    lost, *failed = play(Run(tmp_path, [*VALUES, VALUES[0]], 3), script)
    assert failed == [told] * 3
    assert isinstance(lost, ClientError)


async def nothing(_parties: list[Channel]) -> None:
    pass


async def a_seed_only(parties: list[Channel]) -> None:
    for party in parties:
        await party.receive_terms()
        await party.receive(24)
        await party.receive(40 * 8)
    for party in parties:
        await party.send(bytes(masks.SEED_BYTES))


@pytest.mark.parametrize(("does", "what"), [(nothing, "answered"), (a_seed_only, "sent its values")])
def test_the_client_that_the_others_wait_for_is_named(
    tmp_path: Path, does: Callable[[list[Channel]], Awaitable[None]], what: str
) -> None:
    told = f"Client 0 had not {what} after {SECONDS:g} s."

    async def script(run: Run) -> list[Any]:
        run.ready.set()
        others = asyncio.create_task(send(run, 1))
        parties = [await connect(run, i, 0) for i in range(3)]
        await does(parties)
        return await late(run, others, told)

    _, *failed = play(Run(tmp_path, VALUES, 3), script)
    assert failed == [told] * 3


def test_parties_that_do_not_answer(tmp_path: Path) -> None:
    async def script(run: Run) -> str:
        nowhere = [Server("127.0.0.1", 9, run.servers[0].certificate), *run.servers[1:]]
        for seconds in (0.5, SECONDS):  # the shorter one does if the others answer in time
            told = f"Client 0: the parties were not ready for its values within {seconds:g} s. "
            with pytest.raises(ClientError) as error:
                await send_values(run.senders[0], nowhere, TERMS, seconds)
            if str(error.value) == f"{told}Party 0 did not answer at 127.0.0.1:9.":
                break
        return str(error.value).removeprefix(told)

    assert play(Run(tmp_path, VALUES, 3), script) == "Party 0 did not answer at 127.0.0.1:9."
