"""Every party draws all of its own random bits, from the operating system, into memory only."""

import os
import secrets
import subprocess
import sys
from itertools import count
from pathlib import Path

import msgspec
import pytest

from benchmarks.measure.given_numbers import engine_giving
from benchmarks.measure.given_party import GIVEN
from fairshares.harness.engines.engine import EnginePart, _shares_of
from fairshares.harness.engines.execution import PROGRAMS, PROJECT, MadeUpJob
from fairshares.harness.engines.parties import main as party
from fairshares.harness.engines.parties.config import PartyConfig, VirtualMachine, write_config
from fairshares.harness.engines.parties.handle import LocalParty, PartySetup
from fairshares.harness.engines.parties.layouts import Slots
from fairshares.harness.engines.parties.randomness import PartyRandomness
from fairshares.harness.engines.parties.working_directory import DATA
from fairshares.harness.engines.registry import engine_of
from fairshares.harness.errors import ShareError
from fairshares.harness.inputs.rings import XOR
from fairshares.harness.releases.cap.spec import PI_CAP
from fairshares.harness.security_models import MODELS, SecurityModel

MACHINE = VirtualMachine(argv=("/bin/false",))


def config_of(number: int, **more: object) -> PartyConfig:
    """Return what one of four parties is told."""
    fields = {"party": number, "common_names": ["P"] * 4, "engine": msgspec.to_builtins(MACHINE), **more}
    return msgspec.convert(fields, PartyConfig)


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
    party._supply_inputs(config_of(number, fair_bits=[[63, 3], [5, 2]]), PartyRandomness())
    assert drawn == [63, 63, 63, 5, 5]
    link = Path(DATA, f"Input-P{number}-0")
    assert link.read_text().split() == ["0", "1", "2", "3", "4"]
    assert link.is_symlink() and str(link.readlink()).startswith("/dev/fd/")
    assert [path.name for path in Path(DATA).iterdir()] == [link.name]
    assert not any(path.is_file() and not path.is_symlink() for path in tmp_path.rglob("*"))


PRINTS_BITS = (
    "from pathlib import Path\nprint('OUT bits', Path('Player-Data/Input-P0-0').read_text().split())"
)


@pytest.mark.parametrize("name", [GIVEN, f"{DATA}/{GIVEN}", "given-bits", f"{DATA}/given-bits"])
def test_a_production_party_takes_no_numbers_from_a_file(name: str, tmp_path: Path) -> None:
    """Fair bits are 100 zeros with probability 2^-100."""
    (tmp_path / DATA).mkdir()
    (tmp_path / "peers").mkdir()
    (tmp_path / name).write_text("0\n" * 100)
    shows = VirtualMachine(argv=("/bin/cat", f"{DATA}/Input-P0-0"))
    write_config(PartyConfig(party=0, common_names=("P0",), engine=shows, fair_bits=((1, 100),)), tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", party.__name__],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
        input=f"{party.GO}\n",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    bits = (tmp_path / "log").read_text().split()
    assert len(bits) == 100 and set(bits) == {"0", "1"}


@pytest.mark.parametrize("model", [MODELS["ring"], MODELS["mpyc"]], ids=lambda model: model.engine)
def test_numbers_are_given_by_the_tests_own_process_alone(model: SecurityModel, tmp_path: Path) -> None:
    """Its module is none of `harness`, which alone is installed; engines start the production party."""
    setup = PartySetup(config=config_of(0))
    (tmp_path / "given").mkdir()
    given = engine_giving(model, [[1, 2]])._lay_out(setup, tmp_path / "given" / "party")
    usual = engine_of(model)._lay_out(setup, tmp_path / "usual")
    assert given._module().partition(".")[0] == "benchmarks"
    assert type(usual) is LocalParty and usual._module() == party.__name__
    assert not [path for path in (tmp_path / "usual").rglob("*") if GIVEN in path.name]


@pytest.mark.parametrize("held", [7, 9])
def test_no_bit_of_noise_is_a_clients(held: int, tmp_path: Path) -> None:
    """Words of clients that the program does not count would be read as its random bits, which follow."""
    values = tmp_path / "values"
    values.write_bytes(bytes(held * XOR.value_bytes))
    job = MadeUpJob(PI_CAP, PROGRAMS / "pi_cap.mpc", ("3", "8", "63", "4", "2", "1", "40"))
    shares = _shares_of(job, EnginePart(engine=MACHINE, reads=()))
    assert shares == Slots(slots=8, width=3, per_lane=63)
    with pytest.raises(ShareError, match=f"Party 1 holds {held} slots, not the 8 that are to be counted"):
        LocalParty(
            PartySetup(config=config_of(1, shares=msgspec.to_builtins(shares)), values=values),
            tmp_path / "party",
        )
