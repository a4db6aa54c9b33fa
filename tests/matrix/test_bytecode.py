"""Compiled programs are reused when nothing changed, and never when something did or was left unfinished."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from harness.engines import hashing
from harness.engines.base import PROGRAMS, PROJECT, Job
from harness.engines.bytecode import Bytecode, cache_directory, compile_program
from harness.engines.mpspdz import Installation, find_installation
from harness.errors import CompileError
from harness.models import MODELS
from protocols.spec import PI_LAP, PI_RW
from tests.running import program_spec, signals_not_ignored, until

COMMIT, OPTIONS = "0" * 40, ("-R", "64")

# Stands for MP-SPDZ's compiler: notes each call, refuses a program that says so, and waits while it is
# told to, half-way through.
COMPILER = """
import sys, time
from pathlib import Path

home = Path(__file__).parent
with (home / "calls").open("a") as calls:
    calls.write("call\\n")
name = sys.argv[-2]
text = Path("Programs/Source", name + ".mpc").read_text()
bytecode = Path("Programs/Bytecode")
bytecode.mkdir()
(bytecode / "half").write_text("half of " + text)
while (home / "wait").exists():
    time.sleep(0.01)
if "refuse" in text:
    print("line 1 of a long story", file=sys.stderr)
    sys.exit("SyntaxError: refuse is not a word")
(bytecode / f"{name}-{sys.argv[-1]}-0.bc").write_text(" ".join(sys.argv[1:]) + text)
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return where the stand-in for MP-SPDZ is; the cache is new and empty."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    directory = tmp_path / "home"
    directory.mkdir()
    (directory / "compile.py").write_text(COMPILER)
    return directory


@pytest.fixture
def job(tmp_path: Path) -> Job:
    source = tmp_path / "source" / "sample.mpc"
    source.parent.mkdir()
    source.write_text("print_ln('OUT n 1')\n")
    return Job(program_spec("sample", "n"), source, ("3",), (None,) * 3)


def calls(home: Path) -> int:
    return len((home / "calls").read_text().splitlines())


def compiled(bytecode: Bytecode) -> str:
    return (bytecode.programs / "Bytecode" / f"{bytecode.name}-0.bc").read_text()


def test_the_same_job_is_compiled_once(home: Path, job: Job) -> None:
    first = compile_program(job, home, COMMIT, OPTIONS)
    again = compile_program(job, home, COMMIT, OPTIONS)
    assert calls(home) == 1
    assert replace(first, compile_s=0.0) == again
    assert compiled(again) == "-R 64 sample 3print_ln('OUT n 1')\n"
    assert first.programs.parent.parent == cache_directory() == home.parent / "cache/fairshares/bytecode"


def other_text(job: Job) -> Job:
    job.source.write_text("print_ln('OUT n 2')\n")
    return job


@pytest.mark.parametrize(
    ("change", "commit", "options"),
    [
        pytest.param(other_text, COMMIT, OPTIONS, id="text"),
        pytest.param(lambda job: replace(job, arguments=("4",)), COMMIT, OPTIONS, id="argument"),
        pytest.param(lambda job: job, COMMIT, (*OPTIONS, "-Y"), id="option"),
        pytest.param(lambda job: job, "1" * 40, OPTIONS, id="commit"),
    ],
)
def test_what_changed_is_compiled_anew(
    change: Callable[[Job], Job], commit: str, options: tuple[str, ...], home: Path, job: Job
) -> None:
    before = compile_program(job, home, COMMIT, OPTIONS)
    after = compile_program(change(job), home, commit, options)
    assert calls(home) == 2
    assert before.program_hash != after.program_hash and before.programs != after.programs


