"""The units and the container file of the pages: systemd takes and starts them, and each command is there."""

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from fairshares.harness.cli.app import program
from fairshares.harness.cli.command_line import Command, checked
from fairshares.harness.cli.user_commands import COMMANDS, HOSTS
from fairshares.harness.uploads.keys import signing_key
from fairshares.harness.uploads.lists import write_uploads
from tests.conftest import PROJECT
from tests.support.documents import snippets
from tests.support.envelopes import counts, made_task, upload
from tests.support.plain_debian import drive, with_a_clone

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


DRIVER = """
result() {{ systemctl show --property Id,Result,ExecMainStatus --value "$1" | paste -sd ' '; }}

install -d -o fairshares -g fairshares -m 700 /backup
{{
{server}
}} < <(yes "")
install -o www-data -g www-data -m 640 -t /srv/uploads/2027 /given/shares/party-0/*
install -d -o party -g party -m 700 /srv/party /srv/party/keys /srv/party/lists
install -o party -g party -m 600 -t /srv/party/keys /given/keys-0/*
install -o party -g party -m 600 -t /srv/party /given/task.json
install -o party -g party -m 600 -t /srv/party/lists /given/lists/*
as fairshares 'cd /srv/FairShares; {setup}'
as fairshares 'cd /srv/FairShares; ./inv keys --directory /srv/fairshares/sealing --until 2999-12-31
    echo "correct horse battery staple" | {lock}'

cp /clone/docs/how-to/units/fairshares-* /etc/systemd/system
{begin}
systemctl start fairshares-check.service || :
result fairshares-check.service
runuser -u nobody -- grep -h ^fairshares_fit /var/lib/prometheus/node-exporter/fairshares.prom
systemctl list-timers --no-legend fairshares-check.timer | grep -o fairshares-check.service

as fairshares 'cd /srv/FairShares; ./inv hosts.setup --party 0 --directory /srv/fairshares --renew'
for _ in $(seq 100); do
    journalctl --quiet --output=cat --identifier=fairshares | grep -o 'Keys were renewed' && break
    sleep 0.1
done

systemctl enable --quiet --now fairshares-aggregate.path
systemctl start fairshares-uploads.service || :
result fairshares-uploads.service
as party 'touch /srv/party/lists/complete'
for _ in $(seq 600); do
    [ -f /srv/party/aggregates/party-0.aggregate ] && break
    systemctl is-failed --quiet fairshares-aggregate.service && break
    sleep 0.1
done
result fairshares-aggregate.service
stat -c '%U %a %n' /srv/party/lists/party-0.uploads /srv/party/aggregates/party-0.aggregate

as fairshares 'cd /srv/fairshares; ls sealing > before
    mv /backup/sealing.locked .; rm -r sealing; mkdir -m 700 sealing'
echo '{fstab}' >> /etc/fstab
systemctl daemon-reload
{keys}
result fairshares-keys.service
as fairshares 'cd /srv/fairshares; ls sealing | cmp - before; stat -f -c %T sealing'
systemctl restart fairshares-check.service || :
result fairshares-check.service
"""


def test_systemd_starts_the_units_as_the_pages_say(tmp_path: Path) -> None:
    """On a Debian of its own, by users that own nothing else, with two more parties' lists."""
    given, work = tmp_path / "given", tmp_path / "work"
    work.mkdir()
    task = made_task(given)
    for _ in range(3):
        upload(task, [1, 0, 0, 0], given / "shares")
    (given / "task.json").write_bytes(task.text)
    for party, count in enumerate(counts(task, given)):
        if party > 0:
            key = signing_key(given / f"keys-{party}")
            write_uploads(count.report(), given / "lists" / f"party-{party}.uploads", key)
    setup, _ = snippets("how-to/own-a-host.md", "./inv hosts.setup --party 0", "./inv hosts.policy")
    begin, backup, keys = snippets(
        "how-to/operate-a-host.md", "install -d -g fairshares", "./inv ledger", "install -d -m 700 /etc"
    )
    (server,) = snippets("how-to/intake.md", "install -d -o www-data")
    (fstab,) = re.findall("^tmpfs .*$", PAGE.read_text(), re.MULTILINE)
    (lock,) = [line for line in backup.splitlines() if "--lock" in line]
    driver = DRIVER.format(
        server=server.partition("nginx -t")[0],
        setup=setup.splitlines()[0],
        lock=lock,
        begin=begin,
        fstab=fstab,
        keys=keys.replace("systemd-ask-password -n", "printf 'correct horse battery staple'"),
    )
    done = drive(with_a_clone() + driver, given, work)
    assert done.code == 0, done.said
    said = done.said.splitlines()
    for service in ("check", "uploads", "aggregate", "keys"):
        assert f"success 0 fairshares-{service}.service" in said, done.said
    for line in (
        'fairshares_fit{host="/srv/fairshares"} 1',
        "Keys were renewed",  # in the journal
        "party 600 /srv/party/lists/party-0.uploads",
        "party 600 /srv/party/aggregates/party-0.aggregate",
        "tmpfs",  # where the sealing keys are again
    ):
        assert line in said, done.said
