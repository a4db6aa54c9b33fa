"""Identifies a compiled program by everything that it depends on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from harness.engines.base import PROJECT, Job


def program_hash(job: Job, extra: Sequence[str] = ()) -> str:
    """Return a SHA-256 over the program's text, all circuits, its arguments and what the engine adds."""
    sources = [job.source, *sorted((PROJECT / "protocols" / "circuits").glob("*.py"))]
    texts = [[path.name, path.read_text(encoding="utf-8")] for path in sources]
    whole = json.dumps([texts, list(job.arguments), list(extra)])
    return hashlib.sha256(whole.encode()).hexdigest()


def sources_hash(*directories: str) -> str:
    """Return a SHA-256 over all programs and modules below directories of the project, names included."""
    digest = hashlib.sha256()
    for directory in directories:
        for path in sorted(PROJECT.joinpath(directory).rglob("*")):
            if path.suffix in (".py", ".mpc"):
                text = path.read_bytes()
                digest.update(f"{path.relative_to(PROJECT).as_posix()} {len(text)}\n".encode() + text)
    return digest.hexdigest()
