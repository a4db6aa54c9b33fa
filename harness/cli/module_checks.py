"""A contributor's loop: the checks of one file or folder, in seconds.

The tests of a module are found by one rule, which is only here. The first of these that finds some decides:

1. `tests/modules.toml`, where the module has an entry.
2. Test files that import the module, in the nearest folder of tests. For `harness/uploads/keys.py` this
   is `tests/harness/inputs/shares`, or `tests/harness/inputs` if that is not there.
3. All other test files that import the module.
4. `tests/modules.toml`, where a folder above the module has an entry, the nearest such folder.

The nearest come first: the file that has the module's name, then those that import fewest names of the
project besides. An import is one in the text, at whatever depth. Names in strings do not count.
"""

import ast
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from fairshares.harness.cli.bootstrap import CHECKOUT
from fairshares.harness.cli.project_checks import DEFAULT_ONLY, STATIC_CHECKS, TYPES, run_all
from fairshares.harness.errors import OptionError

LISTED = "tests/modules.toml"
PACKAGES = ("benchmarks", "data", "docs", "examples", "fairshares", "harness", "protocols", "tests")
LINKED = ("data", "harness", "protocols")  # the folders that fairshares/ has a link to
SCRIPTS = ("inv", "tasks.py")
CODE = (".py", ".mpc")
CHECKED = (*CODE, ".md")

# A check ends within 20 s on two cores that are not busy: types take up to 10 s beside the tests, and tests
# begin within 12 s of the first.
MOST_FILES = 12
BEGIN_WITHIN_S = 12

# Tests of all pages. Others are chosen by the page's path.
OF_PAGES = ("test_references", "test_documented_files", "test_documented_numbers")
# Tests of all programs. Those of one are chosen by its name.
OF_PROGRAMS = ("tests/protocols/test_programs.py", "tests/programs")


@dataclass(frozen=True)
class Selection:
    """The tests to run.

    Attributes:
        files: Files and folders of tests, the nearest first; without any, none is known.
        further: Test files that the rule found beyond `MOST_FILES`.
        chosen: The expression after pytest's `-k`; empty for none.
        whole: Whether exhaustive tests run, too.
    """

    files: Sequence[str] = ()
    further: Sequence[str] = ()
    chosen: str = ""
    whole: bool = False


def check(path: Path, *, fix: bool = False, everything: bool = False, project: Path = CHECKOUT) -> int:
    """Run the checks of a file or a folder; name those that failed; return an exit code.

    Args:
        path: A Python file, a program, a page or a folder of the project.
        fix: Format it, and mend what Ruff can mend, before it is checked.
        everything: Run all of its tests, however many there are and however long they take.
        project: The project's root.

    Raises:
        OptionError: The path is none of these.
    """
    name = name_in_project(path, project)
    tests = find_tests(name, project, everything=everything)
    print(said(name, tests), flush=True)
    static, beside = static_checks(name, project, fix=fix)
    return run_all(static, pytest_arguments(tests, everything=everything), beside)


def name_in_project(path: Path, project: Path) -> str:
    """Return a path as seen from the project's root; raise OptionError if it is none that can be checked."""
    if not path.exists():
        raise OptionError(f"{path} does not exist; give a file or a folder of {project}.")
    resolved = path.resolve()
    root = project.resolve()
    if resolved == root:
        raise OptionError(
            f"{path} is the whole project, which `./inv test` checks; give a file or a folder of it."
        )
    if not resolved.is_relative_to(root):
        raise OptionError(f"{path} is outside the project; give a file or a folder of {project}.")
    name = resolved.relative_to(root).as_posix()
    if not sources(name, project):
        raise OptionError(
            f"{path} holds no Python code, program or page of the project, and nothing else is checked by "
            "itself; `./inv test` checks all."
        )
    return name


def sources(name: str, project: Path) -> list[str]:
    """Return the Python files, programs and pages at a path in the project."""
    place = project / name
    if not place.is_dir():
        found = [place] if place.suffix in CHECKED or name in SCRIPTS else []
    else:
        found = sorted(file for file in place.rglob("*") if file.suffix in CHECKED and file.is_file())
    paths = [file.relative_to(project) for file in found]
    return [path.as_posix() for path in paths if not _is_made(path)]


def _is_made(path: Path) -> bool:
    """Return whether tools made a file: it is in an environment, a cache, results or the built site."""
    return any(part.startswith(".") or part in ("__pycache__", "_build", "runs") for part in path.parts)


def static_checks(
    name: str, project: Path, *, fix: bool
) -> tuple[Mapping[str, Sequence[str]], Mapping[str, Sequence[str]]]:
    """Return the checks of a path that run no test: those before the tests, and those beside them."""
    kinds = {Path(source).suffix for source in sources(name, project)}
    if kinds == {".md"}:
        return {}, {}
    static: dict[str, Sequence[str]] = {}
    if fix:  # the check is last, as formatting mends what it finds, such as long lines
        static["ruff check --fix-only"] = ("-m", "ruff", "check", "--fix-only", "--force-exclude", name)
        static["ruff format"] = ("-m", "ruff", "format", "--force-exclude", name)
    static["ruff check"] = ("-m", "ruff", "check", "--force-exclude", name)
    if not fix:
        static["ruff format"] = ("-m", "ruff", "format", "--check", "--diff", "--force-exclude", name)
    static["import-linter"] = STATIC_CHECKS["import-linter"]
    return static, TYPES if kinds != {".mpc"} else {}


