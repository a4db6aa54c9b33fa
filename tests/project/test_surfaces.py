"""Messages name fields and commands as their reader writes them: in a shell, or in Python."""

import ast
import inspect
import itertools
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from inspect import isfunction
from pathlib import Path
from typing import Any

import pytest

import fairshares as fs
from fairshares.harness.cli.user_commands import COMMANDS
from fairshares.harness.command_name import as_called
from fairshares.harness.errors import (
    PYTHON,
    SHELL,
    OptionError,
    ShareError,
    Surface,
    is_function,
    named,
    named_call,
    named_command,
    naming,
)
from fairshares.harness.hosts.fleet import at_once
from fairshares.harness.hosts.inventory import read_hosts
from fairshares.harness.hosts.ledger_heads import compare_heads
from fairshares.harness.hosts.signed_results import InputSource, Intent
from fairshares.harness.inputs.encoding import relation_for
from fairshares.harness.inputs.record_schema import Cap, RecordDomain, RecordKind
from fairshares.harness.privacy.stock import Stock
from fairshares.harness.releases.thresholds.request import ThresholdsRequest
from fairshares.harness.request.readers import parse_cap
from fairshares.harness.system.files import check_path
from fairshares.harness.system.result_files import new_directory
from fairshares.harness.uploads.keys import party_with_keys
from fairshares.harness.uploads.task import read_task
from tests.conftest import PROJECT

OF_COMMANDS = ("harness/cli/", "harness/views/hosts.py")  # which no Python call shows
OF_A_COMMAND = re.compile(r"(?<![\w-])--[a-z]|\./inv|docs/")
OF_A_CLONE = re.compile(r"\b(docs|tests|benchmarks|examples)/|\b[A-Za-z-]+\.md\b")
# Modules whose commands a clone alone has, or that name MP-SPDZ's own file; and what these texts are about.
OF_CONTRIBUTORS = {
    "harness/cli/bootstrap.py": {"tests/"},
    "harness/cli/module_checks.py": {"tests/", "tests"},
    "harness/cli/options.py": {"tests/README.md"},
    "harness/engines/mpspdz/compiler.py": {"CHANGELOG.md"},
}
DECLARING = {
    "ChosenModel",
    "Option",
    "OptionGroup",
    "but",
    "one_of",
    "optional",
    "required",
    "required_unless",
    "switch",
    "usual",
    "whole",
}  # a command's help
# A stated guarantee stays as it was signed, word by word: another text would fail to verify.
KEPT = {"harness/privacy/statement.py"}
# What is said at a host alone, by an agent or to its owner. A host is a checkout, which its owner uses from a
# shell, and agents write what its owner reads for a shell (`agent.connected`). By file, what these texts are
# about.
AT_HOSTS = {
    # What the host's shell runs, and why that failed, in `hosts.setup` alone.
    "harness/hosts/connection.py": {"./inv --list >/dev/null", ": ./inv could not make .venv"},
    # What an agent has found out of its host, which its owner mends.
    "harness/hosts/health.py": {"its owner renews it by ./inv hosts.setup --renew"},
    "harness/hosts/host_keys.py": {"./inv hosts.setup --renew", "; run ./inv hosts.setup."},
    "harness/hosts/local_host.py": {"or end it by ./inv hosts.clean", "; run ./inv hosts.setup, or correct"},
    # Refusals to its owner, who gives it other parties' certificates.
    "harness/hosts/key_histories.py": {"./inv hosts.setup --pin … --lost "},
    # What an agent says of its owner's policy, and what that file itself says.
    "harness/hosts/policy.py": {
        "./inv hosts.policy",
        "# What this host's party takes part in.",
        " --directory ",
        ", or, of all hosts at once, by ./inv hosts.setup.",
        "as ./inv task prints them",
    },
}
# Options of other programs, and a declaration's own text.
OTHERS = {
    "harness/command_name.py",
    "harness/engines/mpspdz/compiler.py",
    "harness/engines/mpyc/installed.py",
    "harness/engines/mpyc/party.py",
    "harness/errors.py",
    "harness/request/releases.py",
}


