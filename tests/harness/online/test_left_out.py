"""Clients that fail, and parties that lie of them: all parties go on alike, with the others' values."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairshares.harness.errors import ClientError
from fairshares.harness.online import masks, messages as wire
from fairshares.harness.online.gateway import ClientFailure
from fairshares.harness.online.messages import Channel
from fairshares.harness.party_reports import ClientsServed, reports_in
from fairshares.protocols.arrays import Words
from tests.support.fronts import VALUES, Run, connect, play, send

MINE, OTHERS = 0, 1  # of the clients: the one that fails, the one that does not
REST = [0, 0, 0, 0, 7, 0, 1, -1, 3]  # what arrives without the client that fails
ABSENT, FAILED, COMPLAINED = (1, 0, 0), (0, 1, 0), (0, 0, 1)


def reported(out: str) -> set[tuple[int, int, int]]:
    reports = [report for report in reports_in(out.splitlines()) if isinstance(report, ClientsServed)]
    return {(report.absent, report.failed, report.complained) for report in reports}


def says(absent: int, failed: int, complained: int) -> set[tuple[int, int, int]]:
    return {(absent, failed, complained)}


async def greeted(run: Run) -> list[Channel]:
    """Connect as the client that fails, and take its masks."""
    parties = [await connect(run, i, MINE) for i in range(3)]
    for party in parties:
        await party.receive_first()
        await party.receive(24)
        await party.receive(run.sums * 8)
    return parties


async def seeded(run: Run) -> list[Channel]:
    parties = await greeted(run)
    for party in parties:
        await party.send(bytes([1] * masks.SEED_BYTES))
    for party in parties:
        await party.receive(run.sums * 8)
    return parties


async def huge(run: Run) -> list[Channel]:
    parties = await greeted(run)
    parties[1].writer.write(b"\xff\xff\xff\xff")
    return parties


async def at_two(run: Run) -> list[Channel]:
    parties = [await connect(run, i, MINE) for i in (0, 2)]
    for party in parties:
        await party.receive_first()
    return parties


# How far a client gets, and what it then sends each party; None: it leaves.
Does = tuple[Callable[[Run], Awaitable[list[Channel]]], Mapping[int, bytes | None]]
LEAVES = dict.fromkeys(range(3))
LEAVES_WITH_SUMS: Does = (seeded, LEAVES)
VALUES_DIFFER: Does = (seeded, {i: bytes([7 if i == 2 else 8] * 24) for i in range(3)})
COMPLAINS: Does = (seeded, dict.fromkeys(range(3), wire.COMPLAINT))


async def fail(run: Run, does: Does) -> None:
    parties = await does[0](run)
    for i, sent in does[1].items():
        if sent is None:
            parties[i].close()
        else:
            await parties[i].send(sent)


async def beside(run: Run, does: Does) -> Any:
    """Have the one client do that while the other sends; return what becomes of the other."""
    run.ready.set()
    others = asyncio.create_task(send(run, OTHERS))
    await fail(run, does)
    (sent,) = await others
    await asyncio.gather(*run.fronts)
    return sent


@pytest.mark.parametrize(
    ("does", "how"),
    [
        ((greeted, LEAVES), ABSENT),
        ((greeted, {i: bytes([7 if i == 2 else 8] * masks.SEED_BYTES) for i in range(3)}), ABSENT),
        (LEAVES_WITH_SUMS, FAILED),
        (VALUES_DIFFER, FAILED),
        # As a client might that wants parties to blame each other.
        ((seeded, {i: wire.COMPLAINT if i == 2 else bytes([8] * 24) for i in range(3)}), FAILED),
        (COMPLAINS, COMPLAINED),
    ],
)
def test_a_client_that_fails_is_left_out_alike_at_once(
    tmp_path: Path, does: Does, how: tuple[int, int, int], capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody waits for time to be over: it is longer than the test may take."""
    run = Run(tmp_path, VALUES, 3, seconds=1000.0, to_send=1000.0)
    sent = play(run, lambda run: beside(run, does))
    assert sent == 4 + 32 + 4 + 48 and list(run.arrived.values()) == [REST] * 3
    assert reported(capsys.readouterr().out) == says(*how)


