"""Reads the values of command-line options; a value that makes no sense ends in one clear sentence."""

from __future__ import annotations

import re
from fractions import Fraction

from harness.clients.session import MAX_CONNECTIONS
from harness.errors import OptionError
from harness.inputs.contribution_bounds import AUTO, MAX_CAP, WEIGHT_ONE, WEIGHT_SLOTS, Cap
from harness.inputs.shares import MAX_VALUES
from protocols.accounting.calibration import Budget, NeighboringRelation
from protocols.circuits.coins import MAX_EPSILON
from protocols.mechanisms.shifted_log import ErrorTarget

_POWER = re.compile(r"(\d{1,3})\^(-?\d{1,3})")
_LONGEST = 40
_LONGEST_NAME = 100
_MOST_COUNT = 1 << 24  # beyond, a unit of a logarithm has too little epsilon for the noise
_MOST_NAMES = 1000
_MAX_SECONDS = 10**7  # a system call takes no more than 64 bits of nanoseconds


_EXAMPLES = {
    "--epsilon": "--epsilon 1",
    "--release-epsilon": "--release-epsilon 1",
    "--n": "--n 1000",
    "--records": "--records my.csv",
    "--out": "--out results",
    "--clients": "--clients 100",
    "--groups": "--groups 2",
    "--party": "--party 0",
    "--shares": "--shares shares",
    "--invitation": "--invitation client-0.json",
}


def require(options: dict[str, str]) -> None:
    """Raise OptionError for the first option, by name, that has no value."""
    for name, value in options.items():
        if not value:
            raise OptionError(f"{name} is missing; give it a value, for example {_EXAMPLES[name]}.")


def parse_epsilon(text: str, option: str = "--epsilon") -> Fraction:
    """Read a total epsilon: `1`, `0.1`, `1/3` or `1e-3`. Raises: OptionError."""
    value = _epsilon(text)
    if value is None:
        pointed = text.replace(",", ".")
        example = pointed if _epsilon(pointed) else "1"
        raise OptionError(
            f"{option} must be a number above 0 and at most {MAX_EPSILON}, for example {example}; "
            f"got {text!r}."
        )
    return value


def parse_delta(text: str) -> Fraction:
    """Read a total delta: `2^-40` or `1e-12`. Raises: OptionError."""
    value = _rational(text)
    if value is None or not 0 < value < 1:
        raise OptionError(f"--delta must be a number between 0 and 1, for example 2^-40; got {text!r}.")
    return value


def parse_budget(text: str) -> Budget:
    """Read a budget: `3` limits epsilon, `3,1e-6` also delta. Raises: OptionError."""
    epsilon, *more = map(_rational, text.split(","))
    good = epsilon is not None and epsilon >= 0 and len(more) <= 1
    if not good or any(delta is None or not 0 < delta < 1 for delta in more):
        raise OptionError(
            "--budget must be a total ε, of at least 0, and after a comma a total δ if that is limited too, "
            f"for example 3 or 3,1e-6; got {text!r}."
        )
    assert epsilon is not None
    return Budget(epsilon, more[0] if more else None)


def parse_population(text: str) -> str:
    """Read a population's name. Raises: OptionError: it is too long, or not all of it can be seen."""
    if len(text) > _LONGEST_NAME or text != text.strip() or not text or not text.isprintable():
        raise OptionError(
            f"--population must be a name of at most {_LONGEST_NAME} printable characters, without spaces "
            f"around it; got {text[: 2 * _LONGEST_NAME]!r}."
        )
    return text


def parse_max_count(text: str) -> int:
    """Read a count such as `1000` or `2^31`. Raises: OptionError."""
    value = _rational(text)
    if value is None or value.denominator != 1 or value < 1:
        raise OptionError(
            f"--max-count must be a whole number of at least 1, for example 2^31; got {text!r}."
        )
    return value.numerator


def parse_whole(option: str, text: str, least: int, most: int) -> int:
    """Read a whole number from `least` to `most`. Raises: OptionError."""
    value = _rational(text)
    if value is None or value.denominator != 1 or not least <= value <= most:
        raise OptionError(f"{option} must be a whole number from {least} to {most}; got {text!r}.")
    return value.numerator


def parse_clients(text: str) -> int:
    """Read how many clients are invited. Raises: OptionError."""
    if not re.fullmatch("[0-9]{1,3}", text) or not 0 < int(text) <= MAX_CONNECTIONS:
        raise OptionError(
            f"--clients must be how many clients are invited, 1 to {MAX_CONNECTIONS}; got {text!r}."
        )
    return int(text)


def parse_upload_clients(text: str) -> int:
    """Read how many clients an upload may be of; empty for any number. Raises: OptionError."""
    return parse_whole("--clients-per-upload", text, 1, MAX_VALUES) if text else MAX_VALUES


def parse_cap(text: str) -> Cap:
    """Read how much of a client counts: a number of records, or weight-one. Raises: OptionError."""
    if text == WEIGHT_ONE:
        return Cap(WEIGHT_SLOTS, weight_one=True)
    if text == AUTO:
        raise OptionError(
            "Clients have to know the cap before they share: choose it by ./inv cap, then say --cap with the "
            f"number. --cap {AUTO} does both where --records holds all clients' records."
        )
    value = _rational(text)
    if value is None or value.denominator != 1 or not 1 <= value <= MAX_CAP:
        raise OptionError(
            f"--cap must be how many records of a client count, 1 to {MAX_CAP}, or {WEIGHT_ONE}, or, with "
            f"--records, {AUTO}; got {text!r}."
        )
    return Cap(value.numerator)


