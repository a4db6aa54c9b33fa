"""Declarations of fields: a command's flag, a call's keyword, a file's key, a message to hosts."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar, Generic, Never, NoReturn, Self, TypeVar, overload

from fairshares.harness.errors import OptionError, as_flag, named
from fairshares.protocols.accounting.rounding import exact_text

_LONGEST_SHOWN = 200  # characters of what was given
_LEAST_POWER = 20  # larger powers of 2 are written as 2^-bits

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
P_co = TypeVar("P_co", bound="Options", covariant=True)
GivenValue = str | Sequence[object] | Mapping[str, object]
"""What a field may be given: a text, or several values, in a list or by name."""


class ReaderOfSeveral(Generic[T_co]):
    """A reader of a text, or of several values. Other readers take a text."""

    def __init__(self, read: Callable[[GivenValue, str], T_co], option: str = "") -> None:
        self._read = read
        self._option = option

    def __call__(self, given: GivenValue, option: str = "") -> T_co:
        """Return the value, or raise OptionError, which names `option`."""
        return self._read(given, option or self._option)


def several(option: str = "") -> Callable[[Callable[[GivenValue, str], T]], ReaderOfSeveral[T]]:
    """Return a decorator that makes a function the reader of several values; errors name `option`."""

    def made(read: Callable[[GivenValue, str], T]) -> ReaderOfSeveral[T]:
        return ReaderOfSeveral(read, option)

    return made


Reader = Callable[[str, str], T] | ReaderOfSeveral[T]
"""A function from what was given, and the field's name, to the value."""


class Option(Generic[T]):
    """A field of a request: the value, a `T`, on an instance, and the option itself on the class.

    Args:
        parse: The reader of a given value; None for a switch.
        help: The text of `--help`.
        default: The text that is read if nothing is given.
        example: A value, for messages. A required field has one.
        unless: The name of another option. If that is given, this one need not be.
        of_runs: Whether it is for runs alone, and neither for their plans nor for noise made ahead.
    """

    def __init__(
        self,
        parse: Reader[T] | None,
        help: str,
        default: str = "",
        example: str = "",
        unless: str = "",
        *,
        of_runs: bool = False,
    ) -> None:
        self.parse = parse
        self.help = help
        self.default = default
        self.example = example
        self.unless = unless
        self.of_runs = of_runs
        self.attribute = ""

    def __set_name__(self, owner: type, attribute: str) -> None:
        self.attribute = attribute

    @overload
    def __get__(self, instance: None, owner: type) -> "Option[T]": ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> "Option[T] | T":
        if instance is None:
            return self
        value: T = vars(instance)[self.attribute]
        return value

    def __set__(self, instance: object, value: Never) -> NoReturn:
        """Say to type checkers, too, that a field does not change."""
        raise AttributeError(f"{self.attribute} does not change; use `but`.")

    @property
    def flag(self) -> str:
        """The command-line flag, such as `--max-count`."""
        return as_flag(self.attribute)

    @property
    def explained(self) -> str:
        """The text of `--help`, with the default."""
        is_named = "(default" in self.help or "default: " in self.help
        if not self.default or is_named:
            return self.help
        return f"{self.help}; default: {self.default}"

    def but(self, **changes: object) -> Self:
        """Return a copy of the declaration with changes, such as another `help`."""
        refuse_unknown(changes, vars(self))
        changed = object.__new__(type(self))
        vars(changed).update({**vars(self), **changes})
        return changed

    def optional(self, **changes: object) -> "Option[T | None]":
        """Return a copy of the declaration with changes that has no default, and need not be given."""
        unchanged = Option[T | None](self.parse, self.help)
        vars(unchanged).update(vars(self))
        return unchanged.but(**{"example": "", "default": "", **changes})

    def read(self, given: object) -> T | bool | None:
        """Return the given value, or None if there is nothing; raise OptionError if invalid."""
        if self.parse is None:
            return bool(given)
        if _is_nothing(given):
            given = self.default
        if isinstance(given, Mapping | Sequence) and not isinstance(given, str):
            if not isinstance(self.parse, ReaderOfSeveral):
                raise OptionError(
                    f"{named(self.attribute)} takes one value, not several; got {_shortened(repr(given))}."
                )
            return self.parse(given, self.attribute)
        text = given if isinstance(given, str) else as_text(given)
        return None if _is_nothing(text) else self.parse(text, self.attribute)

    def read_again(self, value: T) -> T | bool | None:
        """Return a value that `read` returns, as it was returned.

        Raises OptionError for a value that the reader refuses, and TypeError for another value that it takes,
        such as a text from which it makes a number.
        [test: tests/project/test_requests.py::test_what_an_option_has_read_is_read_alike]
        """
        read = self.read(value)
        if read != value:
            shown = _shortened(repr(value))
            raise TypeError(
                f"{self.attribute!r} is no {shown} here, which is read as {_shortened(repr(read))}."
            )
        return read

    def refuse_missing(self, given: Mapping[str, object]) -> None:
        """Raise OptionError if this field has to be given, and is not among values by name."""
        if not self.example or not _is_nothing(given.get(self.unless) or ""):
            return
        if _is_nothing(given.get(self.attribute)):
            raise OptionError(
                f"{named(self.attribute)} is missing; give it a value, for example "
                f"{named(self.attribute, self.example)}."
            )


