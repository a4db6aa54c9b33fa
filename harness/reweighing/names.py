"""The names of all weightings, without what computes them: help and commands that start need no more."""

from pathlib import Path

DEFAULT = "kamiran-calders"


def weighting_names() -> tuple[str, ...]:
    """Return the names of the modules in `weightings`, with hyphens, the default first."""
    names = []
    for file in sorted((Path(__file__).parent / "weightings").iterdir()):
        if file.suffix == ".py" and not file.stem.startswith("_"):
            names.append(file.stem.replace("_", "-"))
    names.remove(DEFAULT)
    return (DEFAULT, *names)
