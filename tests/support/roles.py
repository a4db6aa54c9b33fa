"""Pages whose blocks are of roles: each block runs in a process and a directory of its role's own.

    <!-- roles apart -->      of the whole page
    <!-- by: trainer -->      before a block
    <!-- by: bank, 3 -->      before a block that each of three banks runs; `$NUMBER` is 0, 1 or 2

A role finds its directory, `../public`, and `./inv`. While it runs, the directories of others are not there,
but for the hosts', whose agents work in them.
"""

import os
import re
import secrets
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.conftest import PROJECT
from tests.support.command import INVOKE
from tests.support.documents import Page, Snippet

APART = "roles apart"
PUBLIC = "public"
_BY = re.compile(r"by: (\w+)(?:, (\d+))?")
_HEADING = re.compile(r"^## (.*)$", re.MULTILINE)
_TIMEOUT_S = 900  # of a block, also on a busy machine


@dataclass(frozen=True)
class Part:
    """A block of a role. Attributes: section: the heading that it is below; actors: how many run it."""

    section: str
    role: str
    actors: int
    snippet: Snippet


def parts_of(page: Page) -> list[Part]:
    """Return the blocks that a page's roles run, in the order of the page."""
    text = page.path.read_text(encoding="utf-8")
    headings = [(text.count("\n", 0, match.start()) + 1, match[1]) for match in _HEADING.finditer(text)]
    parts = []
    for snippet in page.snippets:
        found = [match for said in snippet.said if (match := _BY.fullmatch(said))]
        if found:
            (by,) = found
            section = [name for line, name in headings if line < snippet.line][-1]
            parts.append(Part(section, by[1], int(by[2] or 1), snippet))
    return parts


@dataclass(frozen=True)
class Actor:
    """One who plays a role, in a directory of its own. Attributes: variables: of its processes alone."""

    role: str
    directory: Path
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Cast:
    """All actors of a page.

    Attributes:
        place: The directory that holds theirs and `public`.
        actors: By role, in their order.
        stay: Roles whose directories stay where they are while others run.
    """

    place: Path
    actors: Mapping[str, Sequence[Actor]]
    stay: frozenset[str] = frozenset()

    def run(self, part: Part) -> None:
        """Run a block by each of its actors, one after the other; AssertionError if one of them fails."""
        actors = self.actors[part.role]
        assert len(actors) == part.actors, f"{part.actors} are to play {part.role}"
        for number, actor in enumerate(actors):
            with self._alone(actor):
                _run(part.snippet, actor, number)

    @contextmanager
    def _alone(self, actor: Actor) -> Iterator[None]:
        """Have other actors' directories elsewhere, under a name that nobody can know."""
        others = [
            other.directory
            for role, of_role in self.actors.items()
            for other in of_role
            if other is not actor and role not in self.stay
        ]
        away = self.place / secrets.token_hex(16)
        away.mkdir(mode=0o700)
        for directory in others:
            directory.rename(away / directory.name)
        try:
            yield
        finally:
            for directory in others:
                (away / directory.name).rename(directory)
            away.rmdir()


def _run(snippet: Snippet, actor: Actor, number: int) -> None:
    command = actor.directory / "inv"
    if not command.exists():
        command.write_text(f'#!/bin/sh\nexec {shlex.join(INVOKE)} "$@"\n')
        command.chmod(0o700)
    text = snippet.text
    shell = ["bash", "-euo", "pipefail", "-c", text]
    done = subprocess.run(
        shell if snippet.language == "sh" else [sys.executable, "-W", "error", "-c", text],
        cwd=actor.directory,
        env={
            **os.environ,
            "XDG_DATA_HOME": str(actor.directory / ".data"),
            "PYTHONPATH": str(PROJECT),
            "NUMBER": str(number),
            **actor.variables,
        },
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{actor.role} {number}, line {snippet.line}: {done.stderr}"


def files_with(secret: str, place: Path) -> list[Path]:
    """Return the files below a directory that hold a text, or whose names do."""
    found = []
    for file in sorted(place.rglob("*")):
        if secret in file.name or (file.is_file() and secret.encode() in file.read_bytes()):
            found.append(file)
    return found
