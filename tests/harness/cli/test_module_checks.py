"""`./inv check`: which checks and tests a path has, and what is no path."""

import ast
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest

from fairshares.harness.cli import module_checks
from fairshares.harness.cli.module_checks import (
    MOST_FILES,
    check,
    find_tests,
    name_in_project,
    pytest_arguments,
    sources,
)
from fairshares.harness.errors import OptionError
from tests.conftest import EXHAUSTIVE, PROJECT
from tests.support.command import call

PACKAGES = ("fairshares", "data", "harness", "protocols")
MODULES = [name for package in PACKAGES for name in sources(package, PROJECT) if name.endswith(".py")]
NEVER_BY_DEFAULT = {test for entry in EXHAUSTIVE for test in entry["tests"] if not entry.get("keep")}


def made(root: Path, texts: Mapping[str, str]) -> Path:
    """Make a project of these files, without entries in its list."""
    for name, text in {"tests/modules.toml": "[tests]\n", **texts}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def says_nothing_but_what_it_is(module: str) -> bool:
    return len(ast.parse((PROJECT / module).read_text(encoding="utf-8")).body) == 1


def test_every_module_has_tests_that_run_by_default() -> None:
    """By the rule of `module_checks`, or by the list."""
    assert {"fairshares/_calls.py", "harness/errors.py", "protocols/spec.py"} <= {*MODULES}
    lacking = [
        module
        for module in MODULES
        if not {*find_tests(module).files} - NEVER_BY_DEFAULT and not says_nothing_but_what_it_is(module)
    ]
    assert lacking == [], "give each an entry in tests/modules.toml, or a test that imports it"


def test_the_list_names_what_is_there() -> None:
    listed = tomllib.loads((PROJECT / module_checks.LISTED).read_text())["tests"]
    named = [name for module, tests in listed.items() for name in (module, *tests)]
    assert [name for name in named if not (PROJECT / name).exists()] == []
    assert [
        test for tests in listed.values() for test in tests if not Path(test).name.startswith("test_")
    ] == []


A_PROJECT = {
    "benchmarks/inputs/shares/keys.py": "",
    "benchmarks/inputs/records.py": "",
    "benchmarks/alone.py": "",
    "benchmarks/listed.py": "",
    "tests/benchmarks/inputs/test_envelopes.py": "from benchmarks.inputs.shares.keys import Key",
    "tests/benchmarks/inputs/test_keys.py": (
        "import benchmarks.inputs.shares.keys, benchmarks.inputs.records, tasks"
    ),
    "tests/benchmarks/inputs/test_both.py": (
        "def f():\n    from benchmarks.inputs import records\n    from benchmarks.inputs.shares import keys"
    ),
    "tests/benchmarks/test_listed.py": "import benchmarks.listed",
    "tests/commands/test_share.py": "from benchmarks.inputs.shares import keys\nfrom benchmarks import alone",
    "tests/support/sharing.py": "from benchmarks.inputs import records",
    "tests/commands/test_sharing.py": "from tests.support.sharing import share",
    "tests/commands/test_named.py": 'NAME = "benchmarks.alone"',
    "benchmarks/kinds/of/one.py": "",
    "benchmarks/kinds/imported.py": "",
    "tests/commands/test_imports.py": "from benchmarks.kinds import imported",
    "tests/modules.toml": (
        '[tests]\n"benchmarks/listed.py" = ["tests/commands/test_share.py"]\n'
        '"benchmarks/kinds" = ["tests/commands/test_named.py"]\n'
    ),
}
INPUTS = "tests/benchmarks/inputs/test_"


