"""Links between parties on one machine: what arrives, when, how fast, and what ends with them."""

import os
import random
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import chain
from unittest.mock import patch

import pytest

from benchmarks.emulation import links, relay
from benchmarks.emulation.links import emulated
from benchmarks.emulation.relay import Link
from benchmarks.errors import RelayError
from fairshares.harness.engines.links import Links, links_between
from fairshares.harness.errors import PartyFailedError
from fairshares.harness.request.networks import LAN, WAN, NetworkProfile, parse_network
from tests.support.running import captured_relays, in_time

SLOW = NetworkProfile("slow", 0.1, 1e6)


@contextmanager
def parties(
    network: NetworkProfile, count: int = 2, *, measured: bool = False
) -> Iterator[tuple[Links, list[socket.socket]]]:
    """Yield links between sockets that listen in the parties' place."""
    with ExitStack() as stack:
        if not measured:  # it takes a while
            stack.enter_context(patch.object(links, "_measure", return_value=None))
        listening = [stack.enter_context(socket.create_server((relay.HOST, 0))) for _ in range(count)]
        ports = [one.getsockname()[1] for one in listening]
        yield stack.enter_context(links_between(ports, emulated(network))), listening


def connect(
    links: Links, listening: list[socket.socket], a: int = 1, b: int = 0
) -> tuple[socket.socket, socket.socket]:
    """Return both ends of a connection that a makes to b."""
    here = socket.create_connection((relay.HOST, links.ports[a][b]))
    there, _ = listening[b].accept()
    for one in (here, there):
        one.settimeout(20)
    return here, there


def received(there: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size and (some := there.recv(size - len(data))):
        data += some
    return data


def test_what_is_sent_leaves_in_turn_and_arrives_after_the_delay() -> None:
    link = Link(delay_s=2.0, bytes_per_s=100.0)
    assert link.arrival(50, now=10.0) == 12.5
    assert link.arrival(100, now=10.0) == 13.5  # after the first, as its connection is none of its own
    assert link.arrival(10, now=20.0) == 22.1
    assert link.piece == 1448 and link.room == 100 * 2.02 + 2 * 1448


def test_a_party_finds_itself_directly_and_others_at_ports_of_its_own() -> None:
    with parties(LAN, 3) as (links_of, listening):
        own = [one.getsockname()[1] for one in listening]
        assert [links_of.ports[i][i] for i in range(3)] == own
        assert len({*[links_of.ports[a][b] for a in range(3) for b in range(3) if a != b], *own}) == 9
        with pytest.raises(ConnectionRefusedError):  # on 127.0.0.1 only, and on no other address
            socket.create_connection(("127.0.0.2", links_of.ports[0][1]))


@pytest.mark.parametrize("network", [LAN, WAN, parse_network("10ms,1Mbit")])
def test_measured_figures_are_those_wanted(network: NetworkProfile) -> None:
    """A busy machine makes figures worse, never better; a fault does so every time."""
    for _ in range(25):
        with parties(network, measured=True) as (between, _):
            measured = between.measured
        assert measured is not None
        rtt_s = measured.measured_rtt_s
        rate = measured.measured_bandwidth_bits_per_s
        assert measured == links.as_measured(network, rtt_s, rate)
        share = rate / network.bandwidth_bits_per_s
        assert network.rtt_s <= rtt_s and share < 1.02
        if rtt_s < network.rtt_s + 0.02 and share > 0.2:
            return
    pytest.fail(f"measured {measured}")


def test_all_arrives_in_order_through_small_buffers() -> None:
    data = random.Random(5).randbytes(1 << 22)
    with parties(LAN) as ends:
        here, there = connect(*ends)
        with here, there:
            sender = os.fork()
            if sender == 0:
                here.sendall(data)
                os._exit(0)
            here.close()
            assert received(there, len(data)) == data
            assert there.recv(1) == b""  # the end, too
            os.waitpid(sender, 0)


def test_connections_of_a_pair_share_its_rate_and_directions_do_not() -> None:
    """25 kB take 200 ms at 1 Mbit/s."""
    size = 25_000

    def seconds() -> float:
        """Return when what shares its rate with nothing has arrived."""
        with parties(SLOW, 3) as ends, ExitStack() as stack:
            pairs = [connect(*ends), connect(*ends), connect(*ends, 2, 0)]
            for one in chain.from_iterable(pairs):
                stack.enter_context(one)
            started = time.monotonic()
            for here, _ in pairs:
                here.sendall(bytes(size))
            pairs[0][1].sendall(bytes(size))
            for one in (pairs[0][0], pairs[2][1]):
                assert len(received(one, size)) == size
            alone = time.monotonic() - started
            assert alone >= 0.2 + 0.05
            for one in (pairs[0][1], pairs[1][1]):
                assert len(received(one, size)) == size
            assert time.monotonic() - started >= 2 * 0.2 + 0.05
            return alone

    assert in_time(seconds, 2 * 0.2 + 0.05)


def test_an_end_is_passed_on_one_way_only() -> None:
    with parties(LAN) as ends:
        here, there = connect(*ends)
        with here, there:
            here.sendall(b"question")
            here.shutdown(socket.SHUT_WR)
            assert received(there, 9) == b"question"
            there.sendall(b"answer")
            there.close()
            assert received(here, 7) == b"answer"


def test_what_was_sent_before_a_party_left_arrives() -> None:
    with parties(SLOW) as ends:
        here, there = connect(*ends)
        with here, there:
            there.sendall(b"never read")
            time.sleep(0.2)
            here.sendall(b"last words")
            here.close()  # with something unread: it resets the connection
            assert received(there, 11) == b"last words"


def test_no_relay_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    started = captured_relays(monkeypatch)
    with pytest.raises(ZeroDivisionError), parties(LAN):
        raise ZeroDivisionError
    assert started[0].poll() is not None


def test_a_relay_that_ended_is_named_instead_of_the_parties(monkeypatch: pytest.MonkeyPatch) -> None:
    started = captured_relays(monkeypatch)

    def run() -> None:
        with parties(WAN):
            started[0].send_signal(signal.SIGTERM)
            started[0].wait()
            raise PartyFailedError("Party 0 ended.")

    with pytest.raises(RelayError) as error:
        run()
    assert str(error.value) == (
        "The relay that emulates network wan was killed by SIGTERM; "
        "the parties were stopped and no result was written."
    )