def texts(source: str, *, helps: bool = False) -> Iterator[str]:
    """Yield a module's texts without docstrings, and without the help of options unless it is wanted."""
    tree = ast.parse(source)
    left_out: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "also":  # a command's example
            left_out.add(id(node.value))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            left_out.add(id(node.value))
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name in DECLARING and not helps:
                left_out.update(id(inner) for inner in ast.walk(node))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in left_out:
            yield node.value


def of_commands(source: str) -> list[str]:
    """Return a module's texts that name a flag, a command or a page, as no Python call does."""
    return [text for text in texts(source) if OF_A_COMMAND.search(text)]


def test_no_text_that_a_python_call_reaches_names_a_flag_a_command_or_a_page() -> None:
    found = {}
    for path in [*PROJECT.glob("harness/**/*.py"), *PROJECT.glob("fairshares/*.py")]:
        name = path.relative_to(PROJECT).as_posix()
        if name.startswith(OF_COMMANDS):
            continue
        if said := of_commands(path.read_text(encoding="utf-8")):
            found[name] = said
    known = KEPT | OTHERS | AT_HOSTS.keys()
    assert found.keys() == known, {name: found[name] for name in found.keys() - known}
    for name, words in AT_HOSTS.items():
        assert all(any(word in text for word in words) for text in found[name]), found[name]
        assert all(any(word in text for text in found[name]) for word in words), name


def of_a_clone(source: str) -> list[str]:
    """Return a module's texts, help among them, that name a file which a clone has and a wheel lacks."""
    return [text for text in texts(source, helps=True) if OF_A_CLONE.search(text)]


def test_no_text_names_a_file_that_a_wheel_lacks() -> None:
    """Neither a message nor the help of an option: whoever installed the package has no such file."""
    found = {}
    for path in [*PROJECT.glob("harness/**/*.py"), *PROJECT.glob("fairshares/*.py")]:
        name = path.relative_to(PROJECT).as_posix()
        if said := of_a_clone(path.read_text(encoding="utf-8")):
            found[name] = said
    assert found.keys() == KEPT | OF_CONTRIBUTORS.keys(), found
    for name, words in OF_CONTRIBUTORS.items():
        assert all(any(word in text for word in words) for text in found[name]), found[name]
    found_in_help = of_a_clone('a = usual("x", parse, "see docs/how-to/hosts.md")\nb = "as README.md says"\n')
    assert sorted(found_in_help) == ["as README.md says", "see docs/how-to/hosts.md"]


def test_what_names_them_is_found() -> None:
    found = of_commands(
        'def f():\n    """Docs: --cap."""\n    raise E(f"{x} is no cap; say --cap 10, or ./inv cap.")\n'
        'g = optional(parse, "see --cap")\nh = "a--b"\n'
    )
    assert found == [" is no cap; say --cap 10, or ./inv cap."]


def test_an_installed_command_names_no_file_of_a_checkout() -> None:
    text = "see docs/how-to/hosts.md, or ./inv keys"
    assert as_called(text, "fairshares") == "see the page hosts of the documentation, or fairshares keys"
    assert as_called(text, "./inv") == text


def test_calls_that_stand_for_commands_are_functions_of_the_package() -> None:
    functions = {name for name in fs.__all__ if name.islower() and isfunction(getattr(fs, name))}
    functions -= {"load", "read_weights", "sample_weight"}  # of what is there already
    assert all(map(is_function, functions))
    commands = {command.name for command in COMMANDS}
    assert {name for name in commands if is_function(name)} == functions - {"plan", "preprocess"}


@pytest.mark.parametrize(
    ("surface", "field", "call", "command"),
    [
        (SHELL, "--cap 10", "./inv cap", "./inv keys"),
        (PYTHON, "cap=10", "fairshares.cap", "python -m fairshares keys"),
    ],
)
def test_each_surface_writes_fields_and_commands(
    surface: Surface, field: str, call: str, command: str
) -> None:
    with naming(surface):
        assert (named("cap", 10), named_command("cap"), named_command("keys")) == (field, call, command)


