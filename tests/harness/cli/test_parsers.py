"""Parsers of options: what each value of the command line means, and that all others end in one sentence."""

from collections.abc import Callable
from fractions import Fraction

import pytest

from harness.errors import FairSharesError, OptionError
from harness.request.readers import (
    parse_budget,
    parse_choice,
    parse_delta,
    parse_epsilon,
    parse_max_count,
    parse_momentum,
    parse_names,
    parse_population,
    parse_positive,
    parse_range,
    parse_relation,
    parse_seconds,
)
from harness.security_models import MODELS, get_model
from protocols.accounting.calibration import NeighboringRelation
from protocols.guarantee import Budget


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", Fraction(1)),
        ("0.1", Fraction(1, 10)),
        (".5", Fraction(1, 2)),
        ("1/3", Fraction(1, 3)),
        ("1e-3", Fraction(1, 1000)),
        ("1E1", Fraction(10)),
        ("2^-10", Fraction(1, 1024)),
        ("2^4", Fraction(16)),
        (" 1 ", Fraction(1)),
        ("+2", Fraction(2)),
        ("20", Fraction(20)),
        ("0.00000000000001", Fraction(1, 10**14)),
    ],
)
def test_epsilon(text: str, value: Fraction) -> None:
    assert parse_epsilon(text) == value


NO_NUMBER = [
    "", " ", "x", "nan", "NaN", "inf", "-inf", "1,5", "1 000", "1_000", "0x1", "1/0", "0/1/2", "1//2", "--1",
    "1e", "e1", "2^", "^2", "2**3", "2^x", "2^0.5", "0^0", "0^-1", "1e9999", "1e-99999999", "1e9_999_999",
    "9" * 41, "0." + "1" * 40, "2^9999", "True", "½",
]  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        *(text for text in NO_NUMBER if "," not in text),
        "0",
        "0.0",
        "-1",
        "-1e-3",
        "0/5",
        "20.0000001",
        "21",
        "1e400",
        "999^999",
    ],
)
def test_no_epsilon(text: str) -> None:
    with pytest.raises(OptionError) as error:
        parse_epsilon(text)
    assert str(error.value) == (
        f"--epsilon must be a number above 0 and at most 20, for example 1; got {text!r}."
    )


@pytest.mark.parametrize(
    ("text", "example"), [("1,5", "1.5"), ("0,5", "0.5"), ("20,5", "1"), ("1,000,0", "1")]
)
def test_a_decimal_comma_is_told_its_point(text: str, example: str) -> None:
    with pytest.raises(OptionError) as error:
        parse_epsilon(text)
    assert str(error.value).endswith(f"for example {example}; got '{text}'.")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2^-40", Fraction(1, 2**40)),
        ("1e-12", Fraction(1, 10**12)),
        ("0.5", Fraction(1, 2)),
        ("1/7", Fraction(1, 7)),
    ],
)
def test_delta(text: str, value: Fraction) -> None:
    assert parse_delta(text, "delta") == value


@pytest.mark.parametrize("text", [*NO_NUMBER, "0", "1", "-0.5", "1.5", "2^0", "2^1", "1e400"])
def test_no_delta(text: str) -> None:
    with pytest.raises(OptionError) as error:
        parse_delta(text, "delta")
    assert str(error.value) == f"--delta must be a number between 0 and 1, for example 2^-40; got {text!r}."


@pytest.mark.parametrize(
    ("text", "value"), [("1", 1), ("2^31", 2**31), ("1e3", 1000), ("4/2", 2), ("7.0", 7)]
)
def test_max_count(text: str, value: int) -> None:
    found = parse_max_count(text)
    assert found == value
    assert type(found) is int


@pytest.mark.parametrize("text", [*NO_NUMBER, "0", "-1", "1.5", "1/2", "2^-1"])
def test_no_max_count(text: str) -> None:
    with pytest.raises(OptionError) as error:
        parse_max_count(text)
    assert str(error.value) == (
        f"--max-count must be a whole number of at least 1, for example 2^31; got {text!r}."
    )


@pytest.mark.parametrize(("text", "value"), [("600", 600.0), ("0.5", 0.5), ("1e7", 1e7)])
def test_seconds(text: str, value: float) -> None:
    assert parse_seconds(text, "timeout") == value


