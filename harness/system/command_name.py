"""What users type: `./inv` in a checkout, `fairshares` where the package is installed."""

import re
from pathlib import Path

COMMAND = "./inv" if (Path(__file__).resolve().parents[2] / "inv").is_file() else "fairshares"


def as_called(text: str, command: str = COMMAND) -> str:
    """Return a text, in which commands begin with `./inv`, with what they begin with here."""
    return re.sub(r"(?<!\w)\./inv(?![\w/])", command, text)
