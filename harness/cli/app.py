"""The program behind `./inv` and `fairshares`."""

import inspect
import json
import os
import sys
from pathlib import Path

from invoke.exceptions import ParseError
from invoke.parser.argument import Argument
from invoke.program import Program
from invoke.util import helpline

if __name__ == "__main__":
    sys.path.append(str(Path(__file__).resolve().parents[2]))  # missing when this runs as a file

from fairshares.harness import __version__
from fairshares.harness.cli.command_line import OF_ALL, ROLES, check_command, checked, fill_in
from fairshares.harness.command_name import as_called
from fairshares.harness.errors import SHELL, OptionError, naming
from fairshares.harness.system.signals import end_at_once


class Commands(Program):
    """The commands of `tasks.py`, or of a given namespace."""

    def print_version(self) -> None:
        """Print the project's version."""
        print(f"FairShares {__version__}")

    def print_task_help(self, name: str) -> None:
        """Print a command's help: its usage, what it does, an example, and its options."""
        command = self.collection[name]
        rows = [(option, as_called(explained)) for option, explained in command.help_rows()]
        options = " [options]" if rows else ""
        print(f"Usage: {self.binary} {name}{command.usage}{options}\n\n{inspect.getdoc(command)}")
        if command.example:
            print(f"\nFor example: {self.binary} {name} {command.example}")
        if rows:
            print("\nOptions:")
            self.print_columns(rows)
        else:
            print()
        self._print_options_of_all(command.prints)

    def core_args(self) -> list[Argument]:
        """Return invoke's own options, and the options that all commands have."""
        arguments = list(super().core_args())
        for name, help_text in OF_ALL.items():
            arguments.append(Argument(names=(name,), kind=bool, help=help_text))
        return arguments

    def list_flat(self) -> None:
        """Print the commands by role."""
        print(f"Commands; `{self.binary} COMMAND --help` explains the options of one.\n")
        commands = {name: self.collection[name] for name in self.collection.task_names}
        for role in ROLES:
            rows = [(name, helpline(command)) for name, command in commands.items() if command.role == role]
            if rows:
                print(f"{role}:")
                self.print_columns(rows)
        self._print_options_of_all("the answer as JSON")

    def _print_options_of_all(self, prints: str) -> None:
        """Print the options of every command, --json only for a command that prints something as JSON."""
        rows = []
        for name, help_text in OF_ALL.items():
            if name == "json" and not prints:
                continue
            rows.append((f"--{name}", help_text.format(prints)))
        print("Options of every command:")
        self.print_columns(rows)

    def parse_tasks(self) -> None:
        """Find the command and its options, and fill in what `fairshares.toml` gives; or report mistakes."""
        commands = {name: self.collection[name] for name in self.collection.task_names}
        flags = self.initial_context.flags
        takes_value = {flag: flags[flag].takes_value for flag in self.initial_context.flag_names()}
        words = self.core.unparsed
        try:
            if isinstance(asked := self.args.help.value, str):
                check_command(asked, commands)
            self.core.unparsed = checked(words, commands, takes_value)
            super().parse_tasks()
            filled = fill_in(self.tasks, commands)
            if self.args.json.value and self.tasks and not commands[str(self.tasks[0].name)].prints:
                raise OptionError(f"{self.tasks[0].name} prints no JSON; leave out --json.")
        except (ParseError, OptionError) as error:
            from fairshares.harness.cli.terminal import Output, ending_well  # slow to load

            with ending_well(Output(json=self.args.json.value or "--json" in words)):
                raise OptionError(str(error)) from None
        if filled and not self.args.quiet.value:
            announcement = filled
            if self.args.json.value:
                announcement = json.dumps({"announcement": filled}, ensure_ascii=False)
            print(announcement, file=sys.stderr)

    def execute(self) -> None:
        """Run the command, and end it well."""
        from fairshares.harness.cli.terminal import Output, ending_well  # slow to load

        output = Output(
            json=self.args.json.value,
            quiet=self.args.quiet.value,
            verbose=self.args.verbose.value,
        )
        with ending_well(output):
            super().execute()

    def run(self, argv: list[str] | None = None, exit: bool = True) -> None:
        """Run a command line, by default this process's; all that it says names flags and commands."""
        with naming(SHELL):
            super().run(argv, exit)

    def run_to_the_end(self, arguments: list[str] | None = None) -> None:
        """Run a command line, by default this process's, and exit."""
        end_at_once()
        try:
            self.run(arguments)
        except BrokenPipeError:  # the reader of the output has left, as `head` does
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(1)


program = Commands(name="FairShares", binary="./inv", binary_names=["./inv", "inv"])

if __name__ == "__main__":
    program.run_to_the_end()
