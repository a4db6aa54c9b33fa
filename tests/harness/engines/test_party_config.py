"""What a party is told: fields have types and bounds, and a layout puts shares where they are read."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from msgspec import structs

from fairshares.harness.engines.engine import EnginePart, _own_noise, _shares_of
from fairshares.harness.engines.execution import PROGRAMS, PROJECT, DistributedNoiseInput, Job, MadeUpJob
from fairshares.harness.engines.mpspdz.engine import _replicated_shares
from fairshares.harness.engines.mpyc.engine import EmbeddedEngine
from fairshares.harness.engines.parties import main as party
from fairshares.harness.engines.parties.config import (
    Embedded,
    PartyConfig,
    RoundsOfColumns,
    VirtualMachine,
    read_config,
    write_config,
)
from fairshares.harness.engines.parties.handle import LocalParty, PartySetup
from fairshares.harness.engines.parties.layouts import (
    AdditiveShares,
    NoiseBehindColumn,
    NoShares,
    ReplicatedShares,
    ShareLayout,
    Slots,
    SumsOfColumn,
)
from fairshares.harness.engines.parties.noise_terms import NoiseTerms
from fairshares.harness.engines.parties.working_directory import CONFIG, DATA
from fairshares.harness.errors import PartyConfigError, ShareError, UnsupportedError
from fairshares.harness.online.gateway_config import GatewayConfig
from fairshares.harness.releases.cap.spec import PI_CAP
from fairshares.harness.releases.weights.spec import PI_RW
from fairshares.harness.security_models import MODELS
from fairshares.protocols.spec import PI_LAP, PI_SUM, ProtocolSpec

NOISE = NoiseTerms(distribution="laplace", rate="1/2", edge=40, parties=3, honest=2)
FULL = PartyConfig(
    party=1,
    common_names=("P0", "P1"),
    engine=VirtualMachine(argv=("machine", "-p", "1"), environment={"A": "b"}),
    addresses=(("a.example", 1), ("b.example", 65535)),
    fair_bits=((63, 4), (5, 0)),
    shares=ReplicatedShares(head=b"\x00\xff", order=(1, 0)),
    own_noise=SumsOfColumn(ring="ring64", values=2, sums=((0,), (0, 1)), noise=NOISE),
    rounds=RoundsOfColumns(number=3, column_bytes=16),
    gateway=GatewayConfig(
        host="0.0.0.0",
        port=1,
        machine_port=2,
        uploads=(3, 6),
        certificates=("PEM", "PEM"),
        terms={},
        seconds=8.0,
        seconds_to_send=1.0,
        most_failures=1,
    ),
    reads=("/a",),
    packages=("mpyc",),
    listens=(3,),
)
OTHERS = [
    PartyConfig(
        party=0,
        common_names=("P0",),
        engine=Embedded(program="p.mpc", arguments=("p", "3"), threshold=1, security_bits=61),
        shares=shares,
        own_noise=own,
    )
    for shares in (NoShares(), AdditiveShares(), Slots(slots=8, width=2, per_lane=63))
    for own in (None, NoiseBehindColumn(ring="field127", values=0, samples=4, noise=NOISE))
]


@pytest.mark.parametrize("config", [FULL, *OTHERS], ids=lambda config: config.shares.__class__.__name__)
def test_what_is_written_is_read(
    config: PartyConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_config(config, tmp_path)
    assert read_config() == config


WRONG: dict[str, dict[str, Any]] = {
    "unknown": {"given_bits": [1]},
    "unknown of an engine": {"engine": {"type": "machine", "argv": ["m"], "module": "other"}},
    "unknown of shares": {"shares": {"type": "column", "given": "file"}},
    "unknown kind of shares": {"shares": {"type": "bits of a test"}},
    "no command": {"engine": {"type": "machine", "argv": []}},
    "no such party": {"party": 2},
    "a negative party": {"party": -1},
    "a port that is none": {"addresses": [["a", 65536]]},
    "no width": {"fair_bits": [[0, 1]]},
    "a wide word": {"fair_bits": [[65, 1]]},
    "negative lanes": {"fair_bits": [[1, -1]]},
    "a sum of nothing": {"own_noise": {**msgspec.to_builtins(FULL.own_noise), "sums": [[]]}},
    "noise of another ring": {"own_noise": {**msgspec.to_builtins(FULL.own_noise), "ring": "xor64"}},
    "other noise": {
        "own_noise": {
            **msgspec.to_builtins(FULL.own_noise),
            "noise": {**msgspec.to_builtins(NOISE), "distribution": "uniform"},
        }
    },
    "no clients": {"gateway": {**msgspec.to_builtins(FULL.gateway), "uploads": []}},
    "an endless gateway": {"gateway": {**msgspec.to_builtins(FULL.gateway), "seconds": 1e300}},
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_field_starts_nothing(wrong: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path(CONFIG).write_text(json.dumps({**msgspec.to_builtins(FULL), **WRONG[wrong]}))
    with pytest.raises(PartyConfigError, match=r"^The file party.json (of this party is not|is of party 2)"):
        read_config()


def test_a_party_that_is_told_more_than_it_knows_says_so_and_claims_nothing(tmp_path: Path) -> None:
    (tmp_path / DATA).mkdir()
    told = msgspec.to_builtins(
        PartyConfig(party=0, common_names=("P0",), engine=VirtualMachine(argv=("/bin/true",)))
    )
    (tmp_path / CONFIG).write_text(json.dumps({**told, "given_bits": [1]}))
    done = subprocess.run(
        [sys.executable, "-m", party.__name__],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1 and done.stderr == ""
    assert "party.json of this party is not as this version writes it" in done.stdout
    assert "unknown field `given_bits`" in done.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == [DATA, CONFIG]


# Layouts: where a party's shares lie, for each input form and path.

NUMBERS = [10, 11, 12, 13, 14, 15]


def laid_out(shares: ShareLayout, held: bytes, directory: Path) -> Path:
    """Lay shares out for party 1 in a new directory, and return that."""
    values = directory / "values"
    values.write_bytes(held)
    config = structs.replace(OTHERS[0], party=1, common_names=("P0", "P1"), shares=shares)
    LocalParty(PartySetup(config=config, values=values), directory / "party")
    assert not values.exists()
    return directory / "party"


def files_of(directory: Path) -> dict[str, bytes]:
    """Return the files with inputs in a party's directory."""
    found = {path.relative_to(directory).as_posix(): path for path in directory.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in found.items() if name not in (CONFIG, "log")}


