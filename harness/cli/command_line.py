"""Invoke's commands from classes of options, checks of command lines, and `fairshares.toml`."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from invoke import Context, Task
from invoke.parser.argument import Argument
from invoke.parser.context import ParserContext

from fairshares.harness.command_name import COMMAND
from fairshares.harness.errors import OptionError
from fairshares.harness.request.fields import Option, Options, as_text, check_not_empty
from fairshares.harness.request.readers import in_module
from fairshares.harness.system.spelling import similar

if TYPE_CHECKING:
    from fairshares.harness.system.documents import TomlValue

OPTIONS_FILE = Path("fairshares.toml")  # a file in the working directory
ANALYST = "Analyst"
CLIENT = "Client"
PARTY = "Party, or owner of a host"
BENCHMARKS = "Benchmarks"
PROJECT = "The project itself"
ROLES = (ANALYST, CLIENT, PARTY, BENCHMARKS, PROJECT)
OF_ALL = {
    "json": "print {}, and nothing else, on standard output",
    "quiet": "print the answer only, and on standard error errors only",
    "verbose": "print all that there is to say of privacy, cost and where it ran",
}
_WAY_OUT = "it gives options by name, `epsilon = 1`, to all commands, or under [weights] to one"


class Body(Protocol):
    """The function that invoke calls, with texts of options by name; True of a switch that is given."""

    def __call__(self, _context: Context, /, **texts: str | bool) -> None: ...


class Command(Task[Body]):
    """A command that calls `place`, a `module:function`, with its options.

    The module is imported when the command runs, so that help and mistakes do not wait for it.

    Attributes:
        options: The options by name.
        first: The flag of the option whose value may follow the command's name without a flag, or "".
        example: The arguments after the command's name in an example.
        prints: The kind of value that the command prints as JSON, or "".
        role: The role whose command it is, one of `ROLES`.
    """

    def __init__(self, name: str, options: type[Options], place: str, role: str) -> None:
        self.options = dict(options.declared)
        self.first = options.declared[options.first].flag if options.first else ""
        given = [f"{option.flag} {option.example}" for option in self.options.values() if option.example]
        if options.also:
            given.append(options.also)
        self.example = " ".join(given)
        self.prints = options.prints
        self.role = role

        def body(_context: Context, **texts: str | bool) -> None:
            function = in_module(place)()
            function(options(**texts))

        body.__doc__ = options.summary()
        super().__init__(body, name=name, positional=[], auto_shortflags=False)

    def get_arguments(self, ignore_unknown_help: bool | None = None) -> list[Argument]:  # noqa: ARG002
        """Return invoke's arguments, all by name, so that misspelled options never become values."""
        return [
            Argument(
                names=(option.flag.removeprefix("--"),),
                attr_name=name if "_" in name else None,
                kind=str if option.parse else bool,
                default="" if option.parse else False,
            )
            for name, option in self.options.items()
        ]

    @property
    def usage(self) -> str:
        """The value that needs no flag, with a space before it, in brackets if optional; or ""."""
        if not self.first:
            return ""
        name = self.first.removeprefix("--")
        value = name.upper()
        return f" {value}" if self.options[name].example else f" [{value}]"

    def help_rows(self) -> list[tuple[str, str]]:
        """Return options' flags and help, sorted by name; flags of a single letter come last."""
        names = sorted(self.options, key=lambda name: (len(name) == 1, name))
        rows = []
        for name in names:
            option = self.options[name]
            flag = f"{option.flag}=…" if option.parse else option.flag
            rows.append((flag, option.explained))
        return rows


def check_command(name: str, commands: Collection[str]) -> None:
    """Raise OptionError, with the command that was meant, if there is none of this name."""
    if name not in commands:
        raise OptionError(_unknown(name, "", (), commands))


def checked(words: Sequence[str], commands: Mapping[str, Command], of_all: Mapping[str, bool]) -> list[str]:
    """Return a command line as invoke takes it: a value by its flag, single-letter options with one dash.

    Args:
        words: The command line, without the program's name.
        commands: All commands by name.
        of_all: Whether an option of invoke's own takes a value, by its flag.

    Raises:
        OptionError: There is no such command or option, an option is given twice, or it lacks its value.
    """
    command = ""  # the command's name, once it was read
    first = ""  # the command's option that a value without a flag is for, until there was one
    takes_value: dict[str, bool] = {}  # the command's options by flag
    waiting = ""  # the option whose value is the next word
    given: set[str] = set()
    accepted: list[str] = []
    for word in words:
        if waiting:
            _check_value(word, waiting, command, takes_value)
            waiting = ""
            accepted.append(word)
            continue
        if first and not word.startswith("-"):
            argument = f"{first}={word}"
            first = ""
        else:
            argument = word
        name, equals, value = argument.partition("=")
        has_value = bool(equals)
        if name in takes_value:
            _check_option(name, given, value if has_value else None)
            given.add(name)
            if takes_value[name] and not has_value:
                waiting = name
            is_letter = len(name) == len("--n")
            accepted.append(argument.removeprefix("-") if is_letter else argument)
            continue
        if argument in commands and not command:
            command = argument
            first = commands[command].first
            takes_value = {
                option.flag: option.parse is not None for option in commands[command].options.values()
            }
        elif name in of_all:
            is_help_on_command = name == "--help" and bool(command)
            if of_all[name] and not has_value and not is_help_on_command:
                waiting = name
        else:
            raise OptionError(_unknown(argument, command, takes_value, commands))
        accepted.append(argument)
    if waiting:
        raise _without_value(waiting, command)
    return accepted


