"""The page on backups, word by word: what a lost host gets back, and what it has to say that it lost."""

import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from fairshares.harness.hosts.messages import Propose
from fairshares.harness.hosts.policy import LEDGER
from fairshares.harness.hosts.setup import exported, set_up_here
from fairshares.harness.privacy.ledger.entries import Ledger
from fairshares.harness.uploads.keys import secrets_in
from tests.conftest import PROJECT
from tests.support.command import call, refused, succeed
from tests.support.coordinators import Coordinator, asked, listed, make_hosts, ran

PAGE = (PROJECT / "docs" / "how-to" / "operate-a-host.md").read_text()


def commands(heading: str) -> Iterator[list[str]]:
    """Yield the commands of the first block below a heading of the page, as words."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    (block, *_) = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    for line in block.splitlines():
        yield shlex.split(line)


def follow(heading: str, host: Path, backup: Path, working: Path) -> None:
    """Run the commands below a heading, with these places in the place of the page's."""
    for words in commands(heading):
        placed = [
            word.replace("/srv/fairshares", str(host)).replace("/backup", str(backup)) for word in words
        ]
        if placed[0] == "./inv":
            succeed(*placed[1:], cwd=working)
        else:
            subprocess.run(placed, cwd=working, check=True)


@pytest.fixture
def passphrase(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    credentials = tmp_path / "credentials"
    credentials.mkdir()
    (credentials / "fairshares-passphrase").write_text("correct horse battery staple\n")
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(credentials))


@pytest.mark.usefixtures("passphrase")
def test_a_lost_host_comes_back_by_the_page_and_states_what_its_copy_lacks(tmp_path: Path) -> None:
    """A run after the backup is lost with the host; another one has seen its head."""
    hosts = make_hosts(tmp_path / "hosts", clients=2)
    host, backup, working = hosts[0], tmp_path / "backup", tmp_path / "working"
    backup.mkdir()
    working.mkdir()
    ran(hosts, epsilon="1/4")
    secrets = secrets_in(host / "sealing")
    follow("Back up", host, backup, working)
    assert {path.name for path in backup.iterdir()} == {
        "ledger-1.sqlite",
        "sealing.locked",
        "policy.toml",
        "task.json",
    }
    saved = Ledger(backup / "ledger-1.sqlite")
    assert saved.head() == Ledger(host / LEDGER).head() != ""
    ran(hosts, epsilon="1/2")
    lost = Ledger(host / LEDGER).head()
    uploads = tmp_path / "from the web server"
    shutil.copytree(host / "shares", uploads)
    shutil.rmtree(host)

    for party in (1, 2):
        models = ["mpyc"]
        set_up_here(hosts[party], party, renew=False, policy_text=None, others=[], models=models)
        shutil.copyfile(exported(hosts[party], party), working / f"party-{party}.certificates")
    follow("Restore a lost host", host, backup, working)
    uploads.rename(host / "shares")
    for party in (1, 2):
        own = ("--party", str(party), "--directory", str(hosts[party]))
        file = str(exported(host, 0))
        assert "--lost 0" in refused("hosts.setup", *own, "--pin", file, cwd=working)
        succeed("hosts.setup", *own, "--pin", file, "--lost", "0", cwd=working)

    assert secrets_in(host / "sealing") == secrets
    ledger = Ledger(host / LEDGER)
    assert ledger.head() == saved.head() and ledger.had([lost]) == []
    stated = ("--population", "loans", "--epsilon", "1/2", "--delta", "2^-40", "--seen", lost)
    succeed("hosts.restored", "--directory", str(host), *stated, cwd=working)
    assert ledger.had([lost]) == [lost]
    assert [charge.task for charge in ledger.populations("loans")[0].charges] == ["weights", "lost"]
    assert call("hosts.check", "--directory", str(host), cwd=working).returncode == 0
    with ExitStack() as stack:
        work = Coordinator(host, stack).work
        work.propose(Propose(asked=asked(epsilon="1/4")))
        assert len(listed(work).sound) == 2