@pytest.mark.parametrize("text", [*NO_NUMBER, "0", "-5", "1e8", "1e400", "9e99"])
def test_no_seconds(text: str) -> None:
    """More than a system call can wait for is refused here, not by the system call."""
    with pytest.raises(OptionError) as error:
        parse_seconds(text, "timeout")
    assert (
        str(error.value)
        == f"--timeout must be a number of seconds above 0 and at most 10000000; got {text!r}."
    )


def test_relation() -> None:
    for relation in NeighboringRelation:
        assert parse_relation(str(relation)) is relation
    with pytest.raises(OptionError) as error:
        parse_relation("add_remove")
    assert str(error.value) == (
        "--neighboring-relation must be add_or_remove_one, replace_one or zero_out_one; got 'add_remove'."
    )


@pytest.mark.parametrize("text", ["", "Split", "split ", "splits"])
def test_choice_is_to_the_letter(text: str) -> None:
    assert parse_choice("input_form", "split", ["split", "product"]) == "split"
    with pytest.raises(OptionError, match=r"^--input-form must be split or product; got "):
        parse_choice("input_form", text, ["split", "product"])


def test_names() -> None:
    assert parse_names("b, a,a b ,NA", "groups") == ["b", "a", "a b", "NA"]
    for text in ("", "a,", ",a", "a,,b", " "):
        with pytest.raises(
            OptionError, match=r"^--groups must be names separated by commas, for example a,b; got "
        ):
            parse_names(text, "groups")


def test_model() -> None:
    for name, model in MODELS.items():
        assert get_model(name) is model
    with pytest.raises(OptionError, match=r"^There is no model 'Ring'; choose one of semi2k, ring, "):
        get_model("Ring")


@pytest.mark.parametrize(
    "parse", [parse_epsilon, parse_delta, parse_max_count, parse_seconds, parse_relation]
)
def test_what_was_typed_is_repeated_on_one_line(parse: Callable[[str, str], object]) -> None:
    with pytest.raises(FairSharesError) as error:
        parse("1\n2\x1b[31m", "option")
    assert "\n" not in str(error.value)
    assert "\x1b" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "budget"),
    [
        ("3", Budget(Fraction(3))),
        ("0", Budget(Fraction(0))),
        ("1/3,2^-20", Budget(Fraction(1, 3), Fraction(1, 2**20))),
        (" 2.5 , 1e-6 ", Budget(Fraction(5, 2), Fraction(1, 10**6))),
        ("1000", Budget(Fraction(1000))),
    ],
)
def test_budget(text: str, budget: Budget) -> None:
    assert parse_budget(text) == budget


@pytest.mark.parametrize(
    "text", ["", "x", "-1", "nan", "inf", "1,", ",1e-6", "1,0", "1,1", "1,-1e-6", "1,1e-6,1e-6", "1;1e-6"]
)
def test_no_budget(text: str) -> None:
    with pytest.raises(OptionError, match=r"--budget must be a total ε, of at least 0, .* got ") as error:
        parse_budget(text)
    assert repr(text) in str(error.value)


@pytest.mark.parametrize(
    "text", ["loans", "Köln 2026 / männlich", "a'; DROP TABLE charges; --", "x" * 100, "日本"]
)
def test_population(text: str) -> None:
    assert parse_population(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        " a",
        "a ",
        "a\nb",
        "a\x00",
        "a\x1b[31m",
        "a\u202eb",
        "a\u200bb",
        "\udcff",
        "x" * 101,
        "y" * 10**6,
    ],
)
def test_no_population(text: str) -> None:
    with pytest.raises(OptionError, match="--population must be a name of at most 100 printable") as error:
        parse_population(text)
    assert str(error.value).isprintable() and len(str(error.value)) < 500


@pytest.mark.parametrize("text", ["0,1e999", "0,1e-400", "1,1", "0", "0,1,2"])
def test_a_range_has_two_floats(text: str) -> None:
    with pytest.raises(OptionError, match="--range must be two numbers, the lower first"):
        parse_range(text)


def test_what_a_float_makes_of_a_number_has_to_be_good_too() -> None:
    for parse, text in ((parse_positive, "1e-400"), (parse_momentum, "0." + "9" * 30)):
        with pytest.raises(OptionError, match="--x must be"):
            parse(text, "x")
