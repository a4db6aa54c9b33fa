"""Finding MP-SPDZ: what is taken, and the sentence for each thing that is wrong; the costs in its log."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairshares.harness.engines.mpspdz import compiler as discovery
from fairshares.harness.engines.mpspdz.compiler import (
    DOCUMENTATION,
    Installation,
    find_installation,
    libraries_of,
)
from fairshares.harness.engines.mpspdz.engine import MpSpdzEngine
from fairshares.harness.engines.parties.handle import PartyState
from fairshares.harness.errors import OutputError
from fairshares.harness.security_models import MODELS, get_model

RING = MODELS["ring"]
OLD, FIXED = "2026-05-10T12:00:00+00:00", "2026-05-12T12:00:00+00:00"  # the fix is of 11 May


@pytest.fixture(autouse=True)
def _forget_installation() -> Iterator[None]:
    find_installation.cache_clear()
    yield
    find_installation.cache_clear()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a directory that MP_SPDZ_HOME names, with a compiler and every virtual machine in it."""
    directory = tmp_path / "MP-SPDZ"
    build(directory)
    monkeypatch.setenv("MP_SPDZ_HOME", str(directory))
    return directory


def build(directory: Path) -> None:
    directory.mkdir(parents=True)
    (directory / "compile.py").touch()
    (directory / "CHANGELOG.md").write_text("Words.\n\n## 0.4.2 (Dec 24, 2025)\n\n- words\n\n## 0.4.1 (x)\n")
    for model in MODELS.values():
        if model.virtual_machine:
            (directory / model.virtual_machine).touch(mode=0o755)


