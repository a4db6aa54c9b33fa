"""One line of progress for calls of more than two seconds."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from threading import Timer
from types import SimpleNamespace

from rich.console import Console
from rich.markup import escape
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from fairshares.harness.engines.base import Progress as Begin
from fairshares.harness.system.progress import listening

_SHOWN_AFTER_S = 2.0


@contextmanager
def steps(names: Mapping[str, str]) -> Iterator[Begin]:
    """Yield a function that takes each step as it begins; silent where nobody looks."""
    console = Console(stderr=True)
    if console.is_jupyter:  # where a terminal's signs erase nothing, and stderr is red
        from IPython.display import display

        cell = cache(lambda: display({"text/plain": ""}, raw=True, display_id=True))
        told = SimpleNamespace(
            write=lambda text: cell().update({"text/plain": text.rpartition("\x1b[2K")[2]}, raw=True),
            flush=lambda: None,
        )
        console = Console(file=told, force_terminal=True, force_jupyter=False)  # type: ignore[arg-type]
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
    line, waiting = shown.add_task("", far=""), Timer(_SHOWN_AFTER_S, shown.start)
    waiting.daemon = True
    waiting.start()
    try:
        with listening(lambda done, of: shown.update(line, far=f": {done:,} of {of:,}")):
            yield lambda step: shown.update(line, far="", description=escape(names.get(step, step)))
    finally:
        waiting.cancel()
        waiting.join()
        shown.stop()
