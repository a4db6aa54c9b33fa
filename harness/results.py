"""Result files of earlier runs, read back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from harness.errors import ResultFileError

SCHEMA = 1


def read_result(path: Path | str, name: str) -> dict[str, Any]:
    """Return what a result file holds.

    Args: path: the file, or the directory that it is in under `name`.
    Raises: ResultFileError: it cannot be read, is no JSON object, or is of another schema.
    """
    path = result_path(path, name)
    try:
        found: Any = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ResultFileError(f"Cannot read {path}: {error.strerror}.") from None
    except ValueError:
        raise ResultFileError(f"{path} is not JSON in UTF-8.") from None
    if not isinstance(found, dict) or "schema" not in found:
        raise ResultFileError(f"{path} is not the {name} of a run.")
    if found["schema"] != SCHEMA:
        raise ResultFileError(f"{path} has schema {found['schema']!r}; this version reads schema {SCHEMA}.")
    return found


def result_path(path: Path | str, name: str) -> Path:
    """Return the path itself, or that of the named file if the path is a directory."""
    path = Path(path)
    return path / name if path.is_dir() else path
