"""Readers of options: each takes a text or a Python value and the field's name, and returns the value.

All raise OptionError. Limits are imported at run time, as a command's help needs none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from fairshares.harness.errors import OptionError, named, named_command
from fairshares.harness.request.fields import GivenValue, as_text, several
from fairshares.protocols import guarantee
from fairshares.protocols.accounting.rounding import exact_number

if TYPE_CHECKING:
    from fairshares.harness.inputs.record_schema import Cap
    from fairshares.harness.security_models import SecurityModel
    from fairshares.protocols.accounting.calibration import NeighboringRelation, PrivacyUnit
    from fairshares.protocols.spec import InputPath

T = TypeVar("T")
N = TypeVar("N", bound=int | float | Fraction)

_LONGEST_NAME = 100
_MOST_NAMES = 1000
SHA256 = re.compile("[0-9a-f]{64}")  # a digest in hexadecimal digits
_LARGEST = 10**300  # fits a float
_MAX_SECONDS = 10**7  # a system call takes no more than 64 bits of nanoseconds


def in_module(place: str) -> Callable[[], Any]:
    """Return a function that imports and returns `module:name`."""
    module, _, name = place.partition(":")
    return lambda: getattr(import_module(module), name)


class OneOf:
    """A reader of names.

    Args:
        choices: A function that returns the names, and is called when a text is read.
    """

    def __init__(self, choices: Callable[[], Iterable[str]]) -> None:
        self._choices = choices

    def __call__(self, text: str, option: str) -> str:
        """Return the text if it is one of the names; else raise OptionError."""
        return parse_choice(option, text, list(map(str, self._choices())))


class Whole:
    """A reader of whole numbers.

    Args:
        least: The least number.
        most: The largest number, or what returns it when a text is read.
    """

    def __init__(self, least: int, most: int | Callable[[], int]) -> None:
        self._least = least
        self._most = most

    def __call__(self, text: str, option: str) -> int:
        """Return the number, or raise OptionError."""
        most = self._most if isinstance(self._most, int) else self._most()
        return parse_whole(option, text, self._least, most)


def as_given(text: str, _option: str) -> str:
    """Return the text as it is."""
    return text


def parse_path(text: str, option: str) -> Path:
    """Read a path that a file can have."""
    from fairshares.harness.system.files import check_path

    path = Path(text)
    check_path(path, option)
    return path


def parse_place(text: str, option: str) -> Path | str:
    """Read a directory, or an object store's URL."""
    return text if "://" in text else parse_path(text, option)


def parse_epsilon(text: str, option: str = "epsilon") -> Fraction:
    """Read a total ε: `1`, `0.1`, `1/3` or `1e-3`."""
    from fairshares.protocols.circuits.coins import MAX_EPSILON

    value = exact_number(text)
    if value is not None and 0 < value <= MAX_EPSILON:
        return value
    example = "1"
    with_point = text.replace(",", ".")
    meant = exact_number(with_point)
    if meant is not None and 0 < meant <= MAX_EPSILON:
        example = with_point
    raise OptionError(
        f"{named(option)} must be a number above 0 and at most {MAX_EPSILON}, for example {example}; "
        f"got {text!r}."
    )


class NumberReader(Generic[N]):
    """A reader of numbers.

    Args:
        what: Describes the numbers, for messages.
        good: Whether a number is one of them, also as `kind` has it.
        kind: Makes the value of an exact number.
    """

    def __init__(self, what: str, good: Callable[[Fraction], bool], kind: Callable[[Fraction], N]) -> None:
        self._what = what
        self._good = good
        self._kind = kind

    def __call__(self, text: str, option: str) -> N:
        """Return the value, or raise OptionError."""
        exact = _between(text, self._good)
        if exact is not None:
            value = self._kind(exact)
            if self._good(Fraction(*value.as_integer_ratio())):
                return value
        raise OptionError(f"{named(option)} must be {self._what}; got {text[: 2 * _LONGEST_NAME]!r}.")


