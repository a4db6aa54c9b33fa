"""A running program's state: a party's MPyC runtime and input files."""

import os
from collections.abc import Callable, Sequence
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

import numpy as np

from fairshares.harness.engines.mpyc.interfaces import (
    BigIntegers,
    Field,
    FieldArray,
    Runs,
    Runtime,
    SecureArray,
)
from fairshares.harness.engines.parties.working_directory import bits_file, values_file
from fairshares.harness.errors import ShareError, refuse
from fairshares.harness.inputs.rings import FIELD
from fairshares.harness.system.files import create_file

_BITS = 64  # bits of the integers, as MP-SPDZ's with `-R 64`


class PartyRuntime:
    """One party's side of a run.

    Args:
        mpc: MPyC's runtime.
        data: The directory of the party's input files.
        run: Runs the event loop until something is computed; MPyC's own if there are no peers.
    """

    def __init__(self, mpc: Runtime, data: Path, run: Runs | None = None) -> None:
        self.mpc = mpc
        self.run = mpc.run if run is None else run
        self.parties = len(mpc.parties)
        self.array = mpc.SecInt(_BITS, p=FIELD.modulus).array
        self._elements = data / values_file(mpc.pid)
        self._integers = data / bits_file(mpc.pid)
        self._kept = data.parent / f"Persistence/Transactions-P{mpc.pid}.data"  # the place that MP-SPDZ uses
        self._files: dict[Path, BinaryIO] = {}
        self._words: list[bytes] = []

    def share(self, party: int, read: Callable[[], BigIntegers], *shape: int) -> SecureArray:
        """Return secret values of a shape, which `party` reads by `own_elements` or `own_bits`."""
        own = self.array(read()) if party == self.mpc.pid else self.array(None, shape)
        return self.mpc.input(own, senders=party)

    def keep(self, lanes: SecureArray) -> None:
        """Write this party's Shamir shares of a vector to a new file."""
        shares = np.array(self.run(self.mpc.gather(lanes)).value, dtype=object)
        self._kept.parent.mkdir(mode=0o700, exist_ok=True)
        words = np.stack([shares & ((1 << _BITS) - 1), shares >> _BITS], axis=1).astype(np.uint64)
        create_file(self._kept, FIELD.to_bytes(words))

    def kept(self, first: int, size: int) -> SecureArray:
        """Return secret values whose shares this party kept, or raise ShareError."""
        content = self._kept.read_bytes() if self._kept.exists() else b""
        words = FIELD.from_bytes(content)[first : first + size]
        if len(words) < size:
            raise ShareError(f"Party {self.mpc.pid} kept {first + len(words)} shares, not {first + size}.")
        shares = words[:, 0].astype(object) + (words[:, 1].astype(object) << _BITS)
        return self.array(self.array.sectype.field.array(shares))

    def check_inputs_used(self) -> None:
        """Raise ShareError if the program left inputs unread."""
        refuse(
            ShareError,
            (
                self._read(self._elements).read(1),
                f"Party {self.mpc.pid} was given more input values than the program reads.",
            ),
            (
                self._words or self._read(self._integers).read().strip(),
                f"Party {self.mpc.pid} was given more input bits than the program reads.",
            ),
        )

    def own_elements(self, size: int) -> BigIntegers:
        """Return the next field elements of this party's input file."""
        raw = self._read(self._elements).read(size * FIELD.value_bytes)
        if len(raw) < size * FIELD.value_bytes:
            raise ShareError(f"Party {self.mpc.pid} was given fewer input values than the program reads.")
        words = FIELD.from_bytes(raw)
        if not np.array_equal(words, FIELD.reduce(words)):
            raise ShareError(f"Party {self.mpc.pid} was given an input value that is no field element.")
        integers: BigIntegers = words[:, 0].astype(object) + (words[:, 1].astype(object) << _BITS)
        return integers

    def _read(self, path: Path) -> BinaryIO:
        """Return an input file, open where it was left, as it may grow."""
        if path not in self._files:
            self._files[path] = path.open("rb") if path.exists() else BytesIO()
        return self._files[path]

    def own_bits(self, width: int, lanes: int) -> BigIntegers:
        """Return `width` rows of bits of this party's next `lanes` integers."""
        while len(self._words) < lanes and (line := self._read(self._integers).readline()):
            self._words += line.split()
        if len(self._words) < lanes:
            raise ShareError(f"Party {self.mpc.pid} was given fewer input bits than the program reads.")
        integers = [int(word) for word in self._words[:lanes]]
        del self._words[:lanes]
        if not all(0 <= integer < 1 << width for integer in integers):
            raise ShareError(f"Party {self.mpc.pid} was given an integer that does not fit its {width} bits.")
        rows = np.array(integers, dtype=np.uint64) >> np.arange(width, dtype=np.uint64)[:, np.newaxis]
        return (rows & np.uint64(1)).astype(object)


_BYTES = FIELD.value_bytes


def install_fast_splitting() -> None:
    """Have MPyC use `split` if it applies; its own system call per coefficient takes 2/5 of a run."""
    import mpyc.thresha

    general: Callable[[Field, FieldArray | BigIntegers, int, int], Sequence[BigIntegers]] = (
        mpyc.thresha.np_random_split
    )

    def np_random_split(
        field: Field, secrets: FieldArray | BigIntegers, threshold: int, parties: int
    ) -> Sequence[BigIntegers]:
        if (field.modulus, threshold, parties) != (FIELD.modulus, 1, 3):
            return general(field, secrets, threshold, parties)
        return split(secrets if isinstance(secrets, np.ndarray) else secrets.value)

    mpyc.thresha.np_random_split = np_random_split


def split(secrets: BigIntegers) -> list[BigIntegers]:
    """Share field elements, shape (n,), by a linear f with f(0) = secret; return f(1), f(2), f(3).

    Guarantees: each share alone is uniform but for 2^-127, and independent of the secret: f(1) by
    construction, f(2) and f(3) as 2 and 3 times it plus a constant.
    [test: tests/harness/engines/test_mpyc_splitting.py]
    """
    p = FIELD.modulus
    from_bytes = int.from_bytes  # looked up once, as this runs for each element
    raw = os.urandom(_BYTES * len(secrets))
    drawn = (from_bytes(raw[at : at + _BYTES], "little") & p for at in range(0, len(raw), _BYTES))
    first = np.fromiter(drawn, object, count=len(secrets))
    first[first == p] = 0
    slope = first - secrets
    second = first + slope
    return [first, second % p, (second + slope) % p]
