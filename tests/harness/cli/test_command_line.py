"""What options are made of, and what is said of a command line that cannot be."""

import json
import re
import shlex
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path

import pytest
from invoke import Collection
from invoke.parser import Parser

from benchmarks.commands.options import parse_inputs
from fairshares.harness.cli.bootstrap import spelled_out
from fairshares.harness.cli.command_line import ANALYST, Command, checked, fill_in
from fairshares.harness.cli.user_commands import COMMANDS, HOSTS
from fairshares.harness.errors import FairSharesError, OptionError
from fairshares.harness.request.fields import Option, Options, optional, required, switch, usual
from fairshares.harness.request.readers import (
    as_given,
    parse_epsilon,
    parse_path,
    parse_place,
    parse_population,
)
from tasks import namespace
from tests.support.command import call

pytestmark = pytest.mark.usefixtures("in_shell")


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


PLAYED = {
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
    assert options.but(WeightsOptions.max_count, "8").max_count == "8" and options.max_count == "7"


def test_what_has_to_be_given_is_named_with_an_example() -> None:
    with pytest.raises(OptionError, match=r"^--epsilon is missing; .* for example --epsilon 1\.$"):
        WeightsOptions(out="results")
    assert str(AgainOptions(out="results").out) == "results"
    with pytest.raises(OptionError, match="--epsilon must be"):
        AgainOptions(out="results", epsilon="no")


def test_a_command_offers_what_its_class_declares() -> None:
    assert PLAYED["weights"].help_rows() == [
        ("--epsilon=…", "the budget"),
        ("--json", "print JSON"),
        ("--max-count=…", "how many; default: 7"),
        ("--out=…", "a directory"),
    ]
    assert [flag for flag, _ in PLAYED["again"].help_rows()] == [
        "--epsilon=…",
        "--json",
        "--out=…",
        "--records=…",
    ]
    assert AgainOptions(epsilon="1").max_count is None  # shared code may ask
    assert PLAYED["again"].__doc__ == "Choose again."


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
    assert checked(words.split(), PLAYED, OF_ALL) == words.split()


def test_a_first_value_may_be_the_name_of_a_command() -> None:
    assert checked(["plan", "weights"], PLAYED, OF_ALL) == ["plan", "--task=weights"]
    assert PLAYED["plan"].usage == " [TASK]"


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
        checked(shlex.split(words), PLAYED, OF_ALL)
    assert str(error.value).startswith(sentence)


def commands() -> dict[str, Command]:
    return {name: namespace[name] for name in namespace.task_names}


def options() -> Iterator[tuple[str, Option[object]]]:
    for name, command in commands().items():
        for option in command.options.values():
            yield f"{name} {option.flag}", option


@pytest.mark.parametrize(("name", "option"), list(options()), ids=[name for name, _ in options()])
def test_every_option_reads_what_it_says_and_nothing_else(name: str, option: Option[object]) -> None:
    assert option.help and not option.help.endswith(".")
    if option.parse is None:
        assert option.read(True) is True and option.read("") is False
        return
    assert (option.read("") is None) == (not option.default)
    if option.example:
        assert option.read(option.example) is not None
    if option.parse not in (as_given, parse_inputs, parse_path, parse_place, parse_population):
        with pytest.raises(FairSharesError) as error:
            option.read("no\n,,such:thing")
        assert str(error.value).isprintable() and str(error.value).endswith(".")


def test_commands_have_help_and_options_with_two_dashes() -> None:
    assert len(commands()) == 36
    for name, command in commands().items():
        assert command.__doc__ and command.__doc__.endswith("."), name
        assert all(flag.startswith("--") and said for flag, said in command.help_rows())


@pytest.mark.parametrize("name", commands())
def test_the_example_of_help_can_be_typed(name: str) -> None:
    command = commands()[name]
    words = command.example.split()
    assert checked([name, *words], commands(), {})[0] == name
    given = dict(zip(words[::2], words[1::2], strict=True))
    options = {option.flag: option for option in command.options.values()}
    assert all(options[flag].read(text) is not None for flag, text in given.items())
    assert given.keys() >= {flag for flag, option in options.items() if option.example}


@pytest.mark.parametrize("name", commands())
def test_help_names_options_that_the_command_has(name: str) -> None:
    command = commands()[name]
    said = " ".join(help for _, help in command.help_rows())
    named = re.findall(r"--[a-z][a-z-]*[a-z]", re.sub(r"`[^`]*`", "", said))
    assert set(named) <= {option.flag for option in command.options.values()}


NAMESPACE = Collection(*COMMANDS, hosts=HOSTS)
FILLED = {name: NAMESPACE[name] for name in NAMESPACE.task_names}
FILE = """\
security = "mpyc"
epsilon = 0.5
budget = [3, 1e-6]
[weights]
epsilon = "1/4"
groups = ["a", "b"]
[gap]
timeout = 30
"""


def filled(*words: str) -> tuple[str, dict[str, object]]:
    """Return what is said, and each option's text of one command's."""
    given = Parser(contexts=NAMESPACE.to_contexts()).parse_argv(list(words))
    said = fill_in(given, FILLED)
    return said, {flag: given[0].flags[flag].value for flag in given[0].flag_names()}


@pytest.fixture
def with_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fairshares.toml").write_text(FILE)
    return tmp_path


@pytest.mark.usefixtures("with_file")
def test_a_command_takes_the_options_that_it_has() -> None:
    said, options = filled("confusion", "--out", "there")
    assert said == "From fairshares.toml: --security mpyc, --epsilon 0.5, --budget 3,1e-06"
    assert (options["--security"], options["--epsilon"], options["--out"]) == ("mpyc", "0.5", "there")
    assert filled("security")[0] == ""


@pytest.mark.usefixtures("with_file")
def test_a_table_goes_before_and_what_is_typed_before_both() -> None:
    said, options = filled("weights", "--epsilon", "2")
    assert options["--epsilon"] == "2" and "--epsilon" not in said and options["--timeout"] == ""
    options = filled("weights")[1]
    assert (options["--epsilon"], options["--groups"]) == ("1/4", "a,b")
    assert filled("gap")[1]["--timeout"] == "30"


@pytest.mark.usefixtures("with_file")
def test_a_plan_takes_no_hosts_from_the_file() -> None:
    Path("fairshares.toml").write_text('hosts = "hosts.toml"')
    assert filled("weights")[1]["--hosts"] == "hosts.toml"
    assert filled("weights", "--plan", "100")[1]["--hosts"] == ""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("securty = 1", "fairshares.toml: no command has an option 'securty' (did you mean security?)."),
        ("[weights]\nscore = 1", "fairshares.toml: [weights] has not got an option 'score'."),
        ("[wieghts]", "fairshares.toml: there is no command [wieghts] (did you mean weights?)."),
        ("json = true", "fairshares.toml: json takes no value; give --json as you run a command."),
        ("security = []", "--security is empty; leave it out, or give it a value."),
        ("security =", "fairshares.toml is not a file of options: it is not TOML in UTF-8"),
    ],
)
def test_what_no_command_takes_is_refused(text: str, said: str, with_file: Path) -> None:
    (with_file / "fairshares.toml").write_text(text)
    with pytest.raises(OptionError) as refusal:
        filled("gap")
    assert str(refusal.value).startswith(said)


def test_a_command_says_what_it_took(with_file: Path) -> None:
    planned = ["confusion", "--plan", "1000", "--groups", "2", "--json"]
    done = call(*planned, cwd=with_file)
    announced = "From fairshares.toml: --security mpyc, --epsilon 0.5, --budget 3,1e-06"
    assert json.loads(done.stderr) == {"announcement": announced}
    assert {model["security"] for model in json.loads(done.stdout)["models"]} == {"mpyc"}
    (with_file / "fairshares.toml").write_text("securty = 1")
    assert "did you mean security?" in call(*planned, cwd=with_file).stderr
    assert call("--list", cwd=with_file).returncode == 0


@pytest.mark.parametrize(
    "words", [("wieghts", "--help"), ("--help", "wieghts"), ("wieghts", "-h"), ("wieghts",)]
)
def test_help_on_no_command_names_the_one_that_was_meant(words: Sequence[str], tmp_path: Path) -> None:
    """One sentence, with or without --help."""
    done = call(*spelled_out(words), cwd=tmp_path)
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr == "Error: There is no command 'wieghts' (did you mean weights?); `./inv` lists all.\n"