@pytest.mark.parametrize(
    ("path", "tests"),
    [
        # In the nearest folder; its own name first, then whoever imports less besides.
        (
            "benchmarks/inputs/shares/keys.py",
            [f"{INPUTS}keys.py", f"{INPUTS}envelopes.py", f"{INPUTS}both.py"],
        ),
        ("benchmarks/inputs/records.py", [f"{INPUTS}keys.py", f"{INPUTS}both.py"]),
        # Nobody near imports it; a name in a string is no import.
        ("benchmarks/alone.py", ["tests/commands/test_share.py"]),
        # The list decides.
        ("benchmarks/listed.py", ["tests/commands/test_share.py"]),
        # That of a folder only if nobody imports the module.
        ("benchmarks/kinds/of/one.py", ["tests/commands/test_named.py"]),
        ("benchmarks/kinds/imported.py", ["tests/commands/test_imports.py"]),
        ("benchmarks/inputs/shares", [f"{INPUTS}keys.py", f"{INPUTS}envelopes.py", f"{INPUTS}both.py"]),
        ("tests/support/sharing.py", ["tests/commands/test_sharing.py"]),
        ("tests/commands/test_share.py", ["tests/commands/test_share.py"]),
        ("tests/commands", ["tests/commands"]),
    ],
)
def test_the_rule(path: str, tests: list[str], tmp_path: Path) -> None:
    project = made(tmp_path, A_PROJECT)
    assert [*find_tests(path, project).files] == tests


def test_so_many_files_at_most(tmp_path: Path) -> None:
    many = {f"tests/benchmarks/test_{i:02}.py": "import benchmarks.x" for i in range(MOST_FILES + 3)}
    project = made(tmp_path, {"benchmarks/x.py": "", **many})
    few = find_tests("benchmarks/x.py", project)
    assert [*few.files, *few.further] == sorted(many) and len(few.further) == 3
    assert "3 further test files import it" in module_checks.said("benchmarks/x.py", few)
    assert [*find_tests("benchmarks/x.py", project, everything=True).files] == sorted(many)


def test_a_module_without_tests_is_said_to_have_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    project = made(tmp_path, {"benchmarks/x.py": "", "tests/test_other.py": ""})
    given = []
    monkeypatch.setattr(module_checks, "run_all", lambda *arguments: given.append(arguments))
    check(project / "benchmarks" / "x.py", project=project)
    assert given[0][1] is None
    assert capsys.readouterr().out == (
        "No test imports benchmarks/x.py, and tests/modules.toml names none, so no test runs: write "
        "one that imports it, or an entry there.\n"
    )


def test_programs_and_pages_have_tests_by_name() -> None:
    assert find_tests("Programs/Source/pi_rw.mpc").chosen == "pi_rw"
    marked = find_tests("tests/programs/sources/marked_noise.mpc")
    assert marked.files and not marked.chosen
    page = find_tests("docs/how-to/plan.md")
    assert [*page.files] == ["tests/project"] and page.chosen.startswith(
        "docs/how-to/plan.md or test_references"
    )


def test_a_check_of_a_path_is_quick_unless_all_is_asked_for() -> None:
    tests = find_tests("harness/inputs/records.py")
    quick = pytest_arguments(tests, everything=False)
    whole = pytest_arguments(tests, everything=True)
    assert quick is not None and whole is not None
    assert "not exhaustive" in quick and any(word.startswith("--begin-within") for word in quick)
    assert whole == ["--quiet", *tests.files]
    own = pytest_arguments(find_tests("tests/harness/cli/test_plan.py"), everything=False)
    assert own is not None and "not exhaustive" not in own


