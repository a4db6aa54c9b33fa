"""Writes the lock files anew: each package of pyproject.toml, pinned, with the SHA-256 of each of its files.

Run it by `.venv/bin/python -m tests.locks`. It asks `uv`, a program that resolves requirements for several
platforms at once (`pip install uv`, in an environment of its own), and the package index that uv is set up
for. Pins that still fit stay. `--upgrade NAME` takes the newest version of a package that the others allow,
and `--upgrade all` does so for every package. Then install by `./inv test` and `./inv docs`, which try it.

`build.lock` has the packages that build the wheel. Change their versions in `[build-system]` of
pyproject.toml first, as pip reads them there.
"""

import argparse
import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from fairshares.harness.cli.bootstrap import LOCK, TEST_LOCK

PROJECT = Path(__file__).resolve().parents[2]
DOCS_LOCK = f"docs/{LOCK}"
BUILD_LOCK = "build.lock"
PLATFORMS = [
    {
        "python_version": python,
        "python_full_version": f"{python}.0",
        "sys_platform": system,
        "platform_system": name,
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
    }
    for python in ("3.11", "3.12", "3.13")
    for system, name in (("linux", "Linux"), ("darwin", "Darwin"))
]
_HASH = re.compile(r"--hash=(sha256:[0-9a-f]{64})")
_OPTIONS = (
    *("pip", "compile", "--quiet", "--universal", "--python-version", PLATFORMS[0]["python_version"]),
    *("--fork-strategy", "fewest"),  # one version for all platforms
    *("--generate-hashes", "--no-annotate", "--no-header"),
)


@dataclass(frozen=True)
class Pin:
    """One exact version of a package, and the SHA-256 of each file that may be installed for it."""

    requirement: Requirement
    hashes: tuple[str, ...]

    @property
    def name(self) -> str:
        """The canonical name."""
        return canonicalize_name(self.requirement.name)

    def __str__(self) -> str:
        marker = f"; {self.requirement.marker}" if self.requirement.marker else ""
        pinned = f"{self.name}{self.requirement.specifier}{marker}"
        return " \\\n    --hash=".join((pinned, *self.hashes))


def read_pins(text: str) -> list[Pin]:
    """Return the pins of a lock file's text, in its order."""
    entries = text.replace("\\\n", " ").splitlines()
    return [
        Pin(Requirement(entry.partition(" --hash")[0]), tuple(_HASH.findall(entry)))
        for entry in entries
        if entry.strip()
    ]


def for_our_platforms(pin: Pin) -> Pin | None:
    """Return the pin without a marker that always holds, or None if its marker never does."""
    marker = pin.requirement.marker
    holding = [marker is None or marker.evaluate(platform) for platform in PLATFORMS]
    if not any(holding):
        return None
    if not all(holding):
        return pin
    return Pin(Requirement(f"{pin.name}{pin.requirement.specifier}"), pin.hashes)


def resolved(needed: Sequence[str], known: str, upgraded: Sequence[str], typed: str = "") -> list[Pin]:
    """Return the pins of requirements, from uv.

    Args:
        needed: uv's options that name the requirements.
        known: The text of lock files whose pins stay where they fit.
        upgraded: The packages whose pins need not stay, or "all".
        typed: Requirements, for a `needed` that reads standard input.

    Raises:
        FileNotFoundError: there is no uv.
        subprocess.CalledProcessError: uv found no versions that fit, as it says on standard error.
    """
    with TemporaryDirectory() as directory:
        result = Path(directory, "lock")
        result.write_text(known)
        newer = [word for name in upgraded for word in ("--upgrade-package", name)]
        command = ["uv", *_OPTIONS, *(["--upgrade"] if "all" in upgraded else newer), *needed]
        command += ["--output-file", str(result)]
        subprocess.run(command, cwd=PROJECT, input=typed, text=True, stdout=subprocess.DEVNULL, check=True)
        pins = map(for_our_platforms, read_pins(result.read_text()))
        return [pin for pin in pins if pin]


def new_locks(upgraded: Sequence[str]) -> dict[str, list[Pin]]:
    """Return the pins of each lock file; errors as `resolved`."""
    texts = {
        name: (PROJECT / name).read_text() if (PROJECT / name).exists() else ""
        for name in (LOCK, TEST_LOCK, DOCS_LOCK, BUILD_LOCK)
    }
    package = ("pyproject.toml", "--extra", "all")
    commands = resolved(package, texts[LOCK], upgraded)
    so_far = write(commands) + texts[TEST_LOCK]
    names = {pin.name for pin in commands}
    # What the commands need stays as it was just resolved, so that both files fit together.
    further = [name for name in upgraded if name not in names and name != "all"]
    tests = resolved((*package, "--group", "test"), so_far, further)
    if changed := [pin.name for pin in tests if pin.name in names and pin not in commands]:
        sys.exit(f"Tests need other versions of {', '.join(changed)} than commands get; pin these first.")
    build = tomllib.loads((PROJECT / "pyproject.toml").read_text())["build-system"]["requires"]
    return {
        LOCK: commands,
        TEST_LOCK: [pin for pin in tests if pin.name not in names],
        DOCS_LOCK: resolved(("--group", "docs"), texts[DOCS_LOCK], upgraded),
        BUILD_LOCK: resolved(("-",), texts[BUILD_LOCK], [], "\n".join(build)),
    }


def write(pins: Sequence[Pin]) -> str:
    """Return the text of a lock file."""
    return "".join(f"{pin}\n" for pin in sorted(pins, key=lambda pin: pin.name))


def main(arguments: Sequence[str] | None = None) -> None:
    """Write all lock files, or exit with a sentence and write none."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.locks", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--upgrade", action="append", default=[], metavar="NAME", help="a package, or all")
    upgraded = parser.parse_args(arguments).upgrade
    try:
        locks: Mapping[str, list[Pin]] = new_locks(upgraded)
    except FileNotFoundError:
        sys.exit("There is no uv; install it in an environment of its own (pip install uv), on your PATH.")
    except subprocess.CalledProcessError as error:
        sys.exit(f"uv found no versions that fit, see above (exit code {error.returncode}); nothing changed.")
    for name, pins in locks.items():
        (PROJECT / name).write_text(write(pins))
        print(f"{name}: {len(pins)} packages, {sum(len(pin.hashes) for pin in pins)} files")


if __name__ == "__main__":
    main()
