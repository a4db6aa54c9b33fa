"""Results on disk: new directories, written whole or not at all, and earlier files."""

import errno
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime
from pathlib import Path

from fairshares.harness.errors import OptionError, ResultFileError, WriteError, named
from fairshares.harness.system.documents import Refusal, read_json
from fairshares.harness.system.files import (
    PREFIX,
    as_path,
    check_path,
    copy_into,
    is_directory,
    remove_within,
    working_directory,
)
from fairshares.harness.system.signals import uninterrupted
from fairshares.protocols.json_values import JsonObject, JsonValue

SCHEMA = 1
_LEAST_FREE = 1 << 20  # bytes on the disk of results, before anything starts


def read_result(path: Path | str, name: str) -> dict[str, JsonValue]:
    """Return a result file's content, given its path or directory, or raise ResultFileError."""
    path = result_path(path, name)
    content = read_json(path, not_result(path, name), SCHEMA)
    assert isinstance(content, dict), "what names a schema is an object"
    return {"schema": SCHEMA, **content}


def not_result(path: Path, name: str) -> Refusal:
    """Return the refusal of a file that is not this one of a run."""
    return Refusal(
        ResultFileError, str(path), f"the {name} of a run", "name the directory of a run as it left it"
    )


def result_path(path: Path | str, name: str) -> Path:
    """Return the path, or the path of the named file in a directory.

    Raises OptionError if no file has such a name; callers call the argument `path`.
    """
    path = as_path(path, "path")
    return path / name if is_directory(path) else path


def default_out(task: str) -> Path:
    """Return a new directory's name under `runs/`."""
    return Path("runs") / f"{task}-{datetime.now():%Y%m%d-%H%M%S-%f}"


def check_new(out: Path, field: str = "out") -> None:
    """Raise OptionError if a directory cannot be made or exists; `field` is what its user names it by."""
    check_path(out, field)
    if os.path.lexists(out):
        raise OptionError(f"{out} exists already; name another directory by {named(field)}.")


@contextmanager
def new_directory(out: Path, field: str = "out") -> Iterator[Path]:
    """Yield a private directory that becomes `out` at the end, and vanishes on an error.

    Messages say that its user names it by `field`.

    Guarantees: nobody else can put another directory in its place while it is yielded. It is beside `out`,
    unless others can write there.  [test: tests/harness/system/test_working_directories.py]

    Raises OptionError if `out` cannot be, or WriteError if writing fails or `out` was made meanwhile.
    """
    check_new(out, field)
    ours = [parent for parent in out.parents if not os.path.lexists(parent)]
    with ExitStack() as stack:
        stack.callback(_remove_empty, ours)
        try:
            out.parent.mkdir(parents=True, exist_ok=True)
            partial = stack.enter_context(working_directory(out.parent))
        except (FileExistsError, NotADirectoryError):
            raise OptionError(
                f"Cannot write to {out.parent}, which is not a directory; name a new {named(field)}."
            ) from None
        except OSError as error:
            raise OptionError(f"Cannot write to {out.parent}: {error.strerror}.") from None
        beside = partial.parent == out.parent
        free = shutil.disk_usage(partial).free
        if free < _LEAST_FREE:
            raise WriteError(
                f"There is no room left on the disk of {out.parent} ({free:,} bytes are free), so nothing "
                f"was started; make room, or name another {named(field)}."
            )
        try:
            yield partial
            if beside:
                partial.rename(out)
            else:
                _deliver(partial, out, field)
        except OSError as error:
            if error.errno in (errno.EEXIST, errno.ENOTEMPTY) and out.exists():
                raise WriteError(
                    f"Another run made {out} meanwhile; no result of this was written. Name another "
                    f"{named(field)}."
                ) from None
            where = Path(error.filename or partial)
            if where.is_relative_to(partial):
                where = out if beside else partial.parent
            raise WriteError(f"Cannot write to {where}: {error.strerror}; no result was written.") from None


def _deliver(made: Path, out: Path, field: str) -> None:
    """Copy a directory to a place where others can write, as a whole.

    Guarantees: what is written there is written into a directory of this user's alone.
    [test: tests/harness/system/test_working_directories.py]

    Raises WriteError if another directory took its place, or OSError.
    """
    partial = Path(tempfile.mkdtemp(prefix=PREFIX, dir=out.parent))
    descriptor = os.open(partial, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    ours = False
    try:
        status = os.fstat(descriptor)
        with os.scandir(descriptor) as entries:
            is_empty = not any(entries)
        ours = is_empty and status.st_uid == os.geteuid() and not status.st_mode & 0o077
        if ours:
            copy_into(made, descriptor)
            partial.rename(out)
        if not ours or not os.path.samestat(out.lstat(), status):
            raise WriteError(
                f"Another user put other files in the place of this run's results, as others can write to "
                f"{out.parent}; use nothing there, and name a new {named(field)} that only you can change."
            )
    except BaseException:
        with uninterrupted(), suppress(OSError):
            if ours:
                remove_within(descriptor)
            partial.rmdir()
        raise
    finally:
        os.close(descriptor)


def _remove_empty(directories: Sequence[Path]) -> None:
    for directory in directories:
        with suppress(OSError):  # it holds a result
            directory.rmdir()


def write_json(path: Path, value: JsonObject) -> None:
    """Write indented JSON, through to the disk; raise ValueError for numbers that are not finite."""
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    with path.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def write_files(directory: Path, files: Mapping[str, JsonObject], field: str = "out") -> None:
    """Write files of JSON into a new directory, or raise as `new_directory`."""
    with new_directory(directory, field) as partial:
        write_all(partial, files)


def write_all(directory: Path, files: Mapping[str, JsonObject]) -> None:
    """Write files of JSON into an existing directory."""
    for name, fields in files.items():
        write_json(directory / name, fields)
