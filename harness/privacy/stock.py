"""Joint noise that was made ahead: pieces, each of one release's noise, which one run takes.

A piece is a directory with each party's shares, and the keys that check them. It enters the stock whole. It
leaves it by a rename into the directory of the run that takes it, and goes with that, whatever becomes of the
run. The ledger remembers its name with the charge (`harness.privacy.ledger.entries`), so that a copy of it is
found out.
"""

import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import StockError, named
from harness.system.files import create_file, scratch_directory, sync, writable_by_others, write_whole

ABOUT = "piece.json"
ATTEMPTS = "attempts"  # to make a piece since the last one


@dataclass(frozen=True)
class Piece:
    """One release's noise, taken out of the stock.

    Attributes: name: its identity; parties: the directory of each party's shares; attempts: how often it was
    begun, as a run that failed could be begun again, and each may fool a check; about: what else is said of
    how it was made.
    """

    name: str
    parties: tuple[Path, ...]
    attempts: int
    about: dict[str, Any]


class Stock:
    """Pieces in one directory, by what they are for.

    Args: directory: only its owner may read it, as who has two parties' shares has the noise of a run.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    @contextmanager
    def making(self, terms: str, parties: int, about: dict[str, Any]) -> Iterator[tuple[Path, ...]]:
        """Yield a directory for each party's shares of a new piece; keep the piece if the block ends well.

        Args: terms: what it is for, see `harness.pipeline.preprocessing.terms_of`; about: what to say of it,
        which the block may add to.
        Raises: OSError: there is no room, or no right to write.
        """
        place = self.directory / terms
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._check()
        place.mkdir(mode=0o700, exist_ok=True)
        attempts = place / ATTEMPTS
        begun = 1 + (int(attempts.read_text()) if attempts.exists() else 0)
        write_whole(attempts, str(begun).encode())
        with scratch_directory(self.directory) as scratch:
            made = scratch / "piece"
            directories = tuple(made / f"party-{i}" for i in range(parties))
            for directory in directories:
                directory.mkdir(mode=0o700, parents=True)
            yield directories
            about["attempts"] = begun
            create_file(made / ABOUT, json.dumps({**about, "sha256": _digests(made)}).encode())
            attempts.unlink()
            name = hashlib.sha256(f"{terms} {secrets.token_hex(32)}".encode()).hexdigest()
            made.rename(place / name)
            sync(place)

    def pieces(self, terms: str) -> list[str]:
        """Return the names of the pieces for that."""
        place = self.directory / terms
        return sorted(each.name for each in place.iterdir() if each.is_dir()) if place.is_dir() else []

    def take(self, terms: str, parties: int, target: Path) -> Piece:
        """Take a piece out of the stock, for good.

        Guarantees: no other process gets it, and after a crash nobody does.
        [test: tests/harness/privacy/test_stock.py]
        Args: target: where it is from now on, a new directory of the run.
        Raises: StockError: there is none, others may have read it, or it is not as it was made.
        """
        if self.directory.exists():
            self._check()
        for name in self.pieces(terms):
            try:
                (self.directory / terms / name).rename(target)
            except FileNotFoundError:  # another run took it first
                continue
            sync(self.directory / terms)
            return _opened(name, target, parties)
        raise StockError(
            f"{self.directory} has no noise for this release in this model; make some with --preprocess, "
            f"which takes the same options, or leave out {named('offline')}."
        )

    def _check(self) -> None:
        why = writable_by_others(self.directory)
        if why is None and self.directory.stat().st_mode & 0o077:
            why = f"Other users can read {self.directory}"
        if why is not None:
            raise StockError(f"{why}: what lies there is no secret any more. Remove it, and make new noise.")

    def destroy(self) -> None:
        """Remove all pieces: some were used already, so the stock is a copy from before that."""
        shutil.rmtree(self.directory)


def _opened(name: str, place: Path, parties: int) -> Piece:
    directories: Sequence[Path] = [place / f"party-{i}" for i in range(parties)]
    try:
        about = json.loads((place / ABOUT).read_text())
        attempts = int(about["attempts"])
        if about.pop("sha256") != _digests(place) or attempts < 1:
            raise ValueError
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        raise StockError(f"Piece {name[:12]} of the stock is not as it was made; it was removed.") from None
    return Piece(name, tuple(directories), attempts, about)


def _digests(piece: Path) -> dict[str, str]:
    files = sorted(file for file in piece.rglob("*") if file.is_file() and file.name != ABOUT)
    return {
        os.fspath(file.relative_to(piece)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files
    }
