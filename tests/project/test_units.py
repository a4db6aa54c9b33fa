"""The units and the container file of the pages: systemd takes them, and each command in them is there."""

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from fairshares.harness.cli.app import program
from fairshares.harness.cli.command_line import Command, checked
from fairshares.harness.cli.user_commands import COMMANDS, HOSTS
from tests.conftest import PROJECT

UNITS = PROJECT / "docs" / "how-to" / "units"
PAGE = PROJECT / "docs" / "how-to" / "operate-a-host.md"
FILES = sorted(UNITS.iterdir())
PYTHON = "/srv/FairShares/.venv/bin/python -P -m fairshares "


def commands() -> dict[str, Command]:
    """Return the users' commands by name."""
    found = {str(command.name): command for command in COMMANDS}
    return found | {f"hosts.{command.name}": command for command in HOSTS.tasks.values()}


def test_each_file_is_on_the_page() -> None:
    named = {*re.findall(r"units/([A-Za-z.-]+)", PAGE.read_text())}
    assert named == {file.name for file in FILES}


@pytest.mark.parametrize(
    "file", [file for file in FILES if file.suffix == ".service"], ids=lambda file: file.stem
)
def test_a_unit_starts_a_command_with_options_that_it_has(file: Path) -> None:
    (line,) = re.findall("^ExecStart=(.*)$", file.read_text(), re.MULTILINE)
    if not line.startswith(PYTHON):
        assert line.startswith("/usr/bin/tail ") and shutil.which("tail")
        return
    words = shlex.split(line.removeprefix(PYTHON))
    given = [word for word in words[1:] if word.startswith("--")]
    checked([word for word in words if word != "--quiet"], commands(), {})
    assert {flag.removeprefix("--").replace("-", "_") for flag in given} - {"quiet"} <= {
        *commands()[words[0]].options
    }
    assert "NoNewPrivileges=yes" in file.read_text() and program.name == "FairShares"


def test_systemd_takes_the_units(tmp_path: Path) -> None:
    """With this clone in the place of theirs, as systemd looks for the programs."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("there is no systemd-analyze")
    units = []
    for file in FILES:
        if file.suffix in (".service", ".timer", ".path"):
            text = file.read_text().replace("/srv/FairShares/.venv", str(PROJECT / ".venv"))
            text = re.sub("(?m)^(User|ReadWritePaths|ReadOnlyPaths)=.*\n", "", text)
            (tmp_path / file.name).write_text(text)
            units.append(str(tmp_path / file.name))
    assert len(units) >= 7
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *units],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    said = [line for line in done.stderr.splitlines() if str(tmp_path) in line or "fairshares" in line]
    assert done.returncode == 0 and said == [], done.stderr
