"""An environment with the packages of `requirements.lock` alone, as on a machine where no test ever ran."""

import atexit
import os
import re
import shutil
import subprocess
import sys
import venv
from functools import cache
from importlib.metadata import distributions
from pathlib import Path
from tempfile import mkdtemp

from tests.conftest import PROJECT
from tests.support.command import INVOKE

TIMEOUT_S = 600


def plain(name: str) -> str:
    """Return a distribution's name as an index compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def locked() -> set[str]:
    """Return the names of the distributions that commands may need."""
    lock = (PROJECT / "requirements.lock").read_text()
    return {plain(name) for name in re.findall(r"^([A-Za-z0-9_.-]+)==", lock, re.MULTILINE)}


def link_or_copy(source: str | Path, target: str | Path) -> None:
    """Have a file at another place, too; a link cannot lead to another file system."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def make_environment(directory: Path) -> Path:
    """Make an environment of what is installed here of the locked distributions; return its Python.

    Files are hard links where that is possible: parties in their sandbox may not follow symbolic ones out of
    their environment.
    """
    venv.create(directory, symlinks=True)
    packages = (
        directory / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    )
    wanted = locked()
    for distribution in distributions():
        if plain(distribution.name) not in wanted:
            continue
        for file in distribution.files or ():
            first = file.parts[0]
            source = Path(str(distribution.locate_file(first)))
            if first in {"..", "__pycache__"} or (packages / first).exists():
                continue
            if source.is_dir():
                shutil.copytree(source, packages / first, copy_function=link_or_copy)
            else:
                link_or_copy(source, packages / first)
    return directory / "bin" / "python"


@cache
def fresh_invoke() -> tuple[str, ...]:
    """Return what `./inv` becomes in such an environment; it is made once, and removed as the tests end."""
    directory = Path(mkdtemp(prefix="fresh-environment-"))
    directory.chmod(0o755)  # as an environment is, which parties in their sandbox may read
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return (str(make_environment(directory)), *INVOKE[1:])


def run_fresh(*arguments: str, cwd: Path) -> str:
    """Run a command in such an environment, which has to work; return what it prints."""
    done = subprocess.run(
        [*fresh_invoke(), *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
