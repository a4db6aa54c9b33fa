"""Seeds known faults, one at a time, and says of each whether the tests that should catch it do.

Run all of them by `.venv/bin/python -m tests.faults --jobs 2`, or some by adding their names.

`faults.toml` beside this file says of each fault: `name`; `why`, what a user would lose; `file`, `find` and
`replace`, the change that makes it; `caught_by`, the tests that have to fail then. Code and tests may move:
all places are data there, and nothing here knows any. A fault goes into a copy of the tracked files of its
own, so nothing of the project changes; programs that such a copy compiles are kept in it.

A test that fails because the fault's own text cannot run catches nothing: it `crashed` (`crashes.py`). A
fault that consists in such an error, as where a check for None is left out, says `is_crash = true`.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tests.faults.crashes import CRASHED, FaultyLines

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parents[1]
FAILED, PASSED, NOT_RUN, HAS_CRASHED = "failed", "passed", "did not run", "crashed"


class Fault(NamedTuple):
    """One change of the code, and the tests that have to notice it; see the module."""

    name: str
    why: str
    file: str
    find: str
    replace: str
    caught_by: list[str]
    is_crash: bool = False

    def seeded(self, text: str) -> str:
        """Return the text of its file with the fault, of the text without."""
        return text.replace(self.find, self.replace)

    def lines(self, text: str) -> FaultyLines:
        """Return where the fault is, in the text of its file without it."""
        return FaultyLines.of_text(self.file, text[: text.index(self.find)], self.replace)


def read_faults(path: Path = HERE / "faults.toml") -> dict[str, Fault]:
    """Return the faults on record by name. Raises: TypeError, ValueError: the record has another shape."""
    faults = [Fault(**fields) for fields in tomllib.loads(path.read_text(encoding="utf-8"))["fault"]]
    if len({fault.name for fault in faults}) < len(faults) or not all(fault.caught_by for fault in faults):
        raise ValueError(f"{path}: each fault has a name of its own, and a test")
    return {fault.name: fault for fault in faults}


def copy_project(to: Path) -> None:
    """Copy the tracked files as they are now; the environment and Node's packages come along as links."""
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=PROJECT, stdout=subprocess.PIPE, check=True)
    for name in os.fsdecode(tracked.stdout).split("\0"):
        if name and os.path.lexists(PROJECT / name):
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(PROJECT / name, to / name, follow_symlinks=False)
    (to / ".venv").symlink_to(PROJECT / ".venv")
    packages = Path("web", "node_modules")
    if (PROJECT / packages).is_dir():
        (to / packages).symlink_to(PROJECT / packages)


def seed(fault: Fault, root: Path) -> FaultyLines:
    """Put a fault into a copy; return where it is. Raises ValueError if its record is stale."""
    path = root / fault.file
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    if text.count(fault.find) != 1:
        raise ValueError(
            f"`find` is {text.count(fault.find)} times in {fault.file}, not once: the record is stale"
        )
    path.write_text(fault.seeded(text), encoding="utf-8")
    return fault.lines(text)


def run_tests(root: Path, tests: Sequence[str], at: FaultyLines | None = None) -> dict[str, str]:
    """Run tests in a copy; return what became of each. One case that fails is a failure of its test.

    A test did not run if it was skipped, could not be set up, or could not be collected.

    Args: at: where the text is that no test may crash by; None for nowhere.
    """
    command = [sys.executable, "-m", "pytest", "-q", "-rfp", "--color=no", "-p", "no:cacheprovider", *tests]
    if at is not None:
        command += ["-p", "tests.faults.crashes", at.option]
    own = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    own["XDG_CACHE_HOME"] = str(root / ".cache")
    done = subprocess.run(command, cwd=root, env=own, capture_output=True, text=True, check=False)
    all_ran, half = done.returncode in (0, 1), len(tests) // 2
    if half and not all_ran:  # one could not be collected: the others still can
        return run_tests(root, tests[:half], at) | run_tests(root, tests[half:], at)
    cases: dict[str, set[str]] = {"PASSED": set(), "FAILED": set(), CRASHED: set()}
    for line in done.stdout.splitlines() if all_ran else ():
        word, _, rest = line.partition(" ")
        if word in cases:
            cases[word].add(rest.partition(" - ")[0])
    endings = {}
    for test in tests:
        endings[test] = NOT_RUN
        for found, names in (
            (PASSED, cases["PASSED"]),
            (HAS_CRASHED, cases[CRASHED]),
            (FAILED, cases["FAILED"] - cases[CRASHED]),
        ):
            if any(test in (name, name.partition("[")[0]) for name in names):
                endings[test] = found
    return endings


def tried(fault: Fault, usual: Mapping[str, str]) -> tuple[bool, str]:
    """Seed one fault and run its tests; return whether each failed, as it does not without, and what to say.

    Args: usual: what becomes of tests without any fault.
    """
    with tempfile.TemporaryDirectory(prefix="fault-") as name:
        copy_project(Path(name))
        problem, outcomes = "", dict[str, str]()
        try:
            at = seed(fault, Path(name))
        except ValueError as error:
            problem = str(error)
        else:
            outcomes = run_tests(Path(name), fault.caught_by, None if fault.is_crash else at)
    lines = [f"    {outcome}: {test}" for test, outcome in outcomes.items()]
    lines += [f"    without it {usual[test]}: {test}" for test in fault.caught_by if usual[test] != PASSED]
    caught = len(lines) == len(fault.caught_by) and set(outcomes.values()) == {FAILED}
    said = f"{'caught' if caught else 'NOT CAUGHT'}: {fault.name}: {problem or fault.why}"
    return caught, "\n".join([said, *lines])


def main() -> int:
    """Try faults, say what came of them; return 1 unless every one was caught."""
    known = read_faults()
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=str(__doc__).splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="of faults; all if none is given")
    parser.add_argument("--jobs", type=int, default=1, help="how many to try at the same time")
    given = parser.parse_args()
    if unknown := set(given.names) - set(known):
        parser.error(f"no fault is called {', '.join(sorted(unknown))}")
    faults = [known[name] for name in dict.fromkeys(given.names or known)]
    with tempfile.TemporaryDirectory(prefix="fault-") as name:
        copy_project(Path(name))
        usual = run_tests(Path(name), sorted({test for fault in faults for test in fault.caught_by}))
    caught = []
    with ThreadPoolExecutor(given.jobs) as pool:
        for well, said in pool.map(partial(tried, usual=usual), faults):
            print(said, flush=True)
            caught.append(well)
    print(f"{sum(caught)} of {len(faults)} faults were caught.")
    return 0 if all(caught) else 1


if __name__ == "__main__":
    sys.exit(main())
