"""Finds the user's build of MP-SPDZ, and says what is wrong with it."""

import os
import re
import subprocess
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

DOCUMENTATION = "https://mp-spdz.readthedocs.io"

# A race in the MAC check, which active security rests on, was fixed on 11 May 2026, after 0.4.2.
_FIX_COMMIT = "7bf16a74e10bb07850b762797e603a8eca8785c2"
_FIX_TIME = 1778496164
_FIRST_FIXED_RELEASE = (0, 4, 3)


@dataclass(frozen=True)
class Installation:
    """A directory with MP-SPDZ in it.

    Attributes:
        commit: "unknown" outside a git checkout.
        fixed: Whether its MAC check has no race.
    """

    home: Path
    commit: str
    release: str
    fixed: bool

    @property
    def version(self) -> str:
        """Release and first 12 digits of the commit."""
        return f"MP-SPDZ {self.release} ({self.commit[:12]})"

    @property
    def full_version(self) -> str:
        """Release and whole commit, which tell compiled programs apart."""
        return f"{self.release} {self.commit}"

    def fault(self, virtual_machine: str) -> str | None:
        """Return None if that program can run here, else one sentence: the lack, and its remedy."""
        if not self.fixed:
            return (
                f"{self.version} at {self.home} is older than the fix of 11 May 2026 to its MAC check; "
                f"update it, see {DOCUMENTATION}."
            )
        if not os.access(self.home / virtual_machine, os.X_OK):
            return (
                f"MP-SPDZ at {self.home} has no {virtual_machine}; "
                f"its documentation says how to build it, see {DOCUMENTATION}."
            )
        return None


@lru_cache(maxsize=1)
def find_installation() -> Installation | str:
    """Return the user's MP-SPDZ, or one sentence on why there is none.

    It is at `$MP_SPDZ_HOME` (`none` disables the search, empty counts as unset), else at `~/MP-SPDZ` or
    `/opt/MP-SPDZ`.
    """
    chosen = os.environ.get("MP_SPDZ_HOME", "")
    if chosen == "none":
        return "MP-SPDZ is switched off by MP_SPDZ_HOME=none."
    candidates = [Path(chosen).expanduser()] if chosen else [Path.home() / "MP-SPDZ", Path("/opt/MP-SPDZ")]
    for home in candidates:
        if (home / "compile.py").is_file():
            return _inspect(home.resolve())
    if chosen:
        return f"MP_SPDZ_HOME is {chosen}, but there is no compile.py in it; point it at a build of MP-SPDZ."
    return (
        "MP-SPDZ was not found at $MP_SPDZ_HOME, ~/MP-SPDZ or /opt/MP-SPDZ; "
        f"build it as its documentation says, {DOCUMENTATION}."
    )


def _inspect(home: Path) -> Installation:
    release = _release(home)
    number = tuple(int(part) for part in release.split(".")) if release != "unknown" else ()
    commit = git(home, "rev-parse", "HEAD") if (home / ".git").exists() else None
    if commit is None:
        return Installation(home, "unknown", release, number >= _FIRST_FIXED_RELEASE)
    fixed = git(home, "merge-base", "--is-ancestor", _FIX_COMMIT, "HEAD") is not None
    if not fixed and git(home, "cat-file", "-e", f"{_FIX_COMMIT}^{{commit}}") is None:  # a shallow clone
        fixed = int(git(home, "log", "-1", "--format=%ct") or 0) >= _FIX_TIME
    return Installation(home, commit, release, fixed)


def _release(home: Path) -> str:
    try:
        match = re.search(r"^## (\d+(?:\.\d+)+)", (home / "CHANGELOG.md").read_text(), re.MULTILINE)
    except OSError:
        match = None
    return match[1] if match else "unknown"


def git(home: Path, *arguments: str) -> str | None:
    """Return git's answer, None if it fails."""
    try:
        done = subprocess.run(
            ["git", "-c", "safe.directory=*", "-C", str(home), *arguments],
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None
