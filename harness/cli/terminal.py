"""Commands' end, output and progress."""

import json
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event, Thread

from rich.console import Console
from rich.markup import escape
from rich.progress import Progress as RichProgress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

from fairshares.harness.command_name import as_called
from fairshares.harness.errors import SHELL, FairSharesError, naming
from fairshares.harness.privacy.ledger.charge import NOTHING_SPENT, SPENT
from fairshares.harness.system.progress import listening
from fairshares.harness.system.signals import take_interrupts
from fairshares.harness.views.parts import Part
from fairshares.harness.views.rendering.text import printable, render
from fairshares.protocols.json_values import JsonValue

INTERRUPTED_EXIT = 130
INTERRUPTED = "Interrupted: no party was left running, and no result half-written."

_PIPE_WIDTH = 120  # of tables where there is no terminal
_TOLD_AFTER_S = 2.0  # shorter steps show no count
_TOLD_EVERY_S = 5.0  # in a log


def _console(*, stderr: bool) -> Console:
    return Console(
        stderr=stderr,
        highlight=False,
        emoji=False,
        width=None if (sys.stderr if stderr else sys.stdout).isatty() else _PIPE_WIDTH,
    )


@dataclass(frozen=True)
class Output:
    """The options --json, --quiet and --verbose."""

    json: bool = False
    quiet: bool = False
    verbose: bool = False


out, err = _console(stderr=False), _console(stderr=True)
output = Output()  # of the command that runs


def say(text: str, console: Console | None = None) -> None:
    """Print prose, wrapped on a terminal."""
    _say(as_called(text), console or out, "announcement")


def _say(text: str, console: Console, kind: str) -> None:
    if console is not err or not output.json:
        console.print(text, soft_wrap=not console.is_terminal)
    elif not err.quiet:
        print(json.dumps({kind: Text.from_markup(text).plain}, ensure_ascii=False), file=sys.stderr)


def show(*parts: Part) -> None:
    """Print parts of a view on stdout."""
    render(parts, out)


def print_json(value: JsonValue) -> None:
    """Print JSON on stdout, as `print_json_text`."""
    print_json_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def print_json_text(text: str) -> None:
    """Print a text of JSON on stdout.

    Guarantees: names in it reach a terminal without characters that control it, as these become escapes of
    JSON, which have the same meaning for who parses it.  [test: tests/harness/cli/test_terminal.py]
    """
    print(
        "".join(c if c.isprintable() or c in "\n\N{NO-BREAK SPACE}" else json.dumps(c)[1:-1] for c in text),
        end="",
    )


def show_or_print(value: JsonValue, *parts: Part) -> None:
    """Show parts of a view, or print their value as JSON."""
    if output.json:
        print_json(value)
    else:
        show(*parts)


def announce(*texts: str) -> None:
    """Say on stderr what a run does, unless --quiet."""
    for text in texts:
        say(plain(text), err)


def plain(text: str) -> str:
    """Return a text without markup and control characters."""
    return escape(printable(text))


@contextmanager
def ending_well(of_command: Output) -> Iterator[None]:
    """Make a command end well: our own errors in one sentence, without traceback, and an exit code.

    Termination, and the loss of the terminal, count as Ctrl-C, so that parties are stopped and shares
    removed. With `json`, stdout holds only JSON, and stderr JSON lines; with `quiet`, stderr only errors.
    [test: tests/commands/test_faults.py]
    """
    global output
    take_interrupts()
    output, out.quiet, err.quiet = of_command, of_command.json, of_command.quiet
    before = len(SPENT)
    try:
        with warnings.catch_warnings(), naming(SHELL):
            warnings.showwarning = lambda message, *_: announce(str(message))
            yield
        sys.stdout.flush()
    except FairSharesError as error:
        _end("[bold red]Error:[/] ", str(error), *SPENT[before:])
        sys.exit(1)
    except KeyboardInterrupt:
        _end("", INTERRUPTED, *(SPENT[before:] or [NOTHING_SPENT]))
        sys.exit(INTERRUPTED_EXIT)
    finally:
        output, out.quiet, err.quiet = Output(), False, False


def _end(mark: str, *texts: str) -> None:
    err.quiet = False
    first, *others = map(plain, texts)
    _say(first if output.json else mark + first, err, "error")
    for text in others:
        say(text, err)


class Steps:
    """Shows each step with its time on stderr; a call ends one step and starts the next.

    Without a terminal, long steps report every few seconds.
    """

    def __init__(self, display: RichProgress, names: dict[str, str]) -> None:
        self._display, self._names = display, names
        self._running: tuple[TaskID, str, float] | None = None
        self._told, self._far = 0.0, ""

    def __call__(self, key: str) -> None:
        self.finish()
        name = self._names.get(key, key)
        self._running = (self._display.add_task(name, total=1), name, time.monotonic())
        self._told, self._far = time.monotonic(), ""

    def detail(self, text: str) -> None:
        """Show the step's progress."""
        if self._running is not None:
            self._far = text
            self._display.update(self._running[0], description=f"{self._running[1]}: {plain(text)}")

    def count(self, done: int, of: int) -> None:
        """Show how many parts of the step are done, and the remaining time."""
        if self._running is None:
            return
        elapsed = time.monotonic() - self._running[2]
        if elapsed > _TOLD_AFTER_S and done:
            self.detail(f"{done:,} of {of:,}, about {elapsed / done * (of - done):.0f} s left")
            self.tell_log()

    def tell_log(self) -> None:
        """Report the step in a log, unless just done."""
        running, now = self._running, time.monotonic()
        if running is not None and now - self._told > _TOLD_EVERY_S and _is_log():
            self._told = now
            say(plain(f"{running[1]}: {self._far or 'running'}, {now - running[2]:.0f} s so far"), err)

    def finish(self) -> None:
        """End the step, if any."""
        if self._running is not None:
            row, name, begun = self._running
            self._display.update(row, completed=1, description=name)
            self._running = None
            if _is_log():
                say(f"{plain(name)}: {time.monotonic() - begun:.2f} s", err)


def _is_log() -> bool:
    return not (err.is_terminal or err.quiet or output.json)


@contextmanager
def steps(names: dict[str, str]) -> Iterator[Steps]:
    """Yield a display of steps, given their names."""
    display = RichProgress(
        SpinnerColumn(finished_text="[green]✓[/]"),
        TextColumn("{task.description}"),
        TimeElapsedColumn(),
        console=err,
        disable=not err.is_terminal or err.quiet or output.json,
    )
    shown, ended = Steps(display, names), Event()

    def keep_telling() -> None:
        while not ended.wait(1):
            shown.tell_log()

    teller = Thread(target=keep_telling, daemon=True)
    teller.start()
    try:
        with display, listening(shown.count):
            yield shown
            shown.finish()
    finally:
        ended.set()
        teller.join()
