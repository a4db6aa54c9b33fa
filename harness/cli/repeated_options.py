"""Options that `fairshares.toml`, in the working directory, gives to every command that has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from invoke.parser.context import ParserContext

from harness.cli.command_line import Command, Option, as_text
from harness.errors import OptionError
from harness.system.spelling import similar

FILE = Path("fairshares.toml")
_WAY_OUT = "it gives options by name, `epsilon = 1`, to all commands, or under [weights] to one"


def fill_in(given: Sequence[ParserContext], commands: Mapping[str, Command]) -> str:
    """Give commands the options that the file has and the command line has not; return a sentence on these.

    A command's own table goes before what stands outside of tables.
    [test: tests/harness/cli/test_repeated_options.py]
    Args: given: what was typed of each command; commands: all there are, by name.
    Raises: OptionError: the file cannot be read, or names what no command has.
    """
    if not given or not FILE.exists():
        return ""
    from harness.system.documents import Refusal, read_toml  # which most commands need not load to begin

    found = read_toml(FILE, Refusal(OptionError, str(FILE), "a file of options", _WAY_OUT))
    tables = {name: table for name, table in found.items() if isinstance(table, dict)}
    for_all = {name: value for name, value in found.items() if name not in tables}
    options = {name: option for command in commands.values() for name, option in command.options.items()}
    texts = {"": _texts("no command has", for_all, options)}
    for name, table in tables.items():
        if name not in commands:
            raise OptionError(f"{FILE}: there is no command [{name}]{similar(name, commands)}.")
        texts[name] = _texts(f"[{name}] has not got", table, commands[name].options)
    taken = {}
    for context in given:
        for name, text in {**texts[""], **texts.get(str(context.name), {})}.items():
            flag = options[name].flag
            if flag in context.flags and not context.flags[flag].got_value:
                context.flags[flag].value, taken[flag] = text, text
    return f"From {FILE}: {', '.join(f'{flag} {text}' for flag, text in taken.items())}" if taken else ""


def _texts(lacking: str, table: Mapping[str, Any], options: Mapping[str, Option[Any]]) -> dict[str, str]:
    for name in table:
        if name not in options:
            raise OptionError(f"{FILE}: {lacking} an option {name!r}{similar(name, options)}.")
        if options[name].parse is None:
            raise OptionError(
                f"{FILE}: {name} takes no value; give {options[name].flag} as you run a command."
            )
    return {name: str(as_text(name, value)) for name, value in table.items()}