def _check_value(word: str, waiting: str, command: str, options: Collection[str]) -> None:
    """Refuse a word that cannot be the value of the option `waiting`."""
    if word in options:
        raise _without_value(waiting, command)
    check_not_empty(word, waiting)


def _check_option(name: str, given: Collection[str], value: str | None) -> None:
    """Refuse an option that was given before, or that is given an empty value; None is no value yet."""
    if name in given:
        raise OptionError(f"{name} is given twice; keep one.")
    if value is not None:
        check_not_empty(value, name)


def _without_value(option: str, command: str) -> OptionError:
    return OptionError(f"{option} needs a value; `{COMMAND} {command} --help` explains it.")


def _unknown(word: str, command: str, options: Collection[str], commands: Collection[str]) -> str:
    """Return a sentence on a word that is no command, no option, and no value of an option."""
    if not command:
        return f"There is no command {word!r}{similar(word, commands)}; `{COMMAND}` lists all."
    if word in commands:
        return f"{word!r} is a second command, after {command}; run one at a time."
    if word.startswith("-"):
        of_every_command = [f"--{name}" for name in OF_ALL]
        wrong = f"{command} has no option {word}{similar(word, [*options, *of_every_command])}"
    else:
        is_file = bool(Path(word).suffix)
        example = f"--records {word}" if "--records" in options and is_file else "--out results"
        wrong = f"{word!r} belongs to no option of {command}; values go by name, for example {example}"
    return f"{wrong}; `{COMMAND} {command} --help` explains all."


def fill_in(given: Sequence[ParserContext], commands: Mapping[str, Command]) -> str:
    """Give commands the options of `fairshares.toml` that the command line lacks.

    [test: tests/harness/cli/test_command_line.py]

    Args:
        given: The commands of the command line, whose values of options are changed here.
        commands: All commands by name.

    Returns:
        A sentence that names the options that were given, or "" if none was.

    Raises:
        OptionError: The file cannot be read, or names something that does not exist.
    """
    if not given or not OPTIONS_FILE.exists():
        return ""
    from fairshares.harness.system.documents import Refusal, read_toml  # most commands start without it

    content = read_toml(OPTIONS_FILE, Refusal(OptionError, str(OPTIONS_FILE), "a file of options", _WAY_OUT))
    tables = {name: table for name, table in content.items() if isinstance(table, dict)}
    for_all = {name: value for name, value in content.items() if name not in tables}
    options = {name: option for command in commands.values() for name, option in command.options.items()}
    texts_for_all = _texts("no command has", for_all, options)
    texts_by_command = {}
    for name, table in tables.items():
        if name not in commands:
            raise OptionError(f"{OPTIONS_FILE}: there is no command [{name}]{similar(name, commands)}.")
        texts_by_command[name] = _texts(f"[{name}] has not got", table, commands[name].options)
    filled = {}
    for context in given:
        own_texts = texts_by_command.get(str(context.name), {})
        left_out = _of_runs_alone(context, commands)
        for name, text in {**texts_for_all, **own_texts}.items():
            flag = options[name].flag
            if _lacks(context, flag) and name not in left_out:
                context.flags[flag].value = text
                filled[flag] = text
    if not filled:
        return ""
    sentence = f"From {OPTIONS_FILE}: {', '.join(f'{flag} {text}' for flag, text in filled.items())}"
    return "".join(
        character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in sentence
    )


def _lacks(context: ParserContext, flag: str) -> bool:
    """Return whether a command has an option, and the command line does not give it."""
    return flag in context.flags and not context.flags[flag].got_value


def _of_runs_alone(context: ParserContext, commands: Mapping[str, Command]) -> list[str]:
    """Return the options that the command line has no use for, as it asks for a plan."""
    command = commands.get(str(context.name))
    if command is None or not _is_plan(context):
        return []
    return [name for name, option in command.options.items() if option.of_runs]


def _is_plan(context: ParserContext) -> bool:
    """Return whether the command line asks for a plan in place of a run."""
    return "--plan" in context.flags and context.flags["--plan"].got_value


def _texts(
    lacking: str, table: "Mapping[str, TomlValue]", options: Mapping[str, Option[object]]
) -> dict[str, str]:
    """Return a table's values as texts; refuse names that are no options with a value.

    `lacking` begins the sentence on an option that is not there, for example "no command has".
    """
    for name in table:
        if name not in options and name not in OF_ALL:
            raise OptionError(f"{OPTIONS_FILE}: {lacking} an option {name!r}{similar(name, options)}.")
        if name in OF_ALL or options[name].parse is None:
            raise OptionError(f"{OPTIONS_FILE}: {name} takes no value; give --{name} as you run a command.")
    texts = {name: as_text(value) for name, value in table.items()}
    for name, text in texts.items():
        check_not_empty(text, options[name].flag)
    return texts
