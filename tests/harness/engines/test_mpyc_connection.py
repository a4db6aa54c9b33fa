"""Connections of the embedded engine: what each takes, keeps and refuses."""

import os
import struct
from typing import Any

import pytest

from fairshares.harness.engines.mpyc import connection
from fairshares.harness.engines.mpyc.connection import PeerConnection, Peers, most_unasked
from fairshares.harness.engines.parties.party_log import EndedBy, reasons_in
from fairshares.harness.errors import FairSharesError, LostPeerError, PeerMessageError
from fairshares.harness.party_reports import line_of_lost_peer
from tests.support.mpyc_peers import KEY_BYTES, Future, Loop, Runtime, Transport

CERTIFICATES = {0: b"zero", 1: b"one", 2: b"two"}
KEYS = b"k" * KEY_BYTES


def message(step: int, content: bytes) -> bytes:
    return struct.pack("<qI", step, len(content)) + content


class Link:
    """Party 2's connection with a peer that shows a certificate; party 0's after it met, by default."""

    def __init__(self, certificate: bytes | None = b"zero", *, first: bytes | None = b"\0\0" + KEYS) -> None:
        self.loop = Loop()
        runtime: Any = Runtime(2, self.loop)
        self.runtime = runtime
        self.peers = Peers(self.loop, CERTIFICATES)  # type: ignore[arg-type]
        self.connection = PeerConnection(self.runtime, self.peers)
        self.transport = Transport(certificate)
        self.connection.connection_made(self.transport)
        if first is not None:
            self.connection.data_received(first)

    def hear(self, data: bytes) -> None:
        """Hand it bytes of the peer, in one piece."""
        self.connection.data_received(data)

    def failure(self) -> str:
        """Return the sentence that ended the run, once and at once; empty if nothing did."""
        if self.peers.failure is None:
            assert not self.transport.aborted and self.loop.stops == 0
            return ""
        assert self.transport.aborted and self.loop.stops == 1
        assert isinstance(self.peers.failure, PeerMessageError)
        return str(self.peers.failure)


def test_a_peer_says_its_number_and_keys_in_any_pieces() -> None:
    link = Link(first=None)
    for byte in b"\0\0" + KEYS:
        assert link.runtime.parties[0].protocol is None
        link.hear(bytes([byte]))
    assert link.runtime.parties[0].protocol is link.connection and link.runtime.keys == {0: KEYS}


@pytest.mark.parametrize(
    ("certificate", "number", "said"),
    [
        (b"zero", 1, "Party 0 connected as party 1"),
        (b"zero", 2, "Party 0 connected as party 2"),
        (b"zero", 65535, "Party 0 connected as party 65535"),
        (b"two", 2, "Party 2 connected to party 2"),
        (b"other", 0, "A stranger connected as party 0"),
        (None, 0, "A stranger connected as party 0"),
    ],
)
def test_a_peer_is_who_its_certificate_says(certificate: bytes, number: int, said: str) -> None:
    link = Link(certificate, first=number.to_bytes(2, "little"))
    assert link.failure().startswith(said + ": ")
    assert all(party.protocol is None for party in link.runtime.parties) and not link.runtime.keys


def test_a_peer_connects_once() -> None:
    link = Link(first=None)
    link.runtime.parties[0].protocol = link.connection
    link.hear(b"\0\0" + KEYS)
    assert link.failure().startswith("Party 0 connected twice: ")


def test_messages_come_before_or_after_they_are_asked_for() -> None:
    link = Link()
    link.hear(message(7, b"early"))
    assert link.connection.receive(7, 5) == b"early"
    asked = link.connection.receive(8, 4)
    assert isinstance(asked, Future)
    for byte in message(8, b"late"):
        assert not asked.done()
        link.hear(bytes([byte]))
    assert asked.result() == b"late" and link.failure() == ""


@pytest.mark.parametrize("length", [0, 3, 5, 2**32 - 1])
def test_a_message_of_another_length_is_refused_by_its_header(length: int) -> None:
    link = Link()
    link.connection.receive(8, 4)
    link.hear(struct.pack("<qI", 8, length))
    assert link.failure().startswith(f"Party 0 sent a message of {length} bytes where 4 are expected: ")


def test_a_message_that_came_early_has_its_length_too() -> None:
    link = Link()
    link.hear(message(7, b"early"))
    with pytest.raises(PeerMessageError, match="Party 0 sent a message of 5 bytes where 4 are expected"):
        link.connection.receive(7, 4)


