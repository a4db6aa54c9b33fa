"""`./inv` sets up its environment once, says what it does and what is missing, and keeps out of the way."""

from __future__ import annotations

import ast
import fcntl
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from harness.cli.bootstrap import LOCK, spelled_out
from harness.cli.project_checks import build_docs
from tests.support.running import signals_not_ignored, until

BOOTSTRAP = ("inv", "harness/__init__.py", "harness/cli/bootstrap.py", "harness/cli/app.py", LOCK)

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
from harness.cli.command_line import Command, Option, Options
class ShowOptions(Options):
    'Show a file.'
    records = Option(lambda text, option: Path(text), "the file", example="my.csv")
def show(options):
    print(options.records.read_text())
namespace = Collection(Command("show", ShowOptions, "tasks:show"))
"""
FAKE_PYTHON = """\
#!/bin/sh
case "$*" in
"-m pip "*) {pip} ;;
*) echo "from $PWD: $*" ;;
esac
"""
# A process whose start is interrupted once pip runs, and before who starts it knows it.
INTERRUPTED_START = """\
import os, pathlib, subprocess
class Interrupted(subprocess.Popen):
    def __init__(self, command, **options):
        super().__init__(command, **options)
        if "pip" in command:
            while not pathlib.Path("pip-runs").exists(): pass
            os.kill(os.getpid(), {number})
subprocess.Popen = Interrupted
"""


@pytest.fixture
def copy(project: Path, tmp_path: Path) -> Path:
    """Return a copy of what `./inv` needs, in a directory whose name has a space."""
    root = tmp_path / "a copy"
    for name in BOOTSTRAP:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(project / name, root / name)
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
    assert code == 1
    assert "Traceback" not in err
    assert not list(copy.glob(".venv*"))
    return err.splitlines()[-1]


def run_patched(copy: Path, patch: str) -> tuple[int, str]:
    """Run the copy's `inv` in a Python that a statement has changed first."""
    code = f"import runpy, sys; {patch}; runpy.run_path('./inv', run_name='__main__')"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=copy, env=environment(), capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


def test_old_python_is_told_so(copy: Path) -> None:
    message = refused(copy, *run_patched(copy, "sys.version_info = (3, 10, 4, 'final', 0)"))
    assert message == (
        "inv: FairShares needs Python 3.11 or later and this is Python 3.10; "
        "run it with a newer one, for example: python3.12 ./inv"
    )


def test_old_python_can_parse_the_start(project: Path) -> None:
    tree = ast.parse((project / "inv").read_text(), feature_version=(3, 7))
    newer = (ast.JoinedStr, ast.AnnAssign, ast.NamedExpr, ast.FunctionDef, ast.AsyncFunctionDef, ast.Starred)
    assert not [node for node in ast.walk(tree) if isinstance(node, newer)]
    assert not [
        node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module == "__future__"
    ]


def test_missing_ensurepip_is_named_with_its_package(copy: Path) -> None:
    message = refused(copy, *run_patched(copy, "sys.modules['ensurepip'] = None"))
    assert "has no ensurepip" in message
    assert "install the system package python3-venv" in message


def test_no_network_is_named_with_what_is_missing(copy: Path) -> None:
    closed_port = environment(PIP_INDEX_URL="http://127.0.0.1:9/simple", PIP_RETRIES="0", no_proxy="*")
    (copy / LOCK).write_text("invoke==3.0.3\nrich==15.0.0\n")
    code, _, err = run(copy, "--list", env=closed_port)
    assert refused(copy, code, err) == (
        "inv: could not fetch invoke==3.0.3, one of the 2 packages of requirements.lock, as PyPI, or the "
        "package index that pip is set to use, could not be reached. Connect this machine to the network "
        "and run the command again; nothing was made."
    )


@pytest.mark.parametrize(
    ("last", "missing"),
    [
        ("ERROR: No matching distribution found for rich==15.0.0 (from versions: none)", "rich==15.0.0"),
        ("ReadTimeoutError: HTTPSConnectionPool(...)", "invoke==3.0.3"),
    ],
)
def test_network_lost_on_the_way(last: str, missing: str, copy: Path) -> None:
    (copy / LOCK).write_text("invoke==3.0.3\nrich==15.0.0\n")
    code, _, err = run(copy, env=with_fake_pip(copy, f"echo Collecting invoke==3.0.3; echo '{last}'; exit 1"))
    assert f"could not fetch {missing}, one of the 2 packages" in refused(copy, code, err)


def test_other_failure_of_pip_shows_its_last_lines(copy: Path) -> None:
    env = with_fake_pip(copy, "seq 1 100; echo 'ERROR: No space left on device' >&2; exit 2")
    code, out, err = run(copy, "--list", env=env)
    assert refused(copy, code, err).strip() == "ERROR: No space left on device"
    assert re.search(r"pip could not install the \d+ packages of requirements.lock; nothing was made\.", err)
    assert "    96\n" in err
    assert "    95\n" not in err
    assert not out


