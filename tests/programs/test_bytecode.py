"""Compiled programs are reused when nothing changed, and never when something did or was left unfinished."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fairshares.harness.engines import program_hash as hashing
from fairshares.harness.engines.execution import PROJECT, Job, MadeUpJob
from fairshares.harness.engines.mpspdz.compiler import Bytecode, cache_directory, compile_program
from fairshares.harness.errors import CompileError
from fairshares.harness.privacy.ledger.entries import Ledger
from fairshares.harness.system import processes as leash
from tests.support.command import call, processes_below
from tests.support.running import program_spec, signals_not_ignored, until

VERSION, OPTIONS = "0.4.3 " + "0" * 40, ("-R", "64")

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
def job(tmp_path: Path) -> MadeUpJob:
    source = tmp_path / "source" / "sample.mpc"
    source.parent.mkdir()
    source.write_text("print_ln('OUT n 1')\n")
    return MadeUpJob(program_spec("sample", "n"), source, ("3",))


def calls(home: Path) -> int:
    return len((home / "calls").read_text().splitlines())


def compiled(bytecode: Bytecode) -> str:
    return (bytecode.programs / "Bytecode" / f"{bytecode.name}-0.bc").read_text()


def test_the_same_job_is_compiled_once(home: Path, job: Job) -> None:
    first = compile_program(job, home, VERSION, OPTIONS)
    again = compile_program(job, home, VERSION, OPTIONS)
    assert calls(home) == 1
    assert replace(first, compile_s=0.0) == again
    assert compiled(again) == "-R 64 sample 3print_ln('OUT n 1')\n"
    assert first.programs.parent.parent == cache_directory() == home.parent / "cache/fairshares/bytecode"


CODE = '''"""A sum."""

import math  # of numbers

class Sum:
    """One number.

    Attributes: value: it.
    """
    async def add(self, one, /, *, two: int = 0):
        """Add numbers."""
        "Not a docstring."
        return f"{one!r:>{two}} at {{two}}", "a", b"a", 1, None, [*self]

def total(): "Return nothing."
'''


@pytest.fixture
def hash_with(job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], str]:
    """Return what hashes a program with a text as its own, or as that of a circuit that it imports."""
    circuits = tmp_path / "project" / "protocols" / "circuits"
    circuits.mkdir(parents=True)
    (circuits / "__init__.py").touch()
    monkeypatch.setattr(hashing, "PROJECT", tmp_path / "project")

    def hashed(text: str, where: str) -> str:
        (circuits / "sums.py").write_text(text if where == "circuit" else "")
        job.source.write_text(
            text if where == "program" else "from fairshares.protocols.circuits.sums import total"
        )
        return hashing.program_hash(job)

    return hashed


# A part of the code, what is put in its place, and whether the hash stays the same.
CHANGES = [
    ("# of numbers", "# of all numbers", True),
    ("  # of numbers", "", True),
    ("A sum.", "The sum.", True),
    ("Add numbers.", "Add two numbers.", True),
    ("Attributes: value: it.", "Attributes: value: that.", True),
    ('"Return nothing."', '"""Return None."""', True),
    ('"Return nothing."', "pass", False),
    ("\n\n", "\n\n\n", True),
    (', "a"', ",\\\n'a'", True),
    (', "a"', ', "b"', False),
    ("Not a docstring.", "No docstring.", False),
    ('        "Not a docstring."\n', "", False),
    ("None", "'None'", False),
    ("None", "0", False),
    ("1", "1.0", False),
    ("1", "True", False),
    ('b"a"', '"a"', False),
    ("{one!r", "{one!s", False),
    (">{two}", ">{one}", False),
    ("{{two}}", "{two}", False),
    ("async def", "def", False),
    ("/, *", "*", False),
    ("= 0", "= 1", False),
    (": int", "", False),
    ("def add", "def sub", False),
    ("[*self]", "[self]", False),
    ("import math", "import cmath as math", False),
]


@pytest.mark.parametrize("where", ["program", "circuit"])
def test_code_makes_the_hash_and_comments_and_docstrings_do_not(
    where: str, hash_with: Callable[[str, str], str]
) -> None:
    for part, other, same in CHANGES:
        assert part in CODE
        assert (hash_with(CODE.replace(part, other), where) == hash_with(CODE, where)) == same, (part, other)


def test_a_hash_is_the_same_in_all_versions_of_python(hash_with: Callable[[str, str], str]) -> None:
    """Hosts with different ones compare it; CPython 3.11, 3.12, 3.13 and 3.14 were seen to agree on this."""
    assert hash_with(CODE, "circuit") == "d81c2fadc14447c37c212aec88c468dda7d9df1f38aa0eb694e404a7ce82b45d"


def other_text(job: MadeUpJob) -> MadeUpJob:
    job.source.write_text("print_ln('OUT n 2')\n")
    return job


@pytest.mark.parametrize(
    ("change", "version", "options"),
    [
        pytest.param(other_text, VERSION, OPTIONS, id="text"),
        pytest.param(lambda job: replace(job, arguments=("4",)), VERSION, OPTIONS, id="argument"),
        pytest.param(lambda job: job, VERSION, (*OPTIONS, "-Y"), id="option"),
        pytest.param(lambda job: job, "0.4.3 " + "1" * 40, OPTIONS, id="commit"),
        pytest.param(lambda job: job, "0.4.4 " + "0" * 40, OPTIONS, id="release"),
    ],
)
def test_what_changed_is_compiled_anew(
    change: Callable[[Job], Job], version: str, options: tuple[str, ...], home: Path, job: Job
) -> None:
    before = compile_program(job, home, VERSION, OPTIONS)
    after = compile_program(change(job), home, version, options)
    assert calls(home) == 2
    assert before.program_hash != after.program_hash and before.programs != after.programs


def copied_circuits(tmp_path: Path) -> Path:
    circuits = tmp_path / "project" / "protocols" / "circuits"
    shutil.copytree(
        PROJECT / "protocols" / "circuits", circuits, ignore=shutil.ignore_patterns("__pycache__")
    )
    return circuits


NOT_PLAIN = [
    "import fairshares.protocols.circuits.noise",
    "from fairshares.protocols.circuits import noise",
    "from fairshares.protocols import circuits",
    "from .circuits import noise",
    "import importlib",
    "from importlib import import_module",
    "__import__('fairshares.protocols.circuits.noise')",
    "exec('import fairshares.protocols.circuits.noise')",
    "from fairshares.protocols.circuits.that_is_not_there import noise",
    "this is no program",
]


@pytest.mark.parametrize(
    ("text", "used"),
    [
        (
            "from fairshares.protocols.circuits.noise import default_noise",
            {"__init__", "noise", "coins", "counts", "integers", "machine"},
        ),
        ("def f():\n    from fairshares.protocols.circuits.coins import design_coins", {"__init__", "coins"}),
        ("from fractions import Fraction", {"__init__"}),
        *((text, None) for text in NOT_PLAIN),
    ],
)
def test_a_changed_circuit_that_a_program_can_use_is_compiled_anew(
    text: str, used: set[str] | None, job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    circuits = copied_circuits(tmp_path)
    monkeypatch.setattr(hashing, "PROJECT", tmp_path / "project")
    job.source.write_text(text)
    before, changed = hashing.program_hash(job), set()
    for circuit in sorted(circuits.glob("*.py")):
        original = circuit.read_text()
        circuit.write_text(original + "changed = 1\n")
        if hashing.program_hash(job) != before:
            changed.add(circuit.stem)
        circuit.write_text(original)
    assert changed == ({path.stem for path in circuits.glob("*.py")} if used is None else used)
    assert hashing.program_hash(job) == before


def test_every_circuit_that_a_program_loads_counts() -> None:
    """What Python itself loads for a program's imports is among what its hash is over."""
    programs = sorted((PROJECT / "Programs" / "Source").glob("*.mpc"))
    lines = [
        re.findall(r"^from fairshares.*?import (?:\([^)]*\)|.*)$", text, re.MULTILINE)
        for text in (path.read_text() for path in programs)
    ]
    script = "import json, sys\nfor lines in json.load(sys.stdin):\n"
    script += "    [sys.modules.pop(name) for name in list(sys.modules) if name.startswith('fairshares')]\n"
    script += "    exec('\\n'.join(lines), {})\n"
    script += "    print(*(n for n in sys.modules if n.startswith('fairshares.protocols.circuits.')))\n"
    done = subprocess.run(
        [sys.executable, "-c", script],
        input=json.dumps(lines),
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = [{name.rpartition(".")[2] for name in line.split()} for line in done.stdout.splitlines()]
    assert len(loaded) == len(programs) and any(loaded)
    for program, names in zip(programs, loaded, strict=True):
        assert {path.stem for path in hashing.sources_of(program)[1:]} == names | {"__init__"}, program


def test_a_refused_program_leaves_nothing(home: Path, job: Job) -> None:
    job.source.write_text("refuse")
    for tried in (1, 2):
        with pytest.raises(CompileError, match=r"refused sample 3: line 1 .* \| SyntaxError: refuse"):
            compile_program(job, home, VERSION, OPTIONS)
        assert list(cache_directory().iterdir()) == [] and calls(home) == tried


def test_two_at_once_both_succeed(home: Path, job: Job) -> None:
    (home / "wait").touch()
    with ThreadPoolExecutor() as pool:
        running = [pool.submit(compile_program, job, home, VERSION, OPTIONS) for _ in range(2)]
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
        "import sys; from pathlib import Path; from fairshares.harness.engines.execution import MadeUpJob\n"
        "from fairshares.harness.engines.mpspdz.compiler import compile_program\n"
        "from fairshares.protocols.spec import ProtocolSpec\n"
        "spec = ProtocolSpec('sample', '', (), {}, ('n',), ())\n"
        "job = MadeUpJob(spec, Path(sys.argv[1]), ('3',))\n"
        f"compile_program(job, Path(sys.argv[2]), {VERSION!r}, {OPTIONS!r})\n"
    )
    command = [sys.executable, "-c", script, str(job.source), str(home)]
    with signals_not_ignored():
        process = subprocess.Popen(
            command, env={**os.environ, "PYTHONPATH": str(PROJECT)}, stderr=subprocess.DEVNULL
        )
    until(lambda: any(cache_directory().glob("*/Programs/Bytecode/half")))
    assert processes_below(cache_directory()) != {}
    process.send_signal(number)
    assert process.wait() == -number
    until(lambda: processes_below(cache_directory()) == {})
    (home / "wait").unlink()
    assert len(list(cache_directory().iterdir())) == (number == signal.SIGKILL)
    bytecode = compile_program(job, home, VERSION, OPTIONS)
    assert calls(home) == 2
    assert compiled(bytecode).startswith("-R 64 sample 3")
    assert [path.name for path in cache_directory().iterdir()] == [bytecode.program_hash]


