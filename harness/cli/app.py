"""What `./inv` becomes once its environment is there: invoke, whose complaints say the way out."""

from __future__ import annotations

import inspect
import json
import os
import sys
import tomllib
from pathlib import Path

from invoke.exceptions import ParseError
from invoke.program import Program


class Commands(Program):
    """The commands of `tasks.py`."""

    def print_version(self) -> None:
        project = Path(__file__).resolve().parents[2] / "pyproject.toml"
        print(f"FairShares {tomllib.loads(project.read_text(encoding='utf-8'))['project']['version']}")

    def print_task_help(self, name: str) -> None:
        """Say what a command does, and what each of its options."""
        command = self.collection[name]
        rows = command.help_rows()
        print(f"Usage: ./inv {name}{' [options]' if rows else ''}\n\n{inspect.getdoc(command)}")
        if rows:
            print("\nOptions:")
            self.print_columns(rows)

    def task_list_opener(self, extra: str = "") -> str:  # noqa: ARG002  (as invoke calls it)
        return "Commands; `./inv COMMAND --help` explains the options of one"

    def parse_tasks(self) -> None:
        """Find the commands and their options. Raises: ParseError: one is misspelt, or has no value."""
        from harness.cli.command_line import checked  # can be imported once invoke has found tasks.py

        commands = {name: self.collection[name] for name in self.collection.task_names}
        flags = self.initial_context.flags
        of_all = {flag: flags[flag].takes_value for flag in self.initial_context.flag_names()}
        words = self.core.unparsed
        try:
            self.core.unparsed = checked(words, commands, of_all)
        except ParseError as error:
            if "--json" not in words:
                raise
            said = str(error).removeprefix("Error: ")
            raise ParseError(json.dumps({"error": said}, ensure_ascii=False)) from None
        super().parse_tasks()


program = Commands(name="FairShares", binary="./inv", binary_names=["inv"])

if __name__ == "__main__":
    try:
        program.run()
    except BrokenPipeError:  # whoever read what we print has left, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
