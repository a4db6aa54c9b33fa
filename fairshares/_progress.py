"""One line of progress for calls of more than two seconds."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import StringIO
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from fairshares.harness.engines.execution import Progress as Begin
from fairshares.harness.system.progress import listening
from fairshares.harness.system.threads import ContextTimer

if TYPE_CHECKING:
    from IPython.display import DisplayHandle

_SHOWN_AFTER_S = 2.0


class _ProgressLine:
    """The line that shows the step that runs, by its name.

    Attributes:
        shown: The progress display, which draws the line once it is started.
        names: The steps' names.
    """

    def __init__(self, shown: Progress, names: Mapping[str, str]) -> None:
        self.shown = shown
        self.names = names
        self._row = shown.add_task("", far="")

    def begin(self, step: str) -> None:
        """Show a step that begins."""
        self.shown.update(self._row, far="", description=escape(self.names.get(step, step)))

    def count(self, done: int, total: int) -> None:
        """Show how many of the step's parts are done."""
        self.shown.update(self._row, far=f": {done:,} of {total:,}")


@contextmanager
def steps(names: Mapping[str, str]) -> Iterator[Begin]:
    """Show the running step in a line while the block runs; silent where nobody looks.

    Args:
        names: The steps' names for people.
    Returns:
        A function that takes each step as the step begins.
    """
    console = Console(stderr=True)
    if console.is_jupyter:
        # A terminal's control codes erase nothing in a notebook, and stderr is red.
        console = Console(file=_CellOutput(), force_terminal=True, force_jupyter=False)
    shown = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}{task.fields[far]}"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
        disable=not console.is_terminal,
    )
    line = _ProgressLine(shown, names)
    waiting = ContextTimer(_SHOWN_AFTER_S, shown.start)
    waiting.daemon = True
    waiting.start()
    try:
        with listening(line.count):
            yield line.begin
    finally:
        waiting.cancel()
        waiting.join()
        shown.stop()


class _CellOutput(StringIO):
    """A file that shows its last line in a notebook cell's output, which is made at the first write.

    It keeps nothing itself. Each write replaces the output by what follows the last control code that erases
    a line.
    """

    def __init__(self) -> None:
        self._shown: DisplayHandle | None = None

    def write(self, text: str) -> int:
        """Show a text, and return its length."""
        from IPython.display import display

        if self._shown is None:
            self._shown = display({"text/plain": ""}, raw=True, display_id=True)
        _, _, line = text.rpartition("\x1b[2K")
        self._shown.update({"text/plain": line}, raw=True)
        return len(text)
