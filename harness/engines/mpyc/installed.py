"""Checks that the installed MPyC is the one whose handling of messages was read and replaced.

`exchange` replaces each function of MPyC that reads what a peer sends. Another version could have others, so
it is refused before anything is shared, and again in each party's process.
"""

import hashlib
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

VERSION = "0.11"
# SHA-256 of the files that open connections, and read and write messages.
_DIGESTS = {
    "asyncoro.py": "66fc0d6f94215c66f3f08f2bc52cd00e6560075758d7901979103d1ccd6b93a5",
    "runtime.py": "55cfe8c0d145b3afc250e6c80c4d4a5e23ab7647b1bd9887dcfdd3c8822fff26",
}


@cache
def fault_of_installation() -> str | None:
    """Return why the installed MPyC cannot be used, and the way out; None if it can.

    Guarantees: only the two files whose digests are known open connections or read a peer's bytes.
    [test: tests/harness/engines/test_mpyc_installed.py]
    """
    # The package is not imported, as MPyC reads options when it loads.
    package = find_spec("mpyc")
    places = package.submodule_search_locations if package is not None else None
    if not places:
        return _refusal("MPyC is not installed")
    if not changed_files(Path(places[0])):
        return None
    try:
        found = version("mpyc")  # slow, so only now
    except PackageNotFoundError:
        found = "of an unknown version"
    if found != VERSION:
        return _refusal(f"MPyC {found} is installed, and how it reads messages is not known")
    return _refusal(f"The installed MPyC {found} is not as it was released: its files were changed")


def changed_files(package: Path) -> list[str]:
    """Return the names of files that are not as in the known release."""
    return [name for name, digest in _DIGESTS.items() if _digest(package / name) != digest]


def _digest(file: Path) -> str:
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError:
        return ""


def _refusal(what: str) -> str:
    return f"{what}; run `pip install --force-reinstall mpyc=={VERSION}`, or use a model of MP-SPDZ."
