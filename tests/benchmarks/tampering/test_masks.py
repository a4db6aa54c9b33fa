"""A party that shifts its shares of clients' masks has clients left out, or ends the run; no more."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace as replace_in

from benchmarks.tampering.attack import Change, Kind, Message, build_interposer
from fairshares.harness.engines.engine import EnginePart
from fairshares.harness.engines.execution import PreparedJob
from fairshares.harness.engines.mpspdz.engine import MpSpdzEngine
from fairshares.harness.engines.mpspdz.peer_certificates import ENVIRONMENT
from fairshares.harness.engines.parties.config import VirtualMachine
from fairshares.harness.errors import PartyFailedError
from fairshares.harness.releases.weights.spec import PI_RW
from fairshares.harness.security_models import MODELS
from tests.support.running import fair_bits, opened_with
from tests.support.sandboxes import leave_out_sandbox

GATEWAY = 7  # as a receiver of messages: see interposer.c
TAMPERER = 1
LENGTH_BYTES = 4
ONE, TWO_MORE = [1, 0, 0, 0], [[0, 2, 0, 0], [0, 0, 0, 1]]  # of a client, and of two by one connection
ALL, WITHOUT_ONE, WITHOUT_TWO = [1, 2, 0, 1], [0, 2, 0, 1], ONE

Opened = Callable[[Change | None], list[int] | None]


@pytest.fixture
def opened(model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Opened:
    """Return what a run opens less its noise, None if it ends, of clients that send; a message is changed."""
    part_of, order = MpSpdzEngine._part, [""]

    def tampering(self: MpSpdzEngine, prepared: PreparedJob, party: int) -> EnginePart:
        part = part_of(self, prepared, party)
        assert isinstance(part.engine, VirtualMachine)
        loaded = {
            "LD_PRELOAD": f"{built}:{ENVIRONMENT['LD_PRELOAD']}",
            "FAIRSHARES_MESSAGES": tmp_path / "messages",
            "FAIRSHARES_TAMPER": order[0],
        }
        if party != TAMPERER:
            return part
        words = [f"{name}={value}" for name, value in loaded.items()]
        return replace(part, engine=replace_in(part.engine, argv=("/usr/bin/env", *words, *part.engine.argv)))

    def run(change: Change | None) -> list[int] | None:
        order[0] = str(change or "")
        (tmp_path / "messages").unlink(missing_ok=True)
        directory = tmp_path / f"run-{change and change.message.number}"
        directory.mkdir()
        bits, noise = fair_bits("1", 40, len(ONE))
        arguments = ("split", "clients", MODELS[model].parties, 3, 3, 2, 2, "1", 40)
        sent = [np.array(ONE), np.array(TWO_MORE).ravel()]
        try:
            values = opened_with(bits, PI_RW, arguments, MODELS[model], directory, sent=sent)
        except PartyFailedError:
            return None
        return [value - x for value, x in zip(values, noise, strict=True)]

    leave_out_sandbox(tmp_path, monkeypatch)  # whoever tampers would not keep it
    monkeypatch.setattr(MpSpdzEngine, "_part", tampering)
    built = build_interposer(tmp_path)
    return run


@pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler cc is there")
@pytest.mark.parametrize(
    "model",
    [pytest.param(name, marks=pytest.mark.mpspdz(name)) for name in ("rep4-ring", "ps-rep-ring", "spdz2k")],
)
def test_no_value_is_changed_by_shifted_masks(model: str, opened: Opened, tmp_path: Path) -> None:
    """Masks come first, then sums of them, by which clients judge."""
    assert opened(None) == ALL
    lines = [line.split() for line in (tmp_path / "messages").read_text().splitlines()]
    sent = [
        int(number) for receiver, number, length, _ in lines if receiver == str(GATEWAY) and int(length) > 12
    ]
    assert len(sent) >= 3
    results = [opened(Change(Message(GATEWAY, number, 8), Kind.SHIFT, 0, 1 << 20)) for number in sent[:3]]
    assert all(result in (None, WITHOUT_ONE, WITHOUT_TWO) for result in results), results
    assert results[0] == WITHOUT_ONE