def test_a_step_has_one_message() -> None:
    link = Link()
    link.hear(message(7, b"a") + message(7, b"b"))
    assert link.failure().startswith("Party 0 sent two messages for one step: ")


def kept_by(connection: PeerConnection) -> int:
    """Return the bytes that a connection keeps."""
    return len(connection._received) + sum(map(len, connection._unasked.values()))


@pytest.mark.parametrize("size", [0, 1, 100, 4000])
def test_what_nobody_asked_for_is_kept_up_to_a_limit(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = 100_000
    monkeypatch.setattr(connection, "most_unasked", lambda: limit)
    link = Link()
    sent = 0
    while not link.peers.failure:
        link.hear(message(sent, bytes(size)))
        sent += 1
        assert kept_by(link.connection) <= limit and sent < 1000
    assert "Party 0 sent more than 0 MB that the program had not asked for" in link.failure()
    assert len(link.connection._unasked) <= limit / connection._UPKEEP


def test_what_was_asked_for_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "most_unasked", lambda: 10_000)
    link = Link()
    for step in range(100):
        link.hear(message(step, bytes(5000)))
        assert link.connection.receive(step, 5000) == bytes(5000)
    assert link.failure() == ""


def test_an_announced_message_that_is_too_large_is_refused_before_it_comes() -> None:
    link = Link()
    link.hear(struct.pack("<qI", 7, 2**32 - 1))
    assert "that the program had not asked for" in link.failure() and kept_by(link.connection) == 0


def test_what_the_program_waits_for_may_have_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "most_unasked", lambda: 1000)
    link = Link()
    asked = link.connection.receive(7, 1_000_000)
    link.hear(message(7, bytes(1_000_000)))
    assert isinstance(asked, Future) and asked.result() == bytes(1_000_000)


def test_the_limit_is_a_part_of_the_memory_and_one_gibibyte_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    for pages, limit in ((1 << 18, 1 << 26), (1 << 30, 1 << 30)):
        known = {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": pages}
        monkeypatch.setattr(os, "sysconf", known.__getitem__)
        assert most_unasked() == limit


def test_nothing_is_taken_after_a_fault() -> None:
    link = Link()
    link.hear(message(7, b"") + message(7, b""))
    for _ in range(100):
        link.hear(bytes(1000))
    assert kept_by(link.connection) == 0


@pytest.mark.parametrize(("asked", "ending", "fails"), [
    (False, False, True), (True, False, True), (True, True, True), (False, True, False)
])  # fmt: skip
def test_who_closes_before_the_end_ends_the_run(asked: bool, ending: bool, fails: bool) -> None:
    link = Link()
    link.peers.ending = ending
    if asked:
        link.connection.receive(7, 1)
    link.connection.connection_lost(None)
    assert bool(link.peers.failure) is fails
    assert (link.runtime.parties[0].protocol is None) is not fails
    with pytest.raises(LostPeerError) as lost:
        link.connection.receive(8, 1)
    (reason,) = reasons_in([line_of_lost_peer(str(lost.value))])
    assert reason.ended_by is EndedBy.PEER and reason.text == str(lost.value)


def test_what_came_before_a_close_is_read() -> None:
    link = Link()
    link.peers.ending = True
    link.hear(message(7, b"last"))
    link.connection.connection_lost(None)
    assert link.connection.receive(7, 4) == b"last"


def test_a_connection_of_nobody_may_close() -> None:
    link = Link(first=None)
    link.connection.connection_lost(ConnectionResetError())
    assert link.peers.failure is None


def test_this_party_says_its_number_and_keys() -> None:
    loop = Loop()
    runtime: Any = Runtime(0, loop)
    connected = PeerConnection(runtime, Peers(loop, CERTIFICATES), 1)  # type: ignore[arg-type]
    transport = Transport(b"one")
    connected.connection_made(transport)
    connected.send(-3, b"content")
    assert transport.written == b"\0\0" + KEYS + message(-3, b"content")
    assert connected.nbytes_sent == len(message(-3, b"content"))
    assert runtime.parties[1].protocol is connected


def test_faults_are_of_one_class() -> None:
    assert issubclass(PeerMessageError, FairSharesError) and issubclass(LostPeerError, FairSharesError)