@pytest.mark.parametrize(
    ("does", "how"),
    [
        ((at_two, {}), ABSENT),
        ((greeted, dict.fromkeys((0, 1), bytes([1] * masks.SEED_BYTES))), ABSENT),
        ((huge, {}), ABSENT),
        ((seeded, {1: bytes(16)}), FAILED),
        ((seeded, dict.fromkeys((0, 1), bytes([8] * 24))), FAILED),
    ],
)
def test_a_client_that_is_silent_is_left_out_alike_when_its_time_is_over(
    tmp_path: Path, does: Does, how: tuple[int, int, int], capsys: pytest.CaptureFixture[str]
) -> None:
    for seconds in (1.0, 5.0, 15.0):  # the shorter one does if the other has come by then
        (tmp_path / str(seconds)).mkdir()
        run = Run(tmp_path / str(seconds), VALUES, 3, seconds=seconds, to_send=seconds)
        with suppress(ClientFailure, OSError, asyncio.IncompleteReadError):  # the machine was too slow
            if play(run, lambda run: beside(run, does)) == 4 + 32 + 4 + 48:
                break
    assert list(run.arrived.values()) == [REST] * 3 and reported(capsys.readouterr().out) >= says(*how)


@pytest.mark.parametrize("at", ["seeds", "values"])
@pytest.mark.parametrize("client", [0, 1])
def test_a_party_that_lies_about_a_client_has_it_left_out_and_nothing_else(
    tmp_path: Path, at: str, client: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """The client is told, and what it sent counts nowhere: parties see the same digests, or none."""
    own = slice(0, 4) if client == 0 else slice(4, 12)

    def lie(party: int, what: str, words: Words) -> Words:
        changed = words.copy()
        if party == 2 and what == at:
            changed[own] = 0
        return changed

    async def script(run: Run) -> list[Any]:
        sent = await send(run, 0, 1)
        await asyncio.gather(*run.fronts)
        return sent

    run = Run(tmp_path, VALUES, 3, lies=lie)
    sent = play(run, script)
    assert isinstance(sent[client], ClientError) and isinstance(sent[1 - client], int)
    assert str(sent[client]).startswith(f"Client {client}: the parties go on without it: it came or answered")
    assert list(run.arrived.values()) == [[REST, [1, 0, 2**31, 0, 0, 0, 0, 0, 0]][client]] * 3
    assert reported(capsys.readouterr().out) == says(*(ABSENT if at == "seeds" else FAILED))


def test_a_client_that_was_sent_masks_cannot_come_again(tmp_path: Path) -> None:
    """It would check the same masks by other subsets, with some that a party has seen."""

    async def script(run: Run) -> Any:
        run.ready.set()
        for party in await greeted(run):
            party.close()
        others = asyncio.create_task(send(run, OTHERS))
        again = await send(run, MINE)
        await asyncio.gather(*run.fronts)
        return *again, *await others

    run = Run(tmp_path, VALUES, 3)
    again, other = play(run, script)
    assert isinstance(again, ClientError) and "had been there before" in str(again)
    assert other == 4 + 32 + 4 + 48 and run.arrived[0] == REST


@pytest.mark.parametrize("does", [LEAVES_WITH_SUMS, COMPLAINS, VALUES_DIFFER])
def test_more_failures_than_the_run_bears_end_it(tmp_path: Path, does: Does) -> None:
    """As a party could cheat; two of three clients here, and all parties say the same."""
    both = [VALUES[0]] * 2

    async def script(run: Run) -> set[str]:
        run.ready.set()
        third = asyncio.create_task(send(run, 1))
        await fail(run, does)
        failed = await asyncio.gather(*run.fronts, return_exceptions=True)
        assert all(isinstance(error, ClientFailure) for error in failed)
        (lost,) = await third
        assert isinstance(lost, ClientError)
        return set(map(str, failed))

    complaints = int(does is COMPLAINS)
    told = play(Run(tmp_path, both, 3, most_failures=0), script)
    assert told == {
        "Clients failed: after they were sent what they check their masks by, 1 of 2 did not send all "
        f"parties the same values, more than 0; {complaints} of them said that the masks do not fit, so "
        "that a party may cheat."
    }


def test_there_is_a_sum_more_whenever_clients_double(tmp_path: Path) -> None:
    """Each client is one try for a party that cheats: 5 clients, 43 sums, and 2^-40 in all."""

    async def script(run: Run) -> Any:
        run.ready.set()
        message = await (await connect(run, 0, 0)).receive_first()
        return message.announced.sums

    assert play(Run(tmp_path, [np.array([1])] * 5, 1), script) == 43
