"""A host's health: what its owner is told before a run fails of it, as sentences, JSON and metrics."""

import json
import os
import re
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from fairshares.harness.engines.parties.certificates import make_key
from fairshares.harness.engines.registry import engines
from fairshares.harness.hosts import health
from fairshares.harness.hosts.health import look_at, write_metrics
from fairshares.harness.hosts.host_log import LOG_FILE, Event, HostLog
from fairshares.harness.hosts.policy import LEDGER, POLICY_FILE
from fairshares.harness.privacy.ledger import entries
from fairshares.harness.privacy.ledger.entries import Ledger
from tests.support.command import CODES, call, refused, succeed
from tests.support.coordinators import make_hosts, ran


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory of a host with three uploads, of which one run has counted them all."""
    hosts = make_hosts(tmp_path_factory.mktemp("made"), clients=3)
    ran(hosts)
    return hosts[0]


@pytest.fixture
def host(made: Path, tmp_path: Path) -> Path:
    """Return a copy of that host, which a test may change."""
    copy = tmp_path / "host-0"
    shutil.copytree(made, copy)
    return copy


def test_a_sound_host_says_what_it_has_and_what_expires(host: Path, tmp_path: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in host.rglob("*")}
    found = json.loads(succeed("hosts.check", "--directory", str(host), "--json", cwd=tmp_path))
    assert found["fit"] and found["faults"] == {} and found["notices"] == []
    assert (found["ledger"]["charges"], found["ledger"]["uploads"]) == (1, 3)
    assert found["ledger"]["bytes"] == (host / LEDGER).stat().st_size
    assert (found["uploads"]["files"], found["uploads"]["envelopes"]) == (3, 3)
    assert found["uploads"]["garbage_files"] == 0
    kinds = [entry["kind"] for entry in found["expires"]]
    assert kinds.count("own_certificate") == len(engines())
    assert kinds.count("peer_certificate") == 2 * len(engines())
    assert kinds.count("sealing_key") == 1
    ends = [datetime.fromisoformat(entry["ends"]) for entry in found["expires"]]
    assert ends == sorted(ends) and all(end > datetime.now(UTC) for end in ends)
    assert {path: path.stat().st_mtime_ns for path in host.rglob("*")} == before
    shown = succeed("hosts.check", "--directory", str(host), cwd=tmp_path)
    assert "Nothing that is looked at on this host keeps runs from their end." in shown


def expire(host: Path) -> None:
    name, engine = next(iter(engines().items()))
    place = host / "keys" / name
    for suffix in ("key", "pem"):
        (place / f"P0.{suffix}").unlink()
    make_key(place, "P0", engine.common_name(0), timedelta(hours=-0.5))


def damage_ledger(host: Path) -> None:
    (host / LEDGER).write_bytes(b"no ledger")


def open_directory(host: Path) -> None:
    host.chmod(0o777)


def lose_policy(host: Path) -> None:
    (host / POLICY_FILE).unlink()


def charge_later(host: Path) -> None:
    """Have the last charge be later than the clock, as a clock that jumped back leaves it."""
    with Ledger(host / LEDGER).writing() as connection:
        later = datetime.now(UTC) + timedelta(days=1)
        connection.execute("UPDATE charges SET time = ?", (later.isoformat(timespec="seconds"),))


FAULTS: dict[str, tuple[Callable[[Path], None], str]] = {
    "certificates": (expire, "expired on .*; its owner renews it by ./inv hosts.setup --renew"),
    "ledger": (damage_ledger, "restore it from a copy"),
    "directory": (open_directory, "Other users can write to"),
    "policy": (lose_policy, "It has no policy"),
    "clock": (charge_later, "its ledger has a last entry of .*; set the clock"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_what_keeps_runs_from_their_end_is_one_sentence_and_exit_code_4(name: str, host: Path) -> None:
    change, said = FAULTS[name]
    change(host)
    done = call("hosts.check", "--directory", str(host), "--json", cwd=host)
    found = json.loads(done.stdout)
    assert done.returncode == 4 and next(iter(found["faults"])) == name and not found["fit"]
    assert re.search(said, found["faults"][name]), found["faults"]
    assert f"cannot take its part in runs: {', '.join(found['faults'])}." in done.stderr


def full_of_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "LEAST_FREE_BYTES", 1 << 60)


def full_of_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "_LEAST_FREE_INODES", 1 << 60)


@pytest.mark.parametrize("fill", [full_of_bytes, full_of_files])
def test_a_disk_without_room_is_a_fault(
    fill: Callable[[pytest.MonkeyPatch], None], host: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(monkeypatch)
    if fill is full_of_files and not os.statvfs(host).f_files:
        pytest.skip("this file system has no limit of files")
    assert list(look_at(host).faults) == ["disk"]


def test_what_will_need_care_is_a_notice(host: Path) -> None:
    name, engine = next(iter(engines().items()))
    place = host / "keys" / name
    for suffix in ("key", "pem"):
        (place / f"P0.{suffix}").unlink()
    make_key(place, "P0", engine.common_name(0), timedelta(days=20))
    (host / "shares" / "empty.share").touch()
    (host / "shares" / "odd.share").write_bytes(b"x" * 100)
    HostLog(host, "").write(Event.REFUSED, "propose", "why")
    (host / LOG_FILE).chmod(0o644)
    found = look_at(host)
    assert found.faults == {} and found.uploads is not None and found.uploads.garbage_files == 2
    (expiry, log, garbage) = found.notices
    assert f"own certificate of {name}, party 0 expires on " in expiry
    assert "Others can open" in log and garbage.startswith("2 files among the uploads")


def be_a_link(log: Path) -> None:
    log.symlink_to(log.with_name("elsewhere"))


def be_of_another_user(log: Path) -> None:
    log.touch(mode=0o600)
    os.chown(log, 1, -1)


def be_open(log: Path) -> None:
    log.touch()
    log.chmod(0o640)


UNWRITTEN: dict[str, tuple[Callable[[Path], None], str]] = {
    "a link": (be_a_link, "is no file of its own, so nothing is written to it; move it away"),
    "another user's": (be_of_another_user, "This user cannot write to .*; chown it to this user"),
    "open": (be_open, "Others can open .*; chmod 600 it"),
}


@pytest.mark.parametrize("kind", UNWRITTEN)
def test_a_log_that_cannot_be_written_is_a_notice(kind: str, host: Path) -> None:
    """Where an agent tried to write, too, and went on without a word."""
    make, said = UNWRITTEN[kind]
    if kind == "another user's" and os.geteuid():
        pytest.skip("it takes root to give a file away")
    (host / LOG_FILE).unlink(missing_ok=True)
    make(host / LOG_FILE)
    HostLog(host, "").write(Event.REFUSED, "propose", "why")
    (notice,) = look_at(host).notices
    assert re.search(said, notice)
    assert not (host / LOG_FILE).exists() or (host / LOG_FILE).read_bytes() == b""
    (host / LOG_FILE).unlink()
    HostLog(host, "").write(Event.REFUSED, "propose", "why")
    assert look_at(host).notices == () and (host / LOG_FILE).stat().st_size


def test_a_disk_that_takes_no_writes_is_a_fault(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the system mounts a disk anew after an error of its own; it still has room then."""
    told = os.statvfs(host)
    read_only = os.statvfs_result((*told[:8], told.f_flag | os.ST_RDONLY, told.f_namemax))
    monkeypatch.setattr(os, "statvfs", lambda _place: read_only)
    (fault,) = look_at(host).faults.items()
    assert fault[0] == "disk" and "takes no writes now" in fault[1]