def git(directory: Path, *arguments: str, date: str = FIXED) -> str:
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    environment = {
        **os.environ,
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_SYSTEM": os.devnull,
        "GIT_COMMITTER_DATE": date,
        "GIT_AUTHOR_DATE": date,
    }
    identity = ("-c", "user.name=Somebody", "-c", "user.email=somebody@example.org")
    done = subprocess.run(
        ["git", *identity, "-C", str(directory), *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def commit(directory: Path, date: str) -> str:
    git(directory, "commit", "--allow-empty", "--message", "Change", date=date)
    return git(directory, "rev-parse", "HEAD")


def reason() -> str | None:
    return MpSpdzEngine().availability(RING)


def too_old(home: Path, version: str) -> str:
    return (
        f"{version} at {home} is older than the fix of 11 May 2026 to its MAC check; "
        f"update it, see {DOCUMENTATION}."
    )


def unknown(home: Path, release: str) -> str:
    return (
        f"Whether MP-SPDZ {release} at {home} has the fix of 11 May 2026 to its MAC check is unknown, as git "
        "does not tell its commit; clone it with git, or take a release after 0.4.2, see "
        f"{DOCUMENTATION}."
    )


def test_none_switches_it_off(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(home.parent))
    monkeypatch.setenv("MP_SPDZ_HOME", "none")
    assert reason() == "MP-SPDZ is switched off by MP_SPDZ_HOME=none."
    assert MpSpdzEngine().version() is None


@pytest.mark.parametrize("named", [None, "", "~/MP-SPDZ"])
def test_it_is_looked_for_in_the_home_directory(
    named: str | None, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(home.parent))
    monkeypatch.delenv("MP_SPDZ_HOME")
    if named is not None:
        monkeypatch.setenv("MP_SPDZ_HOME", named)
    installation = find_installation()
    assert isinstance(installation, Installation) and installation.home == home


@pytest.mark.skipif(Path("/opt/MP-SPDZ").exists(), reason="MP-SPDZ is in /opt, which a test cannot empty")
def test_found_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("MP_SPDZ_HOME", raising=False)
    assert reason() == (
        "MP-SPDZ was not found at $MP_SPDZ_HOME, ~/MP-SPDZ or /opt/MP-SPDZ; "
        f"build it as its documentation says, {DOCUMENTATION}."
    )


@pytest.mark.parametrize("exists", [True, False])
def test_home_without_a_compiler(exists: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = tmp_path / "elsewhere"
    if exists:
        chosen.mkdir()
    build(tmp_path / "MP-SPDZ")  # what was chosen is not replaced by what is found
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("MP_SPDZ_HOME", str(chosen))
    assert reason() == (
        f"MP_SPDZ_HOME is {chosen}, but there is no compile.py in it; point it at a build of MP-SPDZ."
    )


@pytest.mark.parametrize("name", [name for name, model in MODELS.items() if model.virtual_machine])
@pytest.mark.parametrize("there", [True, False])
def test_a_missing_virtual_machine_is_named(name: str, there: bool, home: Path) -> None:
    git(home, "init", "--quiet")
    commit(home, FIXED)
    model = get_model(name)
    machine = home / str(model.virtual_machine)
    machine.unlink()
    if there:
        machine.touch(mode=0o644)  # but not executable
    expected = (
        f"MP-SPDZ at {home} has no {model.virtual_machine}; build it there by make {model.virtual_machine}, "
        f"see {DOCUMENTATION}."
    )
    if there:
        expected = (
            f"Nobody may run {machine}: it lacks its permission to be executed; run chmod +x {machine}."
        )
    for other in MODELS.values():
        if other.virtual_machine:
            lacking = other.virtual_machine == model.virtual_machine  # models may share one
            assert MpSpdzEngine().availability(other) == (expected if lacking else None)


def test_a_commit_that_descends_from_the_fix_is_taken(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git(home, "init", "--quiet")
    before = commit(home, OLD)
    fix = commit(home, OLD)  # its date does not matter where history can tell
    monkeypatch.setattr(discovery, "_FIX_COMMIT", fix)
    after = commit(home, OLD)
    git(home, "checkout", "--quiet", before)
    beside = commit(home, FIXED)  # on a branch of its own
    for head, fixed in ((fix, True), (after, True), (before, False), (beside, False)):
        git(home, "checkout", "--quiet", head)
        find_installation.cache_clear()
        assert reason() == (None if fixed else too_old(home, f"MP-SPDZ 0.4.2 ({head[:12]})"))
        assert MpSpdzEngine().version() == f"MP-SPDZ 0.4.2 ({head[:12]})"


@pytest.mark.parametrize(("date", "fixed"), [(OLD, False), (FIXED, True)])
def test_a_shallow_clone_is_judged_by_its_date(
    date: str, fixed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    origin, clone = tmp_path / "origin", tmp_path / "MP-SPDZ"
    build(origin)
    git(origin, "init", "--quiet")
    git(origin, "add", "--all")
    monkeypatch.setattr(discovery, "_FIX_COMMIT", commit(origin, OLD))
    head = commit(origin, date)
    git(tmp_path, "clone", "--quiet", "--depth", "1", origin.as_uri(), str(clone))
    monkeypatch.setenv("MP_SPDZ_HOME", str(clone))
    assert reason() == (None if fixed else too_old(clone, f"MP-SPDZ 0.4.2 ({head[:12]})"))


@pytest.mark.parametrize(
    ("changelog", "release", "fixed"),
    [
        ("## 0.4.2 (Dec 24, 2025)\n", "0.4.2", False),
        ("## 0.4.3 (Some day)\n\n## 0.4.2 (Dec 24, 2025)\n", "0.4.3", True),
        ("## 0.4.10 (Some day)\n", "0.4.10", True),
        ("## 0.5 (Some day)\n", "0.5", True),
        ("no release\n", "unknown", False),
        (None, "unknown", False),
    ],
)
def test_without_git_the_changelog_decides(
    changelog: str | None, release: str, fixed: bool, home: Path
) -> None:
    (home / "CHANGELOG.md").unlink()
    if changelog is not None:
        (home / "CHANGELOG.md").write_text(changelog)
    assert MpSpdzEngine().version() == f"MP-SPDZ {release} (unknown)"
    assert reason() == (None if fixed else unknown(home, release))


def test_a_checkout_without_a_git_command_is_judged_by_its_changelog(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(home, "init", "--quiet")
    commit(home, FIXED)
    monkeypatch.setenv("PATH", str(home))
    assert reason() == unknown(home, "0.4.2")


@pytest.mark.skipif(shutil.which("cc") is None or shutil.which("ldd") is None, reason="it takes cc and ldd")
def test_a_machine_without_its_library_is_told_in_the_linkers_words(home: Path) -> None:
    """Before anything is charged: a program that is linked to a library, which is then removed."""
    (home / "CHANGELOG.md").write_text("## 0.4.3\n")
    machine = home / str(RING.virtual_machine)
    machine.unlink()
    (home / "part.c").write_text("int part(void) { return 0; }\n")
    (home / "whole.c").write_text("int part(void); int main(void) { return part(); }\n")
    library = ["cc", "-shared", "-fPIC", "-o", "libpart-of-a-test.so", "part.c"]
    whole = ["cc", "-o", machine.name, "whole.c", "-L.", "-lpart-of-a-test", f"-Wl,-rpath,{home}"]
    for command in (library, whole):
        subprocess.run(command, cwd=home, check=True)
    assert reason() is None
    (home / "libpart-of-a-test.so").unlink()
    assert reason() == (
        f"{machine} cannot start: libpart-of-a-test.so => not found. Install what it was built with, or "
        "build it again here."
    )


@pytest.mark.skipif(shutil.which("ldd") is None, reason="it takes ldd")
def test_libraries_that_could_not_be_asked_for_are_asked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A party's sandbox lets its machine read what is found: without any, the machine could never start."""
    program = str(shutil.which("env"))
    with monkeypatch.context() as without:
        without.setenv("PATH", str(tmp_path))
        assert libraries_of(program) == ()
    assert any("libc" in library for library in libraries_of(program))


# Ends of party 0's logs, MP-SPDZ 0.4.2 (3a0a7b1d5e80), shortened in the middle.
# compile.py -R 64 -Z 3 pi_rw split 3 0 2 2 1 40
# replicated-ring-party.x -p 0 -ip hosts -v -OF . pi_rw-split-3-0-2-2-1-40
RING_LOG = """\
Setup took 0.0296672 seconds.
Detailed costs:
             6 AND rounds
           212 ANDs
Spent 0.00160415 seconds (0.000189 MB, 11 rounds) on the online phase and 0.000154849 seconds \
(0.000512 MB, 2 rounds) on the preprocessing/offline phase.
Spent 1.834e-06 seconds on correlated randomness generation.
CPU time = 0.00152619
Time = 0.00355212 seconds\x20
Data sent = 0.000701 MB in ~13 rounds (party 0 only)
Global data sent = 0.002103 MB (all parties)
"""
# compile.py -R 64 -Y pi_rw split 2 0 2 2 1 40
# spdz2k-party.x -p 0 -N 2 -ip hosts -v -OF . -e pi_rw-split-2-0-2-2-1-40
SPDZ2K_LOG = """\
Setup took 0.0429701 seconds.
Spent 0.00316419 seconds (0.000646 MB, 37 rounds) on the online phase and 0.159285 seconds \
(3.35867 MB, 494 rounds) on the preprocessing/offline phase.
Sending to all 0.000102 MB in 3 rounds, taking 9.5652e-05 seconds
CPU time = 0.108701
Time = 0.165572 seconds\x20
Data sent = 3.35932 MB in ~531 rounds (party 0 only)
Global data sent = 6.71864 MB (all parties)
Coordination took 0.00145647 seconds
"""


# With several threads, of which it has sums.
THREADS = """\
4 threads spent a total of 0.5 seconds (0.25 MB, 9 rounds) on the online phase, 1.5 seconds \
(2 MB, 30 rounds) on the preprocessing/offline phase, and 0.1 seconds idling.
Spent 0.01 seconds (0.5 MB, 3 rounds) on correlated randomness generation.
"""


def log_of(text: str) -> PartyState:
    return PartyState(tuple(text.splitlines()))


@pytest.mark.parametrize(
    ("text", "costs"),
    [
        (RING_LOG, (0.00355212, 13, 701, 0.00160415, 0.000154849)),
        (SPDZ2K_LOG, (0.165572, 531, 3_359_320, 0.00316419, 0.159285)),
        (  # two clocks differ by less than nothing where nothing is made ahead
            RING_LOG.replace("0.000154849 seconds", "-2.1e-05 seconds"),
            (0.00355212, 13, 701, 0.00160415, 0.0),
        ),
        (
            THREADS + RING_LOG.splitlines()[-3] + "\n" + RING_LOG.splitlines()[-2],
            (0.00355212, 13, 701, None, None),
        ),
        ("Time = 9.1e-05 seconds\nData sent = 1.6e-05 MB in ~1 rounds\n", (9.1e-05, 1, 16, None, None)),
    ],
)
def test_costs_in_logs(text: str, costs: tuple[float | None, ...]) -> None:
    (read,) = MpSpdzEngine().costs([log_of(text)])
    assert (read.seconds, read.rounds, read.sent_bytes, read.online_s, read.offline_s) == costs


# With timers of the program, of which one sent nothing.
TIMERS = """\
Time = 0.3 seconds\x20
Time1 = 0.2 seconds (1.5 MB, 12 rounds)
Time20 = 5e-06 seconds (0 MB, 0 rounds)
"""


@pytest.mark.parametrize(
    ("text", "phases"),
    [
        (
            SPDZ2K_LOG,
            {"online": (0.00316419, 646, 37), "offline": (0.159285, 3_358_670, 494)},
        ),
        (
            SPDZ2K_LOG + TIMERS,
            {
                "online": (0.00316419, 646, 37),
                "offline": (0.159285, 3_358_670, 494),
                "timer_1": (0.2, 1_500_000, 12),
                "timer_20": (5e-06, 0, 0),
            },
        ),
        (
            THREADS + "\n".join(SPDZ2K_LOG.splitlines()[2:]),
            {"online": (0.5, 250_000, 9), "offline": (1.5, 2_000_000, 30)},
        ),
        (
            RING_LOG.replace("0.000154849 seconds", "-2.1e-05 seconds"),
            {"online": (0.00160415, 189, 11), "offline": (0.0, 512, 2)},
        ),
        ("Time = 9.1e-05 seconds\nData sent = 1.6e-05 MB in ~1 rounds\n", {}),
    ],
)
def test_phases_in_logs(text: str, phases: dict[str, tuple[float, int, int]]) -> None:
    (read,) = MpSpdzEngine().costs([log_of(text)])
    found = {name: (cost.seconds, cost.sent_bytes, cost.rounds) for name, cost in read.phases.items()}
    assert found == phases


@pytest.mark.parametrize(
    "odd", ["1e99 seconds", "1.2.3 seconds", "1 seconds (-1 MB, 2 rounds)", "1 seconds (1e30 MB, 2 rounds)"]
)
def test_digits_of_a_timer_that_are_no_cost_are_refused(odd: str) -> None:
    with pytest.raises(OutputError, match="did not report its time and traffic"):
        MpSpdzEngine().costs([log_of(f"{RING_LOG}Time1 = {odd}\n")])


@pytest.mark.parametrize("missing", ["Time = ", "Data sent = "])
def test_a_log_without_costs_is_refused(missing: str) -> None:
    lines = [line for line in RING_LOG.splitlines() if not line.startswith(missing)]
    with pytest.raises(OutputError, match="Party 2 ended well but did not report its time and traffic"):
        MpSpdzEngine().costs([*[log_of(RING_LOG)] * 2, log_of("\n".join(lines))])
