"""One line of progress for calls of more than two seconds."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from threading import Timer
from types import SimpleNamespace

from rich.console import Console
from rich.markup import escape
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from fairshares.harness.engines.execution import Progress as Begin
from fairshares.harness.system.progress import listening

_SHOWN_AFTER_S = 2.0


@contextmanager
def steps(names: Mapping[str, str]) -> Iterator[Begin]:
    """Yield a function that takes each step as it begins; silent where nobody looks."""
    console = Console(stderr=True)
    if console.is_jupyter:
        console = _console_in_notebook()
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
    line = shown.add_task("", far="")

    def begin(step: str) -> None:
        shown.update(line, far="", description=escape(names.get(step, step)))

    def count(done: int, total: int) -> None:
        shown.update(line, far=f": {done:,} of {total:,}")

    waiting = Timer(_SHOWN_AFTER_S, shown.start)
    waiting.daemon = True
    waiting.start()
    try:
        with listening(count):
            yield begin
    finally:
        waiting.cancel()
        waiting.join()
        shown.stop()


def _console_in_notebook() -> Console:
    """Return a console that shows its last line in a cell's output.

    A terminal's signs erase nothing there, and stderr is red. So each write replaces the output by what
    follows the last sign that erases a line.
    """
    from IPython.display import display

    output = cache(lambda: display({"text/plain": ""}, raw=True, display_id=True))  # made at the first write

    def write(text: str) -> None:
        _, _, line = text.rpartition("\x1b[2K")
        output().update({"text/plain": line}, raw=True)

    file = SimpleNamespace(write=write, flush=lambda: None)
    return Console(file=file, force_terminal=True, force_jupyter=False)  # type: ignore[arg-type]
