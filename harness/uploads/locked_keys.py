"""A party's keys in one file that a passphrase locks: for a backup, or in the place of keys on a disk.

The keys are sealed by AES-256-GCM with a key that scrypt (RFC 7914) makes of the passphrase and 16 random
bytes, at n = 2^17, r = 8 and p = 1, which takes 128 MiB and a third of a second. So whoever has the file
tries a few guesses a second and processor. docs/reference/files.md has the fields.
"""

import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Literal

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt
from msgspec import Struct

from fairshares.harness.errors import ShareError, cannot, named
from fairshares.harness.system.documents import SMALL, Refusal, as_json, as_type, parse_json, read_json
from fairshares.harness.system.files import create_file, read_bounded
from fairshares.harness.uploads.files import check_place, write_file
from fairshares.harness.uploads.keys import (
    PARTY_FILE,
    SIGNING,
    check_place_of_keys,
    make_place_of_keys,
    secrets_in,
)

LEAST_CHARACTERS = 12  # characters of a passphrase
_SALT_BYTES = 16
_NONCE_BYTES = 12
_KEY_BYTES = 32
_COST = 1 << 17
_BLOCK = 8
_PARALLEL = 1
_NAME = re.compile(rf"[0-9a-f]{{16}}\.key|{re.escape(PARTY_FILE)}|{re.escape(SIGNING)}")
_BOUND_TO = b"FairShares locked keys 1"


class LockedKeys(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The file, in hexadecimal digits.

    Attributes:
        schema: The version of the file, which fixes how the passphrase makes a key.
        salt: Random bytes that make that key another one for each file.
        nonce: The nonce of the seal.
        sealed: The files by name, in JSON, sealed.
    """

    schema: Literal[1] = 1
    salt: str
    nonce: str
    sealed: str


def _key_of(passphrase: str, salt: bytes) -> bytes:
    """Return the key that a passphrase makes."""
    kdf = Scrypt(salt=salt, length=_KEY_BYTES, n=_COST, r=_BLOCK, p=_PARALLEL)
    return kdf.derive(passphrase.encode())


def lock(directory: Path, file: Path, passphrase: str) -> int:
    """Write a directory's keys into a new file that a passphrase locks; return the number of sealing keys.

    The directory stays as it is.

    Raises:
        ShareError: The passphrase is short, the file is there, or the keys cannot be read.
    """
    if len(passphrase) < LEAST_CHARACTERS:
        raise ShareError(
            f"The passphrase has {len(passphrase)} characters; choose one of {LEAST_CHARACTERS} or more, as "
            "whoever has the file can try guesses without end."
        )
    if os.path.lexists(file):
        raise ShareError(f"{file} is there, and nothing replaces locked keys; name another file.")
    secrets = secrets_in(directory)
    files: dict[str, str] = {}
    for path in sorted(directory.iterdir()):
        if _NAME.fullmatch(path.name):
            with cannot(f"read {path}", ShareError):
                files[path.name] = read_bounded(path, SMALL.size).hex()
    salt = os.urandom(_SALT_BYTES)
    nonce = os.urandom(_NONCE_BYTES)
    sealed = AESGCM(_key_of(passphrase, salt)).encrypt(nonce, json.dumps(files).encode(), _BOUND_TO)
    locked = LockedKeys(salt=salt.hex(), nonce=nonce.hex(), sealed=sealed.hex())
    check_place(file)
    write_file(file, json.dumps(as_json(locked)).encode() + b"\n")
    return len(secrets)


def unlock(file: Path, directory: Path, passphrase: str) -> int:
    """Write the keys of a locked file into a directory that has none; return the number of sealing keys.

    Guarantees: all of them are there afterwards, or none is.
    [test: tests/harness/uploads/test_locked_keys.py]

    Raises:
        ShareError: The passphrase is another one, the file is damaged, or the keys cannot be written.
    """
    files = _opened(file, passphrase)
    make_place_of_keys(directory)
    present = [path.name for path in directory.iterdir() if _NAME.fullmatch(path.name)]
    if present:
        raise ShareError(
            f"{directory} has keys already, as {present[0]}; unlock into a directory without any, "
            f"{named('directory')}."
        )
    written: list[Path] = []
    try:
        with cannot(f"write a key to {directory}", ShareError):
            for name, content in files.items():
                written.append(directory / name)
                create_file(directory / name, content)
        check_place_of_keys(directory)
        return len(secrets_in(directory))
    except BaseException:
        for path in written:
            with suppress(OSError):
                path.unlink()
        raise


def _opened(file: Path, passphrase: str) -> Mapping[str, bytes]:
    """Return the keys in a locked file, by name. Raises ShareError."""
    refusal = Refusal(ShareError, str(file), "locked keys", "restore it from a copy")
    locked = as_type(LockedKeys, read_json(file, refusal, limits=SMALL), refusal)
    try:
        salt = bytes.fromhex(locked.salt)
        nonce = bytes.fromhex(locked.nonce)
        sealed = bytes.fromhex(locked.sealed)
        if (len(salt), len(nonce)) != (_SALT_BYTES, _NONCE_BYTES):
            raise ValueError(locked.salt)
        plain = AESGCM(_key_of(passphrase, salt)).decrypt(nonce, sealed, _BOUND_TO)
    except ValueError:
        refusal.say("its digits are none that lock keys")
    except InvalidTag:
        raise ShareError(
            f"The passphrase is not the one that locked {file}, or the file is damaged; nothing was written."
        ) from None
    by_name = as_type(dict[str, str], parse_json(plain, refusal, limits=SMALL), refusal)
    files: dict[str, bytes] = {}
    for name, digits in by_name.items():
        if not _NAME.fullmatch(name) or not re.fullmatch("([0-9a-f]{2})*", digits):
            refusal.say(f"it has {name!r}, which is no key")
        files[name] = bytes.fromhex(digits)
    return files


def is_in_memory(directory: Path) -> bool:
    """Return whether a directory's file system is in memory, so that no disk has what is in it."""
    device = directory.stat().st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    with suppress(OSError):
        for line in Path("/proc/self/mountinfo").read_text().splitlines():
            fields = line.split(" ")
            if fields[2] == number:
                return fields[fields.index("-") + 1] in ("tmpfs", "ramfs")
    return False
