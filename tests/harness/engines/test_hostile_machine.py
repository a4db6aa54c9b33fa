"""Hostile compiled code in the place of MP-SPDZ's machine reaches its own run alone.

A hole in a machine's readers, which are C++ that nobody here reviewed, gives another owner such code. It
tries what `test_sandbox.py` has a script try, and what no script can: other conventions of system calls,
threads, children, and programs of the system. Without a C compiler the script tries its part.
"""

import os
import platform
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from fairshares.harness.engines.mpspdz.engine import MpSpdzEngine
from fairshares.harness.engines.parties import handle
from fairshares.harness.engines.parties.sandbox import missing
from fairshares.harness.engines.parties.working_directory import DATA, LOG
from fairshares.harness.security_models import get_model
from tests.conftest import PROJECT
from tests.harness.engines.test_sandbox import (
    PROCESS_KINDS,
    SECURED,
    Attempt,
    Surroundings,
    answers_in,
    copy,
    prepared,
    stand_in,
    text_of,
    waiting_parties,
)
from tests.support.running import until

pytestmark = pytest.mark.skipif(bool(missing()), reason=f"this kernel lacks {missing()}")

SOURCE = PROJECT / "tests" / "support" / "intruder.c"
# Ways to read a file that a script has not.
READING = ("thread", "child", "program", "root", "above", "link", "structure", "handle", "32-bits", "x32")
CHANGING = ("32-bits-chmod",)


@pytest.fixture
def around(tmp_path: Path) -> Iterator[Surroundings]:
    with ExitStack() as stack:
        yield Surroundings(tmp_path / "owner", stack)


def compiled(directory: Path) -> Path | None:
    """Return the hostile machine, compiled, or None without a compiler."""
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if compiler is None:
        return None
    machine = directory / "replicated-ring-party.x"
    subprocess.run([compiler, "-O1", "-pthread", "-o", str(machine), str(SOURCE)], check=True)
    return machine


def may_fail_anyway(attempt: Attempt) -> bool:
    """Return whether some systems refuse an attempt without a sandbox, too."""
    kind, _ = attempt
    lacking = ["fast-open", "multipath", "x32", "ring"]  # which a kernel may lack
    lacking.append("inherited")  # as no party inherits a directory
    if os.geteuid() != 0:
        lacking.append("handle")
    if platform.machine() != "x86_64":
        lacking += ["32-bits", "32-bits-chmod"]
    return kind in lacking


def attempts_with(forbidden: Sequence[Attempt], keys: Sequence[str], *, as_script: bool) -> list[Attempt]:
    """Return what a machine tries; a script leaves out what it cannot."""
    added = [
        *((kind, key) for kind in (*READING, *CHANGING) for key in keys),
        ("ring", "-"),
        ("inherited", "keys"),
        *(("memory-call", target) for kind, target in forbidden if kind == "attach"),
    ]
    return [*forbidden, *(() if as_script else added)]


@SECURED
def test_a_hostile_machine_reaches_its_own_run_alone(
    secured: bool, around: Surroundings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handle, "PROJECT", copy(tmp_path, secured))
    engine, model = MpSpdzEngine(), get_model("ring")
    machine = compiled(tmp_path)
    as_script = machine is None
    if machine is None:
        machine = stand_in(tmp_path)
    head = machine.read_text() if as_script else ""
    (tmp_path / "compiled").mkdir()
    (tmp_path / "compiled" / "program").write_text("code")
    ready = prepared(engine, model, machine, tmp_path / "compiled")
    ready = replace(ready, command=(str(machine), "Programs/attempts"))
    with waiting_parties(engine, ready, tmp_path) as (parties, certificates):
        other = parties[-1]
        of_other = tmp_path / "work" / f"party-{other.supervised.number}"
        key_of_other = str(of_other / DATA / f"P{other.supervised.number}.key")
        keys = [str(tmp_path / "owner" / "keys" / "P0.key"), key_of_other]
        forbidden = attempts_with(
            [
                *around.forbidden,
                *((kind, to) for kind in PROCESS_KINDS for to in ("parent", str(other._process.pid))),
                ("read", key_of_other),
                ("write", str(of_other / LOG)),
                ("write", str(tmp_path / "compiled" / "program")),
                ("make", str(tmp_path / "project" / "harness" / "new")),
            ],
            keys,
            as_script=as_script,
        )
        forbidden.append(around.moved)
        own = [
            *(("read", f"{DATA}/{name}") for name in ("P0.key", "P0.pem", "Input-Binary-P0-0", "Input-P0-0")),
            ("read", "Programs/program"),
            ("make", "new"),
            ("write", f"{DATA}/P0.pem"),
            ("remove", "new"),
        ]
        tried = [*own, *forbidden]
        if as_script:
            machine.write_text(head + text_of(tried))
        lines = "".join(f"{kind} {target}\n" for kind, target in tried)
        (tmp_path / "compiled" / "attempts").write_text(lines)
        parties[0].go(certificates)
        until(lambda: parties[0].exit_code() is not None)
        log = parties[0].log.read_text()
    answers = answers_in(log.splitlines())
    assert answers.keys() == {*tried}, log
    assert {attempt for attempt in own if not answers[attempt]} == set()
    if secured:
        assert {attempt for attempt in forbidden if answers[attempt]} == set()
    else:
        failed = {attempt for attempt in forbidden if not answers[attempt]}
        assert {attempt for attempt in failed if not may_fail_anyway(attempt)} == set()
