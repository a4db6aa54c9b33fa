"""`fairshares.toml` gives options to every command that has them; what is typed goes before it."""

import json
from pathlib import Path

import pytest
from invoke import Collection
from invoke.parser import Parser

from harness.cli.command_line import fill_in
from harness.cli.user_commands import COMMANDS, HOSTS
from harness.errors import OptionError
from tests.support.command import call

NAMESPACE = Collection(*COMMANDS, hosts=HOSTS)
KNOWN = {name: NAMESPACE[name] for name in NAMESPACE.task_names}
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
    said = fill_in(given, KNOWN)
    return said, {flag: given[0].flags[flag].value for flag in given[0].flag_names()}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fairshares.toml").write_text(FILE)
    return tmp_path


def test_a_command_takes_the_options_that_it_has() -> None:
    said, options = filled("confusion", "--out", "there")
    assert said == "From fairshares.toml: --security mpyc, --epsilon 0.5, --budget 3,1e-06"
    assert (options["--security"], options["--epsilon"], options["--out"]) == ("mpyc", "0.5", "there")
    assert filled("security")[0] == ""


def test_a_table_goes_before_and_what_is_typed_before_both() -> None:
    said, options = filled("weights", "--epsilon", "2")
    assert options["--epsilon"] == "2" and "--epsilon" not in said and options["--timeout"] == ""
    options = filled("weights")[1]
    assert (options["--epsilon"], options["--groups"]) == ("1/4", "a,b")
    assert filled("gap")[1]["--timeout"] == "30"


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
def test_what_no_command_takes_is_refused(text: str, said: str, here: Path) -> None:
    (here / "fairshares.toml").write_text(text)
    with pytest.raises(OptionError) as refusal:
        filled("gap")
    assert str(refusal.value).startswith(said)


def test_a_command_says_what_it_took(here: Path) -> None:
    planned = ["confusion", "--plan", "1000", "--groups", "2", "--json"]
    done = call(*planned, cwd=here)
    announced = "From fairshares.toml: --security mpyc, --epsilon 0.5, --budget 3,1e-06"
    assert json.loads(done.stderr) == {"announcement": announced}
    assert {model["security"] for model in json.loads(done.stdout)["models"]} == {"mpyc"}
    (here / "fairshares.toml").write_text("securty = 1")
    assert "did you mean security?" in call(*planned, cwd=here).stderr
    assert call("--list", cwd=here).returncode == 0
