"""Options of all commands: each reads its default and its example, and refuses what makes no sense."""

import re
from collections.abc import Iterator

import pytest

from harness.cli.command_line import Command, checked
from harness.cli.release_options import (
    RELEASES,
    CapOptions,
    CountOptions,
)
from harness.errors import FairSharesError
from harness.pipeline.release import chooses_cap
from harness.request.fields import Option
from harness.request.readers import as_given, parse_path, parse_population
from protocols.accounting.calibration import PrivacyUnit
from tasks import namespace


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
    if option.parse not in (as_given, parse_path, parse_population):
        with pytest.raises(FairSharesError) as error:
            option.read("no\n,,such:thing")
        assert str(error.value).isprintable() and str(error.value).endswith(".")


def test_commands_have_help_and_options_with_two_dashes() -> None:
    assert len(commands()) == 33
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


def test_shared_code_asks_options_that_a_release_has_not_got() -> None:
    texts = {"epsilon": "1", "release_epsilon": "1"}
    for release in RELEASES.values():
        found = release(**{name: text for name, text in texts.items() if name in release.declared})
        assert found.invite is None and found.hosts is None and not chooses_cap(found)
    assert CapOptions(**texts).privacy_unit is PrivacyUnit.CLIENT
    assert "input_form" not in CountOptions.declared and CountOptions(**texts).input_form is None
