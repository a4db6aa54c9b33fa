"""Noise made ahead, tampered with: in the messages that make or use it, and where it is stored.

Each piece holds the same noise by other shares and keys; the attacker knows earlier pieces.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from benchmarks.tampering.attack import KINDS, Attack, Change, Kind, Message, Outcome
from benchmarks.tampering.operations import LAW, OFFLINE, Integers, Operation
from harness.engines.parties.handle import move_piece
from harness.engines.parties.working_directory import PIECE
from harness.security_models import SecurityModel

_SUMS = len(OFFLINE.right)
_MAKE = replace(OFFLINE, name="pi_preprocess", values=(), arguments=(2, _SUMS, *LAW), right=(_SUMS,))
MAKING, ONLINE, STORED = (
    replace(OFFLINE, name=f"{OFFLINE.name} {part}") for part in ("making", "online", "stored")
)
STOCK = (MAKING, ONLINE, STORED)
_PLACES = 16  # that are changed in each stored file

Files = dict[Path, bytes]
"""What a party stores of a piece, by where that is in its directory."""


class StockAttack:
    """An `Attack` on parties that make a piece of noise, then use it.

    On stored files, SHIFT adds to a number, SWAP uses a piece that nobody else uses, and REPEAT a used one.
    """

    def __init__(
        self, model: SecurityModel, operation: Operation, tamperer: int, built: Path, work: Path
    ) -> None:
        self.model, self.operation = model, operation
        self._making = Attack(model, _MAKE, tamperer, built, work / "making")
        self._using = Attack(model, OFFLINE, tamperer, built, work / "using")
        self.directories = self._using.directories
        self._own = self.directories[tamperer]
        self.kinds = (Kind.SHIFT, Kind.SWAP, Kind.REPEAT) if operation is STORED else KINDS

    @contextmanager
    def laid_out(self) -> Iterator[None]:
        """Keep both programs compiled meanwhile."""
        with self._making.laid_out(), self._using.laid_out():
            yield

    def messages(self) -> list[Message]:
        """Return the messages that are changed; of stored files, places."""
        sent = self._making.messages()
        self._hand_over()
        if self.operation is STORED:
            sizes = [len(content) for content in self.stored().values()]
            return [Message(file, place, size) for file, size in enumerate(sizes) for place in range(_PLACES)]
        return self._using.messages() if self.operation is ONLINE else sent

    def run(self, change: Change) -> tuple[Outcome, Integers]:
        """Make a piece and use it, with this change; if a party fails, nobody keeps it."""
        if self.operation is not STORED:
            outcome = self.make(change if self.operation is MAKING else None)
            kept = outcome is Outcome.RIGHT
            return self._using.run(change if self.operation is ONLINE else None) if kept else (outcome, ())
        another: Files = {}
        if change.kind is not Kind.SHIFT:
            self.make()
            another = self.stored()
        if change.kind is Kind.REPEAT:
            self._using.run()
        self.make()
        return self.use(another or changed(self.stored(), change))

    def make(self, change: Change | None = None) -> Outcome:
        """Make a piece, and store it if all ended well."""
        outcome, _ = self._making.run(change)
        self._hand_over()
        return outcome

    def stored(self) -> Files:
        """Return the attacker's part of the piece."""
        files = sorted(file for pattern in PIECE for file in self._own.glob(pattern))
        return {file.relative_to(self._own): file.read_bytes() for file in files}

    def use(self, files: Mapping[Path, bytes]) -> tuple[Outcome, Integers]:
        """Use the piece, with these files of the attacker."""
        for name in self.stored():
            (self._own / name).unlink()
        for name, content in files.items():
            (self._own / name).write_bytes(content)
        return self._using.run()

    def _hand_over(self) -> None:
        """Move the piece, so that the next is made without its shares and keys."""
        for new, used in zip(self._making.directories, self._using.directories, strict=True):
            move_piece(new, used)


def changed(files: Files, change: Change) -> Files:
    """Return files with a number added in one."""
    name, content = [*files.items()][change.message.receiver]
    start, end = change.where, change.where + 8
    word = content[start:end]
    total = (int.from_bytes(word, "little") + change.what) % (1 << 8 * len(word))
    return files | {name: content[:start] + total.to_bytes(len(word), "little") + content[end:]}
