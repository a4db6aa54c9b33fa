"""A host's clock that jumps by an hour or a year: one sentence says so, and no upload is half-counted.

It may jump after the set-up, in the middle of a run, or have been wrong during the set-up.
"""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from unittest.mock import patch

import pytest

from fairshares.harness.errors import CertificateError, HostUnfitError
from fairshares.harness.hosts import host_keys
from fairshares.harness.hosts.fleet import skew_s
from fairshares.harness.hosts.health import look_at
from fairshares.harness.hosts.messages import Check, Propose
from fairshares.harness.hosts.party_run import MAX_SKEW_S
from fairshares.harness.uploads import keys as sealing_keys
from tests.conftest import PROJECT
from tests.support.clocks import HOUR, JUMPS, YEAR, SetClock
from tests.support.command import INVOKE
from tests.support.coordinators import (
    MODEL,
    Coordinator,
    answered,
    asked,
    make_hosts,
    nonces_of,
    ran,
    spent,
    stand_in,
    to_agree,
    to_go,
)
from tests.support.envelopes import counts, made_task, upload


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory of three hosts, each with its share of one upload."""
    directory = tmp_path_factory.mktemp("made")
    make_hosts(directory)
    return directory


@pytest.fixture
def hosts(made: Path, tmp_path: Path) -> list[Path]:
    """Return copies of those hosts, which a test may change."""
    for place in made.glob("host-*"):
        shutil.copytree(place, tmp_path / place.name)
    return sorted(tmp_path.glob("host-*"))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SetClock:
    return SetClock(monkeypatch)


@contextmanager
def a_prepared_host(hosts: list[Path]) -> Iterator[Coordinator]:
    """Yield a connection to the first host, whose party is ready."""
    with ExitStack() as stack:
        coordinator = Coordinator(hosts[0], stack)
        stand_in(coordinator.prepared(asked()))
        yield coordinator


def counts_once(hosts: list[Path]) -> bool:
    """Return whether a run now begins, and is the only one that the first host charged."""
    return ran(hosts).gone and len(spent(hosts[0])) == 1


@pytest.mark.parametrize("jump", JUMPS)
def test_a_host_whose_clock_jumps_signs_no_run(jump: str, hosts: list[Path], clock: SetClock) -> None:
    with a_prepared_host(hosts) as coordinator:
        clock.ahead = JUMPS[jump]
        with pytest.raises(HostUnfitError, match=r"its own clock says .*; set both clocks, by NTP"):
            answered(coordinator.work, to_agree(nonces_of(coordinator.work)))
    assert spent(hosts[0]) == []
    clock.ahead = timedelta()
    assert counts_once(hosts)


@pytest.mark.parametrize("jump", JUMPS)
def test_a_host_whose_clock_jumps_after_it_signed_charges_nothing(
    jump: str, hosts: list[Path], clock: SetClock
) -> None:
    """Its party would refuse the others' certificates after the charge."""
    with a_prepared_host(hosts) as coordinator:
        signed = coordinator.signed(hosts)
        clock.ahead = JUMPS[jump]
        direction, seconds = jump.split()[-1], abs(JUMPS[jump].total_seconds())
        said = f"Its clock was set {direction} by {seconds:.0f} s after it signed the run; set it, by NTP"
        with pytest.raises(HostUnfitError, match=said):
            answered(coordinator.work, to_go(signed))
        assert spent(hosts[0]) == []
        clock.ahead = timedelta(seconds=MAX_SKEW_S - 1)  # as NTP may do to a clock that hosts.check takes
        answered(coordinator.work, to_go(signed))
    assert len(spent(hosts[0])) == 1