@pytest.mark.parametrize(
    ("surface", "of_call", "of_command"),
    [
        (
            SHELL,
            "./inv thresholds --curves 'my runs' --deterministic",
            "./inv keys --until DAY",
        ),
        (
            PYTHON,
            'fairshares.thresholds(curves="my runs", deterministic=True)',
            "python -m fairshares keys --until DAY",
        ),
    ],
)
def test_each_surface_writes_commands_with_options(surface: Surface, of_call: str, of_command: str) -> None:
    with naming(surface):
        call = named_call("thresholds", curves=Path("my runs"), deterministic=True, steps="")
        assert (call, named_call("keys", until="DAY")) == (of_call, of_command)


def heads_lost(by: int) -> dict[int, Intent]:
    """Return what hosts sign of which so many have seen a head that party 0's ledger never had."""
    own = Intent(
        nonces=[],
        party=0,
        run="",
        started="",
        asked={},
        domain={},
        source=InputSource.UPLOADS,
        inputs={},
        uploads="",
        program_hash="",
        engine_version="",
        compared=0,
        lacks=["a" * 64],
    )
    said = {party: replace(own, party=party, lacks=[], seen={"0": "a" * 64}) for party in range(1, by + 1)}
    return {0: own, **said}


def mistakes(scratch: Path) -> dict[str, str]:
    """Return what parts of the package say of mistakes, called from within, as no public function does."""
    scratch.mkdir()
    (scratch / "file").touch()
    calls: dict[str, Callable[[], object]] = {
        "a cap": lambda: parse_cap("auto"),
        "a directory": lambda: new_directory(scratch / "file" / "out").__enter__(),
        "a file of that name": lambda: check_path(Path("a" * 300), "records"),
        "a task": lambda: read_task(scratch / "task.json"),
        "hosts": lambda: read_hosts(scratch / "file"),
        "heads of ledgers": lambda: compare_heads(heads_lost(1)),
        "keys": lambda: party_with_keys(scratch / "keys", name="me", address="", until=None, hybrid=False),
        "noise": lambda: Stock(scratch / "stock").take("terms", 3, scratch / "piece"),
    }
    said = {}
    for name, call in calls.items():
        with pytest.raises(fs.FairSharesError) as raised:
            call()
        said[name] = str(raised.value)
    return said


A_KEYWORD = re.compile(r"\b[a-z_]+=|fairshares\.[a-z]|python -m")


def test_whoever_calls_a_part_from_python_reads_no_flag(tmp_path: Path) -> None:
    """Without any of the package's own calls around it, nor in a thread."""
    here = mistakes(tmp_path / "here")
    (in_a_thread,) = at_once(mistakes, [tmp_path / "thread"])
    for said in (here, in_a_thread):
        for name, text in said.items():
            assert not OF_A_COMMAND.search(text) and not OF_A_CLONE.search(text), (name, text)
            assert A_KEYWORD.search(text), (name, text)


def test_a_command_names_no_keyword_also_in_a_thread_of_a_host(tmp_path: Path) -> None:
    with naming(SHELL):
        here = mistakes(tmp_path / "here")
        (of_host,) = at_once(mistakes, [tmp_path / "thread"])
    for said in (here, of_host):
        for name, text in said.items():
            assert OF_A_COMMAND.search(text), (name, text)
            assert not A_KEYWORD.search(text), (name, text)


@pytest.mark.parametrize(
    ("surface", "command"), [(SHELL, "./inv"), (PYTHON, "python -m fairshares")], ids=["shell", "python"]
)
def test_each_surface_reads_how_a_restored_host_goes_on(surface: Surface, command: str) -> None:
    """There is no such function, so a Python call names the command, too."""
    with naming(surface), pytest.raises(fs.HostUnfitError) as raised:
        compare_heads(heads_lost(2))
    assert str(raised.value).endswith(f"and goes on by {command} hosts.restored --seen {'a' * 64}.")


