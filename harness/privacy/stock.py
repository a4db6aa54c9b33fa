"""Joint noise made ahead: pieces, each for one release.

A piece is a directory of each party's shares and the keys that check them. The ledger keeps its name with the
charge, so that a copy is found out.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Self

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType, ValidationError, convert

from fairshares.harness.bounds import PerParty, Seconds
from fairshares.harness.errors import StockError, named, named_option
from fairshares.harness.system.documents import SMALL, strict_json
from fairshares.harness.system.files import create_file, read_bounded, scratch_directory, sync, write_whole
from fairshares.harness.system.places import directory_fault, way_fault

ABOUT = "piece.json"
ATTEMPTS = "attempts"  # attempts to make a piece since the last one


class PieceCosts(Struct, frozen=True, kw_only=True):
    """The costs of making a piece, if they are known."""

    mpc_s: Seconds | UnsetType = UNSET
    sent_bytes: PerParty | UnsetType = UNSET


class PieceRecord(PieceCosts, frozen=True, kw_only=True):
    """A record of a piece's making: the number of runs that began to make it, and their costs."""

    attempts: Annotated[int, Meta(ge=1)]


class _PieceFile(PieceRecord, frozen=True, kw_only=True):
    """`piece.json`, with the digests of the piece's other files."""

    sha256: dict[str, str]


@dataclass(frozen=True)
class Piece:
    """One release's noise, taken out of the stock, with the directory of each party's shares.

    `attempts` counts the runs that began to make it, each of which may fool a check.
    """

    name: str
    parties: tuple[Path, ...]
    attempts: int
    costs: PieceCosts = field(default_factory=PieceCosts)


USUAL = "stock"  # the name of a stock that is beside a ledger


class Stock:
    """Pieces in one directory of its owner alone: two parties' shares tell the noise."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    @classmethod
    def chosen(cls, directory: Path | None, ledger: Path) -> Self:
        """Return the stock in a directory; by default the directory beside the ledger's file."""
        return cls(directory or ledger.parent / USUAL)

    def next_attempt(self, terms: str) -> int:
        """Return the next attempt's number since the last piece."""
        attempts = self.directory / terms / ATTEMPTS
        if not attempts.exists():
            return 1
        return int(attempts.read_text()) + 1

    def begin(self, terms: str) -> int:
        """Count an attempt to make a piece, and return its number.

        Raises:
            StockError: Others can read the stock.
        """
        place = self.directory / terms
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._check()
        place.mkdir(mode=0o700, exist_ok=True)
        attempt = self.next_attempt(terms)
        write_whole(place / ATTEMPTS, str(attempt).encode())
        return attempt

    def keep(
        self, terms: str, name: str, made: Path, record: PieceRecord, counted: str | None = None
    ) -> None:
        """Move a piece into the stock, and restart the count of attempts.

        Args:
            terms: The terms that the piece is for.
            name: The piece's name.
            made: The directory of the piece, in the stock's file system.
            record: The fields of `piece.json` on its making.
            counted: The terms under which its attempts were counted, if hosts have renewed their keys since;
                None for the same terms.
        """
        about = _PieceFile(
            mpc_s=record.mpc_s,
            sent_bytes=record.sent_bytes,
            attempts=record.attempts,
            sha256=_digests(made),
        )
        create_file(made / ABOUT, msgspec.json.encode(about))
        place = self.directory / terms
        place.mkdir(mode=0o700, exist_ok=True)
        made.rename(place / name)
        sync(place)
        # Last, so that whatever ends this process hides no attempt.
        of_attempts = terms if counted is None else counted
        (self.directory / of_attempts / ATTEMPTS).unlink()

    def pieces(self, terms: str, party: int | None = None) -> list[str]:
        """Return the names of pieces for these terms, with this party's shares if one is named."""
        place = self.directory / terms
        if not place.is_dir():
            return []
        inside = "." if party is None else f"party-{party}"
        return sorted(piece.name for piece in place.iterdir() if (piece / inside).is_dir())

    def take(self, terms: str, parties: int, target: Path, only: str | None = None) -> Piece:
        """Move a piece out of the stock into a new directory of the run.

        Guarantees: no other process gets it, and after a crash nobody does.
        [test: tests/harness/pipeline/test_used_once.py]

        Args:
            terms: The terms that the piece is for.
            parties: The number of parties.
            target: The new directory.
            only: The name of the piece; None for any piece.

        Raises:
            StockError: There is no such piece, others may have read it, or it was changed.
        """
        if self.directory.exists():
            self._check()
        for name in self.pieces(terms):
            if only is not None and name != only:
                continue
            with scratch_directory(self.directory) as scratch:
                try:
                    (self.directory / terms / name).rename(scratch / name)
                except FileNotFoundError:  # another run took it first
                    continue
                sync(self.directory / terms)
                try:
                    shutil.move(scratch / name, target)  # which may be on another disk
                except OSError as error:
                    shutil.rmtree(target, ignore_errors=True)
                    raise StockError(
                        f"Cannot write noise to {target.parent}: {error.strerror or 'it lacks room'}. The "
                        "piece was removed; make room, and run again."
                    ) from None
            try:
                return _opened(name, target, parties)
            except StockError:
                shutil.rmtree(target, ignore_errors=True)
                raise
        raise StockError(
            f"{self.directory} has no noise for this release in this model; make some beforehand by "
            f"{named_option('preprocess')}, or leave out {named('offline')}."
        )

    def _check(self) -> None:
        why = directory_fault(self.directory)
        if why is None and self.directory.stat().st_mode & 0o077:
            why = f"Other users can read {self.directory}"
        if why is not None:
            raise StockError(f"{why}: what lies there is no secret any more. Remove it, and make new noise.")
        above = way_fault(self.directory.parent)
        if above is not None:
            raise StockError(
                f"{above}, so others could put other noise in the place of {self.directory}; take that right "
                f"away (chmod go-w), or name another {named('stock')}."
            )

    def destroy(self) -> None:
        """Remove all pieces: some were used, so the stock is an older copy."""
        if self.directory.exists():
            shutil.rmtree(self.directory)


def _opened(name: str, place: Path, parties: int) -> Piece:
    """Return the piece in a directory, or raise StockError if it was changed."""
    try:
        about = convert(strict_json(read_bounded(place / ABOUT, SMALL.size), SMALL), _PieceFile)
        if about.sha256 != _digests(place):
            raise ValueError("other digests")
    except (OSError, ValueError, RecursionError, ValidationError):
        raise StockError(f"Piece {name[:12]} of the stock is not as it was made; it was removed.") from None
    costs = PieceCosts(mpc_s=about.mpc_s, sent_bytes=about.sent_bytes)
    return Piece(name, shares_of(place, parties), about.attempts, costs)


def new_name(terms: str, nonces: Sequence[str]) -> str:
    """Return a new piece's name, by its makers' nonces."""
    return hashlib.sha256(json.dumps([terms, *nonces]).encode()).hexdigest()


def shares_of(piece: Path, parties: int) -> tuple[Path, ...]:
    """Return the parties' directories in a piece."""
    return tuple(piece / f"party-{i}" for i in range(parties))


def _digests(piece: Path) -> dict[str, str]:
    """Return the SHA-256 of each file of a piece but `piece.json`, by its path in the piece."""
    digests = {}
    for file in piece.rglob("*"):
        if file.is_file() and file.name != ABOUT:
            path = os.fspath(file.relative_to(piece))
            digests[path] = hashlib.sha256(file.read_bytes()).hexdigest()
    return digests