def required(parse: Reader[T], help: str, example: str) -> Option[T]:
    """Return an option that has to be given."""
    return Option(parse, help, example=example)


def required_unless(other: str, parse: Reader[T], help: str, example: str) -> Option[T | None]:
    """Return an option that has to be given unless the option `other` is; it is None then."""
    return Option(parse, help, example=example, unless=other)


def usual(default: str, parse: Reader[T], help: str) -> Option[T]:
    """Return an option with a default."""
    return Option(parse, help, default)


def optional(parse: Reader[T], help: str) -> Option[T | None]:
    """Return an option that is None unless given."""
    return Option(parse, help)


def switch(help: str) -> Option[bool]:
    """Return an option without a value."""
    return Option(None, help)


class OptionGroup(Generic[P_co]):
    """A part of options, such as their account.

    It is a value of `kind` on an instance, and the part itself on the class.

    The part's fields are fields of the whole, by the same names.

    Args:
        kind: The part's class.
        without: Fields that are not offered here, and have their defaults.
        fixed: Fields that are not offered here, and have these values.
        changes: The parts of a field's declaration that differ here, such as its help, by the field's name.
    """

    def __init__(
        self,
        kind: type[P_co],
        *,
        without: Collection[str] = (),
        fixed: Mapping[str, str] = MappingProxyType({}),
        **changes: Mapping[str, object],
    ) -> None:
        refuse_unknown([*without, *fixed, *changes], kind.declared)
        self.kind = kind
        self.fixed = fixed
        self.options = {}
        for name, option in kind.declared.items():
            if name in without or name in fixed:
                continue
            self.options[name] = option.but(**changes[name]) if name in changes else option
        self.attribute = ""

    def __set_name__(self, owner: type, attribute: str) -> None:
        self.attribute = attribute

    @overload
    def __get__(self, instance: None, owner: type) -> "OptionGroup[P_co]": ...
    @overload
    def __get__(self, instance: object, owner: type) -> P_co: ...
    def __get__(self, instance: object | None, owner: type) -> "OptionGroup[P_co] | P_co":
        if instance is None:
            return self
        value: P_co = vars(instance)[self.attribute]
        return value

    def __set__(self, instance: object, value: Never) -> NoReturn:
        """Say to type checkers, too, that a part does not change."""
        raise AttributeError(f"{self.attribute} does not change; use `but`.")

    def fixed_values(self) -> dict[str, object]:
        """Return the values of the fields that have fixed ones here, by name."""
        return {name: self.kind.declared[name].read(text) for name, text in self.fixed.items()}


