"""The passphrase of locked keys: from systemd's credentials, from a pipe, or asked on the terminal."""

import getpass
import os
import sys
from pathlib import Path

from fairshares.harness.errors import OptionError, cannot
from fairshares.harness.system.files import read_bounded

CREDENTIAL = "fairshares-passphrase"  # the name of the passphrase in a unit of systemd
_DIRECTORY = "CREDENTIALS_DIRECTORY"  # the variable that systemd sets
_MOST_BYTES = 1 << 12


def asked_passphrase(*, twice: bool) -> str:
    """Return the passphrase, without the end of its line. No option and no variable has it.

    Args:
        twice: Whether a person types it twice, as a mistake would lock keys for ever.

    Raises:
        OptionError: There is none, it cannot be read, or the two that were typed differ.
    """
    credentials = os.environ.get(_DIRECTORY, "")
    if credentials:
        file = Path(credentials, CREDENTIAL)
        with cannot(f"read {file}", OptionError):
            if file.exists():
                return _text(read_bounded(file, _MOST_BYTES))
    if not sys.stdin.isatty():
        return _text(sys.stdin.buffer.readline(_MOST_BYTES))
    first = getpass.getpass("Passphrase: ")
    if twice and getpass.getpass("The same again: ") != first:
        raise OptionError("The two passphrases differ; nothing was written.")
    return _text(first.encode())


def _text(content: bytes) -> str:
    """Return a passphrase as a text; raise OptionError if there is none."""
    try:
        text = content.decode().rstrip("\r\n")
    except UnicodeDecodeError:
        raise OptionError("The passphrase is no text in UTF-8.") from None
    if not text:
        raise OptionError(
            f"There is no passphrase; type it, send it as the first line of the input, or give the unit the "
            f"credential {CREDENTIAL}."
        )
    return text
