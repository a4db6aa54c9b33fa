"""What every command does alike: end well, talk to the terminal, show its steps."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.progress import Progress as RichProgress
from rich.progress import SpinnerColumn, Task, TaskID, TextColumn
from rich.text import Text

from harness.errors import (
    ClientError,
    FairSharesError,
    OutputError,
    PartyFailedError,
    PartyTimeoutError,
    WriteError,
)
from harness.system.signals import take_interrupts
from harness.views.parts import Part
from harness.views.rendering.text import printable, render

INTERRUPTED_EXIT = 130
MAYBE_SPENT = (
    "If the parties were running already, they may have opened noisy values: count this run's ε as spent; "
    "a ledger that it was charged to has counted it."
)

INTERRUPTED = f"Interrupted: all parties were stopped, and no result is half-written. {MAYBE_SPENT}"

_PIPE_WIDTH = 120  # of tables where there is no terminal


def _console(*, stderr: bool) -> Console:
    terminal = (sys.stderr if stderr else sys.stdout).isatty()
    return Console(stderr=stderr, highlight=False, emoji=False, width=None if terminal else _PIPE_WIDTH)


out, err = _console(stderr=False), _console(stderr=True)


def say(text: str, console: Console | None = None) -> None:
    """Print prose: wrapped between words on a terminal, a line where the output goes elsewhere."""
    console = console or out
    console.print(text, soft_wrap=not console.is_terminal)


def show(*parts: Part, console: Console | None = None) -> None:
    """Print parts of a view, on stdout if no console is named."""
    render(parts, console or out)


def plain(text: str) -> str:
    """Return a name or a path as it may be printed: no markup, no control characters."""
    return escape(printable(text))


@contextmanager
def ending_well(*, json: bool = False) -> Iterator[None]:
    """Make a command end well: one sentence for our own errors, no traceback, exit code != 0.

    Being terminated, or losing the terminal, counts as Ctrl-C, so that parties are stopped and shares
    removed then, too.  [test: tests/commands/test_faults.py]
    Args: json: whether standard output is for JSON alone, so that all else goes to the other.
    """
    take_interrupts()
    out.stderr = json
    try:
        yield
        sys.stdout.flush()
    except FairSharesError as error:
        say(f"[bold red]Error:[/] {plain(str(error))}", err)
        if isinstance(error, ClientError | OutputError | PartyFailedError | PartyTimeoutError | WriteError):
            say(MAYBE_SPENT, err)
        sys.exit(1)
    except KeyboardInterrupt:
        say(INTERRUPTED, err)
        sys.exit(INTERRUPTED_EXIT)
    except BrokenPipeError:  # the reader of our output left
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


class _Seconds(TextColumn):
    """How long a step took, or has taken so far."""

    def __init__(self) -> None:
        super().__init__("")

    def render(self, task: Task) -> Text:
        elapsed = task.finished_time if task.finished else task.elapsed
        return Text(f"{elapsed or 0.0:.1f} s", style="cyan")


class Steps:
    """Shows each step as it runs, with its time, on stderr. Calling it ends one step and starts another."""

    def __init__(self, display: RichProgress, names: dict[str, str]) -> None:
        self._display, self._names = display, names
        self._running: tuple[TaskID, str, float] | None = None

    def __call__(self, key: str) -> None:
        self.finish()
        name = self._names.get(key, key)
        self._running = (self._display.add_task(name, total=1), name, time.monotonic())

    def detail(self, text: str) -> None:
        """Say how far the running step is."""
        if self._running is not None:
            self._display.update(self._running[0], description=f"{self._running[1]}: {text}")

    def finish(self) -> None:
        """End the running step, if there is one."""
        if self._running is not None:
            row, name, begun = self._running
            self._display.update(row, completed=1)
            self._running = None
            if not err.is_terminal:
                say(f"{name}: {time.monotonic() - begun:.2f} s", err)


@contextmanager
def steps(names: dict[str, str]) -> Iterator[Steps]:
    """Yield what shows the steps. Args: names: what to call a step, by its key."""
    display = RichProgress(
        SpinnerColumn(finished_text="[green]✓[/]"),
        TextColumn("{task.description}"),
        _Seconds(),
        console=err,
        disable=not err.is_terminal,
    )
    with display:
        shown = Steps(display, names)
        yield shown
        shown.finish()
