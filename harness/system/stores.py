"""Files in a directory, or in an object store that fsspec reaches: `s3://…`, `gs://…`, `sftp://…`."""

import io
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from harness.errors import MissingPackageError, ShareError
from harness.system.files import open_regular

_LARGE = 1 << 20  # bytes of a file that is read as a stream
_AT_ONCE = 64  # requests to a store


class File(NamedTuple):
    """A file. Attributes: name: without its directory; size: in bytes; read: opens it."""

    name: str
    size: int
    read: Callable[[], BinaryIO]


def files_in(place: Path | str, suffix: str) -> Iterator[File]:
    """Yield what is in a directory or, by its URL, in a store, and ends in a suffix, in any order.

    A directory is listed as it is gone through; a store's library lists all at once, by a kilobyte a file.
    Raises: OSError: there is no such directory; ShareError: as `asked`; MissingPackageError.
    """
    if isinstance(place, Path):
        with os.scandir(place) as entries:
            for entry in entries:
                if entry.name.endswith(suffix):
                    size = entry.stat(follow_symlinks=False).st_size
                    yield File(entry.name, size, partial(open_regular, Path(entry.path)))
        return
    store, root = store_of(place)
    for about in asked(place, store.ls, root, detail=True, refresh=True):
        path, size = about["name"], about["size"]
        if path.endswith(suffix) and about["type"] == "file":
            large = partial(asked, place, store.open, path)
            read = large if size > _LARGE else partial(_whole, place, store, path)
            yield File(path.rpartition("/")[2], size, read)


def opened(files: Iterable[File], *, far: bool) -> Iterator[tuple[File, BinaryIO | OSError]]:
    """Open files one after the other; many at once where each is a request to a store that is far away."""
    files = iter(files)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        while some := list(islice(files, _AT_ONCE)):
            yield from zip(some, (pool.map if far else map)(_opened, some), strict=True)


def store_of(url: str) -> tuple[Any, str]:
    """Return the store that a URL is of, as fsspec's file system, and the path in it.

    Raises: MissingPackageError: what reaches it is not installed; ShareError: there is no such kind.
    """
    try:
        from fsspec import url_to_fs

        store, path = url_to_fs(url)
    except ImportError:
        raise MissingPackageError(
            f"What reaches {url} is not installed; run `pip install 'fairshares[stores]'`."
        ) from None
    except ValueError as error:
        raise ShareError(f"{url} cannot be used: {error}; name s3://, gs:// or sftp://.") from None
    return store, path


def asked(url: str, request: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Return a store's answer. Raises: ShareError: it refuses, or does not answer."""
    try:
        return request(*arguments, **options)
    except Exception as error:  # noqa: BLE001  libraries of stores raise what they like
        why = str(error) or type(error).__name__
        raise ShareError(f"Cannot read {url}: {why}; see that it is there, and may be read.") from None


def _whole(url: str, store: Any, path: str) -> BinaryIO:
    return io.BytesIO(asked(url, store.cat_file, path))


def _opened(file: File) -> BinaryIO | OSError:
    try:
        return file.read()
    except OSError as error:
        return error
