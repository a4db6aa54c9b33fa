"""Inputs of a party besides its bits: values with its own noise, and columns of rounds.

A process beside the engine feeds it columns, with fresh bits or noise, by pipes, never by a disk.
"""

import os
import secrets
from collections.abc import Mapping, Sequence
from io import FileIO
from itertools import islice
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.engines.parties.working_directory import DATA, GIVEN_BITS, bits_file, values_file
from harness.errors import ShareError
from harness.inputs.rings import RINGS, Ring
from harness.system.processes import die_with_parent
from protocols.arrays import Words
from protocols.noise.added import DistributedNoise


def with_noise(config: Mapping[str, Any], shares: bytes, drawn: npt.ArrayLike) -> bytes:
    """Return a party's input: noisy sums of its values, or values followed by noise.

    Guarantees: the program finds the noise, since another number of values raises ShareError.
    [test: tests/harness/engines/test_distributed_noise.py]
    """
    domain = RINGS[config["domain"]]
    if len(shares) != config["values"] * domain.value_bytes:
        raise ShareError(
            f"This party holds {len(shares) // domain.value_bytes} values, not the {config['values']} that "
            "are to be counted."
        )
    noise = domain.encode(np.asarray(drawn, dtype=np.int64))
    if not shares or config["sums"] is None:
        return shares + domain.to_bytes(noise)
    sums = summed(domain, domain.from_bytes(shares), config["sums"])
    if len(sums) != len(noise):
        raise ShareError(f"This party has {len(sums)} sums, and drew noise for {len(noise)}.")
    return domain.to_bytes(domain.add(sums, noise))


def summed(domain: Ring, column: Words, sums: Sequence[Sequence[int]]) -> Words:
    """Return sums of a party's shares, which are shares of the sums.

    Args:
        domain: The ring of the shares.
        column: The party's share of each value, shape (values, words).
        sums: For each result the numbers of the values that it is the sum of.

    Returns:
        The sums, shape (len(sums), words).
    """
    results = np.zeros((len(sums), domain.words), dtype=np.uint64)
    for at, added in enumerate(sums):
        results[at] = column[added[0]] if len(added) == 1 else domain.total(column[list(added)])
    return results


def noise_of(config: Mapping[str, Any]) -> npt.ArrayLike:
    """Return a party's own noise, zeros if joint noise is added."""
    noise, number = config["noise"], config["samples"]
    return DistributedNoise.from_json(noise).draw(number) if noise else [0] * number


def begin(config: dict[str, Any], columns: int) -> None:
    """Put pipes where the engine reads, and a process that fills them from the descriptor `columns`."""
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
    rounds, own, file = config["rounds"], config.get("distributed_noise"), Path(DATA, GIVEN_BITS)
    given = map(int, file.read_text().split()) if file.exists() else None
    number = own["samples"] if own else sum(lanes for _, lanes in config["fair_bits"])
    with open(columns, "rb") as waiting, open(values, "wb", 0) as to_values, open(bits, "wb", 0) as to_bits:
        for _ in range(rounds["number"]):
            drawn: Any
            if given is not None:
                drawn = list(islice(given, number))
            elif own:  # while the column is on its way
                drawn = noise_of(own)
            else:
                drawn = [
                    secrets.randbits(width) for width, lanes in config["fair_bits"] for _ in range(lanes)
                ]
            column = waiting.read(rounds["column_bytes"])
            if len(column) < rounds["column_bytes"]:
                return
            if own:
                _write(to_values, with_noise(own, column, drawn))
            else:  # the engine may want either first
                other = Thread(target=_write, args=(to_bits, "".join(f"{word}\n" for word in drawn).encode()))
                other.start()
                _write(to_values, column)
                other.join()


def _write(pipe: FileIO, content: bytes) -> None:
    left = memoryview(content)
    while left:
        left = left[pipe.write(left) :]
