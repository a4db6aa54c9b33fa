"""Hosts of version 1.0.1 and of this one side by side: each refuses the other, and what 1.0.1 began goes on.

The earlier version runs its own code, from this repository's history, as client, host and coordinator.
"""

import os
import re
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest

from fairshares.harness.engines.registry import choose_model
from fairshares.harness.hosts.frames import WIRE_VERSION
from fairshares.harness.hosts.policy import LEDGER
from tests.conftest import PROJECT
from tests.support.command import CODES, TIMEOUT_S, refused, succeed
from tests.support.midway import charges
from tests.support.sharing import to_hosts
from tests.support.ssh import POLICY, Site, copy_of_project, give_environment, site, write_records

OF_1_0_1 = "42e4b99a9a8f2dd79829f5a26a66bc26e06521ac"
MODEL = choose_model(None)  # ring, or mpyc where there is no MP-SPDZ
RUN = [
    "weights",
    "--hosts",
    "hosts.toml",
    "--security",
    MODEL.name,
    "--epsilon",
    "1",
    "--population",
    "people",
]
UNTIL = ["--until", "2999-01-01"]


class Earlier:
    """Version 1.0.1, as a clone has it, with the packages of this environment and a ledger of its own."""

    def __init__(self, directory: Path) -> None:
        """Write the clone; skip the test where history does not go back that far."""
        self.directory = directory
        self._data = directory.with_name(f"{directory.name}-data")
        archive = subprocess.run(
            ["git", "-C", str(PROJECT), "archive", OF_1_0_1], capture_output=True, check=False
        )
        if archive.returncode:
            pytest.skip("this clone's history lacks version 1.0.1")
        subprocess.run(["tar", "-x", "-C", str(directory)], input=archive.stdout, check=True)
        give_environment(directory)

    def command(self, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
        """Run one of its commands to the end."""
        app = self.directory / "harness" / "cli" / "app.py"
        return subprocess.run(
            [sys.executable, "-P", str(app), "--search-root", str(self.directory), *arguments],
            cwd=cwd,
            env={**os.environ, "COLUMNS": "200", "XDG_DATA_HOME": str(self._data)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )

    def succeed(self, *arguments: str, cwd: Path) -> None:
        """Run one of its commands, which has to work."""
        done = self.command(*arguments, cwd=cwd)
        assert done.returncode == 0, done.stderr

    def refused(self, *arguments: str, cwd: Path) -> str:
        """Run one of its commands, which has to refuse in a sentence; return that, on one line."""
        done = self.command(*arguments, cwd=cwd)
        assert done.returncode in CODES and len(re.findall("^Error: ", done.stderr, re.MULTILINE)) == 1
        assert "Traceback" not in done.stderr
        return " ".join(done.stderr.split())


def set_up_by(earlier: Earlier, made: Site) -> None:
    """Set hosts up, and give each its uploads of 50 clients, by the earlier version's commands."""
    (made.home / "policy.toml").write_text(POLICY)
    earlier.succeed("hosts.setup", "--policy", "policy.toml", cwd=made.home)
    dealer = made.home.parent / "dealer"
    write_records(dealer)
    for i in range(MODEL.parties):
        earlier.succeed("keys", "--directory", f"shares/keys-{i}", *UNTIL, cwd=dealer)
    parties = ",".join(f"shares/keys-{i}/party.json" for i in range(MODEL.parties))
    of_task = ["--parties", parties, "--least-uploads", "1", "--security", MODEL.name, *UNTIL]
    domain = ["--groups", "a,b", "--labels", "0,1", "--max-count", "5", "--epsilon", "20"]
    earlier.succeed("task", "shares/task.json", *of_task, *domain, cwd=dealer)
    records = ["--records", "records.csv", "--out", "shares"]
    earlier.succeed("share", "--task", "shares/task.json", *records, cwd=dealer)
    to_hosts(dealer / "shares", [made.directory(i) for i in range(MODEL.parties)])


def with_projects(made: Site, *projects: Path) -> Site:
    """Return the same hosts with code from these directories, the last of them at all further hosts."""
    for i in range(MODEL.parties):
        made = made.with_host(i, project=str(projects[min(i, len(projects) - 1)]))
    return made


def ledgers(made: Site) -> list[bytes]:
    """Return the bytes of each host's ledger."""
    return [(made.directory(i) / LEDGER).read_bytes() for i in range(MODEL.parties)]


def test_each_version_refuses_the_other_and_what_the_earlier_began_goes_on(tmp_path: Path) -> None:
    of_earlier = tmp_path / "1.0.1"
    of_earlier.mkdir()
    earlier = Earlier(of_earlier)
    later = copy_of_project(tmp_path / "later")
    frames = later / "harness" / "hosts" / "frames.py"
    now = f"WIRE_VERSION = {WIRE_VERSION} "
    text = frames.read_text()
    assert text.count(now) == 1
    frames.write_text(text.replace(now, f"WIRE_VERSION = {WIRE_VERSION + 1} "))
    (tmp_path / "site").mkdir()
    with site(tmp_path / "site", MODEL.parties) as made:
        made = with_projects(made, of_earlier)
        set_up_by(earlier, made)
        earlier.succeed(*RUN, "--out", "first", cwd=made.home)
        begun = ledgers(made)
        (spent,) = {tuple(charges(made.directory(i))) for i in range(MODEL.parties)}
        assert len(spent) == 1

        # None is updated but the coordinator, then one host and not the others.
        older = "has an older version of FairShares in .*: update it there; both need the same commit"
        for projects in ([of_earlier], [PROJECT, of_earlier]):
            made = with_projects(made, *projects)
            said = refused(*RUN, "--out", "second", cwd=made.home)
            assert re.search(older, said)
        said = earlier.refused(*RUN, "--out", "second", cwd=made.home)
        assert "of version 1.0 has to start fairshares.harness.hosts.agent" in said

        # A host that is ahead of its coordinator.
        made = with_projects(made, PROJECT, later, PROJECT)
        said = refused(*RUN, "--out", "second", cwd=made.home)
        other = f"has another version of FairShares ({WIRE_VERSION + 1}, here {WIRE_VERSION})"
        assert f"{other}: update it on this machine; both need the same commit" in said
        assert ledgers(made) == begun and not (made.home / "second").exists()

        # All are of this version: keys, pins, policy, task, uploads and ledgers go on.
        made = with_projects(made, PROJECT)
        succeed("hosts.check", "--hosts", "hosts.toml", "--security", MODEL.name, cwd=made.home)
        succeed(*RUN, "--out", "second", cwd=made.home)
        for i in range(MODEL.parties):
            first, second = charges(made.directory(i))
            assert first == spent[0] and Fraction(second[0]) > 0

        # The earlier version's hosts refuse the ledgers that this one has charged.
        after = ledgers(made)
        with_projects(made, of_earlier)
        said = earlier.refused(*RUN, "--out", "third", cwd=made.home)
        assert "Host 127.0.0.1 (party" in said and "use the version that made it" in said
        assert ledgers(made) == after and not (made.home / "third").exists()
