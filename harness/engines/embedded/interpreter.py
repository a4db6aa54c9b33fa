"""Executes a program's text, as MP-SPDZ does, with the portable names bound to MPyC values."""

from __future__ import annotations

import builtins
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from harness.domain import FIELD
from harness.engines.base import PROJECT
from harness.engines.embedded.names import namespace, unsupported
from harness.errors import CompileError, DomainOverflow, ShareError, UnsupportedFeature

_BITS = 64  # of the integers, as MP-SPDZ's with `-R 64`


class Machine:
    """What a running program acts on: this party's MPyC runtime and its two input files."""

    def __init__(self, mpc: Any, data: Path) -> None:
        self.mpc = mpc
        self.parties = len(mpc.parties)
        self.array = mpc.SecInt(_BITS, p=FIELD.modulus).array
        self._elements = data / f"Input-Binary-P{mpc.pid}-0"
        self._integers = data / f"Input-P{mpc.pid}-0"
        self._raw: bytes | None = None
        self._words: list[str] | None = None
        self._timers: dict[int, float] = {}

    def input_elements(self, party: int, size: int) -> Any:
        """Return `size` secret field elements that `party` reads from its binary input file."""
        own = self._own_elements(size) if party == self.mpc.pid else None
        return self._share(party, own, (size,))

    def input_bits(self, party: int, width: int, lanes: int) -> Any:
        """Return `width` rows of `lanes` secret bits; `party` reads an integer of `width` bits per lane."""
        own = self._own_bits(width, lanes) if party == self.mpc.pid else None
        return self._share(party, own, (width, lanes))

    def start_timer(self, number: int) -> None:
        if number < 1 or number in self._timers:
            raise UnsupportedFeature(f"Timer {number} cannot be started; timer 0 is the run's own.")
        self._timers[number] = time.perf_counter()

    def stop_timer(self, number: int) -> None:
        if number not in self._timers:
            raise UnsupportedFeature(f"Timer {number} was not started.")
        self.mpc.run(self.mpc.barrier())  # what was begun while it ran belongs to it
        print(f"Time{number} = {time.perf_counter() - self._timers.pop(number):.6f} seconds", flush=True)

    def check_inputs_used(self) -> None:
        """Raise ShareError if this party was given more than the program took."""
        if self._elements.exists() if self._raw is None else self._raw:
            raise ShareError(f"Party {self.mpc.pid} was given more input values than the program reads.")
        if self._words:
            raise ShareError(f"Party {self.mpc.pid} was given more input bits than the program reads.")

    def _share(self, party: int, own: Any, shape: tuple[int, ...]) -> Any:
        mine = self.array(None, shape) if own is None else self.array(own)
        return self.mpc.input(mine, senders=party)

    def _own_elements(self, size: int) -> Any:
        if self._raw is None:
            self._raw = self._elements.read_bytes() if self._elements.exists() else b""
        length = size * FIELD.value_bytes
        if len(self._raw) < length:
            raise ShareError(f"Party {self.mpc.pid} was given fewer input values than the program reads.")
        words = FIELD.from_bytes(self._raw[:length])
        self._raw = self._raw[length:]
        if not np.array_equal(words, FIELD.reduce(words)):
            raise ShareError(f"Party {self.mpc.pid} was given an input value that is no field element.")
        return words[:, 0].astype(object) + (words[:, 1].astype(object) << _BITS)

    def _own_bits(self, width: int, lanes: int) -> Any:
        if self._words is None:
            self._words = self._integers.read_text().split()
            self._words.reverse()
        if len(self._words) < lanes:
            raise ShareError(f"Party {self.mpc.pid} was given fewer input bits than the program reads.")
        integers = [int(self._words.pop()) for _ in range(lanes)]
        if not all(0 <= integer < 1 << width for integer in integers):
            raise ShareError(f"Party {self.mpc.pid} was given an integer that does not fit its {width} bits.")
        rows = np.array(integers, dtype=np.uint64) >> np.arange(width, dtype=np.uint64)[:, np.newaxis]
        return (rows & np.uint64(1)).astype(object)


def execute(path: Path, arguments: Sequence[str], machine: Machine) -> None:
    """Run the program to its end.

    Reveals: what the program reveals, to all parties.
    Args: arguments: `program.args`, the program's name first.
    Raises: UnsupportedFeature: the program leaves the portable subset; DomainOverflow; ShareError: the
    party's input does not fit the program; CompileError: the program refused its arguments. All but
    the last line that names a party say where in the program, as file:line.
    """
    try:
        names = namespace(machine, arguments)
        exec(builtins.compile(path.read_text(encoding="utf-8"), str(path), "exec"), names)
        machine.check_inputs_used()
    except (UnsupportedFeature, DomainOverflow) as error:
        raise type(error)(f"{_where(error, path)}: {error}") from error
    except NameError as error:
        raise UnsupportedFeature(f"{_where(error, path)}: {unsupported(str(error.name))}") from error
    except (AttributeError, TypeError) as error:
        raise UnsupportedFeature(f"{_where(error, path)}: {error}") from error
    except SyntaxError as error:
        raise CompileError(f"{path.name}:{error.lineno}: {error.msg}.") from error
    except (ArithmeticError, AssertionError, LookupError, ValueError) as error:
        kind = type(error).__name__
        raise CompileError(f"{_where(error, path)}: the program ended with {kind}.") from error


def _where(error: BaseException, path: Path) -> str:
    """Return file:line of the innermost step of the program or of a circuit that it uses."""
    ours = (path, *(PROJECT / "protocols").rglob("*.py"))
    frames = traceback.extract_tb(error.__traceback__)
    steps = [frame for frame in frames if Path(frame.filename) in ours]
    return f"{Path(steps[-1].filename).name}:{steps[-1].lineno}" if steps else path.name
