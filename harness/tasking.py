"""How a function becomes a command: every option by its name, with two dashes."""

from __future__ import annotations

from functools import partial

from invoke import task
from invoke.parser import context as parsing

# Options by name only: a misspelt one is then never taken for another one's value.
by_name = partial(task, positional=[], auto_shortflags=False)
# And all of ours with two dashes, that of one letter too, which invoke would spell `-n`.
_flag = parsing.to_flag
parsing.to_flag = lambda name: "--n" if name == "n" else _flag(name)
