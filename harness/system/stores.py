"""Files in a directory, or in an object store by fsspec: `s3://…`, `gs://…`, `sftp://…`."""

import io
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO, Protocol, TypedDict, TypeVar

from fairshares.harness.errors import MissingPackageError, ShareError
from fairshares.harness.system.files import open_regular
from fairshares.harness.system.threads import ContextPool, ContextThread

_LARGE = 1 << 20  # bytes of a file that is read as a stream
_AT_ONCE = 64  # requests to a store
CONNECT_S = 60.0  # the time to log in at a store
FILE_S = 60.0  # the time to send or fetch a file, and what LEAST_RATE allows in addition
LEAST_RATE = 1 << 14  # bytes a second
LIST_S = 3600.0  # the time to list a store

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class StoreCall(Protocol[T_co]):
    """A call of a store's method, which options may be added to."""

    def __call__(self, **options: float) -> T_co:
        """Make the call."""


class StoreEntry(TypedDict):
    """A file or directory of a store, in its listing; stores state more of it."""

    name: str
    size: int
    type: str


class Store(Protocol):
    """A file system of fsspec, as far as it is used here.

    Attributes:
        async_impl: Whether its methods take a further option `timeout`, in seconds.
    """

    async_impl: bool

    def invalidate_cache(self) -> None:
        """Forget earlier listings."""

    def ls(self, path: str, *, detail: bool, **options: float) -> list[StoreEntry]:
        """Return the files in a directory."""

    def cat_file(self, path: str, **options: float) -> bytes:
        """Return a file's content."""

    def pipe_file(self, path: str, value: bytes, *, mode: str, **options: float) -> None:
        """Write a file."""

    def open(self, path: str) -> BinaryIO:
        """Open a file to read it."""


@dataclass(frozen=True)
class File(ABC):
    """A file.

    Attributes:
        name: The file's name, without a directory.
        size: The number of the file's bytes.
    """

    name: str
    size: int

    @abstractmethod
    def read(self) -> BinaryIO:
        """Open it; raises as whatever holds it."""


@dataclass(frozen=True)
class _LocalFile(File):
    """A file of a directory."""

    path: Path

    def read(self) -> BinaryIO:
        return open_regular(self.path)


@dataclass(frozen=True)
class _StoredFile(File):
    """A file of a store, which is read as a stream."""

    store: Store
    path: str

    def read(self) -> BinaryIO:
        return self.store.open(self.path)


@dataclass(frozen=True)
class _FetchedFile(File):
    """A file of a store whose bytes are here."""

    body: bytes

    def read(self) -> BinaryIO:
        return io.BytesIO(self.body)


def files_in(place: Path | str, suffix: str, *, fetch: bool = True) -> Iterator[File]:
    """Yield the files with a suffix in a directory or, given a URL, in a store, in any order.

    Listing a store takes a kilobyte of memory a file. With `fetch`, small files of a store are fetched many
    at a time.

    Raises OSError for a directory; ShareError or as `store_of` for a store.
    """
    if isinstance(place, Path):
        with os.scandir(place) as entries:
            for entry in entries:
                if entry.name.endswith(suffix):
                    size = entry.stat(follow_symlinks=False).st_size
                    yield _LocalFile(entry.name, size, Path(entry.path))
        return
    store, root = store_of(place)
    try:
        store.invalidate_cache()  # forgets earlier listings
        listed = [
            entry
            for entry in within(LIST_S, store, partial(store.ls, root, detail=True))
            if entry["name"].endswith(suffix) and entry["type"] == "file"
        ]
        with ContextPool(_AT_ONCE if store.async_impl else 1) as pool:  # sftp has one connection
            for start in range(0, len(listed), _AT_ONCE):
                some = {entry["name"]: entry["size"] for entry in listed[start : start + _AT_ONCE]}
                small = [path for path, size in some.items() if fetch and size <= _LARGE]
                bodies = dict(zip(small, pool.map(partial(_fetched, store), small), strict=True))
                for path, size in some.items():
                    name = path.rpartition("/")[2]
                    if path in bodies:
                        yield _FetchedFile(name, size, bodies[path])
                    else:
                        yield _StoredFile(name, size, store, path)
    except Exception as error:  # noqa: BLE001  libraries of stores raise what they like
        why = str(error) or type(error).__name__
        if isinstance(error, TimeoutError):
            why = "it did not answer in time"
        raise ShareError(f"Cannot read {place}: {why}; see that it is there, and may be read.") from None


def _fetched(store: Store, path: str) -> bytes:
    """Return a small file of a store."""
    return within(FILE_S + _LARGE / LEAST_RATE, store, partial(store.cat_file, path))


def put(store: Store, path: str, body: bytes) -> None:
    """Write a new file into a store; raise FileExistsError, TimeoutError, or what its library raises."""
    seconds = FILE_S + len(body) / LEAST_RATE
    within(seconds, store, partial(store.pipe_file, path, body, mode="create"))


def within(seconds: float, store: Store | None, act: StoreCall[T]) -> T:
    """Return the result of a call of a store's method, or raise TimeoutError where it takes too long.

    Libraries of stores limit silence, if anything. Those that are asynchronous end the call then. Others go
    on with it in a thread that nobody waits for, and that ends with this process.
    [test: tests/harness/uploads/test_stores.py]
    """
    options = {"timeout": seconds} if store is not None and store.async_impl else {}
    ended: Future[T] = Future()

    def run() -> None:
        try:
            ended.set_result(act(**options))
        except BaseException as error:  # noqa: BLE001  is raised where it is waited for
            ended.set_exception(error)

    ContextThread(target=run, daemon=True).start()
    return ended.result(seconds)


def store_of(url: str) -> tuple[Store, str]:
    """Return the store of a URL, as fsspec's file system, and the path in it.

    Guarantees: an sftp server's key is in `~/.ssh/known_hosts`.
    [test: tests/harness/uploads/test_stores.py]

    Raises MissingPackageError, or ShareError without such a store or an answer.
    """
    try:
        from fsspec import url_to_fs

        options = {}
        if url.startswith("sftp://"):
            from fairshares.harness.system.sftp_keys import KnownKeysOnly  # needs paramiko, of an extra

            options["host_key_policy"] = KnownKeysOnly
        store, path = within(CONNECT_S, None, partial(url_to_fs, url, **options))
    except ImportError:
        raise MissingPackageError(
            f"What reaches {url} is not installed; run `pip install 'fairshares[stores]'`."
        ) from None
    except ValueError as error:
        raise ShareError(f"{url} cannot be used: {error}; name s3://, gs:// or sftp://.") from None
    except TimeoutError:
        raise ShareError(f"{url} did not answer in time; see that it runs, and try again.") from None
    except Exception as error:  # noqa: BLE001  libraries of stores raise what they like
        raise ShareError(f"{url} cannot be reached: {error}; see that it runs, and lets you in.") from None
    return store, path
