"""Commands' end, output and progress."""

import json
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event

from rich.console import Console
from rich.markup import escape
from rich.progress import Progress as RichProgress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

from fairshares.harness.command_name import as_called
from fairshares.harness.errors import FairSharesError, exit_code, telling_of_extras
from fairshares.harness.privacy.ledger.charge import NOTHING_SPENT, SPENT
from fairshares.harness.system.progress import listening
from fairshares.harness.system.signals import take_interrupts
from fairshares.harness.system.threads import ContextThread
from fairshares.harness.views.parts import Part
from fairshares.harness.views.rendering.text import printable, render
from fairshares.protocols.json_values import JsonValue

INTERRUPTED_EXIT = 130
INTERRUPTED = "Interrupted: no party was left running, and no result half-written."

_PIPE_WIDTH = 120  # the width of tables where there is no terminal
_TOLD_AFTER_S = 2.0  # shorter steps show no count
_TOLD_EVERY_S = 5.0  # the time between two lines of progress in a log


def _console(*, stderr: bool) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    return Console(
        stderr=stderr,
        highlight=False,
        emoji=False,
        width=None if stream.isatty() else _PIPE_WIDTH,  # None: the terminal's
    )


@dataclass(frozen=True)
class Output:
    """The options --json, --quiet and --verbose."""

    json: bool = False
    quiet: bool = False
    verbose: bool = False


out = _console(stderr=False)
err = _console(stderr=True)
output = Output()  # the output of the command that runs


def say(text: str, console: Console | None = None) -> None:
    """Print prose, wrapped on a terminal."""
    _say(as_called(text), console or out, "announcement")


def _say(text: str, console: Console, kind: str) -> None:
    """Print a text with markup; with `--json`, what goes to stderr is a line of JSON with the key `kind`."""
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
    print("".join(_escaped(character) for character in text), end="")


def _escaped(character: str) -> str:
    """Return a character of a text of JSON, as an escape if it could control a terminal."""
    if character.isprintable() or character in "\n\N{NO-BREAK SPACE}":
        return character
    return json.dumps(character)[1:-1]  # without the quotes


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
    output = of_command
    out.quiet = of_command.json
    err.quiet = of_command.quiet
    before = len(SPENT)
    try:
        with warnings.catch_warnings(), telling_of_extras():
            warnings.showwarning = lambda message, *_: announce(str(message))
            yield
        sys.stdout.flush()
    except FairSharesError as error:
        _end("[bold red]Error:[/] ", str(error), *SPENT[before:])
        sys.exit(exit_code(error))
    except KeyboardInterrupt:
        _end("", INTERRUPTED, *(SPENT[before:] or [NOTHING_SPENT]))
        sys.exit(INTERRUPTED_EXIT)
    finally:
        output = Output()
        out.quiet = False
        err.quiet = False


def _end(mark: str, message: str, *spent: str) -> None:
    """Say on stderr why a command ends early, also with --quiet, and what its runs have spent.

    `mark` is markup before the message, which JSON has not.
    """
    err.quiet = False
    text = as_called(plain(message))
    _say(text if output.json else mark + text, err, "error")
    for sentence in spent:
        say(plain(sentence), err)


@dataclass(frozen=True)
class _RunningStep:
    """The step that runs: its row in the display, its name, and when it began."""

    row: TaskID
    name: str
    begun: float


class Steps:
    """Shows each step with its time on stderr; a call ends one step and starts the next.

    Without a terminal, long steps report every few seconds.
    """

    def __init__(self, display: RichProgress, names: dict[str, str]) -> None:
        self._display = display
        self._names = names
        self._running: _RunningStep | None = None
        self._progress = ""  # the last message of the running step on its progress
        self._last_report = 0.0  # when a log last heard of it

    def __call__(self, key: str) -> None:
        self.finish()
        name = self._names.get(key, key)
        now = time.monotonic()
        self._running = _RunningStep(self._display.add_task(name, total=1), name, now)
        self._progress = ""
        self._last_report = now

    def detail(self, text: str) -> None:
        """Show the step's progress."""
        step = self._running
        if step is not None:
            self._progress = text
            self._display.update(step.row, description=f"{step.name}: {plain(text)}")

    def count(self, done: int, total: int) -> None:
        """Show how many of the step's parts are done, and the remaining time."""
        step = self._running
        if step is None:
            return
        elapsed = time.monotonic() - step.begun
        if elapsed > _TOLD_AFTER_S and done:
            left = elapsed / done * (total - done)
            self.detail(f"{done:,} of {total:,}, about {left:.0f} s left")
            self.tell_log()

    def tell_log(self) -> None:
        """Report the step in a log, unless a report was just made."""
        step = self._running
        now = time.monotonic()
        if step is not None and now - self._last_report > _TOLD_EVERY_S and _is_log():
            self._last_report = now
            progress = self._progress or "running"
            say(plain(f"{step.name}: {progress}, {now - step.begun:.0f} s so far"), err)

    def keep_telling(self, ended: Event) -> None:
        """Report the step in a log, again and again until the event is set."""
        while not ended.wait(1):
            self.tell_log()

    def finish(self) -> None:
        """End the step, if any."""
        step = self._running
        if step is None:
            return
        self._display.update(step.row, completed=1, description=step.name)
        self._running = None
        if _is_log():
            say(f"{plain(step.name)}: {time.monotonic() - step.begun:.2f} s", err)


def _is_log() -> bool:
    """Return whether stderr is a log, for lines of text: no terminal, and neither --quiet nor --json."""
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
    shown = Steps(display, names)
    ended = Event()
    teller = ContextThread(target=shown.keep_telling, args=(ended,), daemon=True)
    teller.start()
    try:
        with display, listening(shown.count):
            yield shown
            shown.finish()
    finally:
        ended.set()
        teller.join()
