"""Rounds: a process beside the engine feeds it columns, with fresh bits or noise.

All goes by pipes, and nothing by a disk.
"""

import os
from io import FileIO
from pathlib import Path

from fairshares.harness.engines.parties.config import PartyConfig, RoundsOfColumns
from fairshares.harness.engines.parties.randomness import PartyRandomness, integers_as_text
from fairshares.harness.engines.parties.working_directory import DATA, bits_file, values_file
from fairshares.harness.system.processes import die_with_parent
from fairshares.harness.system.threads import ContextThread


def begin(config: PartyConfig, rounds: RoundsOfColumns, columns: int, randomness: PartyRandomness) -> None:
    """Put pipes where the engine reads, and a process that fills them from the descriptor `columns`."""
    values_out, values_in = os.pipe()
    bits_out, bits_in = os.pipe()
    if os.fork() == 0:
        die_with_parent()
        os.close(values_out)
        os.close(bits_out)
        try:
            _fill(config, rounds, columns, values_in, bits_in, randomness=randomness)
        except BrokenPipeError:  # the engine has ended, as its exit code will say
            os._exit(1)
        os._exit(0)
    os.close(columns)
    os.close(values_in)
    os.close(bits_in)
    _place(values_out, values_file(config.party))
    _place(bits_out, bits_file(config.party))


def _place(pipe: int, name: str) -> None:
    """Have the engine find a pipe by the name of its file."""
    os.set_inheritable(pipe, True)
    Path(DATA, name).symlink_to(f"/dev/fd/{pipe}")


def _fill(
    config: PartyConfig,
    rounds: RoundsOfColumns,
    columns: int,
    values: int,
    bits: int,
    *,
    randomness: PartyRandomness,
) -> None:
    """Fill the engine's pipes until all rounds are done, or no further column comes."""
    with open(columns, "rb") as waiting, open(values, "wb", 0) as to_values, open(bits, "wb", 0) as to_bits:
        for _ in range(rounds.number):
            if config.own_noise is None:
                text = integers_as_text(randomness.integers(config.fair_bits))
                column = waiting.read(rounds.column_bytes)
                if len(column) < rounds.column_bytes:
                    return
                # This is in a thread, as the engine may want either first.
                writing_bits = ContextThread(target=_write, args=(to_bits, text))
                writing_bits.start()
                _write(to_values, config.engine.as_read(column))
                writing_bits.join()
            else:
                drawn = config.own_noise.drawn(randomness)  # while the column is on its way
                column = waiting.read(rounds.column_bytes)
                if len(column) < rounds.column_bytes:
                    return
                _write(to_values, config.engine.as_read(config.own_noise.with_noise(column, drawn)))


def _write(pipe: FileIO, content: bytes) -> None:
    left = memoryview(content)
    while left:
        left = left[pipe.write(left) :]
