"""The project's own files, for tests that read them."""

from collections.abc import Iterator
from pathlib import Path

TEXT = (
    ".py", ".mpc", ".md", ".toml", ".lock", ".txt", ".json", ".csv", ".yml", ".yaml", ".sh", ".cfg",
    ".ts", ".mjs", "",
)  # fmt: skip
MADE = (
    "runs",
    "_build",
    "__pycache__",
    "node_modules",
    "dist",
    "build",
)  # folders of results, caches and packages


def files(root: Path) -> Iterator[Path]:
    """Yield the project's own text files: no results, no caches, nothing of git's, no installed packages."""
    for path in sorted(root.iterdir()):
        if path.name.startswith(".") and path.name not in (".ci", ".gitignore"):
            continue
        if (
            path.is_dir()
            and not path.is_symlink()  # fairshares/ has links to packages beside it
            and path.name not in MADE
            and not path.name.endswith(".egg-info")
        ):
            yield from files(path)
        elif path.is_file() and path.suffix in TEXT:
            yield path
