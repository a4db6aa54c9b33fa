"""`./inv` sets up its environment once, says what it does and what is missing, and keeps out of the way."""

import ast
import fcntl
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from fairshares.harness.cli.bootstrap import LOCK, TEST_LOCK, spelled_out
from fairshares.harness.system.files import TURN, held_alone
from tests.support.running import signals_not_ignored, until

BOOTSTRAP = (
    *("inv", "harness/__init__.py", "harness/cli/bootstrap.py", "harness/cli/app.py", LOCK, TEST_LOCK),
    *("fairshares/__init__.py", "harness/command_name.py", "harness/errors.py"),
    *("harness/system/__init__.py", "harness/system/files.py", "harness/system/places.py"),
    "harness/system/signals.py",
)

# Stands in for the standard library's venv: its Python is a script that plays pip and invoke.
FAKE_VENV = """\
import pathlib, sys
made = pathlib.Path(sys.argv[1])
(made / "bin").mkdir(parents=True)
(made / "pyvenv.cfg").write_text(f"command = -m venv {made}")
(made / "bin" / "pip").write_text(f"#!{made}/bin/python")
(made / "bin" / "python").symlink_to(pathlib.Path(__file__).with_name("python"))
"""
# A command of its own, of which nothing else is needed.
SHOW = """\
from pathlib import Path
from invoke import Collection
from fairshares.harness.cli.command_line import Command, Option, Options
class ShowOptions(Options):
    'Show a file.'
    records = Option(lambda text, option: Path(text), "the file", example="my.csv")
def show(options):
    print(options.records.read_text())
namespace = Collection(Command("show", ShowOptions, "tasks:show", "Analyst"))
"""
FAKE_PYTHON = """\
#!/bin/sh
case "$*" in
"-m pip "*) {pip} ;;
*) echo "from $PWD: $*" ;;
esac
"""


@pytest.fixture
def copy(project: Path, tmp_path: Path) -> Path:
    """Return a copy of what `./inv` needs, in a directory whose name has a space."""
    root = tmp_path / "a copy"
    for name in BOOTSTRAP:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(project / name, root / name)
    for package in ("harness", "protocols"):
        (root / "fairshares" / package).symlink_to(f"../{package}")
    return root


