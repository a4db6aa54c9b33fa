"""What options are made of, and what is said of a command line that cannot be."""

import shlex
from fractions import Fraction

import pytest

from harness.cli.command_line import ANALYST, Command, checked
from harness.errors import OptionError
from harness.request.fields import Options, optional, required, switch, usual
from harness.request.readers import as_given, parse_epsilon, parse_path


class WeightsOptions(Options):
    """Compute weights."""

    epsilon = required(parse_epsilon, "the budget", "1")
    max_count = usual("7", as_given, "how many")
    out = optional(parse_path, "a directory")
    json = switch("print JSON")


class AgainOptions(WeightsOptions):
    """Choose again."""

    epsilon = WeightsOptions.epsilon.but(unless="out", help="as before")
    max_count = None  # type: ignore[assignment]
    records = optional(parse_path, "a file")


class PlanOptions(Options):
    """Say what it would cost."""

    first = "task"
    task = usual("weights", as_given, "what is planned")


COMMANDS = {
    "plan": Command("plan", PlanOptions, "nowhere:plan", ANALYST),
    "weights": Command("weights", WeightsOptions, "nowhere:weights", ANALYST),
    "again": Command("again", AgainOptions, "nowhere:again", ANALYST),
}
OF_ALL = {"--help": True, "-h": True, "--echo": False}


def test_values_are_read_once_and_written_as_they_are_typed() -> None:
    options = WeightsOptions(epsilon="1/3", json=True)
    assert (options.epsilon, options.max_count, options.out, options.json) == (
        Fraction(1, 3),
        "7",
        None,
        True,
    )
    assert options.written("epsilon", "max_count", "out") == {"epsilon": "1/3", "max_count": "7", "out": ""}
    assert options.but(max_count="8").max_count == "8" and options.max_count == "7"


def test_what_has_to_be_given_is_named_with_an_example() -> None:
    with pytest.raises(OptionError, match=r"^--epsilon is missing; .* for example --epsilon 1\.$"):
        WeightsOptions(out="results")
    assert str(AgainOptions(out="results").out) == "results"
    with pytest.raises(OptionError, match="--epsilon must be"):
        AgainOptions(out="results", epsilon="no")


def test_a_command_offers_what_its_class_declares() -> None:
    assert COMMANDS["weights"].help_rows() == [
        ("--epsilon=…", "the budget"),
        ("--json", "print JSON"),
        ("--max-count=…", "how many; default: 7"),
        ("--out=…", "a directory"),
    ]
    assert [flag for flag, _ in COMMANDS["again"].help_rows()] == [
        "--epsilon=…",
        "--json",
        "--out=…",
        "--records=…",
    ]
    assert AgainOptions(epsilon="1").max_count is None  # shared code may ask
    assert COMMANDS["again"].__doc__ == "Choose again."


@pytest.mark.parametrize(
    "words",
    [
        "weights --epsilon 1",
        "weights --epsilon=1 --json",
        "weights --epsilon -1",
        "weights --out weights --max-count --epsilon=x",
        "weights --help",
        "weights --help --json",
        "--help weights",
        "--echo weights --max-count 7",
        "",
    ],
)
def test_good_command_lines_stay(words: str) -> None:
    assert checked(words.split(), COMMANDS, OF_ALL) == words.split()


def test_a_first_value_may_be_the_name_of_a_command() -> None:
    assert checked(["plan", "weights"], COMMANDS, OF_ALL) == ["plan", "--task=weights"]
    assert COMMANDS["plan"].usage == " [TASK]"


def test_an_option_of_one_letter_has_two_dashes() -> None:
    class NoiseOptions(Options):
        n = optional(as_given, "how many")

    noise = {"noise": Command("noise", NoiseOptions, "nowhere:noise", ANALYST)}
    assert checked(["noise", "--n", "3"], noise, {}) == ["noise", "-n", "3"]
    assert checked(["noise", "--n=3"], noise, {}) == ["noise", "-n=3"]


SAID = [
    (
        "weights --eps 1",
        "weights has no option --eps (did you mean --epsilon?); `./inv weights --help` explains all.",
    ),
    ("weights --eps=1", "weights has no option --eps=1 (did you mean --epsilon?); `./inv weights --help`"),
    ("again --max-count 3", "again has no option --max-count (did you mean --out?); `./inv again --help` "),
    (
        "weights my.csv",
        "'my.csv' belongs to no option of weights; values go by name, for example --out results; "
        "`./inv weights --help` explains all.",
    ),
    (
        "again my.csv",
        "'my.csv' belongs to no option of again; values go by name, for example --records my.csv; ",
    ),
    ("weights --out x again", "'again' is a second command, after weights; run one at a time."),
    ("weights --out ''", "--out is empty; leave it out"),
    ("plan ''", "--task is empty; leave it out"),
    ("weights --out=", "--out is empty; leave it out, or give it a value."),
    ("weights --epsilon 1 --epsilon=2", "--epsilon is given twice; keep one."),
    ("plan gap --task weights", "--task is given twice; keep one."),
    ("plan gap weights", "'weights' is a second command, after plan; run one at a time."),
    ("weights --json yes", "'yes' belongs to no option of weights; values go by name, "),
    ("wieghts", "There is no command 'wieghts' (did you mean weights?); `./inv` lists all."),
    ("x", "There is no command 'x'; `./inv` lists all."),
    ("--records my.csv", "There is no command '--records'; `./inv` lists all."),
    ("weights --epsilon", "--epsilon needs a value; `./inv weights --help` explains it."),
    ("weights --epsilon --json", "--epsilon needs a value; `./inv weights --help` explains it."),
]


@pytest.mark.parametrize(("words", "sentence"), SAID)
def test_a_complaint_says_the_way_out(words: str, sentence: str) -> None:
    with pytest.raises(OptionError) as error:
        checked(shlex.split(words), COMMANDS, OF_ALL)
    assert str(error.value).startswith(sentence)
