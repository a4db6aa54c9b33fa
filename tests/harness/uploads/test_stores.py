"""Uploads in object stores, against moto's server, the fake S3 that its users test with, and an sshd."""

import asyncio
import sys
from collections import Counter
from collections.abc import Iterator
from functools import partial
from getpass import getuser
from pathlib import Path
from secrets import token_hex
from threading import Event
from typing import Any

import pytest
from fsspec.asyn import sync
from fsspec.implementations.sftp import SFTPFileSystem
from moto.server import ThreadedMotoServer

from fairshares.harness.engines.parties.supervisor import free_ports
from fairshares.harness.errors import MissingPackageError, ShareError
from fairshares.harness.system import stores
from fairshares.harness.uploads.counting import UploadCount
from fairshares.harness.uploads.reasons import WRONG_SIZE
from fairshares.harness.uploads.sending import send
from fairshares.harness.uploads.task import Task
from fairshares.harness.uploads.upload_servers import Outcome
from tests.support.envelopes import left_out, made_task, opener, upload
from tests.support.running import until
from tests.support.servers import HOST, told
from tests.support.ssh import answers, make_ssh_files, start_sshd, write_key


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Return the URL of a new bucket."""
    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    for name, value in (
        ("AWS_ENDPOINT_URL", f"http://{host}:{port}"),
        ("AWS_ACCESS_KEY_ID", "key"),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
        ("AWS_DEFAULT_REGION", "us-east-1"),
    ):
        monkeypatch.setenv(name, value)
    name = f"uploads-{token_hex(8)}"  # moto's servers in one process have their buckets in common
    store: Any = stores.store_of(f"s3://{name}/")[0]
    try:
        store.mkdir(name)
        yield f"s3://{name}/2027/"
    finally:
        store.close_session(store.loop, store.s3)
        store.clear_instance_cache()
        server.stop()


@pytest.fixture
def task(tmp_path: Path) -> Task:
    return made_task(tmp_path)


def put(url: str, body: bytes) -> None:
    store, path = stores.store_of(url)
    store.pipe_file(path, body, mode="overwrite")


def test_a_bucket_takes_uploads_once_and_a_party_counts_them(
    bucket: str, task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "_LARGE", 2000)  # a bundle is read as a stream, an upload at once
    shares = tmp_path / "shares"
    names = [upload(task, [1 << i, 0, 1, 0], shares) for i in range(8)]
    envelopes = [(shares / "party-0" / f"{name}.share").read_bytes() for name in names]
    for name in names[4:]:
        for party in range(3):
            (shares / f"party-{party}" / f"{name}.share").unlink()
    taken = f"{bucket}party-0/{names[0]}.share"
    put(taken, b"a stranger's")
    ends = send(shares, [f"{bucket}party-{i}/" for i in range(3)])
    assert told(ends) == [
        Counter({f"{Outcome.STORED} (written)": 3, f"{Outcome.UNKNOWN} (something has the name)": 1}),
        *[Counter({f"{Outcome.STORED} (written)": 4})] * 2,
    ]
    store, path = stores.store_of(taken)
    assert store.cat_file(path) == b"a stranger's"
    put(f"{bucket}party-0/bundle.share", b"".join(envelopes[4:]))
    put(f"{bucket}party-0/[a-f]*.share", envelopes[0])  # a name is no pattern
    for i in range(1100):  # more than a page of a listing has
        put(f"{bucket}party-0/{i}.txt" if i % 2 else f"{bucket}{i}.share", b"other")
    count = UploadCount(opener(task, 0, tmp_path))
    count.add(f"{bucket}party-0/", 0)
    assert {*count.identities} == {*names}
    assert left_out(count.unsound) == {names[0]: WRONG_SIZE}
    expected = [UploadCount(opener(task, i, tmp_path)) for i in range(3)]
    for name, envelope in zip(names, envelopes, strict=True):
        (shares / "party-0" / f"{name}.share").write_bytes(envelope)
    expected[0].add(shares / "party-0", 0)
    assert (count.values == expected[0].values).all()


@pytest.fixture
def sftp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Return the URL of a directory at an sshd that is not known yet."""
    home = tmp_path / "home"
    (home / ".ssh").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    with free_ports(1) as (port,):
        make_ssh_files(tmp_path / "ssh", [f"[{HOST}]:{port}"])
        (tmp_path / "ssh" / "key").rename(home / ".ssh" / "id_ed25519")
        (tmp_path / "uploads").mkdir()
        server = start_sshd(tmp_path / "ssh", HOST, port)
        try:
            until(lambda: answers(HOST, port) or server.poll() is not None)
            yield f"sftp://{getuser()}@{HOST}:{port}{tmp_path / 'uploads'}/"
        finally:
            server.terminate()
            server.wait()