@pytest.mark.parametrize(
    ("path", "fix", "static", "types"),
    [
        ("harness/errors.py", False, ["ruff check", "ruff format", "import-linter"], True),
        (
            "harness/errors.py",
            True,
            ["ruff check --fix-only", "ruff format", "ruff check", "import-linter"],
            True,
        ),
        ("Programs/Source/pi_rw.mpc", False, ["ruff check", "ruff format", "import-linter"], False),
        ("docs/how-to", False, [], False),
        ("docs", False, ["ruff check", "ruff format", "import-linter"], True),
    ],
)
def test_each_kind_has_its_checks(path: str, fix: bool, static: list[str], types: bool) -> None:
    before, beside = module_checks.static_checks(path, PROJECT, fix=fix)
    assert [*before] == static and bool(beside) is types
    assert all(path in command for name, command in before.items() if name.startswith("ruff"))
    changes = [name for name, command in before.items() if "format" in command and "--check" not in command]
    assert changes == ["ruff format"] * fix


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("harness/inputs/recrods.py", "harness/inputs/recrods.py does not exist; give a file or a folder of"),
        ("/etc/passwd", "/etc/passwd is outside the project; give a file or a folder of"),
        (".", ". is the whole project, which `./inv test` checks"),
        ("requirements.lock", "requirements.lock holds no Python code, program or page of the project"),
        (".git", ".git holds no Python code, program or page of the project"),
        (".venv/bin", "outside the project|holds no Python code"),
    ],
)
def test_what_is_no_path_to_check_is_refused(
    path: str, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(PROJECT)
    with pytest.raises(OptionError) as caught:
        name_in_project(Path(path), PROJECT)
    assert any(words in str(caught.value) for words in sentence.split("|"))


def test_nothing_given_and_nothing_there_end_with_a_sentence(tmp_path: Path) -> None:
    for words, sentence in (
        ((), "--path is missing; give it a value, for example --path harness/inputs/records.py."),
        (("nowhere.py",), "nowhere.py does not exist; give a file or a folder of"),
    ):
        finished = call("check", *words, cwd=tmp_path)
        assert finished.returncode == 1 and sentence in " ".join(finished.stderr.split()), finished


TWO_TESTS = """
import time
def test_first():
    assert False
def test_second():
    time.sleep(0.2)
def test_third():
    pass
"""


HOOKS = "pytest_addoption, pytest_configure, pytest_deselected, pytest_runtest_setup, pytest_sessionfinish"


def _run_pytest(root: Path, *arguments: str, tests: str = TWO_TESTS) -> subprocess.CompletedProcess[str]:
    """Run pytest, with the project's hooks, on a directory of its own."""
    (root / "conftest.py").write_text(f"from tests.conftest import {HOOKS}\n")
    (root / "test_two.py").write_text(tests)
    command = (sys.executable, "-m", "pytest", "-q", "-rs", "--rootdir", str(root), "--import-mode=importlib")
    return subprocess.run(
        [*command, *arguments, "."],
        cwd=root,
        env={"PYTHONPATH": str(PROJECT), "PATH": "", "HOME": str(root)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_no_test_begins_after_the_time(tmp_path: Path) -> None:
    """The first always runs, however slow the machine is: a check that runs nothing shows nothing."""
    assert "1 failed, 2 passed" in _run_pytest(tmp_path).stdout
    said = _run_pytest(tmp_path, "--begin-within=0").stdout
    assert "1 failed, 2 skipped" in said and "0 s were over; `./inv check PATH --all` runs it" in said


def test_failed_tests_run_again_by_themselves(tmp_path: Path) -> None:
    """pytest takes other files away without a test of theirs."""
    (tmp_path / "test_one.py").write_text("def test_one():\n    pass\n")
    said = _run_pytest(tmp_path, "--lf").stdout  # when nothing has failed yet
    assert "4 deselected" in said and "passed" not in said and "failed," not in said, said
    assert "1 failed, 3 passed" in _run_pytest(tmp_path).stdout
    assert "1 failed" in (said := _run_pytest(tmp_path, "--lf").stdout) and "passed" not in said, said


def test_a_check_whose_tests_are_all_left_out_passes(tmp_path: Path) -> None:
    """Words that choose no test still fail, and so does a run that is no check."""
    tests = "import pytest\n@pytest.mark.exhaustive('slow')\ndef test_one():\n    pass\n"
    of_a_check = ("--begin-within=1", "-m", "not exhaustive")
    assert _run_pytest(tmp_path, *of_a_check, tests=tests).returncode == pytest.ExitCode.OK
    for arguments in (("-m", "not exhaustive"), ("--begin-within=1", "-k", "nothing")):
        finished = _run_pytest(tmp_path, *arguments, tests=tests)
        assert finished.returncode == pytest.ExitCode.NO_TESTS_COLLECTED, finished
