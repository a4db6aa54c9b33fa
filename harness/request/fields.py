"""How an option is declared: its name, its help, its default and what reads it, said once in a class."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar, overload

from harness.errors import OptionError

T = TypeVar("T")
Parser = Callable[[str, str], T]  # a text, and the option that it was given for, for what an error says


@dataclass
class Option(Generic[T]):
    """An option of a command: of an instance of its class, the value; of the class, the option itself.

    Args: parse: reads its text, None for one that is given or not; help: what it is, without its default;
    default: its text unless given; example: a text, where it has to be given; unless: the option with
    which it need not be; offered: False if code asks for it that commands share, but this one has not got it.
    """

    parse: Parser[T] | None
    help: str
    default: str = ""
    example: str = ""
    unless: str = ""
    offered: bool = True
    attribute: str = ""

    def __set_name__(self, owner: type, attribute: str) -> None:
        self.attribute = attribute

    @overload
    def __get__(self, instance: None, owner: type) -> Option[T]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> Option[T] | T:
        if instance is None:
            return self
        found: T = vars(instance)[self.attribute]
        return found

    @property
    def flag(self) -> str:
        """How it is written: `--max-count`, say; or `--with`, of the attribute `with_`."""
        return f"--{self.attribute.rstrip('_').replace('_', '-')}"

    @property
    def explained(self) -> str:
        """What `--help` says of it."""
        said = not self.default or "(default" in self.help or "default: " in self.help
        return self.help if said else f"{self.help}; default: {self.default}"

    def but(self, **changes: Any) -> Option[T]:
        """Return this option, in some ways another: of another help or default, say."""
        return replace(self, **changes)

    @property
    def left_out(self) -> Option[T]:
        """This option for a command that has not got it: it is never given."""
        return replace(self, offered=False)

    def passed_on(self, help: str) -> Option[Any]:
        """Return it as given, without a default, for another class to read. Args: help: as there."""
        return Option(self.parse and as_given, help, attribute=self.attribute)

    def read(self, text: str | bool) -> Any:
        """Return what was given as a value; None without a text. Raises: OptionError."""
        if self.parse is None:
            return bool(text)
        text = str(text or self.default)
        return self.parse(text, self.flag) if text else None


def as_given(text: str, _option: str) -> str:
    """Return the text as it is."""
    return text


def as_text(name: str, value: Any) -> str | bool:
    """Return a value of Python's as it is typed: a list by commas, shares by name as name:share.

    Args: name: of the option. Raises: OptionError: nothing is left to type.
    """
    if isinstance(value, bool):
        return value
    if isinstance(value, Mapping):
        value = [f"{key}:{share}" for key, share in value.items()]
    text = (
        str(value)
        if isinstance(value, str | Path) or not isinstance(value, Iterable)
        else ",".join(map(str, value))
    )
    check_not_empty(text, f"--{name.replace('_', '-')}")
    return text


def required(parse: Parser[T], help: str, example: str) -> Option[T]:
    """Return an option that has to be given."""
    return Option(parse, help, example=example)


def usual(default: str, parse: Parser[T], help: str) -> Option[T]:
    """Return an option with a default."""
    return Option(parse, help, default)


def optional(parse: Parser[T], help: str) -> Option[T | None]:
    """Return an option that is None unless given."""
    return Option(parse, help)


def switch(help: str) -> Option[bool]:
    """Return an option that is given or not, and takes no value."""
    return Option(None, help)


class Options:
    """What a command was given, each value read once; a subclass declares the options, inherited ones too.

    A subclass's docstring is what the command does, as `./inv --list` says it.
    """

    declared: ClassVar[Mapping[str, Option[Any]]] = {}
    first: ClassVar[str] = ""  # the option whose value may be typed without its flag
    also: ClassVar[str] = ""  # what help's example has besides the options that have to be given

    def __init_subclass__(cls) -> None:
        found = {name: option for each in reversed(cls.__mro__) for name, option in vars(each).items()}
        cls.declared = {name: option for name, option in found.items() if isinstance(option, Option)}

    def __init__(self, **texts: str | bool) -> None:
        """Read the texts, by the options' names; without one, or with an empty one, it is the default.

        Raises: OptionError: the first, as the class declares them, that is missing or makes no sense.
        """
        self.texts = {name: texts.get(name) or option.default for name, option in self.declared.items()}
        for name, option in self.declared.items():
            if option.example and not self.texts[name] and not self.texts.get(option.unless):
                raise missing(option)
            vars(self)[name] = option.read(self.texts[name])

    def given(self, *names: str) -> dict[str, str]:
        """Return what was typed for these options, or their defaults, "" for nothing."""
        return {name: str(self.texts[name]) for name in names}

    def but(self: T, **values: Any) -> T:
        """Return these options with other values."""
        found = object.__new__(type(self))
        vars(found).update({**vars(self), **values})
        return found


def missing(option: Option[Any]) -> OptionError:
    """Return what is said where an option has to be given."""
    return OptionError(
        f"{option.flag} is missing; give it a value, for example {option.flag} {option.example}."
    )


def check_not_empty(text: str, flag: str) -> None:
    """Raise OptionError if nothing was given for an option."""
    if not text:
        raise OptionError(f"{flag} is empty; leave it out, or give it a value.")