def words(numbers: Sequence[int]) -> bytes:
    return b"".join(number.to_bytes(8, "little") for number in numbers)


def test_a_column_lies_where_the_engine_reads_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    party_directory = laid_out(AdditiveShares(), words(NUMBERS), tmp_path)
    assert files_of(party_directory) == {f"{DATA}/Input-Binary-P1-0": words(NUMBERS)}
    monkeypatch.chdir(party_directory)
    assert (AdditiveShares().column(1), AdditiveShares().bits()) == (words(NUMBERS), b"")


def test_slots_become_bits_that_precede_the_partys_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three slots of two bits, one in a lane: three lanes, each an integer of two bits."""
    slots = Slots(slots=3, width=2, per_lane=1)
    party_directory = laid_out(slots, words([1, 6, 7]), tmp_path)  # the higher bits are no slot's
    assert files_of(party_directory) == {f"{DATA}/shared-bits": b"1\n2\n3\n"}
    monkeypatch.chdir(party_directory)
    assert (slots.column(1), slots.bits()) == (b"", b"1\n2\n3\n")
    drawn = SimpleNamespace(integers=lambda blocks: [99] * sum(lanes for _, lanes in blocks))
    config = structs.replace(OTHERS[0], party=1, shares=slots, fair_bits=((63, 2),))
    party._supply_inputs(config, drawn)  # type: ignore[arg-type]
    assert Path(DATA, "Input-P1-0").read_bytes() == b"1\n2\n3\n99\n99\n"


@pytest.mark.parametrize(
    ("name", "order", "held", "lies"),
    [
        # Party 1 of three holds shares 2 and 0 of each value; its machine has share 0 first.
        ("ps-rep-ring", (1, 0), [20, 21, 22, 0, 1, 2], [0, 20, 1, 21, 2, 22]),
        ("rep4-ring", (0, 1, 2), [20, 21, 30, 31, 0, 1], [20, 30, 0, 21, 31, 1]),
    ],
)
def test_replicated_shares_lie_value_by_value_as_the_machine_keeps_them(
    name: str, order: tuple[int, ...], held: list[int], lies: list[int], tmp_path: Path
) -> None:
    shares = _replicated_shares(MODELS[name])
    assert shares is not None and shares.order == order
    assert files_of(laid_out(shares, words(held), tmp_path)) == {
        "Persistence/Transactions-P1.data": shares.head + words(lies)
    }


def test_a_file_that_no_program_reads_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ShareError, match="Party 1 was given a file of values, and its program reads none"):
        laid_out(NoShares(), words(NUMBERS), tmp_path)


PART = EnginePart(engine=FULL.engine, reads=())
SPLIT_ROWS = ("split", "shares", "3", "0", "0", "2", "3", "1", "40")


def job(spec: ProtocolSpec, arguments: tuple[str, ...], own: DistributedNoiseInput | None = None) -> Job:
    return MadeUpJob(spec, PROGRAMS / f"{spec.name}.mpc", arguments, own=own)


def test_each_form_and_path_has_its_layout() -> None:
    replicated = replace(PART, replicated=ReplicatedShares(head=b"", order=(1, 0)))
    by_replication = (SPLIT_ROWS[0], "replicated", *SPLIT_ROWS[2:])
    assert _shares_of(job(PI_RW, SPLIT_ROWS), replicated) == AdditiveShares()
    assert _shares_of(job(PI_RW, by_replication), replicated) == replicated.replicated
    with pytest.raises(UnsupportedError, match="pi_rw takes replicated shares, which this engine cannot"):
        _shares_of(job(PI_RW, by_replication), PART)
    assert _shares_of(job(PI_CAP, ("3", "8", "63", "4", "2", "1", "40")), PART) == Slots(
        slots=8, width=3, per_lane=63
    )


def test_a_party_without_a_file_of_values_has_no_shares() -> None:
    prepared = EmbeddedEngine().prepared(
        MadeUpJob(PI_LAP, PROGRAMS / "pi_lap.mpc", ("3", "16", "1", "40"), fair_bits=((59, 16),)),
        MODELS["mpyc"],
    )
    setup = EmbeddedEngine().setup(prepared, 2, [("a", 1), ("b", 2), ("c", 3)])
    assert setup.config.shares == NoShares() and setup.values is None
    assert setup.config.fair_bits == ((59, 16),) and setup.config.own_noise is None
    assert (setup.config.party, setup.config.addresses[2]) == (2, ("c", 3))


SUM_ARGUMENTS = ("3", "2", "laplace", "1/2", "40")


@pytest.mark.parametrize(
    ("own", "entry"),
    [
        (
            DistributedNoiseInput(2, 3, ((0, 1), (2,))),
            SumsOfColumn(ring="ring64", values=3, sums=((0, 1), (2,)), noise=NOISE),
        ),
        (DistributedNoiseInput(2), NoiseBehindColumn(ring="ring64", values=0, samples=2, noise=NOISE)),
    ],
)
def test_own_noise_enters_sums_or_follows_the_column(own: DistributedNoiseInput, entry: object) -> None:
    asked = job(PI_SUM, SUM_ARGUMENTS, own)
    assert _own_noise(asked, MODELS["ring"], own) == entry