def test_missing_lock_file_is_named(copy: Path) -> None:
    (copy / LOCK).unlink()
    code, _, err = run(copy)
    assert refused(copy, code, err).endswith("requirements.lock is missing; restore it from the repository.")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_interrupted_set_up_leaves_nothing(number: signal.Signals, copy: Path) -> None:
    marker = copy.parent / "pip-runs"
    env = with_fake_pip(copy, f"echo $$ > '{marker}.partial'; mv '{marker}.partial' '{marker}'; sleep 600")
    command = [sys.executable, str(copy / "inv")]
    with signals_not_ignored():
        process = subprocess.Popen(command, cwd=copy, env=env, stderr=subprocess.PIPE, text=True)
    with process:
        until(lambda: marker.exists() or process.poll() is not None)
        process.send_signal(number)
        _, err = process.communicate(timeout=100)
    assert process.returncode == 130
    assert err.endswith("inv: interrupted; .venv was not made, and nothing of it is left.\n")
    assert "Traceback" not in err
    assert not list(copy.glob(".venv*"))
    pip = int(marker.read_text())
    until(lambda: not is_there(pip))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_interrupt_while_pip_starts_ends_it(number: signal.Signals, copy: Path) -> None:
    """The interrupt comes before the set-up has pip's process at hand."""
    (copy / "interrupted.py").write_text(INTERRUPTED_START.format(number=int(number)))
    code = "import runpy, interrupted; runpy.run_path('./inv', run_name='__main__')"
    with signals_not_ignored():
        process = subprocess.Popen(
            [sys.executable, "-c", code],
            cwd=copy,
            env=with_fake_pip(copy, "echo $$ > partial; mv partial pip-runs; sleep 600"),
            stderr=subprocess.PIPE,
            text=True,
        )
    with process:
        _, err = process.communicate(timeout=100)
    assert process.returncode == 130
    assert err.endswith("inv: interrupted; .venv was not made, and nothing of it is left.\n")
    assert not list(copy.glob(".venv*"))
    pip = int((copy / "pip-runs").read_text())
    until(lambda: not is_there(pip))


