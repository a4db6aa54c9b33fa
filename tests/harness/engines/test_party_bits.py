"""Every party draws all of its own random bits, from the operating system, into memory only."""

import secrets
from itertools import count
from pathlib import Path

import pytest

from harness.engines.base import PROGRAMS, MadeUpJob
from harness.engines.parties import main as party
from harness.engines.parties.handle import LocalProcess
from harness.engines.parties.working_directory import DATA
from harness.errors import ShareError
from harness.inputs.rings import XOR
from harness.releases.cap.spec import PI_CAP


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Have the operating system's generator return 0, 1, 2 ...; give the widths that it was asked for."""
    widths: list[int] = []
    values = count()

    def randbits(width: int) -> int:
        widths.append(width)
        return next(values)

    monkeypatch.setattr(secrets, "randbits", randbits)
    return widths


@pytest.mark.parametrize("number", [0, 1, 3])
def test_whatever_its_number_it_draws_them_all(
    number: int, drawn: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(DATA).mkdir()
    party._supply_secrets({"party": number, "fair_bits": [[63, 3], [5, 2]]})
    assert drawn == [63, 63, 63, 5, 5]
    link = Path(DATA, f"Input-P{number}-0")
    assert link.read_text().split() == ["0", "1", "2", "3", "4"]
    assert link.is_symlink() and str(link.readlink()).startswith("/dev/fd/")
    assert [path.name for path in Path(DATA).iterdir()] == [link.name]
    assert not any(path.is_file() and not path.is_symlink() for path in tmp_path.rglob("*"))


@pytest.mark.parametrize("held", [7, 9])
def test_no_bit_of_noise_is_a_clients(held: int, tmp_path: Path) -> None:
    """Words of clients that the program does not count would be read as its random bits, which follow."""
    values = tmp_path / "values"
    values.write_bytes(bytes(held * XOR.value_bytes))
    job = MadeUpJob(PI_CAP, PROGRAMS / "pi_cap.mpc", ("3", "8", "63", "4", "2", "1", "40"))
    with pytest.raises(ShareError, match=f"Party 1 holds {held} slots, not the 8 that are to be counted"):
        LocalProcess(job, {"party": 1}, tmp_path / "party", values)