parse_delta = NumberReader(
    "a number between 0 and 1, for example 2^-40", lambda value: 0 < value < 1, Fraction
)
parse_max_count = NumberReader(
    "a whole number of at least 1, for example 2^31",
    lambda value: value >= 1 and value.denominator == 1,
    int,
)
parse_party = NumberReader(
    "the number of a party, 0 for the first",
    lambda value: 0 <= value < 1000 and value.denominator == 1,
    int,
)
parse_seconds = NumberReader(
    f"a number of seconds above 0 and at most {_MAX_SECONDS}", lambda value: 0 < value <= _MAX_SECONDS, float
)
parse_tolerance = NumberReader("a number from 0 to 1, for example 0.05", lambda value: 0 <= value <= 1, float)
parse_share = NumberReader(
    "a number above 0 and at most 1, for example 0.1", lambda value: 0 < value <= 1, float
)
parse_momentum = NumberReader(
    "a number from 0 to below 1, for example 0.9", lambda value: 0 <= value < 1, float
)
parse_positive = NumberReader(
    "a number above 0, at most 1e6, for example 1", lambda value: 0 < value <= 10**6, float
)
parse_error = NumberReader("a share between 0 and 1, for example 0.01", lambda value: 0 < value < 1, float)
parse_threshold = NumberReader("a score from 0 to 1, for example 0.5", lambda value: 0 <= value <= 1, float)


@several("thresholds")
def parse_grid(given: GivenValue, option: str) -> int | list[float]:
    """Read the number of even thresholds, `101`, or a list, `0.3,0.5`."""
    from fairshares.harness.inputs.record_schema import MAX_THRESHOLDS

    texts = parse_names(given, option)
    if isinstance(given, str) and texts[0].isdigit() and len(texts) == 1:
        return parse_whole(option, given, 2, MAX_THRESHOLDS)
    return [parse_threshold(text, option) for text in texts]


def parse_population(text: str, option: str = "population") -> str:
    """Read a population's name, short and printable."""
    if len(text) > _LONGEST_NAME or text != text.strip() or not text or not text.isprintable():
        raise OptionError(
            f"{named(option)} must be a name of at most {_LONGEST_NAME} printable characters, without spaces "
            f"around it; got {text[: 2 * _LONGEST_NAME]!r}."
        )
    return text


@several("seen")
def parse_heads(given: GivenValue, option: str) -> list[str]:
    """Read heads of a ledger, 64 hexadecimal digits each."""
    text = as_text(given)
    heads = text.split(",")
    if not all(SHA256.fullmatch(head) for head in heads):
        raise OptionError(
            f"{named(option)} must be heads of 64 hexadecimal digits each, as the refusal says; got {text!r}."
        )
    return heads


@several("lost")
def parse_lost(given: GivenValue, option: str) -> list[int]:
    """Read numbers of parties, separated by commas."""
    text = as_text(given)
    parties = text.split(",")
    if not all(re.fullmatch("[0-9]{1,3}", party) for party in parties):
        raise OptionError(
            f"{named(option)} must be numbers of parties, as {named(option, '1,2')}; got {text!r}."
        )
    return [int(party) for party in parties]


@dataclass(frozen=True)
class _WholeNumbers:
    """The whole numbers from `least` to `most`."""

    least: int
    most: int

    def have(self, value: Fraction) -> bool:
        return self.least <= value <= self.most and value.denominator == 1


def parse_whole(option: str, text: str, least: int, most: int) -> int:
    """Read a whole number from `least` to `most`."""
    numbers = _WholeNumbers(least, most)
    return NumberReader(f"a whole number from {least} to {most}", numbers.have, int)(text, option)


def parse_cap(text: str, option: str = "cap") -> Cap:
    """Read a contribution bound: a number of records, or weight-one."""
    return _cap(text, option, "")