def parse_range(text: str) -> tuple[float, float]:
    """Read the ends of a range: `0,1`. Raises: OptionError."""
    ends = [_rational(part) for part in text.split(",")]
    if len(ends) != 2 or ends[0] is None or ends[1] is None or not ends[0] < ends[1]:
        raise OptionError(f"--range must be two numbers, the lower first, for example 0,1; got {text!r}.")
    return float(ends[0]), float(ends[1])


def parse_party(text: str) -> int:
    """Read a party's number, from 0. Raises: OptionError."""
    if not re.fullmatch("[0-9]{1,3}", text):
        raise OptionError(f"--party must be the number of a party, 0 for the first; got {text!r}.")
    return int(text)


def parse_seconds(text: str) -> float:
    """Read a time limit in seconds. Raises: OptionError."""
    value = _rational(text)
    if value is None or not 0 < value <= _MAX_SECONDS:
        raise OptionError(
            f"--timeout must be a number of seconds above 0 and at most {_MAX_SECONDS}; got {text!r}."
        )
    return float(value)


def parse_relation(text: str) -> NeighboringRelation | None:
    """Read a neighbouring relation's name; None if there is none. Raises: OptionError."""
    if not text:
        return None
    return NeighboringRelation(
        parse_choice("--neighboring-relation", text, [str(r) for r in NeighboringRelation])
    )


def parse_tolerance(text: str) -> float:
    """Read a largest difference between rates, from 0 to 1. Raises: OptionError."""
    value = _rational(text)
    if value is None or not 0 <= value <= 1:
        raise OptionError(f"--tolerance must be a number from 0 to 1, for example 0.05; got {text!r}.")
    return float(value)


def parse_error_target(relative_error: str, error_from: str, error_to: str) -> ErrorTarget:
    """Read --relative-error (0.1: a tenth of the count), --error-from, --error-to. Raises: OptionError."""
    value = _rational(relative_error)
    if value is None or not 0 < value <= 1:
        raise OptionError(
            "--relative-error must be a number above 0 and at most 1, for example 0.1; "
            f"got {relative_error!r}."
        )
    low = parse_whole("--error-from", error_from, 1, _MOST_COUNT)
    high = parse_whole("--error-to", error_to, 1, _MOST_COUNT)
    if low > high:
        raise OptionError(f"--error-from {low} is above --error-to {high}; give a range of counts.")
    return ErrorTarget(float(value), low, high)


def parse_threshold(text: str) -> float:
    """Read a score, from 0 to 1. Raises: OptionError."""
    value = _rational(text)
    if value is None or not 0 <= value <= 1:
        raise OptionError(f"--threshold must be a score from 0 to 1, for example 0.5; got {text!r}.")
    return float(value)


def parse_choice(option: str, text: str, choices: list[str]) -> str:
    """Return text if it is one of the choices. Raises: OptionError."""
    if text not in choices:
        either = " or ".join(filter(None, (", ".join(choices[:-1]), choices[-1])))
        raise OptionError(f"{option} must be {either}; got {text!r}.")
    return text


def parse_shares(option: str, text: str) -> dict[str, Fraction]:
    """Read who there is, and their shares: `2`, `a,b`, or `a:0.7,b:0.3`. Raises: OptionError."""
    wrong = OptionError(
        f"{option} must be how many there are (2), their names (a,b), or names with shares that add up to 1 "
        f"(a:0.7,b:0.3), 2 to {_MOST_NAMES} of them; got {text[: 2 * _LONGEST_NAME]!r}."
    )
    if re.fullmatch("[0-9]{1,4}", text):
        if not 2 <= int(text) <= _MOST_NAMES:
            raise wrong
        kind = option.strip("-").removesuffix("s")
        return {f"{kind} {i}": Fraction(1, int(text)) for i in range(1, int(text) + 1)}
    parts = parse_names(option, text)
    names = [part.rpartition(":")[0] if ":" in part else part for part in parts]
    given = [_rational(part.rpartition(":")[2]) for part in parts if ":" in part]
    shares = [share for share in given if share is not None and share > 0]
    even = not given
    if not 2 <= len(set(names)) == len(names) <= _MOST_NAMES or "" in names:
        raise wrong
    if not even and (len(shares) != len(names) or sum(shares) != 1):
        raise wrong
    return dict(zip(names, [Fraction(1, len(names))] * len(names) if even else shares, strict=True))


def parse_names(option: str, text: str) -> list[str]:
    """Read a comma-separated list of names. Raises: OptionError: one is empty."""
    names = [name.strip() for name in text.split(",")]
    if "" in names:
        raise OptionError(f"{option} must be names separated by commas, for example a,b; got {text!r}.")
    return names


def _epsilon(text: str) -> Fraction | None:
    value = _rational(text)
    return value if value is not None and 0 < value <= MAX_EPSILON else None


def _rational(text: str) -> Fraction | None:
    power = _POWER.fullmatch(text.strip())
    if power:
        base, exponent = int(power[1]), int(power[2])
        return Fraction(base) ** exponent if base else None
    if len(text) > _LONGEST or "_" in text or re.search(r"[eE][+-]?\d{4}", text):
        return None
    try:
        return Fraction(text)
    except (ValueError, ZeroDivisionError):
        return None