def environment(**more: str) -> dict[str, str]:
    """Return this process's environment without pip's settings."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    return {**inherited, "PIP_CONFIG_FILE": os.devnull, **more}


def with_fake_pip(copy: Path, pip: str) -> dict[str, str]:
    """Have the copy make environments without packages, whose pip is a line of shell."""
    fake = copy.parent / "fake"
    fake.mkdir(exist_ok=True)
    (fake / "venv.py").write_text(FAKE_VENV)
    (fake / "python").write_text(FAKE_PYTHON.format(pip=pip))
    (fake / "python").chmod(0o755)
    return environment(PYTHONPATH=str(fake))


def run(
    copy: Path, *arguments: str, cwd: Path | None = None, env: dict[str, str] | None = None
) -> tuple[int, str, str]:
    """Run the copy's `inv` to its end; return exit code, output and errors."""
    command = [sys.executable, str(copy / "inv"), *arguments]
    done = subprocess.run(
        command, cwd=cwd or copy, env=env or environment(), capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout, done.stderr


def refused(copy: Path, code: int, err: str) -> str:
    """Assert that the copy's `inv` failed cleanly; return its last line."""
    assert code == 1 and "Traceback" not in err and not list(copy.glob(".venv*"))
    return err.splitlines()[-1]


def test_old_python_is_told_so(copy: Path) -> None:
    patch = "import runpy, sys; sys.version_info = (3, 10, 4, 'final', 0)"
    command = [sys.executable, "-c", f"{patch}; runpy.run_path('./inv', run_name='__main__')"]
    done = subprocess.run(command, cwd=copy, env=environment(), capture_output=True, text=True, check=False)
    assert "needs Python 3.11 or later and this is Python 3.10" in refused(copy, done.returncode, done.stderr)


def test_old_python_can_parse_the_start(project: Path) -> None:
    tree = ast.parse((project / "inv").read_text(), feature_version=(3, 7))
    newer = (ast.JoinedStr, ast.AnnAssign, ast.NamedExpr, ast.FunctionDef, ast.AsyncFunctionDef, ast.Starred)
    assert not [node for node in ast.walk(tree) if isinstance(node, newer)]
    assert not [
        node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module == "__future__"
    ]


def test_what_pip_says_is_shown(copy: Path) -> None:
    env = with_fake_pip(copy, "echo Collecting rich; echo 'ERROR: No space left on device' >&2; exit 2")
    code, out, err = run(copy, "--list", env=env)
    assert err.splitlines()[1:3] == ["Collecting rich", "ERROR: No space left on device"] and not out
    assert "pip failed" in refused(copy, code, err)


def packaged(directory: Path, name: str) -> str:
    """Write a wheel with a package of this name; return its SHA-256."""
    wheel = directory / f"{name}-1.0-py3-none-any.whl"
    about = f"{name}-1.0.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(f"{name}/__init__.py", "")
        archive.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        archive.writestr(
            f"{about}/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{about}/RECORD", "")
    return hashlib.sha256(wheel.read_bytes()).hexdigest()


def test_only_the_files_of_the_lock_are_installed(copy: Path, tmp_path: Path) -> None:
    """By pip itself: a file with another hash, one without a hash, and a package to be built are refused."""
    index = tmp_path / "index"
    index.mkdir()
    right = packaged(index, "tiny")
    installed = tmp_path / "installed"
    env = with_fake_pip(copy, f'exec {sys.executable} "$@" --target "{installed}"')
    env |= {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(index)}
    (copy / LOCK).write_text(f"tiny==1.0 --hash=sha256:{right}\n")
    assert run(copy, env=env)[0] == 0 and (installed / "tiny/__init__.py").exists()
    shutil.rmtree(copy / ".venv")

    (copy / LOCK).write_text(f"tiny==1.0 --hash=sha256:{'0' * 64}\n")
    code, _, err = run(copy, env=env)
    assert "is not the file that the lock file pins by its SHA-256" in refused(copy, code, err)

    (copy / LOCK).write_text("tiny==1.0\n")
    code, _, err = run(copy, env=env)
    assert "pip failed" in refused(copy, code, err) and "Hashes are required" in err

    (index / "tiny-1.0-py3-none-any.whl").unlink()
    (index / "tiny-1.0.tar.gz").write_bytes(b"")
    (copy / LOCK).write_text(f"tiny==1.0 --hash=sha256:{hashlib.sha256(b'').hexdigest()}\n")
    code, _, err = run(copy, env=env)
    assert "pip failed" in refused(copy, code, err) and "No matching distribution" in err


def begun(copy: Path, env: dict[str, str]) -> subprocess.Popen[bytes]:
    """Start the copy's `inv`; return when its pip runs."""
    with signals_not_ignored():
        process = subprocess.Popen([sys.executable, str(copy / "inv")], cwd=copy, env=env)
    until(lambda: (copy / "pip-runs").exists() or process.poll() is not None)
    return process


def test_ctrl_c_ends_pip_and_leaves_nothing(copy: Path) -> None:
    with begun(
        copy, with_fake_pip(copy, "echo $$ > partial; mv partial pip-runs; exec sleep 600")
    ) as process:
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=100) == 130
    assert not list(copy.glob(".venv*"))
    pip = int((copy / "pip-runs").read_text())
    until(lambda: not is_there(pip))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_killed_set_up_is_not_taken_for_complete(number: signal.Signals, copy: Path) -> None:
    """The next start waits for a pip that the killed one left running, and begins anew."""
    first = "touch .venv.partial/half pip-runs; until [ -e go-on ]; do sleep 0.01; done; touch pip-ended"
    second = "[ -e pip-ended ] && [ ! -e .venv.partial/half ]"
    env = with_fake_pip(copy, f"if [ -e pip-runs ]; then {second}; else {first}; fi")
    with begun(copy, env) as process:
        process.send_signal(number)
        assert process.wait(timeout=100) == -number
    assert not (copy / ".venv").exists()
    try:
        assert held_alone(copy / TURN) is None
    finally:
        (copy / "go-on").touch()
    assert run(copy, env=env)[0] == 0 and [path.name for path in copy.glob(".venv*")] == [".venv"]
    assert not (copy / TURN).exists()


def test_no_other_user_can_hold_up_a_start(copy: Path) -> None:
    """Though others may read the project's directory, and so lock it."""
    env = with_fake_pip(copy, "exit 0")
    reading = os.open(copy, os.O_RDONLY)
    fcntl.flock(reading, fcntl.LOCK_EX)
    command = [sys.executable, str(copy / "inv")]
    try:
        done = subprocess.run(command, cwd=copy, env=env, capture_output=True, text=True, timeout=60)
    finally:
        os.close(reading)
    assert done.returncode == 0, done.stderr