def test_a_compiler_whose_starter_died_before_it_began_does_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-m", leash.__name__, "1", "/bin/sh", "-c", "touch ran"]
    subprocess.run(command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(PROJECT)}, check=True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("where", ["fairshares", "fairshares/bytecode", "entry"])
@pytest.mark.parametrize("mode", [0o777, 0o720])
def test_a_program_that_others_could_have_exchanged_is_refused(
    mode: int, where: str, home: Path, job: Job
) -> None:
    bytecode = compile_program(job, home, VERSION, OPTIONS)
    entry = bytecode.programs.parent
    for directory in (cache_directory().parent, cache_directory(), entry, bytecode.programs):
        assert directory.stat().st_mode & 0o777 == 0o700
    directory = entry if where == "entry" else home.parent / "cache" / where
    directory.chmod(mode)
    with pytest.raises(CompileError, match=rf"can write to {directory},.*or set XDG_CACHE_HOME"):
        compile_program(job, home, VERSION, OPTIONS)
    if where != "entry":  # nor is another one put there
        job.source.write_text("print_ln('OUT n 2')\n")
        with pytest.raises(CompileError, match="Other users can write to"):
            compile_program(job, home, VERSION, OPTIONS)
    assert calls(home) == 1


@pytest.mark.mpspdz("semi2k")
def test_a_damaged_program_costs_no_charge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each tape and schedule in turn: the program is compiled again before anything is charged."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    rows = [f"c{k},{'ab'[k % 2]},{k // 2 % 2}" for k in range(40)]
    (tmp_path / "records.csv").write_text("\n".join(["client_id,group,label", *rows]))

    def run(number: int) -> dict[str, Any]:
        done = call(
            "weights", "--records", "records.csv", "--groups", "a,b", "--labels", "0,1", "--epsilon", "9",
            "--security", "semi2k", "--ledger", "ledger.sqlite", "--population", "people",
            "--out", f"run-{number}", cwd=tmp_path,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        fields: dict[str, Any] = json.loads((tmp_path / f"run-{number}" / "weights.json").read_text())
        return fields

    assert run(0)["groups"] == ["a", "b"]
    (entry,) = (tmp_path / "cache" / "fairshares" / "bytecode").iterdir()
    programs = sorted(
        path.relative_to(entry) for path in entry.glob("Programs/*/*") if "Source" not in path.parts
    )
    assert {path.parts[1] for path in programs} == {"Bytecode", "Schedules"}
    before = {path: (entry / path).read_bytes() for path in programs}
    for number, path in enumerate(programs, 1):
        (entry / path).write_bytes(before[path][: len(before[path]) // 2])
        counts = run(number)["noisy_counts"]
        assert all(0 < count < 20 for row in counts for count in row)
        assert {path: (entry / path).read_bytes() for path in programs} == before
    charges = Ledger(tmp_path / "ledger.sqlite").populations()[0].charges
    assert [str(charge.status) for charge in charges] == ["done"] * (1 + len(programs))
