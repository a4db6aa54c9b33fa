"""What no log and no ledger of a host may hold, and a search for it in what tests of hosts leave behind."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

from cryptography.exceptions import InvalidTag

from fairshares.harness.errors import FairSharesError
from fairshares.harness.hosts.host_log import LOG_FILE
from fairshares.harness.hosts.listed_uploads import SEALING, SHARES
from fairshares.harness.hosts.policy import LEDGER
from fairshares.harness.uploads.files import TASK_FILE
from fairshares.harness.uploads.task import read_task
from tests.support.envelopes import unsealed

_LEAST_BYTES = 12  # of a secret that nothing else can look like


def check_logs_below(directory: Path) -> int:
    """Look into the log and the ledger of each host below a directory; return how many hosts there are.

    A failed assertion names the file, and the kind of the secret that is in it.
    """
    hosts = sorted({path.parent for path in directory.rglob(LOG_FILE)})
    secrets = [*_marks()]
    for host in hosts:
        secrets += [*_keys(host), *_shares(host), *_opened(host)]
    for host in hosts:
        for file in host.glob(f"{LOG_FILE}*"):
            if file.is_file() and not file.is_symlink():
                _check(file, file.read_bytes(), secrets)
        ledger = host / LEDGER
        if ledger.is_file():
            _check(ledger, ledger.read_bytes() + _unpacked(ledger), secrets)
    return len(hosts)


def _check(file: Path, content: bytes, secrets: list[tuple[str, bytes]]) -> None:
    for kind, secret in secrets:
        assert secret not in content, f"{file} has {kind}"


def _unpacked(ledger: Path) -> bytes:
    """Return what a ledger says as SQL, in which no value is split over pages."""
    try:
        with closing(sqlite3.connect(f"{ledger.as_uri()}?mode=ro", uri=True)) as connection:
            return "\n".join(connection.iterdump()).encode()
    except sqlite3.Error:  # of a test that damages it
        return b""


def _marks() -> Iterator[tuple[str, bytes]]:
    yield "a private key", b"PRIVATE KEY"
    yield "what a party opened", b"OUT counts"


def _keys(host: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the keys of a host's owner and its party's sealing keys, in the forms that they may come in."""
    for path in host.rglob("*.key"):
        content = path.read_bytes()
        if content.startswith(b"-----"):
            yield f"the key {path.name}", content.split(b"\n")[1]
        elif len(content) >= _LEAST_BYTES:
            yield f"the key {path.name}", content
            yield f"the key {path.name}, in digits", content.hex().encode()


def _shares(host: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the end of what a party's first upload says to it alone; nothing of what a test has damaged."""
    task = host / TASK_FILE
    party = host.name.removeprefix("host-")
    uploads = sorted((host / SHARES).glob("*.share"))
    if not (task.is_file() and uploads and party.isdecimal()):
        return
    with suppress(FairSharesError, InvalidTag, AssertionError, LookupError, ValueError, OSError):
        plain = unsealed(read_task(task), int(party), uploads[0].read_bytes(), host / SEALING)
        end = plain[-_LEAST_BYTES:]
        yield "a share", end
        yield "a share, in digits", end.hex().encode()


def _opened(host: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the integers that runs opened, of which a host keeps a signed statement."""
    for path in (host / "results").glob("*.json"):
        try:
            said = json.loads(json.loads(path.read_text())["said"])
        except (ValueError, LookupError, TypeError):  # of a test that damages it
            continue
        for values in said["outputs"].values():
            for between in (" ", ", ", ","):
                text = between.join(map(str, values)).encode()
                if len(text) >= _LEAST_BYTES:
                    yield "what a run opened", text
