"""A plugin of pytest: names the tests that failed because a fault's own text cannot run.

Such a text says nothing of the tests, which would fail with any text that cannot run. `--fault-at` says
where a fault is. A test crashed if it failed by a `NameError`, an `AttributeError` or a `TypeError` that was
raised in these lines, or by an error that came of such a one.
"""

import traceback
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import pytest

CRASHED = "CRASHED"
_ERRORS = (NameError, AttributeError, TypeError)
_NAMES = pytest.StashKey[list[str]]()


@dataclass(frozen=True)
class FaultyLines:
    """The lines of a fault's text; none if the fault only removes something.

    Attributes:
        file: The file, relative to the project's root.
        first: The number of the first line.
        last: The number of the last line.
    """

    file: str
    first: int
    last: int

    @classmethod
    def of_text(cls, file: str, before: str, text: str) -> Self:
        """Return the lines of a text in a file. Args: before: what is before it in the file."""
        first = before.count("\n") + 1
        if not text.strip():
            return cls(file, first, first - 1)
        return cls(file, first, first + text.rstrip("\n").count("\n"))

    @classmethod
    def parse(cls, words: str) -> Self:
        """Return what `option` wrote."""
        file, first, last = words.rsplit(":", 2)
        return cls(file, int(first), int(last))

    @property
    def option(self) -> str:
        """The option of pytest by which the plugin is told of the lines."""
        return f"--fault-at={self.file}:{self.first}:{self.last}"

    def raised(self, error: BaseException, root: Path) -> bool:
        """Return whether an error, or one that it came of, was raised here as of a text that cannot run."""
        while True:
            frames = [*traceback.walk_tb(error.__traceback__)]
            if isinstance(error, _ERRORS) and frames:
                frame, line = frames[-1]
                in_file = Path(frame.f_code.co_filename).resolve() == (root / self.file).resolve()
                if in_file and self.first <= line <= self.last:
                    return True
            before = error.__cause__ or error.__context__
            if before is None:
                return False
            error = before


def pytest_addoption(parser: pytest.Parser) -> None:
    """Take the place of a fault."""
    parser.addoption(
        "--fault-at", type=FaultyLines.parse, metavar="FILE:FIRST:LAST", help="of a fault's text"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Begin with no test that crashed."""
    config.stash[_NAMES] = []


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Note a test that crashed."""
    report = yield
    at: FaultyLines = item.config.getoption("fault_at")
    if report.failed and call.excinfo is not None and at.raised(call.excinfo.value, item.config.rootpath):
        item.config.stash[_NAMES].append(item.nodeid)
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Name the tests that crashed, a line each."""
    for name in config.stash[_NAMES]:
        terminalreporter.write_line(f"{CRASHED} {name}")
