"""How far a call is: one line on a terminal or in a notebook, of whatever takes longer than two seconds."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import Timer

from rich.console import Console
from rich.markup import escape
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from harness.engines.base import Progress as Begin
from harness.system.progress import listening

_SHOWN_AFTER_S = 2.0


def console_of_people() -> Console:
    """Return standard error; a notebook takes the signs of a terminal, as long as they are of one line."""
    console = Console(stderr=True)
    return Console(stderr=True, force_terminal=True, force_jupyter=False) if console.is_jupyter else console


@contextmanager
def steps(names: Mapping[str, str]) -> Iterator[Begin]:
    """Yield what is told of each step that begins; show nothing where nobody looks. Args: names: by step."""
    console = console_of_people()
    if not console.is_terminal:
        yield lambda _: None
        return
    columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    shown = Progress(*columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False)
    line, running = shown.add_task(""), [""]

    def begin(step: str) -> None:
        running[0] = names.get(step, step)
        shown.update(line, description=escape(running[0]))

    def count(done: int, of: int) -> None:
        shown.update(line, description=escape(f"{running[0]}: {done:,} of {of:,}"))

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
