"""A starter and a host of different versions: one sentence says which of the two is to be updated."""

from __future__ import annotations

import io
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from harness.errors import HostUnfitError, ShareError
from harness.hosts import connection, wire
from harness.hosts.checks import ask_facts
from harness.hosts.connection import Connection
from harness.hosts.inventory import Host
from harness.security_models import get_model

HOST = Host(0, "one.example", "/srv/fairshares", "/srv/FairShares", 9000)


class Session:
    """Stands in for ssh and its channel: an agent that greets, and then says nothing more."""

    def __init__(self, greeting: bytes) -> None:
        self._greeting = greeting
        self.sent: list[bytes] = []
        self.status_event = threading.Event()
        self.status_event.set()

    def create_session(self) -> Session:
        return self

    def makefile(self, _mode: str) -> io.BytesIO:
        return io.BytesIO(self._greeting)

    def sendall(self, line: bytes) -> None:
        self.sent.append(line)

    def exec_command(self, command: str) -> None: ...

    def close(self) -> None: ...


@pytest.mark.parametrize(
    ("greeting", "update"),
    [
        ({"agent": wire.VERSION - 1}, "it there, in /srv/FairShares"),
        ({"agent": wire.VERSION + 1}, "it on this machine"),
        ({"agent": "new"}, "it there, in /srv/FairShares"),
        ({}, "it there, in /srv/FairShares"),
    ],
)
def test_a_host_of_another_version_is_asked_nothing(
    greeting: dict[str, Any], update: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = Session(wire.encode(greeting))
    monkeypatch.setattr(connection, "_open", lambda host: session)
    with pytest.raises(HostUnfitError, match=rf"^Host one\.example .* update {update}; both need") as raised:
        Connection(HOST)
    assert str(raised.value).count(". ") == 0
    assert not any(b'"do"' in line and b"bye" not in line for line in session.sent)


def test_a_host_of_this_version_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_open", lambda host: Session(wire.encode({"agent": wire.VERSION})))
    Connection(HOST).close()


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"error": ["AdoptedError", "It is elsewhere."]}, "It is elsewhere"),
        ({"error": ["Path", "It is no error."]}, "It is no error"),
        ({"ok": {}}, "object missing required field `time`"),
        ({"ok": {"deep": json.loads("[" * 500 + "]" * 500)}}, "values within values"),
    ],
)
def test_a_broken_answer_is_one_sentence(
    answer: dict[str, Any], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = wire.encode({"agent": wire.VERSION}) + wire.encode(answer)
    monkeypatch.setattr(connection, "_open", lambda host: Session(lines))
    with pytest.raises(HostUnfitError, match=rf"^Host one\.example .*{said}"):
        ask_facts(Connection(HOST), get_model("mpyc"))


class Late(Session):
    """Answers nothing before the last file is there."""

    def makefile(self, _mode: str) -> io.BytesIO:
        arrived, first = threading.Event(), self._greeting.index(b"\n") + 1
        self.arrived = arrived

        class Answers(io.BytesIO):
            def readline(self, size: int | None = -1, /) -> bytes:
                if self.tell() >= first:
                    arrived.wait()
                return super().readline(size)

        return Answers(self._greeting)

    def sendall(self, line: bytes) -> None:
        super().sendall(line)
        if line == b"last":
            self.arrived.set()


@pytest.mark.parametrize("refused", [None, 1])
def test_files_are_sent_without_a_trip_for_each(
    refused: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    contents = [b"one", b"two", b"last"]
    files = [tmp_path / f"{number}.share" for number in range(3)]
    for file, content in zip(files, contents, strict=True):
        file.write_bytes(content)
    answers: list[dict[str, Any]] = [{"ok": None} for _ in files]
    if refused is not None:
        answers[refused] = {"error": ["ShareError", "There is no room."]}
    session = Late(b"".join(map(wire.encode, [{"agent": wire.VERSION}, *answers])))
    monkeypatch.setattr(connection, "_open", lambda host: session)
    made = Connection(HOST)
    if refused is None:
        made.put("put_file", files, 60.0)
    else:
        with pytest.raises(ShareError, match=r"^Host one\.example .*: There is no room\."):
            made.put("put_file", files, 60.0)
    sent = [line for line in session.sent if line.strip()]  # signs of life apart
    asked = [{"do": "put_file", "name": file.name, "bytes": file.stat().st_size} for file in files]
    assert sent == [part for each in zip(map(wire.encode, asked), contents, strict=True) for part in each]
