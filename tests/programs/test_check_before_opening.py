"""In compiled programs the parties' check stands between all that they do on secrets and the one opening.

MP-SPDZ's compiler reorders instructions, so the programs' text alone does not tell.

In `sy-rep-ring` that check (`SubProcessor<T>::check`, `Processor/Processor.hpp`, line 170) is not enough.
Random bits are made of products of a branch of the protocol (`BitPrep<T>::set_protocol`,
`Protocols/ReplicatedPrep.hpp`, line 149). The branch, and the MACs of inputs (`Protocols/SpdzWiseInput.hpp`,
lines 33 and 81), are checked when a batch is full or the machine ends. A changed machine put 2^30 in place of
a bit, and the others noticed after the opening. Mend: have `check` check both. `sy-rep-field` and `sy-shamir`
share this code and were not looked into.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fairshares.harness.engines.execution import PROGRAMS, PROJECT, MadeUpJob
from fairshares.harness.engines.mpspdz.compiler import Installation, compile_options, find_installation
from fairshares.harness.engines.registry import engine_of
from fairshares.harness.releases.programs import PROTOCOLS
from fairshares.harness.security_models import MODELS, SecurityModel
from fairshares.protocols.spec import KEYS, ProtocolSpec
from tests.support.program_arguments import small_arguments

OPENING = ("asm_open", "vasm_open")
# Arithmetic on one's own shares only: nothing in it that a party could tamper with unnoticed, or that opens.
LOCAL = {"vadds", "vsubs", "adds", "subs", "vaddm", "vaddsi", "vsubsi", "vmulsi", "movs", "vmovs"}
# Sends shares of integers, or of bits that are made of them.
SENDING = {"asm_open", "muls", "mulrs", "dotprods", "matmuls", "matmulsm", "split", "trunc_pr", "call_tape"}
# What the compiler adds to the end: how much of what was used, how much memory there is.
NOTES = {
    "use", "use_inp", "use_matmul", "use_edabit", "reqbl", "active",
    "ldmc", "gldmc", "ldmint", "ldms", "gldms", "ldmsb",
}  # fmt: skip
# What the compiler adds to the end of a loop: it counts rounds, in public.
LOOP = ["ldint", "addint", "ldint", "addint", "ldint", "ltc", "jmpnz"]
# Programs that turn integers into bits or compare them: MP-SPDZ opens these under a mask.
MASKED = {"pi_roc_records", "pi_cap"}
# Programs without a guarantee are for comparison, and no command runs them; others that are not linear in
# their shares, unless these are bits or replicated, do not run in active models.
RELEASING = [
    spec
    for spec in PROTOCOLS.values()
    if spec.release is not None
    and not spec.makes_piece
    and (spec.linear or spec.slot_bits is not None or spec.name == "pi_count")
]
ACTIVE = [model for model in MODELS.values() if model.active]


def assembly(
    spec: ProtocolSpec, sources: Path, model: SecurityModel, directory: Path, **given: int | str
) -> list[str]:
    """Compile a program as its engine does; return the names of its instructions, in order."""
    installation = find_installation()
    assert isinstance(installation, Installation)
    arguments = small_arguments(spec, **{"parties": model.parties, **given})
    (directory / "Programs").mkdir(parents=True)
    (directory / "Programs" / "Source").symlink_to(sources)
    compiler = [
        sys.executable,
        str(installation.home / "compile.py"),
        "-a",
        "assembly",
        *compile_options(MadeUpJob(spec, sources / f"{spec.name}.mpc", ()), model),
    ]
    environment = {**os.environ, "PYTHONPATH": str(PROJECT), "PYTHONHASHSEED": "0"}
    command = [*compiler, spec.name, *arguments]
    subprocess.run(command, cwd=directory, env=environment, capture_output=True, check=True)
    (tape,) = directory.glob("assembly-*-0")  # of the program itself; others are functions that it calls
    lines = tape.read_text(encoding="utf-8").splitlines()
    return [line.split()[0] for line in lines if line.strip() and not line.startswith("#")]


def unchecked(instructions: list[str]) -> list[str]:
    """Return what sends integers' shares while an opened masked bit, of which they may be made, is unchecked.

    A party could learn the bit from that:
    `test_bits_that_become_integers_are_checked_by_a_check_point_alone`.
    """
    unsafe, opened = [], False
    for name in instructions:
        if name == "check":
            opened = False
        elif opened and name.removeprefix("v") in SENDING:
            unsafe.append(f"{name} before a masked bit is checked")
        elif name in ("reveal", "call_tape"):  # a comparison, whose result is a bit
            opened = True
    return unsafe


def faults(instructions: list[str], *, masked: bool = False) -> list[str]:
    """Return why a party could see an opened value before what the others did was checked.

    Args: masked: whether the program opens masked values before, which are uniform.
    """
    opened = [at for at, name in enumerate(instructions) if name in OPENING]
    checked = [at for at, name in enumerate(instructions) if name == "check"]
    if not opened or (len(opened) > 1 and not masked):
        return [f"{len(opened)} openings"]
    last = opened[-1]
    if not checked or checked[-1] > last:
        return ["no check before the opening"]
    between = instructions[checked[-1] + 1 : last]
    after = instructions[last + 1 :]
    turns = [name for name in after if name in LOOP]
    if turns == LOOP:
        after = [name for name in after if name not in LOOP]
    return [
        *(f"{name} between check and opening" for name in between if name not in LOCAL),
        *(
            f"{name} after the opening"
            for name in after
            if name not in NOTES and not name.startswith(("print_", "vprint_"))
        ),
    ]


@pytest.mark.parametrize("model", ACTIVE, ids=lambda model: model.name)
@pytest.mark.parametrize("spec", RELEASING, ids=lambda spec: spec.name)
@pytest.mark.mpspdz("spdz2k")
def test_nothing_is_opened_before_all_is_checked(
    spec: ProtocolSpec, model: SecurityModel, tmp_path: Path
) -> None:
    if spec.counts_keys_of is not None and not model.makes_bits_of_keys:
        assert engine_of(model).refusal(spec, model, KEYS) is not None
        return
    instructions = assembly(spec, PROGRAMS, model, tmp_path / "compiled")
    made_here = not (spec.draws_distributed_noise or spec.uses_piece)
    assert ("ands" in instructions) == made_here  # joint noise is
    assert faults(instructions, masked=spec.name in MASKED) == []
    if model.name != "spdz2k":  # in which one honest party alone computes with what it was sent
        assert unchecked(instructions) == []


@pytest.mark.parametrize("form", ["split", "product"])
@pytest.mark.parametrize("model", ACTIVE, ids=lambda model: model.name)
@pytest.mark.mpspdz("spdz2k")
def test_no_client_is_told_a_sum_before_it_is_checked(
    model: SecurityModel, form: str, tmp_path: Path
) -> None:
    """Masks go out; sums are opened, checked, told; only then do values come in.

    Before subsets, and before values, each party inputs a digest of what it has of each client; all are
    opened, and checked, before its front sees them.
    """
    given: dict[str, int | str] = {"form": form, "path": "clients", "clients": 4, "parts": 2}
    instructions = assembly(PROTOCOLS["pi_rw"], PROGRAMS, model, tmp_path / "compiled", **given)
    steps = [
        name.removeprefix("v")
        for name in instructions
        if name in (*OPENING, "check", "listen", "inputpersonal") or "socket" in name or "client" in name
    ]
    shown = ["readsocketc", "inputpersonal", "asm_open", "check", "writesocketc"]
    assert steps == [
        *("listen", "acceptclientconnection", "writesocketshare", "writesocketshare", *shown),
        *("readsocketc", "asm_open", "check", "writesocketc", *shown, "readsocketc", "readsocketc"),
        *("check", "asm_open"),
    ]
    told = max(at for at, name in enumerate(instructions) if name.endswith("writesocketc"))
    assert faults(instructions[told + 1 :]) == []
