"""Readers of options: what each text of the command line means, and that all others end in one sentence."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import pytest

from fairshares.harness.errors import OptionError
from fairshares.harness.request import readers
from fairshares.harness.security_models import MODELS
from fairshares.protocols.accounting.calibration import NeighboringRelation
from fairshares.protocols.guarantee import Budget

pytestmark = pytest.mark.usefixtures("in_shell")

READ: dict[Callable[..., Any], dict[str, Any]] = {
    readers.parse_epsilon: {
        "1": 1,
        "0.1": Fraction(1, 10),
        ".5": Fraction(1, 2),
        "1/3": Fraction(1, 3),
        " 1 ": 1,
        "+2": 2,
        "1e-3": Fraction(1, 1000),
        "1E1": 10,
        "2^-10": Fraction(1, 1024),
        "2^4": 16,
        "20": 20,
        "0.00000000000001": Fraction(1, 10**14),
    },
    readers.parse_delta: {
        "2^-40": Fraction(1, 2**40),
        "1e-12": Fraction(1, 10**12),
        "0.5": Fraction(1, 2),
        "1/7": Fraction(1, 7),
    },
    readers.parse_max_count: {"1": 1, "2^31": 2**31, "1e3": 1000, "4/2": 2, "7.0": 7},
    readers.parse_seconds: {"600": 600.0, "0.5": 0.5, "1e7": 1e7},
    readers.parse_relation: {str(relation): relation for relation in NeighboringRelation},
    readers.parse_names: {"b, a,a b ,NA": ["b", "a", "a b", "NA"]},
    readers.parse_budget: {
        "3": Budget(Fraction(3)),
        "0": Budget(Fraction(0)),
        "1000": Budget(Fraction(1000)),
        "1/3,2^-20": Budget(Fraction(1, 3), Fraction(1, 2**20)),
        " 2.5 , 1e-6 ": Budget(Fraction(5, 2), Fraction(1, 10**6)),
    },
    readers.parse_population: {
        name: name
        for name in ("loans", "Köln 2026 / männlich", "a'; DROP TABLE charges; --", "x" * 100, "日本")
    },
    readers.parse_shares: {
        "2": {"group 1": Fraction(1, 2), "group 2": Fraction(1, 2)},
        "a,b,c": dict.fromkeys("abc", Fraction(1, 3)),
        "a:0.7, b:3/10": {"a": Fraction(7, 10), "b": Fraction(3, 10)},
    },
    readers.parse_model: dict(MODELS),
}
NO_NUMBER = [
    "", " ", "x", "nan", "NaN", "inf", "-inf", "1,5", "1 000", "1_000", "0x1", "1/0", "0/1/2", "1//2", "--1",
    "1e", "e1", "2^", "^2", "2**3", "2^x", "2^0.5", "0^0", "0^-1", "1e9999", "1e-99999999", "1e9_999_999",
    "9" * 41, "0." + "1" * 40, "2^9999", "True", "½", "1\n2\x1b[31m",
]  # fmt: skip
REFUSED: dict[Callable[..., Any], tuple[str, Sequence[str]]] = {
    readers.parse_epsilon: (
        "--x must be a number above 0 and at most 20, for example 1",
        [
            *(text for text in NO_NUMBER if text != "1,5"),
            *("0", "0.0", "-1", "-1e-3", "0/5", "20.0000001", "21", "1e400", "999^999", "1,000,0"),
        ],
    ),
    readers.parse_delta: (
        "--x must be a number between 0 and 1, for example 2^-40",
        [*NO_NUMBER, "0", "1", "-0.5", "1.5", "2^0", "2^1", "1e400"],
    ),
    readers.parse_max_count: (
        "--x must be a whole number of at least 1, for example 2^31",
        [*NO_NUMBER, "0", "-1", "1.5", "1/2", "2^-1"],
    ),
    # More than a system call can wait for is refused here, not by the system call.
    readers.parse_seconds: (
        "--x must be a number of seconds above 0 and at most 10000000",
        [*NO_NUMBER, "0", "-5", "1e8", "1e400", "9e99"],
    ),
    readers.parse_relation: ("--x must be add_or_remove_one, replace_one or", ["add_remove", "a\nb\x1b"]),
    readers.parse_names: ("--x must be names, as --x a,b", ["", "a,", ",a", "a,,b", " "]),
    readers.parse_budget: (
        "--x must be a total ε, of at least 0",
        ["", "x", "-1", "nan", "inf", "1,", ",1e-6", "1,0", "1,1", "1,-1e-6", "1,1e-6,1e-6", "1;1e-6"],
    ),
    readers.parse_population: (
        "--x must be a name of at most 100 printable",
        [
            *("", " ", " a", "a ", "a\nb", "a\x00", "a\x1b[31m", "a\u202eb", "a\u200bb", "\udcff"),
            *("x" * 101, "y" * 10**6),
        ],
    ),
    readers.parse_range: (
        "--x must be two numbers, the lower first",
        ["0,1e999", "0,1e-400", "1,1", "0", "0,1,2"],
    ),
    readers.parse_shares: (
        "--x",
        ["", "1", "1001", "a", "a,a", "a:0.5,b", "a:0.5,b:0.4", "a:1,b:0", "a:2,b:-1", ":0.5,b:0.5"],
    ),
    # What a float makes of a number has to be good, too.
    readers.parse_positive: ("--x must be", ["1e-400"]),
    readers.parse_momentum: ("--x must be", ["0." + "9" * 30]),
}


@pytest.mark.parametrize(("read", "values"), READ.items())
def test_a_text_is_read_as_what_it_means(read: Callable[..., Any], values: dict[str, Any]) -> None:
    for text, value in values.items():
        meant = read(text, "groups")
        assert meant == value and (isinstance(meant, Fraction) or type(meant) is type(value)), text


@pytest.mark.parametrize(("read", "refused"), REFUSED.items())
def test_another_text_is_refused_by_its_option_and_repeated_on_one_line(
    read: Callable[..., Any], refused: tuple[str, Sequence[str]]
) -> None:
    said, texts = refused
    for text in texts:
        with pytest.raises(OptionError) as error:
            read(text, "x")
        assert str(error.value).startswith(said) and str(error.value).isprintable(), text
        assert len(text) > 100 or repr(text) in str(error.value), text
        assert len(str(error.value)) < 500


@pytest.mark.parametrize(
    ("text", "example"), [("1,5", "1.5"), ("0,5", "0.5"), ("20,5", "1"), ("1,000,0", "1")]
)
def test_a_decimal_comma_is_told_its_point(text: str, example: str) -> None:
    with pytest.raises(OptionError, match=f"for example {example}; got '{text}'"):
        readers.parse_epsilon(text)


@pytest.mark.parametrize("text", ["", "Split", "split ", "splits"])
def test_choices_and_models_are_to_the_letter(text: str) -> None:
    with pytest.raises(OptionError, match=r"^--input-form must be split or product; got "):
        readers.parse_choice("input_form", text, ["split", "product"])
    with pytest.raises(OptionError, match=r"choose one of semi2k, ring, "):
        readers.parse_model(text, "security")
