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

FILE = Path("fairshares.toml")  # in the working directory
ANALYST, CLIENT, PARTY = "Analyst", "Client", "Party, or owner of a host"
BENCHMARKS, PROJECT = "Benchmarks", "The project itself"
ROLES = (ANALYST, CLIENT, PARTY, BENCHMARKS, PROJECT)
OF_ALL = {
    "json": "print {}, and nothing else, on standard output",
    "quiet": "print the answer only, and on standard error errors only",
    "verbose": "print all that there is to say of privacy, cost and where it ran",
}
OF_RUNS = ("shares", "hosts", "invite", "clients", "chain")  # for a run of a release, not for its plan
_WAY_OUT = "it gives options by name, `epsilon = 1`, to all commands, or under [weights] to one"


class Body(Protocol):
    """What invoke calls, with texts of options by name; True of a switch that is given."""

    def __call__(self, _context: Context, /, **texts: str | bool) -> None: ...


class Command(Task[Body]):
    """A command that calls `place`, a `module:function`, with its options; importing it late starts fast."""

    def __init__(self, name: str, options: type[Options], place: str, role: str) -> None:
        self.options = dict(options.declared)
        self.first = options.declared[options.first].flag if options.first else ""
        needed = (f"{option.flag} {option.example}" for option in self.options.values() if option.example)
        self.example = " ".join(filter(None, (*needed, options.also)))  # of what follows its name
        self.prints, self.role = options.prints, role

        def body(_context: Context, **texts: str | bool) -> None:
            in_module(place)()(options(**texts))

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
        """The value that needs no flag, in brackets if optional."""
        name = self.first.removeprefix("--")
        needed = bool(name) and self.options[name].example
        return f" {name.upper() if needed else f'[{name.upper()}]'}" if name else ""

    def help_rows(self) -> list[tuple[str, str]]:
        """Return options' flags and help, sorted by name."""
        return [
            (f"{option.flag}{'=…' if option.parse else ''}", option.explained)
            for _, option in sorted(self.options.items(), key=lambda item: (len(item[0]) == 1, item[0]))
        ]


def checked(words: Sequence[str], commands: Mapping[str, Command], of_all: Mapping[str, bool]) -> list[str]:
    """Return a command line as invoke takes it, single-letter options with one dash; or raise OptionError.

    `of_all` tells which of invoke's own options take a value.
    """
    command, options, first, waiting, accepted = "", dict[str, bool](), "", "", list[str]()
    given = set[str]()
    for word in words:
        name, equals, value = word.partition("=")
        if not waiting and first and not word.startswith("-"):
            name, equals, value, word, first = first, "=", word, f"{first}={word}", ""
        if (name if not waiting else word) in options:
            _check_answered(waiting, command)
            if name in given:
                raise OptionError(f"{name} is given twice; keep one.")
            given.add(name)
            check_not_empty(value if equals else name, name)
            waiting = name if options[name] and not equals else ""
            accepted.append(word[1:] if len(name) == 3 else word)
            continue
        if waiting:
            check_not_empty(word, waiting)
            waiting = ""
        elif word in commands and not command:
            command, first = word, commands[word].first
            options = {option.flag: option.parse is not None for option in commands[word].options.values()}
        elif name in of_all:
            waiting = name if of_all[name] and not equals and not (name == "--help" and command) else ""
        else:
            raise OptionError(_unknown(word, command, options, commands))
        accepted.append(word)
    _check_answered(waiting, command)
    return accepted


def _check_answered(waiting: str, command: str) -> None:
    if waiting:
        raise OptionError(f"{waiting} needs a value; `{COMMAND} {command} --help` explains it.")


def _unknown(word: str, command: str, options: Collection[str], commands: Collection[str]) -> str:
    if not command:
        return f"There is no command {word!r}{similar(word, commands)}; `{COMMAND}` lists all."
    if word in commands:
        return f"{word!r} is a second command, after {command}; run one at a time."
    example = f"--records {word}" if "--records" in options and Path(word).suffix else "--out results"
    wrong = (
        f"{command} has no option {word}{similar(word, [*options, *(f'--{name}' for name in OF_ALL)])}"
        if word.startswith("-")
        else f"{word!r} belongs to no option of {command}; values go by name, for example {example}"
    )
    return f"{wrong}; `{COMMAND} {command} --help` explains all."


def fill_in(given: Sequence[ParserContext], commands: Mapping[str, Command]) -> str:
    """Give commands the file's options that the command line lacks; return a sentence on them.

    Raises OptionError for a faulty file.  [test: tests/harness/cli/test_command_line.py]
    """
    if not given or not FILE.exists():
        return ""
    from fairshares.harness.system.documents import Refusal, read_toml  # most commands start without it

    content = read_toml(FILE, Refusal(OptionError, str(FILE), "a file of options", _WAY_OUT))
    tables = {name: table for name, table in content.items() if isinstance(table, dict)}
    for_all = {name: value for name, value in content.items() if name not in tables}
    options = {name: option for command in commands.values() for name, option in command.options.items()}
    texts = {"": _texts("no command has", for_all, options)}
    for name, table in tables.items():
        if name not in commands:
            raise OptionError(f"{FILE}: there is no command [{name}]{similar(name, commands)}.")
        texts[name] = _texts(f"[{name}] has not got", table, commands[name].options)
    filled = {}
    for context in given:
        for name, text in {**texts[""], **texts.get(str(context.name), {})}.items():
            flag = options[name].flag
            planned = name in OF_RUNS and "--plan" in context.flags and context.flags["--plan"].got_value
            if flag in context.flags and not context.flags[flag].got_value and not planned:
                context.flags[flag].value, filled[flag] = text, text
    said = f"From {FILE}: {', '.join(f'{flag} {text}' for flag, text in filled.items())}" if filled else ""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in said)


def _texts(
    lacking: str, table: "Mapping[str, TomlValue]", options: Mapping[str, Option[object]]
) -> dict[str, str]:
    for name in table:
        if name not in options and name not in OF_ALL:
            raise OptionError(f"{FILE}: {lacking} an option {name!r}{similar(name, options)}.")
        if name in OF_ALL or options[name].parse is None:
            raise OptionError(f"{FILE}: {name} takes no value; give --{name} as you run a command.")
    texts = {name: as_text(value) for name, value in table.items()}
    for name, text in texts.items():
        check_not_empty(text, options[name].flag)
    return texts
