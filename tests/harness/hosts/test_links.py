"""Links between hosts: round trips and rates, as agents' sockets see them."""

import socket
import threading
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from harness.hosts import links
from harness.hosts.links import greet, reach, time_link

GREETING = "0f" * 16


@contextmanager
def answering(greeting: str = GREETING) -> Iterator[int]:
    """Answer one connection, as an agent does; yield the port."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            with listening.accept()[0] as reached:
                greet(reached, greeting)

        thread = threading.Thread(target=answer)
        thread.start()
        yield listening.getsockname()[1]
        thread.join()


def test_a_delay_shows_in_the_round_trip_and_not_in_the_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    exchange, delay_s, bits_per_s = links._exchange, 0.5, 8e6

    def emulated(link: socket.socket, incoming: object, sent: int, wanted: int) -> float:
        exchange(link, incoming, sent, wanted)  # type: ignore[arg-type]
        return delay_s + 8 * max(sent, wanted) / (bits_per_s / (2 if sent > wanted else 1))

    monkeypatch.setattr(links, "_exchange", emulated)
    with answering() as port:
        timed = time_link("127.0.0.1", port, GREETING)
    assert timed is not None
    assert timed[0] == pytest.approx(delay_s, rel=1e-4)
    assert timed[1] == pytest.approx(bits_per_s / 2, rel=1e-4)  # of the slower direction


def test_nobody_or_somebody_else_is_no_link() -> None:
    with answering("1f" * 16) as port:
        assert time_link("127.0.0.1", port, GREETING) is None
    with answering("1f" * 16) as port:
        assert reach("127.0.0.1", port, GREETING) == "something else answers there"
    assert time_link("127.0.0.1", port, GREETING) is None


def test_who_says_nothing_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "_TRANSFER_S", 0.05)
    with answering() as port, socket.create_connection(("127.0.0.1", port)) as silent:
        assert silent.makefile("rb").read() == GREETING.encode()  # to its end, which the other side makes


def test_nobody_has_an_agent_send_without_end() -> None:
    started = time.monotonic()
    with answering() as port, socket.create_connection(("127.0.0.1", port)) as greedy:
        greedy.sendall(links._SIZES.pack(0, 2**32 - 1))
        greedy.shutdown(socket.SHUT_WR)
        with greedy.makefile("rb") as incoming:
            assert len(incoming.read()) == len(GREETING) + links._MOST
    assert time.monotonic() - started < 300


def test_who_comes_takes_little_memory() -> None:
    """Whoever reaches the port may come, and ask for as much as anybody may, and come often."""
    size, took = links._MOST, 0
    with (
        answering() as port,
        socket.create_connection(("127.0.0.1", port)) as link,
        link.makefile("rb") as incoming,
    ):
        incoming.read(len(GREETING))
        tracemalloc.start()
        link.sendall(links._SIZES.pack(size, 2 * size))
        for _ in range(size >> 16):
            link.sendall(bytes(1 << 16))
        while took < size:
            took += len(incoming.read(1 << 16))
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert took == size and peak < size // 8
