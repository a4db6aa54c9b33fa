"""What `./inv` becomes once its environment is there: invoke, whose complaints say the way out."""

from __future__ import annotations

import difflib
import inspect
import os
import re
import sys
import tomllib
from pathlib import Path

from invoke.exceptions import ParseError
from invoke.program import Program

_UNKNOWN = re.compile(r"No idea what '(?P<word>.*)' is!", re.DOTALL)
_NO_VALUE = re.compile(r"Flag <Argument: (?P<name>[\w-]+).*> needed value", re.DOTALL)


class Commands(Program):
    """The commands of `tasks.py`."""

    def print_version(self) -> None:
        project = Path(__file__).resolve().parents[2] / "pyproject.toml"
        print(f"FairShares {tomllib.loads(project.read_text(encoding='utf-8'))['project']['version']}")

    def print_task_help(self, name: str) -> None:
        """Say what a command does, and what each of its options."""
        options = [
            (flag.replace("=STRING", "=…"), said) for flag, said in self.parser.contexts[name].help_tuples()
        ]
        print(
            f"Usage: ./inv {name}{' [options]' if options else ''}\n\n{inspect.getdoc(self.collection[name])}"
        )
        if options:
            print("\nOptions:")
            self.print_columns(options)

    def task_list_opener(self, extra: str = "") -> str:  # noqa: ARG002  (as invoke calls it)
        return "Commands; `./inv COMMAND --help` explains the options of one"

    def parse_tasks(self) -> None:
        try:
            super().parse_tasks()
        except ParseError as error:
            # Without a command it is invoke's own context, which has no name.
            context = error.context
            command = context.name if context else None
            options = list(context.flags) if context and command else []
            commands = [name for name in self.parser.contexts if name]
            raise ParseError(f"Error: {explained(str(error), command, options, commands)}") from None


def explained(complaint: str, command: str | None, options: list[str], commands: list[str]) -> str:
    """Say what is wrong with a command line, and what would be right.

    Args: complaint: as invoke puts it, given back if it is of another kind; command: the one that was
    named, None if there was none so far; options: that it has; commands: all that there are.
    """
    if command and (found := _NO_VALUE.match(complaint)):
        return f"--{found['name']} needs a value; `./inv {command} --help` explains it."
    found = _UNKNOWN.match(complaint)
    if not found:
        return complaint
    word = found["word"]
    if not command:
        return f"There is no command {word!r}{_similar(word, commands)}; `./inv` lists all."
    wrong = (
        f"{command} has no option {word}{_similar(word, options)}"
        if word.startswith("-")
        else f"{word!r} belongs to no option of {command}; values go by name, for example --out results"
    )
    return f"{wrong}; `./inv {command} --help` explains all."


def _similar(word: str, known: list[str]) -> str:
    close = difflib.get_close_matches(word, known, n=1)
    return f" (did you mean {close[0]}?)" if close else ""


program = Commands(name="FairShares", binary="./inv", binary_names=["inv"])

if __name__ == "__main__":
    try:
        program.run()
    except BrokenPipeError:  # whoever read what we print has left, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