def _cap(text: str, option: str, otherwise: str) -> Cap:
    """Read a contribution bound; `otherwise` says what else the field may be."""
    from fairshares.harness.inputs.record_schema import AUTO, MAX_CAP, WEIGHT_ONE, WEIGHT_SLOTS, Cap

    if text == WEIGHT_ONE:
        return Cap(WEIGHT_SLOTS, weight_one=True)
    if text == AUTO:
        raise OptionError(
            f"The cap has to be a number here: choose it by {named_command('cap')}, then say {named(option)} "
            f"with the number. Only a release on {named('records')} of all clients takes "
            f"{named(option, AUTO)}, by which it chooses the cap first."
        )
    value = _between(text, lambda value: 1 <= value <= MAX_CAP and value.denominator == 1)
    if value is None:
        raise OptionError(
            f"{named(option)} must be how many records of a client count, 1 to {MAX_CAP}, or {WEIGHT_ONE}"
            f"{otherwise}; got {text!r}."
        )
    return Cap(value.numerator)


def parse_cap_or_auto(text: str, option: str = "cap") -> Cap | str:
    """Read a contribution bound, or `auto`."""
    from fairshares.harness.inputs.record_schema import AUTO

    if text == AUTO:
        return text
    return _cap(text, option, f", or, with {named('records')}, {AUTO}")


@several("range")
def parse_range(text: GivenValue, option: str) -> tuple[float, float]:
    """Read the ends of a range: `0,1`."""
    parts = text.split(",") if isinstance(text, str) else [as_text(end) for end in text]
    numbers = [_between(part, lambda value: abs(value) <= _LARGEST) for part in parts]
    ends = [float(end) for end in numbers if end is not None]
    if not len(numbers) == len(ends) == 2 or not ends[0] < ends[1]:
        raise OptionError(
            f"{named(option)} must be two numbers, the lower first, as {named(option, '0,1')}; got {text!r}."
        )
    return ends[0], ends[1]


def parse_relation(text: str, option: str = "neighboring_relation") -> NeighboringRelation:
    """Read a neighboring relation."""
    from fairshares.protocols.accounting.calibration import NeighboringRelation

    return NeighboringRelation(parse_choice(option, text, list(map(str, NeighboringRelation))))


def parse_unit(text: str, option: str = "privacy_unit") -> PrivacyUnit:
    """Read a privacy unit."""
    from fairshares.protocols.accounting.calibration import PrivacyUnit

    return PrivacyUnit(parse_choice(option, text, list(map(str, PrivacyUnit))))


def parse_unit_of_records(text: str, option: str = "privacy_unit") -> PrivacyUnit:
    """Read the privacy unit of a release that protects records only."""
    from fairshares.protocols.accounting.calibration import PrivacyUnit

    return PrivacyUnit(parse_choice(option, text, [str(PrivacyUnit.RECORD)]))


def parse_model(text: str, _option: str = "security") -> SecurityModel:
    """Read a security model."""
    from fairshares.harness.security_models import get_model

    return get_model(text)


parse_parties = Whole(2, in_module("fairshares.harness.security_models:MOST_PARTIES"))


@several("security")
def parse_models(given: GivenValue, option: str) -> list[SecurityModel]:
    """Read security models, separated by commas."""
    return [parse_model(name) for name in parse_names(given, option)]


def parse_input_path(text: str, option: str = "input_path") -> InputPath:
    """Read the path of clients' values to the parties."""
    from fairshares.protocols.spec import PATHS

    return PATHS[parse_choice(option, text, list(PATHS))]


def parse_path_of_shares(text: str, option: str = "input_path") -> InputPath:
    """Read the path of shares that wait for a run."""
    from fairshares.protocols.spec import CLIENTS, PATHS

    return PATHS[parse_choice(option, text, [name for name in PATHS if name != CLIENTS.name])]