def test_errors_of_calls_name_keywords_and_functions_that_there_are(tmp_path: Path) -> None:
    """Commands have options that no call has: hosts, and one that is a function here."""
    people: dict[str, Any] = {"client_id": [1, 2], "group": ["a", "b"], "label": [0, 1]}
    asked: dict[str, Any] = {"epsilon": 1, "security": "mpyc", "population": "none"}
    with pytest.raises(fs.OptionError, match="it goes with shares=, or with hosts that have some"):
        fs.weights(**people, **asked, chain="monthly")
    with pytest.raises(fs.StockError, match=r"beforehand by fairshares\.preprocess, or leave out offline="):
        fs.weights(**people, **asked, groups=["a", "b"], labels=[0, 1], offline=True, stock=tmp_path)


@pytest.mark.parametrize(
    ("asked", "unit"),
    [({"neighboring_relation": "add_or_remove_one"}, ""), ({"privacy_unit": "client", "cap": "3"}, "client")],
)
def test_an_error_of_a_form_names_keywords_that_the_call_has(asked: dict[str, str], unit: str) -> None:
    """A call chooses the form by other names than a command: by its variant, for example."""
    request = ThresholdsRequest(epsilon=1, variant="records", **asked)
    domain = RecordDomain(("a", "b"), ("0", "1"), cap=Cap(3) if unit else None).with_kind(RecordKind.SCORE)
    form = replace(request.form, capped=None)  # as one that keeps no client to a cap
    with naming(PYTHON), pytest.raises(OptionError, match="leave out what asks for this form") as raised:
        relation_for(domain, form, request.protect.neighboring_relation, request.protect.privacy_unit)
    named_keywords = set(re.findall(r"\b([a-z_]+)=", str(raised.value)))
    assert named_keywords and named_keywords <= inspect.signature(fs.thresholds).parameters.keys()


def test_errors_of_calls_and_of_commands(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    def said(surface: Surface) -> list[str]:
        with naming(surface):
            with pytest.raises(OptionError) as cap:
                parse_cap("auto")
            with pytest.raises(OptionError) as out, new_directory(tmp_path / "file" / "out"):
                pass
            with pytest.raises(ShareError) as task:
                read_task(tmp_path / "task.json")
        return [str(raised.value) for raised in (cap, out, task)]

    of_shell, of_python = said(SHELL), said(PYTHON)
    assert "by ./inv cap, then say --cap with" in of_shell[0]
    assert "by fairshares.cap, then say cap= with" in of_python[0]
    assert of_shell[1].endswith("name a new --out.") and of_python[1].endswith("name a new out=.")
    assert "./inv task made" in of_shell[2]
    assert "python -m fairshares task made" in of_python[2]


def test_an_error_of_a_call_names_a_command_as_whoever_imports_the_package_starts_it(tmp_path: Path) -> None:
    (tmp_path / "task.json").write_text("{}")
    with pytest.raises(ShareError, match=r"or make one by python -m fairshares task\.$"):
        fs.weights(shares=tmp_path, epsilon=1, security="mpyc", population="none")
    listed = subprocess.run(
        [sys.executable, "-m", "fairshares", "--list"],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=True,
    )
    named_as_commands = set()
    for path in [*PROJECT.glob("harness/**/*.py"), *PROJECT.glob("fairshares/*.py")]:
        called = re.findall(r'named_command\("([^"]+)"\)', path.read_text(encoding="utf-8").replace("'", '"'))
        named_as_commands.update(called)
    assert "keys" in named_as_commands
    with naming(PYTHON):
        for name in itertools.filterfalse(is_function, named_as_commands):
            if name.startswith("bench."):
                assert named_command(name) == f"the command {name} of a checkout"
            else:
                assert named_command(name) == f"python -m fairshares {name}"
                assert re.search(rf"^  {re.escape(name)} ", listed.stdout, re.MULTILINE)
