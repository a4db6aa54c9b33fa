"""Inputs that come round by round: a party's own process for them, beside the engine.

It takes the party's column of a round from whoever started the party, and hands it to the engine with fresh
bits, or fresh noise of the party's own: through pipes, so that nothing of it is ever on a disk.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np

from harness.engines.parties.own_noise import with_noise
from harness.engines.parties.working_directory import DATA, GIVEN_BITS, bits_file, values_file
from harness.system.processes import die_with_parent
from protocols.noise.tables import OwnNoise


def begin(config: dict[str, Any], columns: int) -> None:
    """Put pipes where the engine reads this party's values and bits; start what fills them.

    Args: columns: from which the columns come, `column_bytes` for each round; when they end, so does that
    process.
    """
    pipes = os.pipe(), os.pipe()
    if os.fork() == 0:
        die_with_parent()
        for reading, _ in pipes:
            os.close(reading)
        try:
            _fill(config, columns, *(writing for _, writing in pipes))
        except BrokenPipeError:  # the engine has ended, as its exit code will say
            os._exit(1)
        os._exit(0)
    os.close(columns)
    party = config["party"]
    for (reading, writing), name in zip(pipes, (values_file(party), bits_file(party)), strict=True):
        os.close(writing)
        os.set_inheritable(reading, True)
        Path(DATA, name).symlink_to(f"/dev/fd/{reading}")


def _fill(config: dict[str, Any], columns: int, values: int, bits: int) -> None:
    rounds, own = config["rounds"], config.get("own_noise")
    given = Path(DATA, GIVEN_BITS)
    of_test = iter(given.read_text().split()) if given.exists() else None
    draw = _noise(own, of_test) if own else _bits(config["fair_bits"], of_test)
    for _ in range(rounds["number"]):
        drawn = draw()  # while the column is on its way
        held = _read(columns, rounds["column_bytes"])
        if len(held) < rounds["column_bytes"]:
            return
        if own:
            _write(values, with_noise(own, held, np.array(drawn, dtype=np.int64)))
        else:  # the engine may want either first
            other = Thread(target=_write, args=(bits, "".join(f"{each}\n" for each in drawn).encode()))
            other.start()
            _write(values, held)
            other.join()


def _noise(own: dict[str, Any], given: Iterator[str] | None) -> Callable[[], Any]:
    law = OwnNoise.from_json(own["noise"])
    if given is None:
        return lambda: law.draw(own["samples"])
    return lambda: [int(next(given)) for _ in range(own["samples"])]


def _bits(fair: list[tuple[int, int]], given: Iterator[str] | None) -> Callable[[], list[int]]:
    return lambda: [
        secrets.randbits(width) if given is None else int(next(given))
        for width, lanes in fair
        for _ in range(lanes)
    ]


def _read(columns: int, size: int) -> bytes:
    held = bytearray()
    while len(held) < size and (part := os.read(columns, size - len(held))):
        held += part
    return bytes(held)


def _write(pipe: int, content: bytes) -> None:
    left = memoryview(content)
    while left:
        left = left[os.write(pipe, left) :]