def pytest_arguments(tests: Selection, *, everything: bool) -> list[str] | None:
    """Return the arguments of pytest, or None if there is no test."""
    if not tests.files:
        return None
    arguments = ["--quiet"]
    if not everything:
        arguments.append(f"--begin-within={BEGIN_WITHIN_S}")
        if not tests.whole:
            arguments.extend(DEFAULT_ONLY)
    if tests.chosen:
        arguments.extend(("-k", tests.chosen))
    return [*arguments, *tests.files]


def said(name: str, tests: Selection) -> str:
    """Return a sentence on which tests run."""
    if not tests.files:
        return (
            f"No test imports {name}, and {LISTED} names none, so no test runs: write one that imports it, "
            "or an entry there."
        )
    chosen = f", those of {tests.chosen}" if tests.chosen else ""
    sentence = f"Tests of {name}: {', '.join(tests.files)}{chosen}."
    if tests.further:
        sentence += f" {len(tests.further)} further test files import it; with --all they run, too."
    return sentence


def find_tests(name: str, project: Path = CHECKOUT, *, everything: bool = False) -> Selection:
    """Return the tests of a file or folder, by the rule that this module's docstring states."""
    names = sources(name, project)
    programs = [source for source in names if source.endswith(".mpc")]
    pages = [source for source in names if source.endswith(".md")]
    modules = [source for source in names if not source.endswith((".mpc", ".md"))]
    if name.startswith("tests/"):
        own = [source for source in modules if _is_test_file(source)]
        if own:
            return Selection([name], whole=not (project / name).is_dir())
        if Path(name).name == "conftest.py":
            return Selection([Path(name).parent.as_posix()])
    if modules:
        found = _each_once(find_tests_of_module(module, project) for module in modules)
        if everything:
            return Selection(found)
        return Selection(found[:MOST_FILES], found[MOST_FILES:])
    if programs:
        own = _each_once(_naming(program, project) for program in programs)
        if own:
            return Selection(own)
        return Selection(OF_PROGRAMS, chosen=" or ".join(Path(program).stem for program in programs))
    return Selection(["tests/project"], chosen=" or ".join([*pages, *OF_PAGES]))


def _each_once(lists: Iterable[Sequence[str]]) -> list[str]:
    """Return the entries of several lists, each where it occurs first."""
    found: dict[str, None] = {}
    for entries in lists:
        found.update(dict.fromkeys(entries))
    return list(found)


def find_tests_of_module(name: str, project: Path = CHECKOUT) -> list[str]:
    """Return the test files of a module, the nearest first."""
    listed = _listed(project)
    if name in listed:
        return listed[name]
    imported = _imported_by_tests(project)
    module = _module_name(name)
    importing = [test for test, names in imported.items() if module in names]
    folder = _nearest_folder(name, project)
    near = [test for test in importing if Path(test).parent.as_posix() == folder]
    namesake = f"test_{Path(name).stem.removeprefix('_')}.py"

    def distance(test: str) -> tuple[bool, int, str]:
        return Path(test).name != namesake, len(imported[test]), test

    return sorted(near or importing, key=distance) or _listed_for_folder(name, listed)


def _listed_for_folder(name: str, listed: Mapping[str, list[str]]) -> list[str]:
    """Return the tests that are listed for the nearest folder above a module that has an entry."""
    folders = (folder.as_posix() for folder in Path(name).parents)
    return next((listed[folder] for folder in folders if folder in listed), [])


def _nearest_folder(name: str, project: Path) -> str:
    """Return the folder of tests at a module's path, or the nearest above it that is there."""
    folder = Path("tests", name).parent
    while not (project / folder).is_dir():
        folder = folder.parent
    return folder.as_posix()


def _module_name(name: str) -> str:
    """Return the dotted name of a module; the package's name for its `__init__.py`."""
    dotted = ".".join(Path(name).with_suffix("").parts).removesuffix(".__init__")
    return f"fairshares.{dotted}" if dotted.partition(".")[0] in LINKED else dotted


def _is_test_file(name: str) -> bool:
    return Path(name).name.startswith("test_")


def _test_files(project: Path) -> list[str]:
    return [name for name in sources("tests", project) if _is_test_file(name) and name.endswith(".py")]


@cache
def _listed(project: Path) -> Mapping[str, list[str]]:
    """Return the tests of modules that have an entry, by module."""
    entries = tomllib.loads((project / LISTED).read_text(encoding="utf-8"))["tests"]
    return {module: list(tests) for module, tests in entries.items()}


@cache
def _imported_by_tests(project: Path) -> Mapping[str, frozenset[str]]:
    """Return the names of the project that each test file imports."""
    return {
        test: frozenset(_imports((project / test).read_text(encoding="utf-8")))
        for test in _test_files(project)
    }


def _imports(text: str) -> Iterable[str]:
    """Yield the modules of the project, and names in modules, that a text imports."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            imported = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            imported = [node.module]
            imported += [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        yield from (name for name in imported if name.partition(".")[0] in (*PACKAGES, "tasks"))


def _naming(program: str, project: Path) -> list[str]:
    """Return the test files that name a program which only tests run."""
    if not program.startswith("tests/"):
        return []
    stem = Path(program).stem
    files = _test_files(project)
    return [name for name in files if stem in (project / name).read_text(encoding="utf-8")]