@pytest.mark.parametrize("jump", JUMPS)
def test_a_coordinator_hears_of_a_jump_before_a_run(jump: str, hosts: list[Path], clock: SetClock) -> None:
    right = clock.seconds()
    clock.ahead = JUMPS[jump]
    with ExitStack() as stack:
        work = Coordinator(hosts[0], stack).work
        answered(work, Propose(asked=asked()))
        facts = answered(work, Check(party=0, security=MODEL.name, port=0, client_ports=[]))
    skew = skew_s(right, facts.time, right + 60)
    assert abs(skew) > MAX_SKEW_S and (skew > 0) == (JUMPS[jump] > timedelta())
    if abs(JUMPS[jump]) == HOUR:
        assert facts.keys is None
    else:
        reason = "expired on" if JUMPS[jump] > timedelta() else "is not valid before"
        assert facts.keys is not None and facts.keys.startswith(f"Its own certificate {reason} ")
        assert ", unless the clock is wrong, which says " in facts.keys


@pytest.mark.parametrize("jump", JUMPS)
def test_an_owner_hears_of_a_jump(jump: str, hosts: list[Path], clock: SetClock) -> None:
    """Nothing on a host tells that its clock is an hour ahead: its coordinator and the other hosts do."""
    ran(hosts)
    clock.ahead = JUMPS[jump]
    found = look_at(hosts[0])
    expected = {
        "an hour ahead": [],
        "an hour back": ["clock"],
        "a year ahead": ["certificates"],
        "a year back": ["certificates", "clock"],
    }
    assert [*found.faults] == expected[jump]
    assert all(f"says {found.checked:%F}T" in sentence for sentence in found.faults.values())
    clock.ahead = timedelta()
    assert look_at(hosts[0]).faults == {}


def test_a_charge_by_a_wrong_clock_is_a_fault_until_the_next_one(hosts: list[Path], clock: SetClock) -> None:
    with a_prepared_host(hosts) as coordinator:
        signed = coordinator.signed(hosts)
        clock.ahead = timedelta(seconds=MAX_SKEW_S - 1)
        answered(coordinator.work, to_go(signed))
    clock.ahead = -timedelta(seconds=30)
    assert [*look_at(hosts[0]).faults] == ["clock"]
    ran(hosts)
    assert look_at(hosts[0]).faults == {}


@pytest.mark.parametrize("ahead", [YEAR, -YEAR])
def test_keys_that_are_made_by_a_wrong_clock_are_refused_by_others(
    ahead: timedelta, hosts: list[Path], clock: SetClock, tmp_path: Path
) -> None:
    clock.ahead = ahead
    made = host_keys.make_keys(tmp_path / "other", 1, renew=False)
    clock.ahead = timedelta()
    before = host_keys.pinned(hosts[0])
    said = "is not valid before" if ahead > timedelta() else "expired on"
    with pytest.raises(CertificateError, match=f"party 1 {said} .*, unless the clock is wrong, which says"):
        host_keys.pin(hosts[0], 0, {name: {1: text} for name, text in made.items()}, lost=[1])
    assert host_keys.pinned(hosts[0]) == before


def test_sealed_uploads_count_whatever_the_clock_says(tmp_path: Path) -> None:
    """A key's last day binds clients; who has the key opens what was sealed for it before."""
    task = made_task(tmp_path)
    names = {upload(task, [1, 0, 0, 0], tmp_path / "shares")}
    for day in ("1970-01-01", "9999-12-31"):
        with patch.object(sealing_keys, "today", return_value=day):
            assert all({*count.identities} == names for count in counts(task, tmp_path))


def test_the_command_says_so_on_a_machine_whose_clock_jumped(hosts: list[Path]) -> None:
    """By a clock that is wrong for all of the command, and not for this code alone."""
    faketime = shutil.which("faketime")
    if faketime is None:
        pytest.skip("there is no faketime")
    done = subprocess.run(
        [faketime, "-f", "-366d", *INVOKE, "hosts.check", "--directory", str(hosts[0]), "--quiet"],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 4 and "Traceback" not in done.stderr, (done.stderr, sys.version)
    said = " ".join((done.stdout + done.stderr).split())
    assert "is not valid before" in said and "unless this machine's clock is wrong, which says" in said