LINE = re.compile(r'(fairshares_[a-z_]+)\{host="[^"]*"(?:,[a-z]+="(?:[^"\\]|\\.)*")*\} (\d+)')


def figures(text: str) -> dict[str, list[int]]:
    """Return the figures of a text of metrics by name; each line has to be one, or what explains the next."""
    found: dict[str, list[int]] = {}
    explained: set[str] = set()
    for line in text.splitlines():
        if line.startswith("#"):
            _, _, name, _ = line.split(" ", 3)
            explained.add(name)
            continue
        matched = LINE.fullmatch(line)
        assert matched is not None and matched[1] in explained, line
        found.setdefault(matched[1], []).append(int(matched[2]))
    return found


def test_metrics_have_all_figures_in_prometheus_form(host: Path, tmp_path: Path) -> None:
    metrics = tmp_path / "collector" / "fairshares.prom"
    metrics.parent.mkdir()
    metrics.write_text("old")
    succeed("hosts.check", "--directory", str(host), "--metrics", str(metrics), cwd=tmp_path)
    found = figures(metrics.read_text())
    assert (found["fairshares_fit"], found["fairshares_ledger_uploads"]) == ([1], [3])
    assert (found["fairshares_upload_envelopes"], found["fairshares_garbage_files"]) == ([3], [0])
    assert len(found["fairshares_expiry_timestamp_seconds"]) == 3 * len(engines()) + 1
    assert "fairshares_fault" not in found
    assert metrics.stat().st_mode & 0o777 == 0o644 and [*metrics.parent.iterdir()] == [metrics]
    damage_ledger(host)
    done = call("hosts.check", "--directory", str(host), "--metrics", str(metrics), cwd=tmp_path)
    assert done.returncode == 4 and 'fault{host="' in metrics.read_text()
    assert figures(metrics.read_text())["fairshares_fit"] == [0]


def test_a_name_cannot_break_a_line_of_metrics(host: Path, tmp_path: Path) -> None:
    odd = tmp_path / 'a"b\\c\nd'
    host.rename(odd)
    write_metrics(tmp_path / "metrics", look_at(odd))
    text = (tmp_path / "metrics").read_text()
    assert r'{host="' in text and r'a\"b\\c\nd"' in text
    assert all(line.startswith(("#", "fairshares_")) for line in text.splitlines())


def test_metrics_that_cannot_be_written_are_one_sentence(host: Path, tmp_path: Path) -> None:
    there = ("hosts.check", "--directory", str(host), "--metrics", str(tmp_path / "none" / "metrics"))
    done = call(*there, cwd=tmp_path)
    assert done.returncode == 6 and done.stderr.count("Error: Cannot write") == 1
    assert "name its --directory" in refused("hosts.check", "--metrics", "metrics", cwd=tmp_path)
    none = call("hosts.check", "--directory", str(tmp_path / "none"), cwd=tmp_path)
    assert none.returncode in CODES and "is no host's directory" in none.stderr


def test_a_host_without_uploads_or_a_ledger_is_sound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entries, "TIMEOUT_S", 1.0)
    place = make_hosts(tmp_path, clients=0)[0]
    found: Any = look_at(place)
    assert (found.faults, found.uploads, found.ledger_bytes, found.ledger.charges) == ({}, None, 0, 0)
    assert not (place / LEDGER).exists()
