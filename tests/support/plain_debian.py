"""A Debian of its own for a test: users who own nothing but their homes, and a systemd that starts units.

Programs are those of this machine. Nothing that happens there is seen outside, or stays.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from fairshares.harness.engines.mpspdz.compiler import Installation, find_installation
from tests.conftest import PROJECT
from tests.support.documents import snippets
from tests.support.fresh_environment import fresh_invoke
from tests.support.running import until

_SCRIPT = Path(__file__).with_suffix(".sh")
_SYSTEMD = Path("/usr/lib/systemd/systemd")
_GROUPS = Path("/sys/fs/cgroup")
_PYTHON = Path("/usr/bin", f"python{sys.version_info.major}.{sys.version_info.minor}")
_NAMESPACES = ("--mount", "--pid", "--uts", "--ipc", "--net", "--cgroup")
TIMEOUT_S = 600


@dataclass(frozen=True)
class Driven:
    """What happened there.

    Attributes:
        code: The script's exit code.
        said: What it and its commands said, errors too.
    """

    code: int
    said: str


def lacking() -> str | None:
    """Return why there can be no such machine here, or None if there may be one."""
    adduser = shutil.which("adduser", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    needed = [shutil.which("unshare"), adduser, _SYSTEMD.exists(), _GROUPS.is_dir()]
    if os.geteuid() or not all(needed):
        return "it takes root on Linux, with unshare, adduser and systemd"
    if not _PYTHON.exists():
        return f"the system has no {_PYTHON.name}, for which the packages here are"
    return None


def drive(script: str, given: Path, work: Path) -> Driven:
    """Run a script there as root, once systemd is ready; skip the test where there can be no such machine.

    It finds this project as /clone, the packages of the lock file as /packages, and the directory `given` as
    /given. `$python` is the system's own, and MP-SPDZ is in /opt/MP-SPDZ if there is a build of it here.

    Args:
        script: Lines of bash, which end at the first command that fails.
        given: The directory, into which the script is written, too.
        work: An empty directory.
    """
    if (reason := lacking()) is not None:
        pytest.skip(reason)
    environment = Path(fresh_invoke()[0]).parents[1]
    packages = environment / "lib" / _PYTHON.name / "site-packages"
    (given / "driver.sh").write_text(f"python={_PYTHON}\n{_UNTIL_READY}\n{script}")
    root, out = work / "root", work / "out"
    root.mkdir()
    out.mkdir()
    installation = find_installation()
    build = [str(installation.home)] if isinstance(installation, Installation) else []
    with _control_groups(f"fairshares-{os.getpid()}") as enter:
        done = subprocess.run(
            [
                *("bash", "-c", f'{enter}exec "$@"', "enter"),
                *("unshare", *_NAMESPACES, "--fork", "--kill-child=SIGKILL"),
                *map(str, ("bash", _SCRIPT, root, PROJECT, packages, given, out, *build)),
            ],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    code, said = out / "code", out / "said"
    if not code.exists():
        pytest.skip(f"no systemd starts in namespaces here: {done.stderr[-1000:]}")
    return Driven(int(code.read_text()), said.read_text())


# Lines that make the user of the tutorial and the places of hosts, by root, and a clone with an environment.
_AS = """\
as() {
    runuser -u "$1" -- env -i HOME="$(getent passwd "$1" | cut -d: -f6)" PATH=/usr/bin:/bin \\
        LANG=C.UTF-8 COLUMNS=80 MPLBACKEND=agg PYTHONFAULTHANDLER=1 bash -euo pipefail -c "cd; $2"
}
"""
_CLONE = """\
as fairshares 'cp -r {cloned} /srv/FairShares'
as fairshares "$python -m venv --without-pip /srv/FairShares/.venv"
as fairshares 'cd /srv/FairShares
    sha256sum requirements.lock | cut -c -64 > .venv/fairshares-lock
    printf %s "$(realpath .venv/bin/python)" >> .venv/fairshares-lock'
mount --bind /packages "$(echo /srv/FairShares/.venv/lib/python*/site-packages)"
"""
_CLONED = (
    *("Programs", "benchmarks", "data", "fairshares", "harness", "inv", "protocols", "requirements.lock"),
    "tasks.py",
)
_UNTIL_READY = """\
for _ in $(seq 600); do
    systemctl is-active --quiet basic.target 2> /dev/null && break
    sleep 0.1
done
systemctl is-active --quiet basic.target
"""


def with_a_clone() -> str:
    """Return lines by which root makes what the tutorial of hosts has it make, and the user its clone.

    From then on `as USER COMMANDS` runs lines of bash as a user, who has nothing of root's environment.
    """
    (made,) = snippets("tutorials/hosts.md", "adduser")
    clone = _CLONE.format(cloned=" ".join(f"/clone/{name}" for name in _CLONED))
    return f'{_AS}{{\n{made}}} < <(yes "")\n{clone}'


@contextmanager
def _control_groups(name: str) -> Iterator[str]:
    """Yield lines of bash that move a process into groups of this name, which go with the block."""
    lines = ""
    made = []
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        base = _GROUPS / controllers.removeprefix("name=")
        if not controllers and (_GROUPS / "unified").is_dir():
            base = _GROUPS / "unified"
        place = Path(f"{base}{path}", name)
        try:
            place.mkdir()
        except OSError:  # no such controller here
            continue
        made.append(place)
        lines += f"echo $$ > {place}/cgroup.procs 2> /dev/null || :\n"  # some take none before they are set
    try:
        yield lines
    finally:
        for place in made:
            until(lambda place=place: _is_removed(place))  # type: ignore[misc]


def _is_removed(place: Path) -> bool:
    """Remove a group with those below it, as far as no process is in them; return whether it is gone."""
    for directory, _, _ in os.walk(place, topdown=False):
        with suppress(OSError):
            Path(directory).rmdir()
    return not place.exists()