def is_there(pid: int) -> bool:
    """Return whether a process is there, be it only because nobody has taken note of its end yet."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_first_use_makes_the_environment_and_hands_over(copy: Path, tmp_path: Path) -> None:
    env = with_fake_pip(copy, "true")
    (copy / ".venv.partial-0").mkdir()  # of a start that was killed
    code, out, err = run(copy, "weights", "--records", "my.csv", cwd=tmp_path, env=env)
    assert code == 0
    assert (
        out
        == f"from {tmp_path}: -P {copy}/harness/cli/app.py --search-root {copy} weights --records my.csv\n"
    )
    began, ended = err.splitlines()
    packages = sum("==" in line for line in (copy / LOCK).read_text().splitlines())
    assert began == (
        f"inv: first use: setting up .venv with the {packages} packages of requirements.lock, "
        "a minute on a fast network"
    )
    assert ended.startswith("inv: .venv is ready after ")
    assert (copy / ".venv/bin/pip").read_text() == f"#!{copy}/.venv/bin/python"
    assert ".partial" not in (copy / ".venv/pyvenv.cfg").read_text()
    assert [path.name for path in copy.glob(".venv*")] == [".venv"]


def test_later_starts_are_silent_until_the_lock_file_changes(copy: Path) -> None:
    env = with_fake_pip(copy, "true")
    run(copy, env=env)
    made = (copy / ".venv").stat().st_ino
    assert run(copy, env=env)[2] == ""
    assert (copy / ".venv").stat().st_ino == made
    with (copy / LOCK).open("a") as lock:
        lock.write("newcomer==1.0\n")
    assert "inv: requirements.lock or Python has changed: setting up .venv" in run(copy, env=env)[2]
    assert run(copy, env=env)[2] == ""


def test_environment_of_another_python_is_made_again(copy: Path) -> None:
    env = with_fake_pip(copy, "true")
    run(copy, env=env)
    other = shutil.copy(copy.parent / "fake/python", copy.parent / "fake/python-of-an-upgrade")
    (copy / ".venv/bin/python").unlink()
    (copy / ".venv/bin/python").symlink_to(other)
    assert "Python has changed" in run(copy, env=env)[2]


@pytest.mark.parametrize("linked", [False, True])
def test_foreign_environment_is_replaced_with_a_word(linked: bool, copy: Path) -> None:
    foreign = copy.parent / "foreign" if linked else copy / ".venv"
    foreign.mkdir()
    (foreign / "mine").touch()
    if linked:
        (copy / ".venv").symlink_to(foreign)
    assert (
        "inv: replacing the .venv there, which ./inv did not make: "
        in run(copy, env=with_fake_pip(copy, "true"))[2]
    )
    assert not (copy / ".venv/mine").exists()
    assert (foreign / "mine").exists() == linked
    assert [path.name for path in copy.glob(".venv*")] == [".venv"]


def test_failed_change_keeps_the_old_environment(copy: Path) -> None:
    run(copy, env=with_fake_pip(copy, "true"))
    stamp = (copy / ".venv/fairshares-lock").read_text()
    (copy / LOCK).write_text("newcomer==1.0\n")
    assert run(copy, env=with_fake_pip(copy, "exit 1"))[0] == 1
    assert (copy / ".venv/fairshares-lock").read_text() == stamp


def test_two_first_starts_make_one_environment(copy: Path) -> None:
    count = copy.parent / "count"
    env = with_fake_pip(copy, f"echo >> '{count}'")
    command = [sys.executable, str(copy / "inv")]
    descriptor = os.open(copy, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    starts = [
        subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    for start in starts:
        assert start.stderr is not None
        assert start.stderr.readline() == "inv: waiting for another ./inv that is setting up .venv\n"
    os.close(descriptor)
    for start in starts:
        out, _ = start.communicate(timeout=100)
        assert out.endswith(f"-P {copy}/harness/cli/app.py --search-root {copy} --list\n")
    assert count.read_text() == "\n"


@pytest.mark.parametrize("by_shell", [False, True])
def test_task_sees_the_users_directory_and_none_of_its_modules(
    by_shell: bool, copy: Path, project: Path, tmp_path: Path
) -> None:
    (copy / ".venv").symlink_to(project / ".venv")
    for package in ("harness", "protocols"):
        shutil.copytree(project / package, copy / package, dirs_exist_ok=True)
    (copy / "tasks.py").write_text(SHOW)
    for trap in ("tasks.py", "random.py", "harness.py"):
        (tmp_path / trap).write_text("raise SystemExit('imported from the wrong place')")
    (tmp_path / "my.csv").write_text("found")
    asked = ("show", "--records", "my.csv")
    if not by_shell:
        assert run(copy, *asked, cwd=tmp_path) == (0, "found\n", "")
        return
    no_other_python = environment(PATH=str(tmp_path))
    command = [str(copy / "inv"), *asked]
    done = subprocess.run(
        command, cwd=tmp_path, env=no_other_python, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "found\n", "")


def test_without_an_environment_a_shell_finds_a_python(copy: Path) -> None:
    (copy / "bin").mkdir()
    (copy / "bin" / "python3").symlink_to(sys.executable)
    env = {**with_fake_pip(copy, "true"), "PATH": str(copy / "bin")}
    for left in (".venv/bin", ".venv"):  # one that `./inv` did not make, and none
        shutil.rmtree(copy / ".venv", ignore_errors=True)
        (copy / left).mkdir(parents=True)
        command = [str(copy / "inv"), "weights"]
        done = subprocess.run(command, cwd=copy, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert "inv: replacing the .venv there, which ./inv did not make: " in done.stderr


def test_listing_the_tasks_imports_nothing_slow(project: Path) -> None:
    slow = {"numpy", "pandas", "pyarrow", "scipy", "sklearn", "mpyc", "rich", "cryptography"}
    code = f"import sys, tasks; print(*sorted({slow!r} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=project, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == ""


def test_site_is_built_in_an_environment_of_its_own(
    copy: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (copy / "docs").mkdir()
    (copy / "docs" / LOCK).write_text("sphinx==1\n")
    monkeypatch.setenv("PYTHONPATH", with_fake_pip(copy, "exit 0")["PYTHONPATH"])
    assert build_docs(copy) == 0
    out, err = capfd.readouterr()
    said, last = out.splitlines()
    assert "setting up .venv-docs with the 1 packages of docs/requirements.lock" in err
    assert said.startswith(f"from {copy}: -m sphinx ") and "--fail-on-warning" in said
    assert last == str(copy / "docs" / "_build" / "index.html")
    assert not (copy / ".venv").exists()

    (copy.parent / "fake" / "python").write_text("#!/bin/sh\nexit 3")
    assert build_docs(copy) == 3
    assert capfd.readouterr() == ("", "")


def test_site_without_a_network(
    copy: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (copy / "docs").mkdir()
    (copy / "docs" / LOCK).write_text("sphinx==1\n")
    none = "echo 'ERROR: No matching distribution found for sphinx==1'; echo '(from versions: none)'; exit 1"
    monkeypatch.setenv("PYTHONPATH", with_fake_pip(copy, none)["PYTHONPATH"])
    assert build_docs(copy) == 1
    assert (
        "could not fetch sphinx==1, one of the 1 packages of docs/requirements.lock" in capfd.readouterr()[1]
    )
    assert not list(copy.glob(".venv*"))


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