def test_an_sftp_server_takes_uploads_if_its_key_is_known(sftp: str, task: Task, tmp_path: Path) -> None:
    shares, known = tmp_path / "shares", tmp_path / "home" / ".ssh" / "known_hosts"
    names = [upload(task, [1 << i, 0, 1, 0], shares) for i in range(4)]
    (tmp_path / "uploads" / f"{names[0]}.share").write_bytes(b"a stranger's")
    count = UploadCount(opener(task, 0, tmp_path))
    known.write_text(f"{HOST} {write_key(tmp_path / 'other')}\n")
    for act in (lambda: send(shares, [sftp]), lambda: count.add(sftp, 0)):
        with pytest.raises(ShareError, match=r"key is not in .*known_hosts"):
            act()
    known.write_bytes((tmp_path / "ssh" / "known_hosts").read_bytes())
    (end,) = send(shares, [sftp])
    assert sum(number for how, number in end.items() if how.outcome is Outcome.STORED) == 3
    count.add(sftp, 0)
    assert {*count.identities} == {*names[1:]} and left_out(count.unsound) == {names[0]: WRONG_SIZE}
    SFTPFileSystem.clear_instance_cache()


def test_a_store_that_refuses_is_said(bucket: str, task: Task, tmp_path: Path) -> None:
    count = UploadCount(opener(task, 0, tmp_path))
    for place in ("s3://nobodys/2027/", f"{bucket}nothing/"):
        with pytest.raises(ShareError, match=f"Cannot read {place}"):
            count.add(place, 0)
    with pytest.raises(ShareError, match="cannot be used"):
        count.add("strange://place/", 0)
    upload(task, [1, 0, 0, 0], tmp_path / "shares")
    (end, *_) = send(tmp_path / "shares", ["s3://nobodys/2027/"])
    assert [how.outcome for how in end] == [Outcome.FAILED]


def test_a_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(MissingPackageError, match=r"fairshares\[stores\]"):
        stores.store_of("s3://uploads/")


class Silent:
    """A store whose methods do not end before the test does."""

    async_impl = False

    def __init__(self, over: Event) -> None:
        self._over = over

    def invalidate_cache(self) -> None:
        """Forget nothing."""

    def ls(self, _path: str, *, detail: bool) -> list[dict[str, object]]:
        """List nothing."""
        assert detail and not self._over.wait(20)
        return []

    def pipe_file(self, _path: str, _body: bytes, *, mode: str) -> None:
        """Write nothing."""
        assert mode == "create" and not self._over.wait(20)


def test_a_store_that_does_not_answer_is_left(
    task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    over = Event()
    monkeypatch.setattr(stores, "store_of", lambda url: (Silent(over), url))
    monkeypatch.setattr(stores, "FILE_S", 0.1)
    monkeypatch.setattr(stores, "LEAST_RATE", 1 << 40)
    monkeypatch.setattr(stores, "LIST_S", 0.1)
    upload(task, [1, 0, 0, 0], tmp_path / "shares")
    upload(task, [0, 1, 0, 0], tmp_path / "shares")
    ends = send(tmp_path / "shares", ["s3://silent/"])
    why = "not tried, as the server did not answer an earlier one in time"
    assert told(ends) == [
        Counter({f"{Outcome.UNKNOWN} (it did not answer in time)": 1, f"{Outcome.FAILED} ({why})": 1})
    ]
    with pytest.raises(ShareError, match="Cannot read s3://silent/: it did not answer in time"):
        UploadCount(opener(task, 0, tmp_path)).add("s3://silent/", 0)
    over.set()


def test_an_asynchronous_store_ends_what_took_too_long(bucket: str) -> None:
    store: Any = stores.store_of(bucket)[0]
    ended = Event()

    async def never() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            ended.set()

    with pytest.raises(TimeoutError):
        stores.within(0.1, store, partial(sync, store.loop, never))
    assert ended.wait(30)
