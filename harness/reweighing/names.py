"""The names of all weightings, without what computes them: help and commands that start need no more."""

from pathlib import Path

DEFAULT = "kamiran-calders"


def weighting_names() -> tuple[str, ...]:
    """Return the names of the modules in `weightings`, with hyphens, the default first."""
    files = (Path(__file__).parent / "weightings").glob("[!_]*.py")
    names = sorted(file.stem.replace("_", "-") for file in files)
    names.remove(DEFAULT)
    return (DEFAULT, *names)
