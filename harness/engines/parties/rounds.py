"""Inputs that come round by round: a party's own process for them, beside the engine.

It takes the party's column of a round from whoever started the party, and hands it to the engine with fresh
bits, or fresh noise of the party's own: through pipes, so that nothing of it is ever on a disk.
"""

import os
import secrets
from io import FileIO
from itertools import islice
from pathlib import Path
from threading import Thread
from typing import Any

from harness.engines.parties.own_noise import law_of, with_noise
from harness.engines.parties.working_directory import DATA, GIVEN_BITS, bits_file, values_file
from harness.system.processes import die_with_parent


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
    rounds, own, file = config["rounds"], config.get("own_noise"), Path(DATA, GIVEN_BITS)
    given = map(int, file.read_text().split()) if file.exists() else None
    law = law_of(own) if own else None
    number = own["samples"] if own else sum(lanes for _, lanes in config["fair_bits"])
    with open(columns, "rb") as waiting, open(values, "wb", 0) as to_values, open(bits, "wb", 0) as to_bits:
        for _ in range(rounds["number"]):
            drawn: Any
            if given is not None:
                drawn = list(islice(given, number))
            elif law:  # while the column is on its way
                drawn = law.draw(number)
            else:
                drawn = [
                    secrets.randbits(width) for width, lanes in config["fair_bits"] for _ in range(lanes)
                ]
            held = waiting.read(rounds["column_bytes"])
            if len(held) < rounds["column_bytes"]:
                return
            if own:
                _write(to_values, with_noise(own, held, drawn))
            else:  # the engine may want either first
                other = Thread(target=_write, args=(to_bits, "".join(f"{each}\n" for each in drawn).encode()))
                other.start()
                _write(to_values, held)
                other.join()


def _write(pipe: FileIO, content: bytes) -> None:
    left = memoryview(content)
    while left:
        left = left[pipe.write(left) :]