def is_there(pid: int) -> bool:
    """Return whether a process is there, be it only because nobody has taken note of its end yet."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_first_use_makes_the_environment_and_hands_over(copy: Path, tmp_path: Path) -> None:
    env = with_fake_pip(copy, "true")
    (copy / ".venv.partial").mkdir()  # of a start that was killed
    code, out, err = run(copy, "weights", "--records", "my.csv", cwd=tmp_path, env=env)
    assert code == 0
    assert (
        out
        == f"from {tmp_path}: -P {copy}/harness/cli/app.py --search-root {copy} weights --records my.csv\n"
    )
    assert err.startswith("inv: setting up .venv ")
    assert (copy / ".venv/bin/pip").read_text() == f"#!{copy}/.venv/bin/python"
    assert ".partial" not in (copy / ".venv/pyvenv.cfg").read_text()
    assert [path.name for path in copy.glob(".venv*")] == [".venv"]


def test_later_starts_are_silent_until_the_lock_file_or_python_changes(copy: Path) -> None:
    """A change that fails keeps the old environment."""
    env = with_fake_pip(copy, "true")
    run(copy, env=env)
    made = (copy / ".venv").stat().st_ino
    assert run(copy, env=env)[2] == "" and (copy / ".venv").stat().st_ino == made
    with (copy / LOCK).open("a") as lock:
        lock.write("newcomer==1.0\n")
    stamp = (copy / ".venv/fairshares-lock").read_text()
    assert run(copy, env=with_fake_pip(copy, "exit 1"))[0] == 1
    assert (copy / ".venv/fairshares-lock").read_text() == stamp
    env = with_fake_pip(copy, "true")
    assert "setting up .venv" in run(copy, env=env)[2] and run(copy, env=env)[2] == ""
    other = shutil.copy(copy.parent / "fake/python", copy.parent / "fake/python-of-an-upgrade")
    (copy / ".venv/bin/python").unlink()
    (copy / ".venv/bin/python").symlink_to(other)
    assert "setting up .venv" in run(copy, env=env)[2]


@pytest.mark.parametrize("first", ["test", "check"])
def test_test_tools_are_installed_when_they_are_needed_and_stay(copy: Path, first: str) -> None:
    installed = "shift 3; echo $* >> installed"
    env = with_fake_pip(copy, installed)
    run(copy, "quickstart", env=env)
    assert "tests/" not in (copy / "installed").read_text()
    assert "setting up .venv" in run(copy, first, env=env)[2]
    assert f"{copy}/{LOCK} -r {copy}/{TEST_LOCK}" in (copy / "installed").read_text().splitlines()[-1]
    for command in ("test", "quickstart", "check"):
        assert run(copy, command, env=env)[2] == ""


def test_task_sees_the_users_directory_and_none_of_its_modules(
    copy: Path, project: Path, tmp_path: Path
) -> None:
    """Nor is there any other Python on the path."""
    (copy / ".venv").symlink_to(project / ".venv")
    for package in ("harness", "protocols"):
        shutil.copytree(project / package, copy / package, dirs_exist_ok=True)
    (copy / "tasks.py").write_text(SHOW)
    for trap in ("tasks.py", "random.py", "harness.py"):
        (tmp_path / trap).write_text("raise SystemExit('imported from the wrong place')")
    (tmp_path / "my.csv").write_text("found")
    command, path = [str(copy / "inv"), "show", "--records", "my.csv"], environment(PATH=str(tmp_path))
    done = subprocess.run(command, cwd=tmp_path, env=path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "found\n", "")


def test_listing_the_tasks_imports_nothing_slow(project: Path) -> None:
    slow = {"numpy", "pandas", "pyarrow", "scipy", "sklearn", "mpyc", "rich", "cryptography"}
    code = f"import sys, tasks; print(*sorted({slow!r} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=project, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == ""


@pytest.mark.parametrize(
    ("typed", "passed_on"),
    [
        ("", "--list"),
        ("--help", "--list"),
        ("-h", "--list"),
        ("weights --help", "--help weights"),
        ("weights --epsilon 1 -h", "--help weights"),
        ("--help weights", "--help weights"),
        ("weights --epsilon 1", "weights --epsilon 1"),
    ],
)
def test_how_people_ask_for_help(typed: str, passed_on: str) -> None:
    assert spelled_out(typed.split()) == passed_on.split()
