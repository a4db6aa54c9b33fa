"""The stock of noise made ahead: each piece is taken once, whole and as it was made, or by nobody."""

from collections.abc import Callable
from pathlib import Path
from secrets import token_hex

import pytest

from fairshares.harness.errors import StockError
from fairshares.harness.privacy.stock import ABOUT, Piece, PieceRecord, Stock, shares_of

pytestmark = pytest.mark.usefixtures("in_shell")

TERMS = "weights"
SHARES = "Persistence/Transactions-P0.data"


def made(stock: Stock, content: str = "shares") -> None:
    attempts, piece = stock.begin(TERMS), stock.directory / "being made"
    for directory in shares_of(piece, 2):
        (directory / SHARES).parent.mkdir(parents=True)
        (directory / SHARES).write_text(content)
    stock.keep(TERMS, token_hex(8), piece, PieceRecord(attempts=attempts))


def take(stock: Stock, target: Path) -> Piece | None:
    try:
        return stock.take(TERMS, 2, target)
    except StockError:
        return None


@pytest.fixture
def stock(tmp_path: Path) -> Stock:
    return Stock(tmp_path / "stock")


def test_a_piece_is_taken_once(stock: Stock, tmp_path: Path) -> None:
    made(stock)
    piece = stock.take(TERMS, 2, tmp_path / "run")
    assert [(party / SHARES).read_text() for party in piece.parties] == ["shares", "shares"]
    assert piece.attempts == 1 and stock.pieces(TERMS) == []
    with pytest.raises(StockError, match=r"has no noise for this release .* leave out --offline"):
        stock.take(TERMS, 2, tmp_path / "another")
    assert take(stock, tmp_path / "others") is None


def test_attempts_count_from_the_last_piece_on(stock: Stock, tmp_path: Path) -> None:
    """Each may fool a check, so the next piece counts with all of them."""
    assert [stock.begin(TERMS), stock.begin(TERMS), stock.next_attempt(TERMS)] == [1, 2, 3]
    assert stock.pieces(TERMS) == []
    made(stock)
    made(stock)
    assert sorted(stock.take(TERMS, 2, tmp_path / str(i)).attempts for i in range(2)) == [1, 3]


@pytest.mark.parametrize(
    "change",
    [
        lambda piece: (piece / "party-1" / SHARES).write_text("sharer"),
        lambda piece: (piece / "party-1" / SHARES).unlink(),
        lambda piece: (piece / "party-0" / "more").write_text("more"),
        lambda piece: (piece / ABOUT).write_text("[]"),
        lambda piece: (piece / ABOUT).write_text('{"attempts": 0, "sha256": {}}'),
    ],
)
def test_a_piece_that_was_changed_is_used_by_nobody(
    change: Callable[[Path], object], stock: Stock, tmp_path: Path
) -> None:
    made(stock)
    change(stock.directory / TERMS / stock.pieces(TERMS)[0])
    with pytest.raises(StockError, match="is not as it was made"):
        stock.take(TERMS, 2, tmp_path / "run")
    assert stock.pieces(TERMS) == []


@pytest.mark.parametrize("mode", [0o750, 0o701, 0o722])
def test_a_stock_that_others_may_read_or_write_is_refused(mode: int, stock: Stock, tmp_path: Path) -> None:
    made(stock)
    stock.directory.chmod(mode)
    with pytest.raises(StockError, match="no secret any more"):
        stock.take(TERMS, 2, tmp_path / "run")
    with pytest.raises(StockError, match="no secret any more"):
        made(stock)
    assert len(stock.pieces(TERMS)) == 1


def test_a_piece_that_cannot_be_moved_to_its_run_is_removed_and_that_is_said(
    stock: Stock, tmp_path: Path
) -> None:
    made(stock)
    (tmp_path / "file").touch()
    with pytest.raises(StockError, match=r"to .*file: Not a directory\. The piece was removed"):
        stock.take(TERMS, 2, tmp_path / "file" / "run")
    assert not any(path.is_file() for path in stock.directory.rglob("*"))
