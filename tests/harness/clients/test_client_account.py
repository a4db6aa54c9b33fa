"""A client's own account: charged before anything that depends on its values is sent, and not for less."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.clients import input_masks as masks
from harness.clients.messages import Channel
from harness.errors import BudgetError, ClientError, MaskError
from tests.support.fronts import TERMS, VALUES, Run, play, send


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[int | str]:
    """What a client does: the sizes of what it sends, and when it is charged."""
    found: list[int | str] = []
    real = Channel.send

    async def sending(channel: Channel, payload: bytes) -> None:
        found.append(len(payload))
        await real(channel, payload)

    monkeypatch.setattr(Channel, "send", sending)
    return found


async def charged(run: Run, steps: list[int | str], error: Exception | None = None) -> Any:
    """Have the first client send; return what it sent, or its error. Args: error: that charging it raises."""

    def charge() -> None:
        steps.append("charge")
        if error:
            raise error

    run.senders[0] = replace(run.senders[0], charge=charge)
    steps.clear()
    (found,) = await send(run, 0)
    for front in run.fronts:
        front.cancel()
    await asyncio.gather(*run.fronts, return_exceptions=True)
    return found


def of_client(steps: list[int | str]) -> list[int | str]:
    """Leave out what parties send: masks, offsets and sums of one part, and their answers."""
    return [step for step in steps if step in ("charge", masks.SEED_BYTES, 8 * len(VALUES[0]))]


def test_it_is_charged_once_and_right_before_its_masked_values(
    tmp_path: Path, steps: list[int | str]
) -> None:
    async def script(run: Run) -> Any:
        return await charged(run, steps)

    sent = play(Run(tmp_path, [VALUES[0]], 3), script)
    assert isinstance(sent, int)
    own = of_client(steps)
    at = own.index("charge")
    assert own.count("charge") == 1 and masks.SEED_BYTES in own[:at]
    assert own[at + 1 : at + 4] == [24, 24, 24]


def test_what_its_budget_does_not_cover_is_not_sent(tmp_path: Path, steps: list[int | str]) -> None:
    async def script(run: Run) -> Any:
        return await charged(run, steps, BudgetError("no"))

    run = Run(tmp_path, [VALUES[0]], 3)
    assert isinstance(play(run, script), BudgetError)
    assert of_client(steps)[-1] == "charge" and run.arrived == {}


@pytest.mark.parametrize("what", ["terms", "masks"])
def test_what_was_not_sent_is_not_charged(what: str, tmp_path: Path, steps: list[int | str]) -> None:
    def tamper(party: int, sends: str, words: masks.Words) -> masks.Words:
        return words + np.uint64(party == 2 and sends == what)

    async def script(run: Run) -> Any:
        return await charged(run, steps)

    terms = {**TERMS, "form": "split"} if what == "terms" else TERMS
    error = play(Run(tmp_path, [VALUES[0]], 3, tamper=tamper, terms=[terms] * 3), script)
    assert isinstance(error, ClientError if what == "terms" else MaskError)
    assert "charge" not in steps