class Options:
    """Immutable values of declared and inherited options, and of the options of parts.

    `declared` has all of them by name.
    `./inv --list` prints a subclass's docstring as its command's summary.
    """

    declared: ClassVar[Mapping[str, Option[object]]] = {}
    first: ClassVar[str] = ""  # the option whose value may be typed without its flag
    prints: ClassVar[str] = ""  # the kind of value that its command prints with --json
    also: ClassVar[str] = ""  # the rest of help's example, after required options
    _members: ClassVar[Mapping[str, Option[object] | OptionGroup["Options"]]] = {}

    def __init_subclass__(cls, **changes: Mapping[str, object]) -> None:
        """Collect the options; `changes` are of inherited ones, such as `epsilon={"help": "..."}`."""
        for name, change in changes.items():
            setattr(cls, name, getattr(cls, name).but(**change))
        members = dict[str, Option[object] | OptionGroup[Options]]()
        for base in reversed(cls.__bases__):
            if issubclass(base, Options):
                members |= base._members
        for name, member in vars(cls).items():
            if isinstance(member, Option) or isinstance(member, OptionGroup):  # noqa: SIM101  # a union is slow to make
                members[name] = member
            elif name in members:
                del members[name]  # something else has the name now
        declared = dict[str, Option[object]]()
        for name, member in members.items():
            offered = member.options if isinstance(member, OptionGroup) else {name: member}
            if twice := offered.keys() & declared.keys():
                raise TypeError(f"{cls.__name__} has two fields {min(twice)!r}.")
            declared |= offered
        cls._members = members
        cls.declared = declared

    def __init__(self, **given: object) -> None:
        """Read the given values by name.

        Raises OptionError for the first that is missing or invalid, and TypeError for a name that is not
        declared: these come from code, as command lines and files are checked before.
        """
        refuse_unknown(given, self.declared)
        values = dict[str, object]()
        for name, option in self.declared.items():
            option.refuse_missing(given)
            values[name] = option.read(given.get(name))
        self._hold(values)

    def _hold(self, values: Mapping[str, object]) -> None:
        """Take read values by name, values of parts in parts; fields without a value take their default."""
        for name, member in self._members.items():
            if isinstance(member, OptionGroup):
                part = object.__new__(member.kind)
                offered = {field: values[field] for field in member.options}
                part._hold({**offered, **member.fixed_values()})
                vars(self)[name] = part
            else:
                vars(self)[name] = values[name] if name in values else member.read(None)
        self._settle(values.keys())

    def _settle(self, given: Collection[str]) -> None:
        """Make fields agree that depend on each other, as a part may have them.

        `given` are the names of the fields that have new values. Raises OptionError if they can't agree.
        """

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} does not change; use `but`.")

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((type(self), *map(str, self.values().items())))

    @classmethod
    def summary(cls) -> str:
        """Return a line on the command that has these options."""
        return cls.__doc__ or ""

    def value_of(self, name: str) -> object:
        """Return an option's value, whichever part holds it."""
        for attribute, member in self._members.items():
            held = vars(self)[attribute]
            if isinstance(member, OptionGroup) and name in member.options:
                return held.value_of(name)
            if isinstance(member, Option) and name == attribute:
                return held
        raise KeyError(name)

    def values(self) -> dict[str, object]:
        """Return all options' values by name."""
        return {name: self.value_of(name) for name in self.declared}

    def but(self, field: Option[T], value: T) -> Self:
        """Return a copy with another value of a field, as `request.but(Protect.epsilon, Fraction(1, 3))`.

        Type checkers know by the field's declaration which names and values there are. The reader that the
        field has here checks the value, so a copy is as legal as what a constructor makes.

        Args:
            field: A field that is declared here or in a part, under the same name.
            value: A value as the field's reader returns it.

        Raises:
            OptionError: The reader refuses the value, it is missing, or it does not go with other fields.
            TypeError: There is no such field here, or the reader returns no such value.
        """
        name = field.attribute
        refuse_unknown([name], self.declared)
        read = self.declared[name].read_again(value)
        if read is None:
            others = {**self.values(), name: read}
            for option in self.declared.values():
                option.refuse_missing(others)
        return self._with(name, read)

    def _with(self, name: str, value: object) -> Self:
        """Return a copy with another value of the field of this name, which is of this class or of a part."""
        changed = object.__new__(type(self))
        for attribute, member in self._members.items():
            held = vars(self)[attribute]
            if isinstance(member, OptionGroup):
                vars(changed)[attribute] = held._with(name, value) if name in member.options else held
            else:
                vars(changed)[attribute] = value if attribute == name else held
        changed._settle({name})
        return changed

    def is_usual(self, name: str) -> bool:
        """Return whether an option has its default value."""
        return self.value_of(name) == self.declared[name].read(None)

    @classmethod
    def names_of_runs(cls) -> list[str]:
        """Return the names of the options that are for runs alone."""
        return [name for name, option in cls.declared.items() if option.of_runs]

    def stated(self, *names: str) -> list[str]:
        """Return the options of these names that are declared here, and have a value."""
        return [name for name in names if name in self.declared and self.value_of(name)]

    def written(self, *names: str) -> dict[str, str | bool]:
        """Return these options' values as texts; a given switch is True."""
        values = {name: self.value_of(name) for name in names}
        return {name: value if value is True else as_text(value) for name, value in values.items()}


def refuse_unknown(given: Iterable[str], declared: Collection[str]) -> None:
    """Raise TypeError for the first name, in order, that is not declared."""
    unknown = [name for name in given if name not in declared]
    if unknown:
        raise TypeError(f"There is no argument {min(unknown)!r} here.")


def as_text(value: object) -> str:
    """Return a value as users type it: a list with commas, shares as name:share."""
    if value is None or value is False:
        return ""
    if isinstance(value, str | int | Path):
        return str(value)
    if isinstance(value, Fraction):
        return _as_number(value)
    if isinstance(value, float):
        return f"{value:g}" if float(f"{value:g}") == value else repr(float(value))  # also of NumPy's
    if isinstance(value, Mapping):
        return ",".join(f"{name}:{share}" for name, share in value.items())
    if isinstance(value, Sequence):
        return ",".join(map(as_text, value))
    return str(getattr(value, "name", value))


def _as_number(value: Fraction) -> str:
    bits = value.denominator.bit_length() - 1
    if bits > _LEAST_POWER and value == Fraction(1, 1 << bits):
        return f"2^-{bits}"
    return exact_text(value) if 0 < value < 1 << _LEAST_POWER else str(value)


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"


def _is_nothing(given: object) -> bool:
    return given is None or (isinstance(given, str) and not given)


def check_not_empty(text: str, flag: str) -> None:
    """Raise OptionError if an option's text is empty."""
    if not text:
        raise OptionError(f"{flag} is empty; leave it out, or give it a value.")