def test_a_changed_circuit_is_compiled_anew(
    home: Path, job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    circuits = tmp_path / "project" / "protocols" / "circuits"
    shutil.copytree(
        PROJECT / "protocols" / "circuits", circuits, ignore=shutil.ignore_patterns("__pycache__")
    )
    before = compile_program(job, home, COMMIT, OPTIONS)
    monkeypatch.setattr(hashing, "PROJECT", tmp_path / "project")
    assert compile_program(job, home, COMMIT, OPTIONS).program_hash == before.program_hash
    for circuit in sorted(circuits.glob("*.py")):
        text = circuit.read_text()
        circuit.write_text(text + "\n")
        assert compile_program(job, home, COMMIT, OPTIONS).program_hash != before.program_hash
        circuit.write_text(text)
    assert compile_program(job, home, COMMIT, OPTIONS).program_hash == before.program_hash


def test_a_refused_program_leaves_nothing(home: Path, job: Job) -> None:
    job.source.write_text("refuse")
    for _ in range(2):
        with pytest.raises(CompileError) as error:
            compile_program(job, home, COMMIT, OPTIONS)
        expected = "MP-SPDZ's compiler refused sample 3: SyntaxError: refuse is not a word"
        assert str(error.value) == expected
        assert list(cache_directory().iterdir()) == []
    assert calls(home) == 2


def test_two_at_once_both_succeed(home: Path, job: Job) -> None:
    (home / "wait").touch()
    with ThreadPoolExecutor() as pool:
        running = [pool.submit(compile_program, job, home, COMMIT, OPTIONS) for _ in range(2)]
        until(lambda: (home / "calls").exists() and calls(home) == 2)
        (home / "wait").unlink()
        one, other = (future.result() for future in running)
    assert one.programs == other.programs
    assert compiled(one).startswith("-R 64 sample 3")
    assert [path.name for path in cache_directory().iterdir()] == [one.program_hash]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_compilation_is_not_reused(number: signal.Signals, home: Path, job: Job) -> None:
    (home / "wait").touch()
    script = (
        "import sys; from pathlib import Path; from harness.engines.base import Job\n"
        "from harness.engines.bytecode import compile_program; from protocols.spec import ProtocolSpec\n"
        "spec = ProtocolSpec('sample', '', (), {}, ('n',), ())\n"
        "job = Job(spec, Path(sys.argv[1]), ('3',), (None,) * 3)\n"
        f"compile_program(job, Path(sys.argv[2]), {COMMIT!r}, {OPTIONS!r})\n"
    )
    command = [sys.executable, "-c", script, str(job.source), str(home)]
    with signals_not_ignored():
        process = subprocess.Popen(
            command, env={**os.environ, "PYTHONPATH": str(PROJECT)}, stderr=subprocess.DEVNULL
        )
    until(lambda: any(cache_directory().glob("*/Programs/Bytecode/half")))
    process.send_signal(number)
    assert process.wait() == -number
    (home / "wait").unlink()
    if number == signal.SIGINT:
        assert list(cache_directory().iterdir()) == []
    bytecode = compile_program(job, home, COMMIT, OPTIONS)
    assert calls(home) == 2
    assert compiled(bytecode).startswith("-R 64 sample 3")


@pytest.fixture
def installation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Installation:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    found = find_installation()
    assert isinstance(found, Installation)
    return found


@pytest.mark.mpspdz("ring")
def test_mp_spdz_compiles_once_two_at_once_and_per_option(installation: Installation) -> None:
    job = Job(PI_LAP, PROGRAMS / "pi_lap.mpc", ("3", "5", "1/3", "40"), (None,) * 3)
    options = [MODELS["ring"].compile_options] * 2 + [MODELS["sy-rep-ring"].compile_options]
    with ThreadPoolExecutor() as pool:
        running = [
            pool.submit(compile_program, job, installation.home, installation.commit, one) for one in options
        ]
        ring, same, other = (future.result() for future in running)
    assert ring.programs == same.programs != other.programs
    assert ring.name == other.name == "pi_lap-3-5-1_3-40"
    for bytecode in (ring, other):
        assert (bytecode.programs / "Schedules" / f"{bytecode.name}.sch").is_file()
    assert {path.name for path in cache_directory().iterdir()} == {ring.program_hash, other.program_hash}
    again = compile_program(job, installation.home, installation.commit, options[0])
    assert again.compile_s == 0.0 and again.program_hash == ring.program_hash


@pytest.mark.mpspdz("ring")
def test_mp_spdz_refuses_in_one_line(installation: Installation) -> None:
    arguments = ("neither", "3", "0", "2", "2", "1", "40")
    job = Job(PI_RW, PROGRAMS / "pi_rw.mpc", arguments, (None,) * 3)
    with pytest.raises(CompileError) as error:
        compile_program(job, installation.home, installation.commit, MODELS["ring"].compile_options)
    assert str(error.value) == (
        "MP-SPDZ's compiler refused pi_rw neither 3 0 2 2 1 40: "
        "ValueError: form must be split or product, not neither"
    )
    assert list(cache_directory().iterdir()) == []