def parse_choice(option: str, text: str, choices: list[str]) -> str:
    """Return the text if it is one of the choices."""
    if text not in choices:
        either = " or ".join(filter(None, (", ".join(choices[:-1]), choices[-1])))
        raise OptionError(f"{named(option)} must be {either}; got {text!r}.")
    return text


@several()
def parse_shares(given: GivenValue, option: str) -> dict[str, Fraction]:
    """Read names and shares: `2`, `a,b`, or `a:0.7,b:0.3`."""
    wrong = OptionError(
        f"{named(option)} must be how many there are (2), their names (a,b), or names with shares that add "
        f"up to 1 (a:0.7,b:0.3), 2 to {_MOST_NAMES} of them; got {as_text(given)[: 2 * _LONGEST_NAME]!r}."
    )
    if isinstance(given, str) and re.fullmatch("[0-9]{1,4}", given):
        if not 2 <= int(given) <= _MOST_NAMES:
            raise wrong
        kind = option.removesuffix("s")
        return {f"{kind} {i}": Fraction(1, int(given)) for i in range(1, int(given) + 1)}
    if isinstance(given, Mapping):
        names = parse_names([*given], option)
        stated = [exact_number(as_text(share)) or Fraction(0) for share in given.values()]
    else:
        parts = parse_names(given, option)
        names = [part.rpartition(":")[0] if ":" in part else part for part in parts]
        stated = [exact_number(part.rpartition(":")[2]) or Fraction(0) for part in parts if ":" in part]
    shares = stated or [Fraction(1, len(names))] * len(names)
    distinct = "" not in names and 2 <= len(set(names)) == len(names) == len(shares) <= _MOST_NAMES
    if not distinct or min(shares) <= 0 or sum(shares) != 1:
        raise wrong
    return dict(zip(names, shares, strict=True))


@several()
def parse_names(given: GivenValue, option: str) -> list[str]:
    """Read names separated by commas, none of them empty."""
    names = given.split(",") if isinstance(given, str) else map(as_text, given)
    stripped = [name.strip() for name in names]
    if "" in stripped:
        raise OptionError(
            f"{named(option)} must be names, as {named(option, 'a,b')}; got {as_text(given)!r}."
        )
    return stripped


def _between(text: str, good: Callable[[Fraction], bool]) -> Fraction | None:
    value = exact_number(text)
    return value if value is not None and good(value) else None


@several("budget")
def parse_budget(given: GivenValue, option: str) -> guarantee.Budget:
    """Read a budget: `3` (ε), `3,1e-6` (ε,δ), then `renyi` or a number of equal runs."""
    text = as_text(given)
    first, *rest = text.split(",")
    epsilon = exact_number(first)
    more = [exact_number(delta) for delta in rest[:1]]
    good = epsilon is not None and epsilon >= 0 and all(delta is not None and 0 < delta < 1 for delta in more)
    rule = rest[1] if len(rest) == 2 else None
    if rule is not None:
        counted = re.fullmatch("[0-9]{1,9}", rule) is not None and 1 <= int(rule) <= guarantee.MAX_RUNS
        good = good and (counted or rule == "renyi") and 0 < (epsilon or 0) <= guarantee.MAX_STATED_EPSILON
    if epsilon is None or not good or len(rest) > 2:
        raise OptionError(
            f"{named(option)} must be a total ε, of at least 0, then a total δ if that is limited too, as "
            f"{named(option, 3)} or {named(option, '3,1e-6')}, and then how runs add up, if not by their "
            f"sum: renyi, or how many runs alike, at most {guarantee.MAX_RUNS}, as "
            f"{named(option, '3,1e-9,renyi')}; got {text!r}."
        )
    delta = more[0] if more else None
    if rule is None or delta is None:
        return guarantee.Budget(epsilon, delta)
    if rule == "renyi":
        return guarantee.Budget(epsilon, delta, order=guarantee.renyi_order(epsilon, delta))
    return guarantee.Budget(epsilon, delta, runs=int(rule))
