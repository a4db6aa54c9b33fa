"""Records what MP-SPDZ opens on known inputs: `python -m tests.recorded.record`, where MP-SPDZ is."""

import json
import re
import tempfile
from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from fairshares.harness.engines.execution import PROGRAMS, Job
from fairshares.harness.engines.mpspdz.compiler import Installation, find_installation
from fairshares.harness.engines.parties.config import VirtualMachine
from fairshares.harness.engines.parties.handle import PartySetup
from fairshares.harness.engines.parties.supervisor import LaysPartyOut, WaitingParties, waiting_parties
from fairshares.harness.engines.program_hash import program_hash
from fairshares.harness.errors import PartyFailedError
from fairshares.harness.security_models import MODELS
from fairshares.protocols.circuits.coins import design_coins
from fairshares.protocols.circuits.noise import fair_bits_per_sample
from tests.recorded.vectors import FILE, SCHEMA, job_of, opened_by
from tests.support.running import TEST_PROGRAMS, as_integers, xor_shares

MODEL = MODELS["ring"]  # has as many parties as the embedded engine's
DELTA_BITS = 40
DISTRIBUTED = (
    "laplace",
    "1/2",
    40,
)  # the distribution of distributed noise, which is among their values here
NO_BITS: list[list[int]] = [[], [], []]


def noise_bits(epsilon: str, lanes: int, seed: int) -> list[list[int]]:
    """Return every party's share of random fair bits."""
    rng = np.random.default_rng(seed)
    n_bits = fair_bits_per_sample(design_coins(Fraction(epsilon), DELTA_BITS))
    bits = rng.integers(0, 2, (n_bits, lanes)).astype(bool)
    return [list(as_integers(share)) for share in xor_shares(bits, MODEL.parties, rng)]


def vectors() -> list[dict[str, Any]]:
    """Return what is fed in; a client of the product form has an indicator per group but the last."""
    split = ("split", "shares", MODEL.parties, 0, 0, 2, 3, "1", DELTA_BITS)
    counts = [0, 3, 2**33, 1, 0, 12]
    product = ("product", "shares", MODEL.parties, 4, 0, 3, 2, "1/3", DELTA_BITS)
    columns = [*[1, 1, 0, 0], *[0, 0, 0, 1], *[5, 0, 2**31, 1], *[0, 7, 2**31, 0]]
    bits = noise_bits("1", 6, seed=1)
    return [
        vector(
            "noise", "pi_lap", (MODEL.parties, 70, "1/20", DELTA_BITS), [], noise_bits("1/20", 70, seed=0)
        ),
        vector("counts", "pi_rw", split, counts, bits),
        vector("counts-by-product", "pi_rw", product, columns, noise_bits("1/3", 6, seed=2)),
        vector(
            "confusion-by-product",
            "pi_cf",
            ("product", MODEL.parties, 5, 2, 3, "1", DELTA_BITS),
            [*[1, 0, 0, 1, 1], *[1, 0, 0, 0, 1], *[0, 1, 0, 0, 0], *[1, 1, 0, 0, 0], *[0, 0, 0, 1, 0]],
            noise_bits("1", 18, seed=4),
        ),
        vector(
            "blocks",
            "pi_roc",
            (MODEL.parties, 2, 2, 7, "1.3", "1/2", DELTA_BITS),
            [3, 0, 2**33, *range(25)],
            noise_bits("1/2", 40, seed=3),
        ),
        vector(
            "sums-with-distributed-noise",
            "pi_sum",
            (MODEL.parties, 6, *DISTRIBUTED),
            [3, -40, 2**33, 1, -(2**40), 12],
            NO_BITS,
        ),
        vector(
            "counts-by-product-and-distributed-noise",
            "pi_rw",
            (*product[:-2], *DISTRIBUTED),
            [*columns, *[-7, 0, 39, 1, -40, 2]],
            NO_BITS,
        ),
        vector(
            "portable",
            "portable",
            (MODEL.parties,),
            [3, -5, 7, 2**40],
            [[1, 6, 3, 4], [2, 0, 7, 5], [0, 5, 1, 1]],
        ),
        vector("too-few-shares", "pi_rw", split, counts[:-1], bits),
        vector("too-few-bits", "pi_rw", split, counts, [bits[0], bits[1][:-1], bits[2]]),
    ]


def vector(
    name: str, program: str, arguments: tuple[object, ...], values: list[int], bits: list[list[int]]
) -> dict[str, Any]:
    text = (TEST_PROGRAMS if program == "portable" else PROGRAMS).joinpath(f"{program}.mpc").read_text()
    return {
        "name": name,
        "program": program,
        "arguments": list(map(str, arguments)),
        "outputs": re.findall(r'print_ln\("OUT (\w+) ', text),
        "values": values,
        "bits": bits,
    }


@dataclass
class NotedCommand:
    """Starts parties like `waiting_parties`, and notes the program and the arguments of party 0."""

    argv: tuple[str, ...] = ()

    def waiting_parties(
        self, job: Job, setups: Iterable[PartySetup], work: Path, timeout_s: float, lay_out: LaysPartyOut
    ) -> AbstractContextManager[WaitingParties]:
        """Start the parties."""
        listed = list(setups)
        config = listed[0].config.engine
        assert isinstance(config, VirtualMachine)
        self.argv = config.argv
        return waiting_parties(job, listed, work, timeout_s, lay_out)


def record(one: dict[str, Any], installation: Installation) -> dict[str, Any]:
    """Run a vector; return it with what MP-SPDZ did."""
    noted = NotedCommand()
    starting = mock.patch("fairshares.harness.engines.engine.waiting_parties", noted.waiting_parties)
    with tempfile.TemporaryDirectory() as name, starting:
        job = job_of(one, MODEL, Path(name))
        digest = program_hash(job, (*MODEL.compile_options, installation.commit))
        try:
            did: dict[str, Any] = {"opened": opened_by(job, MODEL, Path(name), one)}
        except PartyFailedError as error:
            did = {"fails": str(error).rpartition(": ")[2]}
    machine, *arguments = noted.argv
    compiler = ["compile.py", *MODEL.compile_options, one["program"], *one["arguments"]]
    commands = [" ".join(compiler), " ".join([Path(machine).name, *arguments])]
    return {**one, **did, "commands_of_party_0": commands, "program_hash": digest}


def main() -> None:
    """Run every vector and write the file."""
    installation = find_installation()
    assert isinstance(installation, Installation), installation
    recorded = {
        "schema": SCHEMA,
        "mp_spdz": {"release": installation.release, "commit": installation.commit, "security": MODEL.name},
        "vectors": [record(one, installation) for one in vectors()],
    }
    text = json.dumps(recorded, indent=1)
    # A list of numbers or words on one line, so that a change can be read.
    text = re.sub(r"\[[^][{}]*\]", lambda match: " ".join(match[0].split()), text)
    FILE.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
