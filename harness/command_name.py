"""The users' command: `./inv` in a checkout, else `fairshares`."""

import re
from pathlib import Path

COMMAND = "./inv" if (Path(__file__).resolve().parents[1] / "inv").is_file() else "fairshares"


def as_called(text: str, command: str = COMMAND) -> str:
    """Return a text with `command` in place of `./inv`, and without files that only a checkout has."""
    called = re.sub(r"(?<!\w)\./inv(?![\w/])", command, text)
    if command == "./inv":
        return called
    return re.sub(r"\bdocs/(?:[\w-]+/)*([\w-]+)\.md\b", r"the page \1 of the documentation", called)
